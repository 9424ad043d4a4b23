"""A line before the charge where public knowledge says that a ranking would be close to noise, and none otherwise."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from private_topk.pipelines.preview.expected import earlier_rankings
from private_topk.pipelines.preview.forewarning import forewarned
from private_topk.pipelines.question import Question, declared_period
from private_topk.pipelines.release.place import pair_at
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import Joint, WeightedGaussian
from private_topk.transforms.metric import Amounts
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows.period import moment
from tests.pipelines.shapes import like
from tests.pipelines.support import command, options, write

ROOT = Path(__file__).resolve().parents[2]
ITEMS = [f"item {n}" for n in range(60)]
SHAPE = like(0.8, 60, 300, 3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", [{"user": f"u{n}", "item": ITEMS[n * n % 60]} for n in range(200)])
    write(tmp_path / "items.txt", "\n".join(ITEMS))
    return tmp_path


ASKED = {
    "input": "rows.csv",
    "domain": "items.txt",
    "mechanism": "joint",
    "k": 10,
    "epsilon": 0.01,
    "output": "out.avro",
}


def run(*more: str, **changes: object) -> str:
    done = command("run", *options(**ASKED | changes), "--quiet", *more)
    assert done.status == 0, done.err
    return done.err


def test_a_declared_shape_warns_before_the_charge(folder: Path) -> None:
    ledger = {"ledger": "sqlite:///b.db", "dataset": "d"}
    assert command("budget", "create", *options(**ledger, epsilon=100)).status == 0
    said = run(like=SHAPE, **ledger)
    assert said.count("close to noise") == 1 and said.index("close to noise") < said.index("charged")
    assert "joint finds" in said and "`private-topk preview`" in said
    assert "noise" not in run(like=SHAPE, epsilon=50, output="sure.avro", **ledger)


def test_the_ranking_that_stands_there_warns(folder: Path) -> None:
    """Its noisy counts are public; those of the rows are never looked at."""
    assert "noise" not in run(epsilon=50, publish_counts=50)
    said = run("--overwrite", epsilon=0.001)
    assert "judging by out.avro: 10 noisy counts" in said
    assert "noise" not in run("--overwrite", epsilon=0.001), "the one before had no counts"


@pytest.mark.parametrize(
    ("asked", "helps"),
    [
        ({"k": 25}, True),
        ({"k": 24}, True),
        ({"k": 25, "publish_counts": 1, "epsilon": 0.1}, True),
        ({"k": 5}, False),
        ({"k": 25, "delta": 1e-9}, False),
        ({"k": 25, "delta": 1e-9, "publish_counts": 1}, False),
        ({"mechanism": "joint"}, False),
        ({"mechanism": "oneshot"}, False),
        ({"k": 1}, False),
        ({"ledger": "sqlite:///b.db", "dataset": "d"}, False),
    ],
)
def test_a_delta_is_proposed_where_none_is_given_and_it_halves_the_noise(
    folder: Path, asked: dict[str, object], helps: bool
) -> None:
    """What a run with that delta then says is what was promised."""
    assert command("budget", "create", *options(ledger="sqlite:///b.db", dataset="d", epsilon=100)).status == 0
    asked = {"mechanism": None, **asked}
    unknown, known = command("run", *options(**ASKED | asked), "--dry-run").out, run(like=SHAPE, **asked)
    assert "close to noise" in known and "recall" in unknown
    assert [said.count("With a delta") for said in (known, unknown)] == [helps] * 2
    if helps:
        given = run("--overwrite", **asked, delta=1e-6)
        name, noise = re.findall(r"mechanism: (\S+) \(.*: (about 998 .*)\)", given)[0]
        assert all(f"With a delta, such as 1e-6, {noise} ({name})" in said for said in (known, unknown))


def test_counts_take_their_noise_from_the_delta_of_a_total_if_that_makes_both_better(folder: Path) -> None:
    """Pure counts beside draws that compose by rho would take nearly all of it: twice the epsilon, half the ranking."""
    write(folder / "rows.csv", [{"user": "ana", "item": ITEMS[0], "time": "2026-01-05"}])
    weeks = {"window": "7d", "from": "2026-01-05", "to": "2026-02-02", "privacy_unit": "user"}
    asked = {"mechanism": None, "delta": 1e-6, "epsilon": 1, "horizon": 52, **weeks}

    def moved(**counts: float) -> int:
        told = re.findall(r"change by less than ([\d,]+)", run("--overwrite", **asked | counts))
        return int(told[0].replace(",", ""))

    alone, counted = moved(), moved(publish_counts=1)
    assert counted < alone
    manifest = pair_at("out.avro").manifest
    privacy = manifest and manifest.privacy
    assert privacy is not None and (privacy.epsilon, privacy.delta) == (2, 1e-6)
    unlisted = command("run", *options(**ASKED | asked | {"domain": None, "unknown_domain": True, "output": "u.avro"}))
    assert unlisted.status == 0, "a hint ended it"


def test_noise_can_be_refused_before_the_charge(folder: Path) -> None:
    ledger = {"ledger": "sqlite:///b.db", "dataset": "d", "release_key": "file:key", "release_id": "r"}
    write(folder / "key", "a key of enough bytes")
    assert command("budget", "create", "--ledger=sqlite:///b.db", "--dataset=d", "--epsilon=100").status == 0
    asked = {**ASKED, "like": SHAPE, "on_noise": "refuse", **ledger}
    for more in ([], ["--dry-run"]):
        done = command("run", *options(**asked), *more)
        assert done.status == 2 and "--on-noise refuses what is close to noise" in done.err
    assert not json.loads(command("budget", "history", "--ledger=sqlite:///b.db", "--json").out)["charges"]
    assert "charged" in run(**{**asked, "epsilon": 50})


def test_every_group_is_judged_by_its_own_counts(folder: Path) -> None:
    """A large group hides the small ones in any sum."""
    sizes = {"large": 4000, "small": 20, "tiny": 6}
    rows = [
        {"user": f"{name} {n}", "item": ITEMS[min(n % 97, 59)], "land": name}
        for name, size in sizes.items()
        for n in range(size)
    ]
    write(folder / "rows.csv", rows)
    write(folder / "lands.txt", "\n".join(sizes))
    asked = {"group_column": "land", "groups": "lands.txt", "k": 3, "publish_counts": 50}
    assert "noise" not in run(**asked, epsilon=50)
    said = run("--overwrite", **asked, epsilon=0.5)
    assert "close to noise: 2 of 3 groups (small, tiny); the worst, judging by out.avro" in said, said


def test_the_warning_does_not_depend_on_the_rows(folder: Path) -> None:
    one = run(like=SHAPE)
    write(folder / "rows.csv", [{"user": f"u{n}", "item": ITEMS[n % 3]} for n in range(5000)])
    assert run(like=SHAPE, output="other.avro") == one.replace("out.", "other.")


def test_groups_of_a_declared_shape_are_judged_by_their_sizes(folder: Path) -> None:
    write(folder / "lands.txt", "\n".join(f"land {n}" for n in range(30)))
    asked = {"group_column": "land", "groups": "lands.txt", "k": 3, "epsilon": 0.5}
    write(folder / "rows.csv", [{"user": "u", "item": ITEMS[0], "land": "land 1"}])
    sizes = [max(1, 6700 // n**3) for n in range(1, 31)]
    said = run(**asked, like=like(1, 60, ",".join(map(str, sizes)), 3))
    assert re.search(r"2\d of 30 groups \(.*, 30: 1 users\)", said), said
    listed = command(
        "run",
        *options(like=like(1, 60, "9000,20", 3), **asked),
        *"--input=rows.csv --domain=items.txt --mechanism=joint --output=o.csv".split(),
    )
    assert listed.status == 2 and "--like has 2 groups, and 30 are ranked" in listed.err


def test_a_shape_of_one_ranking_is_not_taken_for_each_group(folder: Path) -> None:
    """With the users of all groups none of them would look like noise: the shape says whose users it tells."""
    write(folder / "lands.txt", "here\nthere")
    write(folder / "rows.csv", [{"user": "u", "item": ITEMS[0], "land": "here"}])
    asked = {**ASKED, "group_column": "land", "groups": "lands.txt", "k": 3, "epsilon": 0.5, "publish_counts": 1}
    assert command("run", *options(**asked | {"group_column": None, "groups": None, "output": "all.avro"})).status == 0
    for shape in (like(1, 60, 9000, 3), "sample", "all.avro"):
        done = command("run", *options(**asked, like=shape), "--dry-run")
        assert done.status == 2 and "--like is of one ranking, and 2 groups are ranked: give the users" in done.err
    each = like(1, 60, "90 each", 3)
    assert "close to noise: 1 of 1" not in (said := run(**asked, like=each)) and "and 90 users" in said, said
    looked = command("preview", *options(like=each, k=3, epsilon=1, mechanism="joint", draws=5, groups_per_user=1))
    assert looked.out.startswith("Expected of each group: 60 items and 90 users"), looked
    assert "users must be" in command("preview", *options(like=like(1, 60, "90,9 each", 3), k=3, epsilon=1)).err


def test_the_worst_of_groups_that_chance_alone_fills_is_the_smallest() -> None:
    """In a tiny group chance finds more: most items tie there."""
    shape = "items=3000,users=4760,{},40,rank1=12%,rank10=3%"
    groups = Groups(PublicDomain.of(["a", "b", "c"]))
    spec = Question(TopK(10, Joint(epsilon=0.08), [f"item {n}" for n in range(3000)], groups=groups))
    noisy, said = forewarned(spec, shape.format(310))
    assert noisy and "the worst, judging by 3,000 items and 40 users" in said, said


def test_a_thousand_groups_are_judged_by_some_of_them() -> None:
    sizes = [26_717 // n for n in range(1, 1001)]
    spec = Question(TopK(3, Joint(epsilon=0.5), ITEMS, groups=Groups(PublicDomain.of(map(str, range(1000))))))
    noisy, said = forewarned(spec, like(1, 60, ",".join(map(str, sizes)), 3))
    first = int(said.partition("groups (")[2].partition(":")[0])
    assert noisy and said.startswith(f"close to noise: {1001 - first} of 1000 groups"), said
    alone = Question(TopK(3, Joint(epsilon=0.5), ITEMS))
    assert forewarned(alone, like(1, 60, sizes[first - 1], 3))[0]
    assert not forewarned(alone, like(1, 60, sizes[first - 2], 3))[0]


def test_amounts_are_judged_by_sums(folder: Path) -> None:
    """Those of an earlier release are in amounts, and noise is in units of the resolution times the cap."""
    rows = [{"user": f"u{n}", "item": ITEMS[n % m], "minutes": 0.5} for m in (1, 2, 3, 4) for n in range(400)]
    write(folder / "rows.csv", rows)
    asked = {"value_column": "minutes", "max_value": 1, "value_resolution": 0.01, "k": 3}
    assert "noise" not in run(**asked, epsilon=50, publish_counts=50)

    def told(epsilon: float) -> str:
        """What a dry run says, which says it once."""
        done = command("run", *options(**ASKED | asked | {"epsilon": epsilon}), "--overwrite", "--dry-run")
        assert done.status == 0 and not done.err, done.err
        return done.out

    said = told(0.02)
    assert "close to noise: judging by out.avro: 3 noisy counts" in said and "sums of amounts of at most 1" in said
    same = options(like="out.avro", k=3, mechanism="joint", max_value=1, value_resolution="0.01", recall=0.9)
    assert "sums of amounts of at most 1. Nothing is charged" in command("preview", *same).out
    assert "close to noise" not in told(0.2)
    shape = like(1, 60, 4000, 3) + ",amount="
    assert "who add 0.05 each" in run("--overwrite", **asked, epsilon=0.1, like=f"{shape}0.05")
    assert "noise" not in run("--overwrite", **asked, epsilon=0.1, like=f"{shape}1")
    assert "noise" not in run("--overwrite", epsilon=50, publish_counts=50), "of numbers of users"
    with pytest.raises(InvalidArgument, match="out.avro ranks by numbers of users, and amounts are asked for"):
        earlier_rankings("out.avro", 60, Amounts(1))


@pytest.mark.parametrize("unit", ["user", "user-window"])
def test_a_release_of_either_unit_tells_what_the_next_is_like(unit: str, folder: Path) -> None:
    write(folder / "rows.csv", [{"user": f"u{n}", "item": ITEMS[n % 7], "time": "2026-01-05"} for n in range(700)])
    run(k=3, epsilon=50, publish_counts=50, window="1d", from_="2026-01-05", to="2026-01-07", privacy_unit=unit)
    assert max(earlier_rankings("out.avro", 60)[""].noisy_counts) > 50


@pytest.mark.parametrize("unit", ["user", "user-window"])
def test_weights_are_judged_by_a_shape(unit: str) -> None:
    windows = declared_period(
        {"window": timedelta(days=7), "period_from": moment("2026-01-05"), "period_to": moment("2026-02-02")}
    )

    def spec(epsilon: float) -> Question:
        weighing = WeightedGaussian(epsilon, 1e-6, max_items_per_user=3, whole_items=1)
        return Question(TopK(5, weighing, UnknownDomain(), max_items_per_user=3), period=windows, privacy_unit=unit)

    for users, noisy in (("100", True), ("1e4", False)):
        assert forewarned(spec(1), like(1, 500, users, 5))[0] is noisy
    # With the unit user a window has a share of the budget.
    assert forewarned(spec(1), like(1, 500, 300, 5))[0] is (unit == "user")
    assert forewarned(spec(1)) == (
        False,
        "unknown: weighted-gaussian publishes no counts; "
        "--like items=1e5,users=1e5,rank1=4%,rank20=0.5% (preview.like in a report) estimates it",
    )
    with pytest.raises(InvalidArgument, match="like must be a shape"):
        forewarned(spec(1), "sample")


def test_questions_of_which_nothing_is_known() -> None:
    spec = Question(TopK(3, Joint(epsilon=0.001), ITEMS))
    nothing = (
        False,
        "unknown: no earlier ranking has noisy counts; "
        "--like users=1e5,rank1=4%,rank20=0.5% (preview.like in a report) estimates it",
    )
    assert forewarned(spec) == nothing
    assert forewarned(spec, earlier=["nowhere.avro", "no ranking"]) == nothing
    noisy, found = forewarned(spec, SHAPE)
    assert noisy and found.startswith("close to noise: judging by 60 items and 300 users, of whom ")
    sure, found = forewarned(Question(TopK(3, Joint(epsilon=100.0), ITEMS)), SHAPE)
    assert not sure and found.startswith("judging by 60 items") and "joint finds 3 of the top 3" in found
    with pytest.raises(InvalidArgument, match="like nowhere.avro does not exist"):
        forewarned(spec, "nowhere.avro")
    with pytest.raises(InvalidArgument, match="what a user adds to an item on average, .* goes with max_value"):
        forewarned(Question(TopK(3, Joint(epsilon=0.001), ITEMS, score=Amounts(60))), SHAPE)


def test_what_is_enough_is_told_and_the_page_has_it() -> None:
    """The table of docs/choosing.md is what a dry run says where nothing is known."""
    page = (ROOT / "docs" / "choosing.md").read_text()
    table = re.findall(r"^\| (\d) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert len(table) == 4
    items = [f"item {n}" for n in range(5000)]
    days = {"window": timedelta(days=1), "period_from": moment("2026-01-05"), "period_to": moment("2026-01-06")}
    for epsilon, *cells in table:
        for windows, cell in zip((1, 12, 52, 364), cells, strict=True):
            asked = Question.of(
                10,
                domain=items,
                epsilon=Fraction(epsilon),
                delta=Fraction("1e-6"),
                period=declared_period(days),
                privacy_unit="user",
                horizon=windows,
            )
            noisy, told = forewarned(asked)
            assert not noisy
            rule = f"; as a rule nine of ten are found where the item of place 10 has {cell} users or more in"
            assert f"{rule} a window (docs/choosing.md); --like users=1e5," in told


def test_what_is_enough_with_groups_is_told_of_each_and_the_proposed_shape_is_taken() -> None:
    groups = Groups(PublicDomain.of(["tv", "phone"]))
    for items, size in ((PublicDomain.of(f"item {n}" for n in range(5000)), ""), (UnknownDomain(), "items=1e5,")):
        asked = Question.of(10, domain=items, epsilon=Fraction(1), delta=Fraction("1e-6"), groups=groups)
        _, told = forewarned(asked)
        rule = " users or more in each group of a window, of the users that count there (docs/choosing.md); "
        assert (rule in told) == (not size), told
        [shape] = re.findall("--like '(.*?)' ", told)
        assert shape == f"{size}users=2500 each,rank1=4%,rank20=0.5%"
        assert "2,500 users" in forewarned(asked, shape)[1]
