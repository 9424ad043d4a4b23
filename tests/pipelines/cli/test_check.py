"""`run --dry-run`: readiness, told before anything is drawn, charged or published, and a look at the rows."""

from __future__ import annotations

import os
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from private_topk.pipelines.dropped_rows import DataQuality, data_quality_of
from private_topk.pipelines.question import Question
from private_topk.pipelines.registry import sink_of, source_of
from private_topk.pipelines.report import Report
from private_topk.pipelines.sources import Columns
from private_topk.transforms.domain import RangeDomain
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period
from tests.pipelines.support import Done, avro_schema, command, settled, to_avro, write
from tests.refusals import refused

START = datetime(2026, 1, 5, tzinfo=UTC)
ITEMS = ["Tea", "cake", "scone"]
SECRET = "secret"


def rows_of(n: int = 600, **changes: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Of 14 days, a row an hour and user."""
    rows = [
        {"user": f"{SECRET}{i}", "item": ITEMS[i % 3], "time": int((START + timedelta(hours=i % 336)).timestamp())}
        for i in range(n)
    ]
    return [{**row, **{name: change(row[name]) for name, change in changes.items()}} for row in rows]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.txt", "\n".join(ITEMS) + "\n")
    write(tmp_path / "rows.parquet", rows_of())
    write(tmp_path / "key", "a key of the tests, which is no secret")
    return tmp_path


ASKED = (
    "--domain items.txt --mechanism joint --k 2 --epsilon 1 --output out.csv --time-unit s --window 7d --from "
    "2026-01-05 --to 2026-01-19"
).split()


def checked(*words: str, rows: str = "rows.parquet") -> Done:
    return command("run", "--input", rows, *ASKED, "--dry-run", *words)


def test_a_dry_run_describes_the_run_and_writes_nothing(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    done = checked()
    assert done.status == 0 and done.err == ""
    for line in (
        "input    rows.parquet: user from user, item from item, time from time (UTC where it has no zone)",
        "domain   3 public items, SHA-256 ",
        "windows  2, 5 to 18 January 2026 (UTC), the first to 11 January 2026 (UTC)",
        "draw     joint epsilon 1",
        "privacy  epsilon 1 for one user's rows within one window; epsilon 2 for one user's rows in all windows",
        "release  under a new random key: each run is a release of its own, which costs",
        "ledger   none: nobody adds up what is spent",
        "output   out.csv: can be written",
        "runner   direct: here, ",
        "recall   unknown: no earlier ranking has noisy counts; --like users=1e5,",
        "ready: nothing was drawn, charged or published",
    ):
        assert line in done.out, done.out
    assert SECRET not in done.out and sorted(path.name for path in folder.iterdir()) == before


def test_a_dry_run_without_windows_has_one(folder: Path) -> None:
    words = ["run", "--input", "rows.parquet", *ASKED[:10], "--dry-run"]
    assert "privacy  epsilon 1 for one user's rows within one window\n" in command(*words).out
    assert (
        "epsilon 1 for one user's rows in all windows; basic composition over one window: epsilon 1 each\n"
        in command(*words, "--privacy-unit", "user").out
    )


def test_a_dry_run_tells_of_each_window_what_adds_up(folder: Path) -> None:
    """By zCDP rhos, and no delta, of which 52 would come to more than the total's."""
    told = checked("--privacy-unit", "user", "--horizon", "52", "--delta", "1e-6").out
    assert "delta 1e-06 for one user's rows in all windows; zcdp composition over 52 windows: rho 0.0" in told, told
    assert " (zCDP) each\n" in told, told


def test_a_dry_run_does_not_depend_on_the_rows(folder: Path) -> None:
    """Neighbours, rows that have nothing in common, and none at all read alike: only names are told."""
    head = "user,item,time\n"
    kinds: dict[str, list[Any]] = {
        "rows.parquet": [rows_of(), rows_of()[1:], rows_of(2), rows_of(item=lambda item: item * 9)],
        "rows.csv": [rows_of(), "", head, head + "x\n", head + "u,cake,never\n"],
        "rows.jsonl": [rows_of(), "", "x\n", '{"user": 1}\n'],
    }
    for name, contents in kinds.items():
        said = set()
        for content in contents:
            write(folder / name, content)
            said.add(checked(rows=name).out)
        assert len(said) == 1


def test_the_longest_path_that_is_accepted_can_be_written(folder: Path) -> None:
    """With a name as long, in folders that are made for it."""

    def path(above: int, name: int) -> Path:
        folders = [f"{'x' * 100}/"] * (above // 101) + [f"{'x' * (above % 101)}/"] * (above % 101 > 0)
        return folder / "".join(folders) / ("y" * name + ".csv")

    def accepted(output: Path) -> bool:
        done = command(*settled(["run", "--input=rows.parquet", *ASKED, "--dry-run", "--output", str(output)]))
        assert done.status == (0 if "can be written" in done.out else 2), done
        return done.status == 0

    above = max(filter(lambda above: accepted(path(above, 180)), range(3600, 4000, 40)))
    longest = path(above, max(filter(lambda name: accepted(path(above, name)), range(180, 260, 5))))
    assert command(*settled(["run", "--input=rows.parquet", *ASKED, "--output", str(longest)])).status == 0
    assert sorted(each.suffix for each in longest.parent.iterdir()) == [".csv", ".json"]


def test_a_ledger_is_asked_and_not_charged(folder: Path) -> None:
    url = "sqlite:///budget.db"
    assert command("budget", "create", "--ledger", url, "--dataset", "plays", "--epsilon", "4").status == 0
    books = ["--ledger", url, "--dataset", "plays", "--release-key", "file:key", "--release-id", "week 1"]
    for _ in range(2):
        cost = "epsilon 1 added up, or rho 0.125 by zCDP"
        fits = f"dataset plays: this run fits and costs {cost}; 25.0% of the user-window budget would"
        assert f"{fits} be used" in checked(*books).out
    assert "0.0% used by 0 charges" in command("budget", "show", "--ledger", url).out
    assert command("run", "--input", "rows.parquet", *ASKED, *books, "--quiet").status == 0
    assert "(released), so it costs nothing" in checked(*books).out
    assert "key id" in checked(*books).out
    dear = checked(*books[:-1], "week 2", "--publish-counts", "9", "--overwrite")
    assert dear.status == 2 and "budget" in dear.err


class TestTheOperatorsLook:
    """What is wrong with rows is told, to those who may see them, on stderr, and coarsely."""

    def test_good_rows_are_counted_by_order_of_magnitude(self, folder: Path) -> None:
        done = checked("--show-dropped-rows")
        assert "in the input: 100 or more" in done.err and "outside the period: fewer than 100" in done.err
        assert "operator only, never publish" in done.err and SECRET not in done.err + done.out
        assert "rows" not in done.out.replace("rows.parquet", "").replace("user's rows", "")

    @pytest.mark.parametrize(("factor", "unit"), [(1000, "ms"), (1_000_000, "us")])
    def test_times_in_another_unit(self, folder: Path, factor: int, unit: str) -> None:
        write(folder / "rows.parquet", rows_of(time=lambda time: time * factor))
        assert f"(--time-unit {unit}; in a report, time_unit)" in checked("--show-dropped-rows").err
        assert "the times look like" not in checked("--show-dropped-rows", "--time-unit", unit).err

    def test_texts_that_are_no_times_or_amounts(self, folder: Path) -> None:
        """What most of them are like is told; a text that few rows have, such as a name in the wrong column, is not."""
        lines = [f'u{at},rock,{5 + at % 3:02}.01.2026\x1b1{at % 10}:00,"{at % 60},5"' for at in range(150)]
        lines += [f"v{at},rock,{SECRET},2" for at in range(20)]
        write(folder / "rows.csv", "\n".join(["user,item,time,minutes", *lines]) + "\n")
        dates = ["--time-column", "time", "--window", "7d", "--from", "2026-01-05", "--to", "2026-01-12"]
        minutes = ["--value-column", "minutes", "--max-value", "60"]
        words = ["--domain-range", "0:9", "--k", "1", "--epsilon", "1", "--output", "x.csv", "--dry-run"]
        told = command("run", "--input", "rows.csv", *words, *dates, *minutes, "--show-dropped-rows").err
        assert "100 or more of 'time' are like '99.99.9999\\x1b99:99', which is not read" in told, told  # as text
        assert "100 or more of 'minutes' are like '99,9', which is not read" in told, told
        assert SECRET not in told and "a" * len(SECRET) not in told

    @pytest.mark.parametrize(
        "change",
        [
            str.upper,
            lambda item: f" {item} ",
            lambda item: f"{item.lower()}\t",
            lambda item: f"{item.upper()}\t",
            lambda item: unicodedata.normalize("NFD", item),
            lambda item: item.replace(" ", "  "),
            lambda item: item.replace(" ", "\xa0"),
            lambda _: "12.0",
        ],
    )
    def test_items_in_another_spelling(self, folder: Path, change: Any) -> None:  # noqa: ANN401
        write(folder / "items.txt", "Caf\u00e9 Noir\nscone\n12\n")
        write(folder / "rows.parquet", rows_of(item=lambda _: change("Caf\u00e9 Noir")))
        told = checked("--show-dropped-rows").err
        assert (
            "rows have items outside the domain that are in it but for spaces, capital letters, Unicode form" in told
        ), told

    def test_an_input_in_another_spelling_beside_one_of_more_strangers(self, folder: Path) -> None:
        write(folder / "drinks.txt", "Tea\ngin\n")
        write(folder / "se.csv", "user,item\n" + "".join(f"u{n},TEA\n" for n in range(150)))
        write(folder / "de.csv", "user,item\n" + "".join(f"u{n},{SECRET}\n" for n in range(1000)))
        asked = "--input=se.csv --input=de.csv --domain=drinks.txt --k=1 --epsilon=1 --output=x.csv --dry-run"
        told = command("run", *asked.split(), "--show-dropped-rows").err
        assert "se.csv: 100 or more rows have items outside the domain that are in it but for spaces" in told, told
        assert "de.csv: 100 or more rows have" not in told and SECRET not in told

    @pytest.mark.parametrize(
        ("written", "read", "told_of"),
        [("utf-8", "latin-1", True), ("utf-8", "cp1252", True), ("cp1252", "latin-1", False)],
    )
    def test_items_whose_encoding_was_misread(self, folder: Path, written: str, read: str, told_of: bool) -> None:
        lines = ["user,item,time", *(f"u{n},Caf\u00e9,2026-01-06" for n in range(150))]
        (folder / "rows.csv").write_bytes("\n".join(lines).encode(written))
        told = checked("--show-dropped-rows", f"--csv-encoding={read}", rows="rows.csv").err
        assert ("rows have a user or an item with signs of UTF-8 read as" in told) is told_of, told

    @pytest.mark.parametrize(
        ("written", "words", "said"),
        [
            ("latin-1", [], "most of the unreadable rows are not in UTF-8 (of CSV files, --csv-encoding names another"),
            ("latin-1", ["--csv-encoding=latin-1"], None),
            ("utf-8", [], None),
        ],
    )
    def test_another_encoding(self, folder: Path, written: str, words: list[str], said: str | None) -> None:
        """As a wrong delimiter it makes rows useless; but the file begins with a line of names that can be read."""
        teas = ["th\u00e9", "caf\u00e9"]
        lines = ["user,item", *(f"u{n},{teas[n % 2]}" for n in range(300))]
        (folder / "rows.csv").write_text("\n".join(lines) + "\n", encoding=written)
        (folder / "teas.txt").write_text("\n".join([*teas, "lait"]), encoding="utf-8")
        asked = ["--domain=teas.txt", "--k=1", "--epsilon=1", "--output=x.csv", "--dry-run", "--show-dropped-rows"]
        told = command("run", "--input=rows.csv", *asked, *words).err
        assert said in told if said else "ncoding" not in told and "not in domain: fewer" in told, told

    def test_times_that_are_dates_without_hyphens(self, folder: Path) -> None:
        write(folder / "rows.csv", rows_of(time=lambda time: f"{datetime.fromtimestamp(time, UTC):%Y%m%d}"))
        told = checked("--show-dropped-rows", rows="rows.csv").err
        assert "the times look like dates without hyphens" in told and "(write them as 2026-01-10)" in told, told

    def test_a_unit_that_a_part_of_the_times_is_in(self, folder: Path) -> None:
        """One that only a third of the period's neighbourhood shows, and one of a few rows among good ones."""
        weeks = rows_of(time=lambda time: (time + 86_400 * 7) * 1000)
        write(folder / "rows.parquet", [*weeks, *rows_of(500, time=lambda time: (time + 86_400 * 30) * 1000)])
        told = checked("--show-dropped-rows").err
        assert "the times look like milliseconds: read so, 100 or more of those outside lie in the period (" in told
        write(folder / "rows.parquet", [*rows_of(), *rows_of(150, time=lambda time: time * 1000)])
        told = checked("--show-dropped-rows").err
        assert "some of the times look like milliseconds: convert them" in told and "--time-unit" not in told, told

    @pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.avro"])
    def test_times_without_a_zone(self, folder: Path, name: str) -> None:
        for zone, said in ((None, True), (UTC, False)):

            def local(time: int, zone: Any = zone) -> object:  # noqa: ANN401
                moment = datetime.fromtimestamp(time, UTC).replace(tzinfo=zone)
                return moment.isoformat() if name.endswith("csv") else moment

            logical = {"type": "long", "logicalType": f"{'local-' * (zone is None)}timestamp-millis"}
            rows, schema = rows_of(time=local), avro_schema(user="string", item="string", time=logical)
            write(folder / name, to_avro(rows, schema) if name.endswith("avro") else rows)
            told = checked("--show-dropped-rows", rows=name).err
            assert ("100 or more times have no zone: they are read as UTC" in told) is said, told

    def test_users_of_blanks_alone(self, folder: Path) -> None:
        write(folder / "rows.parquet", rows_of(user=lambda user: " \xa0" * (user[-1] < "5") or user))
        assert "100 or more rows have a user of blanks alone: they count as one" in checked("--show-dropped-rows").err
        write(folder / "rows.parquet", rows_of())
        assert "blanks" not in checked("--show-dropped-rows").err

    @pytest.mark.parametrize("before", [" ", "u\u0308"])
    def test_users_of_another_spelling(self, folder: Path, before: str) -> None:
        """They count as other people, and no user is shown."""
        write(folder / "rows.parquet", rows_of(user=lambda user: before * (user[-1] < "5") + user))
        told = checked("--show-dropped-rows").err
        said = "100 or more rows have a user with blanks around, or not in NFC: each spelling counts as another person"
        assert said in told and SECRET not in told, told
        write(folder / "rows.parquet", rows_of(user=lambda user: f"\u00fc {user}"))
        assert "NFC" not in checked("--show-dropped-rows").err

    def test_signs_of_a_zone_are_told_in_what_is_not_read(self, folder: Path) -> None:
        """And letters that are no sign of one are not."""
        for time, like in (
            ("2026-01-05Z", "9999-99-99Z"),
            ("05/01/2026T10 UTC", "99/99/9999T99 UTC"),
            ("ZUTZ 5", "aaaa 9"),
        ):
            write(folder / "rows.csv", rows_of(time=lambda _, time=time: time))
            told = checked("--show-dropped-rows", rows="rows.csv").err
            assert f"100 or more of 'time' are like '{like}', which is not read (docs/cleaning.md)" in told, told

    @pytest.mark.parametrize(
        ("name", "line", "said"),
        [
            ("rows.csv", 'u,"Tea\nfor two",2026-01-06', "have a quote that is not closed in its line: if values hold"),
            ("rows.csv", f"u,{SECRET}, Tea,2026-01-06", "have another number of values than the first line: quote"),
            ("rows.csv", f'u,"{SECRET}" Tea,2026-01-06', "have text behind a closed quote"),
            ("rows.csv", f"u,{SECRET}\0,2026-01-06", "hold a NUL byte"),
            ("rows.jsonl", f'{{"user": "{SECRET}", "item"', "are not one whole object of JSON"),
            (
                "rows.jsonl",
                f'{{"user": ["{SECRET}"], "item": "Tea"}}',
                "are no object, or have a user or an item that is",
            ),
        ],
    )
    def test_what_is_wrong_with_most_unreadable_rows(self, folder: Path, name: str, line: str, said: str) -> None:
        head = "user,item,time\n" * name.endswith("csv")
        write(folder / name, head + f"{line}\n" * 150)
        told = checked("--show-dropped-rows", rows=name).err
        assert f"most of the unreadable rows {said}" in told and SECRET not in told, told

    def test_what_is_wrong_with_rows_of_which_no_cause_has_most(self, folder: Path) -> None:
        """Each cause of at least 100 rows is told, the most frequent first."""
        lines = [f'u,"{SECRET}\n' * 130, f"u,{SECRET},Tea,2026-01-06\n" * 140, f"u,{SECRET}\0,2026-01-06\n" * 90]
        write(folder / "rows.csv", "".join(["user,item,time\n", *lines]))
        told = checked("--show-dropped-rows", rows="rows.csv").err
        assert "100 or more of the unreadable rows have a quote" in told and "NUL" not in told, told
        assert told.index("another number of values") < told.index("have a quote"), told
        assert SECRET not in told, told

    def test_an_input_none_of_whose_rows_counts(self, folder: Path) -> None:
        write(folder / "good.parquet", rows_of())
        late = rows_of(1, time=lambda time: time + 86_400 * 365)
        write(folder / "old.parquet", [*rows_of(200, time=lambda time: time - 86_400 * 365), *late])
        write(folder / "gin.parquet", [*rows_of(150, item=lambda _: "gin"), *rows_of(200)])
        told = checked(
            "--input", "old.parquet", "--input", "gin.parquet", "--show-dropped-rows", rows="good.parquet"
        ).err
        assert "  good.parquet: 100 or more\n" in told, told
        assert "  old.parquet: 100 or more; outside the period: 100 or more, all; no row of it counts\n" in told, told
        where = "outside the period: 100 or more, a tenth to half; before it: 100 or more, after it: fewer than 100\n"
        assert where in told, told
        assert "  gin.parquet: 100 or more; not in domain: 100 or more, a tenth to half\n" in told, told
        write(folder / "gin.parquet", [*rows_of(150, item=lambda _: "gin"), *rows_of(1_351)])
        assert (
            "  not in domain: 100 or more, less than a tenth\n"
            in checked("--show-dropped-rows", rows="gin.parquet").err
        )

    def test_an_input_whose_users_are_its_rows(self, folder: Path) -> None:
        """Beside another of people. Of both, if they are alike, it is told once."""
        own, several = " three rows or fewer on average", ("--show-dropped-rows", "--input", "ids.parquet")
        write(folder / "ids.parquet", rows_of(10_000))
        write(folder / "rows.parquet", [row for row in rows_of(200) for _ in range(200)])
        told = checked(*several).err
        assert told.count(own) == 1 and "\n  ids.parquet: a user has three rows or fewer on average" in told, told
        write(folder / "rows.parquet", rows_of(10_000, user=lambda user: f"other {user}"))
        told = checked(*several).err
        assert told.count(own) == 1 and "\n  a user has three rows" in told, told
        write(folder / "rows.parquet", rows_of(60_000, user=lambda _: "all of them"))
        write(folder / "ids.parquet", [row for row in rows_of(6_000) for _ in range(5)])
        told = checked(*several).err
        assert own not in told and "\n  rows.parquet: fewer than 100 users, few for a private ranking" in told, told

    @pytest.mark.parametrize("text", ["", "user,item,time\n"])
    def test_an_input_without_rows(self, folder: Path, text: str) -> None:
        write(folder / "good.csv", rows_of())
        write(folder / "none.csv", text)
        told = checked("--input", "none.csv", "--show-dropped-rows", rows="good.csv").err
        assert "  good.csv: 100 or more\n  none.csv: fewer than 100; no row of it counts\n" in told, told

    def test_columns_that_rows_lack(self, folder: Path) -> None:
        """Such as a key with another name, in rows that can be read."""
        lines = ['{"user": "u", "Item": "Tea", "time": "2026-01-06"}\n'] * 120 + ["{\n"] * 130
        write(folder / "rows.jsonl", "".join([*lines, '{"user": null, "item": "Tea", "time": "2026-01-06"}\n']))
        told = checked("--show-dropped-rows", rows="rows.jsonl").err
        assert "  100 or more rows have no 'item'\n" in told and told.count("rows have no") == 1, told

    def test_groups_that_few_rows_have(self, folder: Path) -> None:
        """One is misspelt, one is written small, one has rows of unlisted items alone: each would be noise."""
        lines = [
            f"u{n},{item},{land}"
            for land, item in zip("FR DE UK".split(), ("Tea", "Tea", SECRET), strict=True)
            for n in range(150)
        ]
        write(folder / "rows.csv", "\n".join(["user,item,land", *lines]) + "\n")
        asked = ["--input=rows.csv", "--domain=drinks.txt", "--k=1", "--epsilon=1", "--output=x.csv", "--dry-run"]
        write(folder / "drinks.txt", "Tea\ngin\n")
        groups = ["--group-column=land", "--groups=lands.txt", "--show-dropped-rows"]
        write(folder / "lands.txt", "FRA\nde\nUK\n")
        told = command("run", *asked, *groups).err
        assert "groups with fewer than 100 rows: FRA, de, UK, of 3" in told and SECRET not in told, told
        write(folder / "lands.txt", "FR\nde\nUK\n")
        told = command("run", *asked, *groups).err
        assert "rows have groups outside the list that are in it but for spaces, capital letters" in told, told
        assert "groups with fewer than 100 rows: de, UK, of 3" in told

    def test_wholly_different_items_are_reported_as_pure_noise(self, folder: Path) -> None:
        write(folder / "rows.parquet", rows_of(item=lambda item: f"{SECRET} {item}"))
        told = checked("--show-dropped-rows").err
        assert "not in domain: 100 or more, all" in told and "compare the spelling" not in told
        assert "no row is left: this is pure noise" in told and SECRET not in told

    def test_all_of_a_few_rows(self, folder: Path) -> None:
        """Fewer than 100 are not told, but that they are all of the rows is."""
        write(folder / "rows.parquet", [*rows_of(1, item=lambda item: f"{SECRET} {item}")])
        told = checked("--show-dropped-rows").err
        assert "not in domain: fewer than 100, all\n" in told and told.count("no row is left: this is pure noise;") == 1
        assert "; --exact-counters also tells why of fewer than 100 rows\n" in told
        write(folder / "rows.parquet", [*rows_of(1, item=str.upper)])
        told = checked("--show-dropped-rows", "--exact-counters").err
        assert "fewer than 100, all" not in told and "rows have items outside the domain that are in it but for" in told
        assert told.count("no row is left: this is pure noise\n") == 1
        write(folder / "rows.parquet", [*rows_of(1), *rows_of(1, item=lambda item: f"{SECRET} {item}")])
        told = checked("--show-dropped-rows").err
        assert "not in domain: fewer than 100\n" in told and "no row is left" not in told

    def test_the_number_of_days_without_rows_is_reported(self, folder: Path) -> None:
        write(folder / "rows.parquet", [row for row in rows_of(336 * 8) if row["time"] % (86_400 * 14) > 86_400 * 3])
        assert "fewer than 100 rows: " in (told := checked("--show-dropped-rows").err) and "of 14" in told

    def test_days_without_rows_are_told_of_each_input(self, folder: Path) -> None:
        """As of a file that was cut short, which those of others would hide."""
        write(folder / "rows.parquet", rows_of(336 * 8))
        write(folder / "cut.parquet", [row for row in rows_of(336 * 8) if row["time"] % (86_400 * 14) > 86_400 * 3])
        told = checked("--show-dropped-rows", "--input", "cut.parquet").err
        days = "days (UTC) of the period with fewer than 100 rows"
        assert f"  rows.parquet: {days}: none, of 14\n  cut.parquet: {days}: 2026-01-" in told, told

    def test_days_are_those_of_the_time_zone(self, folder: Path) -> None:
        """In UTC a first one of one hour would be told as a gap, every week."""
        write(folder / "rows.parquet", rows_of(336 * 8, time=lambda time: time - 3_600))
        told = checked("--show-dropped-rows", "--time-zone", "Europe/Berlin").err
        assert "  days (Europe/Berlin) of the period with fewer than 100 rows: none, of 14\n" in told, told

    def test_one_row_changes_nothing_that_is_told(self, folder: Path) -> None:
        """But at 100, 10,000, ..., at a tenth and at half: there it does, which is why it is the operator's."""
        told = set()
        for rows in (rows_of(600), rows_of(601), rows_of(599), [*rows_of(), {"user": None, "item": "x", "time": 0}]):
            write(folder / "rows.parquet", rows)
            told.add(checked("--show-dropped-rows").err)
        assert len(told) == 1

    def test_exact_numbers_on_request(self, folder: Path) -> None:
        odd = [
            {"user": None, "item": "Tea", "time": 0},
            {"user": "a", "item": "Tea", "time": 0},
            {"user": "a", "item": "gin", "time": int(START.timestamp())},
        ]
        write(folder / "rows.parquet", [*rows_of(), *odd])
        told = checked("--show-dropped-rows", "--exact-counters").err
        for line in ("in the input: 603", "null: 1", "unreadable: 0", "outside the period: 1", "not in domain: 1"):
            assert line in told

    def test_a_dry_run_counts_dropped_groups_and_amounts_as_a_run_does(self, folder: Path) -> None:
        """A row is dropped once, for the first reason: with no amount above zero, in no group, outside the domain."""
        row = {"user": "a", "item": "Tea", "time": int(START.timestamp()), "group": "FR", "amount": 2.0}
        odd = [{"amount": 0.0}, {"amount": -1.0, "group": "XX"}, {"group": "XX", "item": "gin"}, {"item": "gin"}]
        write(folder / "rows.parquet", [row, *({**row, **change} for change in odd)])
        write(folder / "lands.txt", "FR\nDE\n")
        words = [
            *"run --input rows.parquet".split(),
            *ASKED,
            *(
                "--group-column group --groups lands.txt --value-column amount --max-value 5 --value-resolution 1 "
                "--show-dropped-rows --exact-counters"
            ).split(),
        ]
        told = command(*words, "--dry-run").err
        for line in ("amount rounds to 0 or less: 2", "not in groups: 1", "not in domain: 1"):
            assert line in told
        ran = command(*words, "--quiet").err
        assert "amount rounds to 0 or less 2, not in domain 1, not in groups 1" in ran, ran

    def test_decimals_that_are_rounded_unasked(self, folder: Path) -> None:
        """A type that may hold them is refused; in texts the operator is told of them, before a run and after it."""
        rows = [{**row, "amount": 0.6} for row in rows_of(200)]
        fields = {"user": "string", "item": "string", "time": "long", "amount": "double"}
        write(folder / "rows.parquet", rows)
        write(folder / "rows.avro", to_avro(rows, avro_schema(**fields)))
        write(
            folder / "rows.csv",
            "user,item,time,amount\n" + "".join(f"{','.join(map(str, r.values()))}\n" for r in rows),
        )
        amounts = "--value-column amount --max-value 5".split()
        for path in ("rows.parquet", "rows.avro"):
            for more in ([], ["--dry-run"]):
                done = command("run", "--input", path, *ASKED, *amounts, *more)
                rule = f"--value-resolution must be given: column 'amount' of {path} may have decimals, by its type: "
                assert done.status == 2 and rule in done.err
            assert checked(*amounts, "--value-resolution", "1", rows=path).status == 0
        rounded = "200 rows have an amount with decimals, which are rounded away, as no value resolution is given"
        looked = [*amounts, "--show-dropped-rows", "--exact-counters"]
        assert rounded in checked(*looked, rows="rows.csv").err
        assert rounded in command("run", "--input", "rows.csv", *ASKED, *looked, "--quiet").err
        assert "decimals" not in checked(*looked, "--value-resolution", "1", rows="rows.csv").err

    def test_data_quality_of_a_range_and_of_a_stream(self, folder: Path) -> None:
        spec = Question(TopK(1, Joint(1.0), RangeDomain(0, 10)), period=Period.of("2026-01-05", "2026-01-19"))
        columns = Columns(time="time", time_unit="s")
        write(folder / "numbers.csv", "user,item,time\na,5,2026-01-06\nb,12,2026-01-06\n")
        look = data_quality_of(Report(spec, source_of("numbers.csv", columns), sink_of("x.csv")))
        assert (
            look.lost["not in domain"] == 1
            and look.total == 2
            and not any(its.spellings.total() for its in look.inputs.values())
        )
        place = sink_of("x/")
        os.utime("numbers.csv", (1_767_700_000, 1_767_700_000))  # on the same day
        watched = data_quality_of(Report(spec, source_of("num*.csv", columns, True), place))
        assert watched.lost == look.lost and watched.total == 2
        os.utime("numbers.csv", (1_768_780_830, 1_768_780_830))  # half a minute behind the horizon
        late = list(data_quality_of(Report(spec, source_of("num*.csv", columns, True), place)).lines(exact=True))
        assert "  late: 2, all; still late with --allowed-lateness 10s: 2, 1m: 0, 10m: 0, 1h: 0, 6h: 0, 1d: 0" in late
        in_order = source_of("num*.csv", columns, True, clock="event")
        (unknown,) = [line for line in data_quality_of(Report(spec, in_order, place)).lines() if "late" in line]
        assert unknown == "  late: not known before a run, with --clock event; the stream tells at its end"
        with refused("show_dropped_rows", "cannot look at pubsub://"):
            live = source_of("pubsub://projects/p/subscriptions/s", columns, True)
            data_quality_of(Report(spec, live, sink_of("x/")))
        assert list(DataQuality().lines())[1] == "  in the input: fewer than 100"


class TestRowsExpected:
    @pytest.mark.parametrize(("least", "status"), [(1, 0), (600, 0), (601, 3)])
    def test_whether_a_run_starts(self, folder: Path, least: int, status: int) -> None:
        done = command("run", "--input", "rows.parquet", *ASKED, "--quiet", "--expect-rows-at-least", least)
        assert done.status == status and (folder / "out.csv").exists() is (status == 0)
        if status:
            assert f"--expect-rows-at-least {least}: fewer rows would count" in done.err and "600" not in done.err

    @pytest.mark.parametrize("other", [{"time": lambda time: time * 1000}, {"item": lambda item: f"{item}!"}])
    def test_rows_outside_the_period_or_the_list_do_not_count(self, folder: Path, other: dict[str, Any]) -> None:
        write(folder / "rows.parquet", rows_of(**other))
        done = command("run", "--input", "rows.parquet", *ASKED, "--expect-rows-at-least", 1)
        told = "nothing was done; call it again if rows are still to come; if those that came cannot be ranked, --dry"
        assert done.status == 3 and told in done.err

    @pytest.mark.parametrize("json", [[], ["--json"]])
    def test_an_operator_is_shown_first_why_rows_do_not_count(self, folder: Path, json: list[str]) -> None:
        """By the very command that the refusal names."""
        write(folder / "rows.parquet", rows_of(time=lambda time: time * 1000))
        asked = ["run", "--input", "rows.parquet", *ASKED, "--expect-rows-at-least", 1, "--dry-run", *json]
        done = command(*asked, "--show-dropped-rows")
        look, _, refusal = done.err.partition("--expect-rows-at-least 1: fewer rows would count: nothing was done")
        assert done.status == 3 and "the times look like milliseconds" in look and refusal, done
        assert "ready" not in done.out and bool(done.out) is not bool(json), done
        assert command(*asked).status == 3
