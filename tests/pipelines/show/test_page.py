"""The page to hand on: whole HTML whatever the items are, readable by eye, key and ear, in light and in dark."""

from __future__ import annotations

import posixpath
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest

from private_topk.pipelines.show.charts import COLOURS, bump_chart, list_chart
from private_topk.pipelines.show.page import file_name, page, pages, snippet
from private_topk.pipelines.show.published import PublishedReport, when
from private_topk.pipelines.show.templates import STYLE
from private_topk.transforms.windows import Period
from tests.pipelines import support
from tests.pipelines.show.rankings import PAGES, START, asked, bare, manifest, published, rows

VOID = {"meta"}
LIGHT, DARK = (
    dict(re.findall(r"--(\w+):(#\w{6})", rules)) for rules in STYLE.split("@media (prefers-color-scheme:dark)")
)


class Reader(HTMLParser):
    """A page as a tree, strictly: what is opened is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None], str]] = []
        self.texts: list[str] = []
        self.styled: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        self._end_cell(tag in ("td", "th"))
        self.tags.append((tag, dict(attrs), "/".join(self.open)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs), "/".join(self.open)))

    def _end_cell(self, ends: bool) -> None:
        """A cell of a table may end where the next one begins, or its row ends."""
        if ends and self.open[-1:] == ["td"]:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        self._end_cell(tag == "tr")
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.styled if self.open and self.open[-1] == "style" else self.texts).append(data)

    def of(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes, _ in self.tags if tag == name]


KNOWN = set(
    "html head meta title style body a main h1 h2 p i nav ul li div section details summary table caption span thead "
    "tbody tr th td dl dt dd svg desc g rect text path".split()
)


@pytest.fixture(scope="module", params=PAGES)
def read(request: pytest.FixtureRequest) -> tuple[PublishedReport, str, Reader]:
    told = PAGES[request.param]
    text = page(told)
    return told, text, Reader(text)


def test_a_page_is_well_formed_and_self_contained(read: tuple[PublishedReport, str, Reader]) -> None:
    """No element and no attribute but ours, whatever items are called; nothing is loaded and nothing runs."""
    _, text, found = read
    assert text.startswith("<!DOCTYPE html>\n") and {tag for tag, *_ in found.tags} <= KNOWN
    for _, attributes, _ in found.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style", "srcset")]
        assert (attributes.get("href") or "#").startswith("#")
    assert len(found.styled) == 1 and not re.search(r"url\(|@import", found.styled[0])
    [policy] = [its["content"] for its in found.of("meta") if its.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_every_item_is_shown_as_itself(read: tuple[PublishedReport, str, Reader]) -> None:
    told, text, found = read
    for row in told.rows:
        written = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in row["item"])
        assert written in found.texts or not written
    text.encode()
    assert not any(not c.isprintable() for c in text.replace("\n", ""))


def test_every_link_and_label_leads_somewhere(read: tuple[PublishedReport, str, Reader]) -> None:
    _, _, found = read
    identifiers = [attributes["id"] for _, attributes, _ in found.tags if "id" in attributes]
    assert len(set(identifiers)) == len(identifiers)
    for link in found.of("a"):
        assert link["href"].removeprefix("#") in identifiers
    for _, attributes, _ in found.tags:
        for name in (attributes.get("aria-labelledby") or "").split():
            assert name in identifiers


def test_a_screen_reader_has_headings_tables_and_pictures_with_names(read: tuple[PublishedReport, str, Reader]) -> None:
    told, _, found = read
    assert found.of("html")[0]["lang"] == "en" and len(found.of("h1")) == len(found.of("main")) == 1
    levels = [int(tag[1]) for tag, *_ in found.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise([0, *levels]))
    tables, captions = found.of("table"), found.of("caption")
    assert len(tables) == len(captions) and all("scope" in its for its in found.of("th"))
    pictures = [its for its in found.of("svg") if its.get("aria-hidden") != "true"]
    assert all(its["role"] == "img" and its["aria-labelledby"] for its in pictures)
    assert len(tables) >= len(pictures) and ("rank" not in (told.rows or [{}])[0] or len(tables) >= 1)


def test_wide_parts_of_a_page_scroll_by_keyboard(read: tuple[PublishedReport, str, Reader]) -> None:
    _, _, found = read
    for tag, attributes, inside in found.tags:
        if tag == "div" and attributes.get("id") != "ranking":
            assert attributes["tabindex"] == "0" and attributes["role"] == "region" and attributes["aria-label"]
        if tag == "svg":
            assert inside.endswith("div" if "role" in attributes else "td")
    names = [its["aria-label"] for its in found.of("div") if "aria-label" in its]
    assert len(set(names)) == len(names)
    [view] = [its["content"] for its in found.of("meta") if its.get("name") == "viewport"]
    assert view == "width=device-width, initial-scale=1"


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_contrasts_are_those_of_wcag(colours: dict[str, str]) -> None:
    """Text 7 to 1, where it is soft 4.5; graphics 3 to 1."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21) and contrast("#777777", "#ffffff") < 4.5
    assert contrast(colours["ink"], colours["paper"]) >= 7 and contrast(colours["ink"], colours["band"]) >= 7
    for name in ("soft", "link", "warn"):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
    for n in range(COLOURS):
        assert contrast(colours[f"c{n}"], colours["paper"]) >= 3, n
    assert contrast(colours["bar"], colours["paper"]) >= 3 and contrast(colours["ink"], colours["bar"]) >= 3
    assert colours.keys() == LIGHT.keys()


def test_ten_lines_are_lit_differ_by_more_than_colour_and_are_named_at_both_ends() -> None:
    found = Reader(page(PAGES["a year"]))
    lines = [its for its in found.of("path") if its.get("class") and "d" in its]
    lit = [its for its in lines if its["class"] != "pale"]
    assert len({(its["class"], its.get("stroke-dasharray")) for its in lit}) == len(lit) == 10 < len(lines) == 40
    newest = [row["item"] for row in PAGES["a year"].rows[-40:]]
    first = [row["item"] for row in PAGES["a year"].rows[:40]]
    for end in (first, newest):
        assert all(f"{place} {item}" in found.texts for place, item in enumerate(end, 1))


def test_long_names_that_begin_alike_stay_apart_in_pictures() -> None:
    names = [f"a title of a series that goes on and on, part {n}" for n in range(5)]
    weeks = PublishedReport(rows(2, names), manifest(2)).listings()
    for drawn in (bump_chart(weeks, "places"), list_chart(weeks[-1], "list")):
        labels = {text.partition(" ")[2] for text in Reader(drawn).texts if "…" in text}
        assert len(labels) == 5 and all(label.startswith("a title of") for label in labels)


def test_a_line_goes_through_its_places_and_ends_where_the_item_is_missing() -> None:
    told = rows(5, ["a", "b"], 1, counts=False)
    for row, item in zip(told, ("a", "a", "b", "a", "b"), strict=True):
        row["item"] = item
    found = Reader(page(PublishedReport(told, manifest(5))))
    drawn = [its["d"] for its in found.of("path") if its.get("class")]
    assert drawn == [
        "M60 43l96 0M342 43h12",
        "M246 43h12M438 43h12",
    ]


def test_windows_that_are_missing_leave_a_gap_in_the_picture() -> None:
    """One, however many they are: those beside it are no neighbours, and no line joins them."""
    told = rows(5, ["a"], 1, counts=False)
    four = [each for n, each in enumerate(manifest(5).to_json()["windows"]) if n != 2]
    drawn = bump_chart(PublishedReport(told[:2] + told[3:], manifest(5, windows=four)).listings(), "places")
    found = Reader(drawn)
    assert [its["d"] for its in found.of("path") if its.get("class")] == ["M60 43l96 0M348 43l96 0"]
    assert found.texts.count("…") == 1 and "… stands where windows are missing" in drawn and "over 4 windows" in drawn
    whole = bump_chart(PublishedReport(told, manifest(5)).listings(), "places")
    assert "…" not in whole and "missing" not in whole


def test_a_picture_of_the_middle_alone_has_its_name_and_whole_dates() -> None:
    told = [{**row, "item": "tea"} for row in rows(9, ["a"], 1, counts=False)[6:7]]
    found = Reader(bump_chart(PublishedReport(told, manifest(9)).listings(), "places"))
    width = int(found.of("svg")[0]["viewbox"].split()[2])
    dates = [int(its["x"]) for its in found.of("text") if its.get("text-anchor") == "middle"]
    assert "tea" in found.texts and min(dates) >= 40 and width - max(dates) >= 40


def test_a_picture_says_for_all_to_see_that_it_has_only_the_last_windows() -> None:
    told = rows(200, ["a"], 1, counts=False)
    drawn = bump_chart(PublishedReport(told, manifest(200)).listings(), "places")
    assert re.search(r"<text [^>]*>Only the last 104 of 200 windows are drawn.</text>", drawn)
    assert "the last" not in bump_chart(PAGES["weeks"].listings(), "places")


def test_a_picture_has_its_colours_without_a_style_and_no_need_of_a_browser() -> None:
    places = bump_chart(PAGES["weeks"].listings(), "places")
    counts = list_chart(PublishedReport(rows(1, ["a", "b"], 2), manifest(1)).listings()[0], "list")
    for drawn, names in (places, "paper ink soft line pale c0 c1 c2 c3 c4"), (counts, "paper ink bar"):
        colours = set(re.findall(r'(?:fill|stroke)="(#\w+)"', drawn))
        assert colours == {LIGHT[name] for name in names.split()}
        assert not re.search(r"<style|style=|var\(|currentColor|vector-effect|scale\(", drawn)
        assert Reader(drawn).tags[3][0] == "rect", "the paper lies below all else"
    for its in Reader(places).of("path"):
        assert its.get("stroke", LIGHT["pale"]) == LIGHT[its.get("class", "line")]


def test_the_ranking_is_first_and_the_promise_after_it_in_a_fold() -> None:
    text, other = page(PAGES["weeks"]), page(PAGES["not private"])
    newest, chart, everything, promise = (
        text.index(mark)
        for mark in ('class="newest-window"', "<svg viewBox", "All 6 windows", "<details><summary><h2>What it promises")
    )
    assert newest < chart < everything < promise and " open" not in text[promise : promise + 40]
    assert "What it promises</h2> epsilon 1.5 and delta 1e-06 for one user" in text
    assert other.index("is not private") < other.index("<table") and "What it promises" not in other
    assert "no manifest" in page(PAGES["no manifest"]).partition("<table")[0]
    assert page(PAGES["one window"]).count("<table") == 1, "one window has no table of windows"


@pytest.mark.parametrize(
    ("report", "title"),
    [
        ("weeks", "Weekly top 5, 5 January to 15 February 2026 (UTC)"),
        ("one window", "Top 5"),
        ("no manifest", "Top 2"),
        ("hostile groups", "Weekly top 5 of 4 groups, 5 to 18 January 2026 (UTC)"),
    ],
)
def test_the_title_says_what_it_is(report: str, title: str) -> None:
    found = page(PAGES[report])
    assert f"<title>{title}</title>" in found and f"<h1>{title}</h1>" in found


def test_the_title_of_a_group_says_what_was_asked_of_it() -> None:
    """Of one that was added later, not what was asked before."""
    weeks = [(START + timedelta(days=7 * n), START + timedelta(days=7 * n + 7)) for n in range(2)]
    of = [
        {"start": weeks[n][0].isoformat(), "end": weeks[n][1].isoformat(), "returned": 0, "group": group}
        for n, group in ((0, "DE"), (1, "DE"), (1, "AT"))
    ]
    parts = [support.manifest(k=10, windows=of[:1]), support.manifest(k=8, windows=of[1:], release_id="next")]
    report = PublishedReport([], support.manifest(k=8, windows=of), parts=parts)
    assert report.of_group("DE").title.startswith("Weekly top 8 or 10 of DE, 5 to 18 January 2026")
    assert report.of_group("AT").title.startswith("Top 8 of AT, 12 to 18 January 2026")


def test_titles_know_days_months_and_hours_and_no_sliding_windows() -> None:
    def titled(*ends: datetime, slide: timedelta = timedelta(0)) -> str:
        spans = [{"start": (a - slide).isoformat(), "end": b.isoformat(), "returned": 0} for a, b in pairwise(ends)]
        return PublishedReport([], support.manifest(k=3, windows=spans)).title

    days = [START + timedelta(days=n) for n in range(4)]
    assert titled(*days) == "Daily top 3, 5 to 7 January 2026 (UTC)"
    assert titled(*days, slide=timedelta(days=6)).startswith("Top 3, 30 December 2025"), (
        "windows that overlap are no days"
    )
    assert titled(*days[:2]) == "Top 3, 5 January 2026 (UTC)", "as the heading of its window"
    months = [datetime(2026, month, 1, tzinfo=UTC) for month in (1, 2, 3, 4)]
    assert titled(*months) == "Monthly top 3, January to March 2026 (UTC)"
    hours = [START + timedelta(hours=n) for n in range(3)]
    assert titled(*hours) == "Hourly top 3, 2026-01-05 00:00 to 2026-01-05 02:00 UTC"


def test_every_day_that_is_told_is_one_of_the_time_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weeks of Berlin begin on Sundays in UTC. Headings, columns, the axis and what is said of changes agree."""
    monkeypatch.chdir(tmp_path)
    support.write(tmp_path / "key", "0" * 32)
    for day, k in ((12, 3), (19, 3), (26, 2)):
        end = datetime(2026, 10, day) + timedelta(days=7)
        period = Period.of(f"2026-10-{day}", f"{end:%Y-%m-%d}", "week", time_zone="Europe/Berlin")
        published(f"weeks/{day}.csv", asked(f"{day}", period=period, k=k))
    assert support.command("show", "weeks", "--html", "weeks.html").status == 0
    told = [support.command("show", "weeks", *form) for form in ([], ["--sign-off"], ["--registry"])]
    told.append(support.command("show", "weeks/12.csv", "--registry"))
    text = (tmp_path / "weeks.html").read_text() + "".join(f"{each.out}{each.err}" for each in told)
    days = set(re.findall(r"2026-1[01]-\d\d", text)) - {f"{datetime.now(UTC):%Y-%m-%d}"}
    assert days == {"2026-10-12", "2026-10-19", "2026-10-26"}
    assert (
        " ".join(text.split()).count("The windows before that of 2026-10-26") == 4
        and '"middle">2026-10-12</text>' in text
    )
    support.write(tmp_path / "again.csv", (tmp_path / "weeks" / "12.csv").read_text())
    support.write(tmp_path / "again.manifest.json", (tmp_path / "weeks" / "12.manifest.json").read_text())
    twice = support.command("show", "weeks/12.csv", "again.csv")
    assert "has a window of 12 to 18 October 2026 (Europe/Berlin) that" in twice.err


def test_the_name_of_a_page_is_one_part_of_a_path_and_gives_the_group_back() -> None:
    texts = [chr(code) for code in range(0x250)] + ["\u202e", "\U0001f600", "漢字", "%25", "a=b/c"]
    found = [file_name(text) for text in texts]
    assert [unquote(text) for text in found] == texts and len(set(found)) == len(texts)
    assert not {*"/\\*?[]{}%=:|'\"<>#^\0\n"} & {char for text in found for char in text if len(text) == 1}


def test_all_rows_come_behind_the_newest_groups_and_last_is_what_these_leave_out() -> None:
    weeks = [(START + timedelta(weeks=n)).isoformat() for n in range(3)]
    windows = [
        {"start": start, "end": end, "returned": 0, "group": group, "group_number": number}
        for (start, end), groups in zip(
            pairwise(weeks), (["AT", "DK", "overall"], ["AT", "PT", "overall"]), strict=True
        )
        for number, group in enumerate(groups)
    ]
    report = PublishedReport([], manifest(0, windows=windows))
    assert list(report.by_group()) == ["AT", "PT", "overall", "DK"]


def test_many_groups_have_a_page_each_and_one_that_compares() -> None:
    """26 weeks of a top 50 with counts in 12 countries: all pages together stay below 0.8 MB."""
    names = tuple(f"country {n}" for n in range(12))
    ranked = rows(26, [f"item {n}" for n in range(60)], 50, groups=names)
    ranked = [{**row, "noisy_count": ranked[row["rank"]]["noisy_count"]} for row in ranked]  # judged as noise once
    report = PublishedReport(ranked, manifest(26, k=50))
    found = dict(pages(report, "weeks.html"))
    assert list(found)[:2] == ["weeks.html", "weeks-groups/country 0.html"] and len(found) == 13
    assert sum(len(text.encode()) for text in found.values()) < 800_000
    for path, text in found.items():
        folder = path.rpartition("/")[0]
        for link in Reader(text).of("a"):
            target = unquote(link["href"].partition("#")[0])
            reached = posixpath.normpath(posixpath.join(folder, target)) if target else path
            assert reached in found, (path, link)
    index, second = Reader(found["weeks.html"]), Reader(found["weeks-groups/country 1.html"])
    first = [row["item"] for row in report.rows if row["group"] == "country 1"][25 * 50 : 25 * 50 + 5]
    start = index.texts.index("country 1")
    assert [text for text in index.texts[start + 1 :] if text.strip()][:5] == first
    assert "Weekly top 50 of country 1, 5 January to 5 July 2026 (UTC)" in second.texts
    another = found["weeks-groups/country 11.html"]
    assert "country 1 " not in another and "country 1<" not in another


def test_the_page_that_compares_has_only_the_newest_window() -> None:
    """A group that this window no longer has is linked with its last one: its items are none of this window."""
    names = [f"country {n}" for n in range(6)]
    found = [
        {**row, "item": f"{row['item']} of {row['group']}"}
        for row in rows(2, [f"item {n}" for n in range(9)], groups=tuple(names))
        if (row["group"], row["window_start"]) != ("country 2", START + timedelta(weeks=1))
    ]
    index = Reader(dict(pages(PublishedReport(found, manifest(2)), "weeks.html"))["weeks.html"])
    assert "12 to 18 January 2026 (UTC)" in index.texts
    of = [text.rpartition(" of ")[2] for text in index.texts if text.startswith("item ")]
    assert {*of} == {*names} - {"country 2"}
    heads = [text for text in index.texts if text in names]
    kept = [name for name in names if name != "country 2"]
    assert heads == [*kept, "country 2", *kept]
    said = " ".join("".join(index.texts).split())
    assert "Not in this window: country 2 (last ranked 5 to 11 January 2026 (UTC))." in said
    assert {"href": "weeks-groups/country%202.html"} in index.of("a")


def test_the_words_of_a_page_state_the_privacy_of_the_manifest() -> None:
    said = " ".join(Reader(page(PAGES["weeks"])).texts)
    assert "more than 4.49 times as likely" in said and "probability of at most 1e-06" in said  # e^1.5 = 4.4817
    assert "P(A(D) ∈ S) ≤ e^1.5 · P(A(D′) ∈ S) + 1e-06 for every set" in said and "± (95%)" in said
    assert "weekly <b>plays</b>" in said and "within one window" in said and "of the 6 windows" in said
    swapped = " ".join(Reader(page(PAGES["a total, swapped"])).texts)
    assert "in all 52 windows together" in swapped and "weak promise" in swapped and "replacing one user" in swapped
    assert "e^20 times" in swapped and "this budget of its own" not in swapped
    assert "in no order of rank" not in said and "not in order of rank" in " ".join(Reader(page(PAGES["a set"])).texts)
    assert "nothing can be said of what it promises" in " ".join(Reader(page(PAGES["no manifest"])).texts)
    nothing = " ".join(Reader(page(PAGES["nothing released"])).texts)
    assert "No item was released" in nothing and "not known beforehand" in nothing
    fake = " ".join(Reader(page(PAGES["not private"])).texts)
    assert "This ranking is not private" in fake and "P(A(D)" not in fake


def test_the_factor_is_never_rounded_down() -> None:
    for epsilon in (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 9.0, 12.9):
        told = PublishedReport(
            bare(),
            manifest(
                1,
                privacy={"epsilon": epsilon, "delta": 0, "neighbours": "replace-one", "unit": "x", "guarantee": "pure"},
            ),
        )
        [factor] = re.findall(r"more than ([\d.,]+) times", " ".join(Reader(page(told)).texts))
        exact = 2.718281828459045**epsilon
        assert exact <= float(factor.replace(",", "")) <= exact * 1.02 + 1


def test_bars_and_whiskers_are_where_the_numbers_are() -> None:
    told = rows(1, ["a", "b", "c"], 3)
    found = Reader(page(PublishedReport(told, manifest(1))))
    paths = [its for its in found.of("path")]
    bars, whiskers = paths[::2], paths[1::2]  # a whisker follows its bar, as the style has it
    lengths = [int(its["d"].partition("h")[2]) for its in bars]
    counts = [row["noisy_count"] for row in told]
    for (count, length), (other, its) in pairwise(zip(counts, lengths, strict=True)):
        assert (abs(count) - abs(other)) * (length - its) >= 0
    assert len(whiskers) == 3 and all(re.fullmatch(r"M\d+ 7H\d+m0-4v8M\d+ 3v8", its["d"]) for its in whiskers)


def test_a_snippet_is_well_formed_and_keeps_groups_apart(tmp_path: Path) -> None:
    for told in PAGES.values():
        Reader(snippet(told, "here"))
    grouped = Reader(snippet(PAGES["hostile groups"], "here"))
    assert (
        len([its for its in grouped.of("table") if its["class"] == "newest-window"])
        == 4
        == len([its for its in grouped.of("svg") if "role" in its])
    ), "groups apart"
    assert "the budgets add up" in snippet(PAGES["weeks"], "here")


def test_the_style_of_a_notebook_moves_no_column_and_hides_no_fold() -> None:
    """JupyterLab aligns cells by two classes and an element, and classic ones show a summary as a block."""
    rules = re.findall(r"([^{}]+){([^{}]*)}", STYLE)
    cells = [one.strip() for names, style in rules if "text-align" in style for one in names.split(",")]
    cells.remove(".ptk caption")
    assert all(one.count(".") >= 2 and re.search(r" t[a-z]+", one) for one in cells) and len(cells) == 7
    assert next(style for names, style in rules if names.strip() == ".ptk summary").startswith("display:list-item;")


def test_windows_of_any_length_have_distinct_names() -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    assert when(first, first + timedelta(days=7)) == "1 to 7 January 1 (UTC)"
    assert when(first, first + timedelta(seconds=1)) == "0001-01-01 00:00:00 to 0001-01-01 00:00:01 UTC"
    assert when(first + timedelta(milliseconds=5), first + timedelta(minutes=1)).startswith(
        "0001-01-01 00:00:00.005000"
    )
