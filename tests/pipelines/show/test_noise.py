"""Whether most of a ranking is noise: what is said from published counts, beside the truth."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from private_topk import Rankings
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.show.noise import drawn_with, in_words, is_noise, of_draws
from private_topk.pipelines.show.page import page
from private_topk.pipelines.show.published import PublishedReport
from private_topk.pipelines.show.sign_off import sheet
from private_topk.pipelines.show.words import in_text
from private_topk.transforms.domain import RangeDomain, UnknownDomain
from private_topk.transforms.mechanisms import RandomBits, make_mechanism, publish_counts
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from private_topk.transforms.metric import Amounts
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period
from tests.pipelines.show.rankings import asked, manifest, published, rows
from tests.pipelines.support import SHARED, command, options, write


@pytest.mark.parametrize("data", ["games", "gowalla", "patent", "searchlogs", "hepth", "foods_synth"])
def test_what_is_called_noise_is_noise_on_real_counts(data: str) -> None:
    """72 seeded rankings of each set by the mechanism that is chosen, their counts with as much epsilon."""
    path = SHARED / "data" / f"{data}.npy"
    if not path.exists():
        pytest.skip(f"needs {path.name}: set PRIVATE_TOPK_SHARED to the folder of shared data")
    counts, bits = np.sort(np.load(path))[::-1].astype(np.int64), RandomBits.keyed(b"membership".ljust(32, b"."))
    named, wrong = IndexedCounts.of(counts), 0
    for epsilon, k, _ in product((0.1, 0.3, 1.0, 3.0), (1, 2, 3, 4, 5, 10, 20, 50, 100), range(2)):
        drawn = TopK(k, make_mechanism("oneshot", epsilon=epsilon), RangeDomain(0, len(counts)))
        items = named.items(drawn.mechanism.prepare(named.histogram).ranks(k, bits))
        noisy = publish_counts(counts, items, bits, epsilon, None)
        last, got = counts[k - 1], counts[items]
        true = ((got > last).sum() + min((got == last).sum(), k - (counts > last).sum())) / k
        said = is_noise(tuple(map(int, noisy)), drawn)
        wrong += true > 0.5 if said else true < 0.5
        assert true < 0.7 if said else true > 0.3 or k < 5
    assert wrong <= 3


@pytest.mark.parametrize("data", ["games", "hepth", "foods_synth"])
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_so_it_is_where_noise_has_helped_the_counts(name: str, data: str) -> None:
    """32 seeded rankings whose counts come with the draw."""
    path = SHARED / "data" / f"{data}.npy"
    if not path.exists():
        pytest.skip(f"needs {path.name}: set PRIVATE_TOPK_SHARED to the folder of shared data")
    counts, bits, told = np.sort(np.load(path))[::-1].astype(np.int64), RandomBits.keyed(b"helped".ljust(32, b".")), []
    named, delta = IndexedCounts.of(counts), {"delta": 1e-6} if name == "gaussian" else {}
    for epsilon, k, _ in product((0.001, 0.003, 0.01, 0.03), (1, 3, 10, 20), range(2)):
        mechanism = make_mechanism(name, epsilon=epsilon, max_items_per_user=10, **delta)
        drawn = TopK(k, mechanism, RangeDomain(0, len(counts)), publish_counts="drawn")
        ranks, noisy = drawn.mechanism.select_counted(named.histogram, k, bits.draw())
        true = (counts[named.items(ranks)] >= counts[k - 1]).mean()
        told.append((is_noise(tuple(map(int, noisy)), drawn), true <= 0.5))
    said, rightly, noise = sum(said for said, _ in told), sum(map(all, told)), sum(true for _, true in told)
    assert said >= 8 and rightly >= said - 2 and rightly >= 0.7 * noise


@pytest.mark.parametrize(("users", "k"), [(0, 1), (0, 2), (0, 3), (0, 4), (0, 10), (40, 10)])
def test_a_ranking_of_noise_is_reported_as_noise(users: int, k: int) -> None:
    """Of 400 items that nobody has, or that all are had alike: 40 rankings, each seeded."""
    counts, bits = np.full(400, users), RandomBits.keyed(b"noise".ljust(32, b"."))
    drawn = TopK(k, make_mechanism("oneshot", epsilon=0.1), RangeDomain(0, 400))
    for _ in range(40):
        noisy = publish_counts(counts, np.arange(k), bits, 0.1, None)
        assert in_words(tuple(map(int, noisy)), drawn).startswith("Most of this is noise: ")


def test_page_terminal_and_sign_off_say_how_far_the_noise_moves_counts() -> None:
    """Of a series by its noisiest part; nothing where one draws otherwise, or counts come with the draw."""

    def part(mechanism: str = "oneshot", **parameters: Any) -> Manifest:  # noqa: ANN401
        return manifest(1, mechanism=mechanism, parameters={"epsilon": 1.0, "neighbours": "add-remove", **parameters})

    def said(*parts: Manifest) -> list[bool]:
        report = PublishedReport(rows(1, ["a", "b"], 2), parts[-1], parts=parts)
        told = page(report).partition("<ul>")[0], " ".join(in_text(report)), " ".join(sheet(report))
        return ["about 998 of 1,000 counts change by less than 62 users" in " ".join(each.split()) for each in told]

    assert said(part(epsilon=0.5)) == said(part(epsilon=0.5), part()) == said(part(), part(epsilon=0.5)) == [True] * 3
    drawn = {"privacy": {**manifest(1).to_json()["privacy"], "noisy_counts": {"drawn": True}}}
    assert said(part(epsilon=0.5), part("joint")) == [False] * 3
    apart = "less than 62 users in the draw of places, which is not the noise of the counts shown"
    for counts in (True, False):
        report = PublishedReport(rows(1, ["a", "b"], 2, counts=counts), part(epsilon=0.5), parts=(part(epsilon=0.5),))
        assert (
            page(report).count(apart) == 2 * counts and (apart in " ".join(" ".join(in_text(report)).split())) is counts
        )
    assert of_draws([part("laplace", max_items_per_user=3)]) and not of_draws([part("gamma")])
    assert not of_draws([manifest(1, mechanism="laplace", parameters={"epsilon": 1.0}, **drawn)])
    assert not of_draws([part("one of another version")]) and not of_draws([])


@pytest.mark.parametrize(
    ("counts", "noisy"),
    [
        ((9000, 7000, 5000, 4000, 3000), False),
        ((900, 700, 500, 400, 300), False),
        ((30, 29, 28, 27, 26), True),
        ((900, 700, 500, 400), False),
        ((0, 0, -1, -2, -9), True),
        ((-41, -29, -60, -67, -39), True),
    ],
)
@pytest.mark.parametrize("epsilon", [1, 99])
def test_the_verdict_follows_from_the_counts(counts: tuple[int, ...], noisy: bool, epsilon: int) -> None:
    noisy &= epsilon == 1 or max(counts) <= 0
    said = in_words(counts, TopK(5, make_mechanism("oneshot", epsilon=epsilon), RangeDomain(0, 900)))
    assert said == (
        "Most of this is noise: by the noisy counts, probably at most half of these 5 are in the true top 5."
        if noisy
        else ""
    )


def test_one_count_tells_too() -> None:
    drawn = TopK(1, make_mechanism("oneshot", epsilon=0.01), RangeDomain(0, 900))
    assert in_words((9000,), drawn) == ""
    assert in_words((90,), drawn) == "Most of this is noise: by the noisy counts, probably another is the true first."


def test_a_whole_list_is_in_its_own_top() -> None:
    assert in_words((3, 0, -2), TopK(3, make_mechanism("oneshot", epsilon=1), RangeDomain(0, 3))) == ""


SAID = "Most of this is noise: "
FEW, MANY = (2, 1, 1, 1, 0), (900, 800, 700, 600, 500)
ASKED: dict[str, Any] = {"k": 5, "mechanism": "oneshot", "publish_counts": 2, "domain": [*map(str, range(40))]}
TWO_WEEKS = {"period": Period.of("2026-01-05", "2026-01-19", "7d")}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "key", "0" * 32)


def of(*counts: tuple[int, ...], **more: Any) -> Manifest:  # noqa: ANN401
    """Rankings with these noisy counts, and no others."""
    for file in Path().glob("r.*"):
        file.unlink()
    return published("r.csv", asked(**(ASKED | {"epsilon": 2} | more)), counts=counts)


def shown() -> str:
    return command("show", "r.csv").out


def test_every_ranking_that_is_noise_is_marked() -> None:
    of(MANY)
    assert SAID not in shown() and "do not show how much of a ranking is noise" not in shown(), "the counts do"
    of(FEW, FEW, **TWO_WEEKS)
    assert shown().count(SAID) == 2
    assert command("show", "r.csv", "--html", "r.html").status == 0
    page = Path("r.html").read_text()
    assert page.count(f"<p>{SAID}") == 1 and page.count(", mostly noise</th>") == 2
    assert "<summary>All 2 windows: mostly noise in 2</summary>" in page
    of(FEW, MANY, **TWO_WEEKS)
    assert shown().count(SAID) == 1
    assert command("show", "r.csv", "--html", "r.html").status == 0
    page = Path("r.html").read_text()
    assert SAID not in page and "windows: mostly noise in 1</summary>" in page
    assert page.count(", mostly noise</th>") == page.count("2026-01-05, mostly noise</th>") == 1
    assert "Places over 2 windows: mostly noise in 1." in Rankings.read("r.csv").plot().svg
    of(FEW)
    assert ": mostly noise</text>" in Rankings.read("r.csv").plot().svg
    of(MANY)
    assert "mostly noise" not in Rankings.read("r.csv").plot().svg
    of(FEW, amounts=Amounts(1))
    assert SAID in shown()
    of(MANY, amounts=Amounts(400))
    assert SAID in shown(), "so much may be one user's"
    Path("r.manifest.json").unlink()
    assert SAID not in shown()


def test_counts_that_a_run_publishes_tell_it() -> None:
    """The newest week is empty."""
    rows = [{"user": f"u{n}", "item": n % 8, "time": "2026-01-06"} for n in range(900)]
    write(Path("rows.csv"), rows)
    asked = {"input": "rows.csv", "domain_range": "0:40", "k": 5, "epsilon": 2, "publish_counts": 2, "output": "r.csv"}
    weeks = {"window": "7d", "from_": "2026-01-05", "to": "2026-01-19", "release_key": "file:key", "release_id": "r"}
    done = command("run", *options(**asked, **weeks))
    assert done.status == 0 and done.out.count(SAID) == shown().count(SAID) == 1, done


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({"publish_counts": None}, ()),
        ({"domain": UnknownDomain(), "mechanism": "limit-domain", "delta": 1e-6}, [FEW]),
        ({"mechanism": "canonical"}, [FEW]),
    ],
    ids=str,
)
def test_nothing_is_said_where_the_counts_do_not_tell(more: dict[str, Any], counts: Sequence[tuple[int, ...]]) -> None:
    of(*counts, **more)
    assert SAID not in shown()


@pytest.mark.parametrize("groups", [60, 61])
def test_of_many_groups_nothing_is_said(groups: int) -> None:
    names = [f"land {n}" for n in range(groups)]
    of(*((MANY, FEW)[n % 2] for n in range(groups)), groups=names)
    assert (SAID in shown()) == (groups == 60)
    assert command("show", "r.csv", "--html", "r.html").status == 0
    compared = re.search(r"Most is noise in (\d+) of these 60, by .* They are (.*)\.</p>", Path("r.html").read_text())
    assert (compared is not None) == (groups == 60)
    if compared:
        of_noise = {page.stem for page in Path("r-groups").iterdir() if SAID in page.read_text()}
        assert set(compared[2].split(", ")) == of_noise == {*names[1::2]} and compared[1] == "30"
    sheet = " ".join(command("show", "r.csv", "--sign-off").out.split())
    noisy = f"mostly noise 30 of the 60 groups of the newest window, by their noisy counts: {', '.join(names[1::2])} "
    assert (noisy in sheet, "mostly noise" in sheet) == ((groups == 60),) * 2


def test_of_many_windows_the_newest_are_marked() -> None:
    of(*[FEW] * 61, period=Period.of("2026-01-05", "2027-03-08", "7d"))
    assert shown().count(SAID) == 60
    assert command("show", "r.csv", "--html", "r.html").status == 0
    page = Path("r.html").read_text()
    assert "All 61 windows: mostly noise in 60 of the newest 60</summary>" in page
    assert page.count(", mostly noise</th>") == 60 and "2026-01-05, mostly noise" not in page


def test_a_window_is_judged_by_what_it_was_drawn_with() -> None:
    """And not by what the newest one was: a week of a larger epsilon is no noise beside those that are."""
    Path("weeks").mkdir()
    for number, epsilon in enumerate((2, 0.002)):
        day = 5 + 7 * number
        period = Period.of(f"2026-01-{day:02}", f"2026-01-{day + 7:02}", "7d")
        published(f"weeks/{day}.csv", asked(f"w{day}", period=period, epsilon=epsilon, **ASKED), counts=[MANY])
    text = command("show", "weeks").out
    assert text.count(SAID) == 1 and text.index("12 to 18 January") < text.index(SAID)


def test_a_manifest_of_something_else_says_nothing() -> None:
    manifest = of(MANY)
    assert drawn_with(manifest) is not None
    for changes in (
        {"mechanism": "shop.own:Winner"},
        {"parameters": {"epsilon": "much"}},
        {"parameters": {}},
        {"domain": {"kind": "unknown"}},
        {"domain": {"kind": "public", "size": 3}},
        {"k": None},
    ):
        assert drawn_with(msgspec.convert(manifest.to_json() | changes, Manifest)) is None, changes
