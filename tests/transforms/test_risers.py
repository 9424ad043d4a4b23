"""Risers: scores are what plain dictionaries say, mechanisms keep their promise for users who move them both ways, and
which window is compared with which is told by the calendar alone."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue
from hypothesis import given
from hypothesis import strategies as st

from private_topk.pipelines.question import Question
from private_topk.transforms import (
    Amounts,
    Groups,
    Period,
    PrivateTopK,
    PublicDomain,
    RangeDomain,
    ReleaseKey,
    Risers,
)
from private_topk.transforms import combine as counting
from private_topk.transforms.assign_windows import _NumberDoFn
from private_topk.transforms.columnar import make_block, make_table
from private_topk.transforms.domain import UnknownDomain
from private_topk.transforms.mechanisms import MECHANISMS, Joint, Laplace, LimitDomain, Mechanism, TopStable
from private_topk.transforms.mechanisms.mechanism import Guarantee
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.rows import _ShardDoFn
from private_topk.transforms.select import WindowCounts
from private_topk.transforms.spec import TopK
from private_topk.transforms.testing.checks import check_pair
from private_topk.transforms.user_shards import UserShard
from tests.examples import examples
from tests.transforms.mechanisms.stated import PUBLIC, law_of, mechanism_of
from tests.transforms.pipelines import added_up, outcome

ITEMS, NAMES = ["a", "b", "c"], ["north", "south"]
KEY = ReleaseKey.held(b"0123456789abcdef")
DOMAIN = PublicDomain.of(ITEMS)
DAY, START = 86_400, datetime(1970, 1, 2, tzinfo=UTC)
DAYS = Period(START, START + timedelta(days=3), timedelta(days=1))
ONE_DAY = Period(START, START + timedelta(days=1))
HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
Rows = list[tuple[str, str, str, int]]
Scores = dict[tuple[int, str, str], int]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_law_is_the_same_when_all_counts_move_together(name: str) -> None:
    """What `translation_invariant` says, of every mechanism that says it; and those that do not are refused."""
    mechanism = mechanism_of(name)
    assert mechanism.guarantee.translation_invariant
    here, moved = (law_of(name, mechanism, tuple(count + by for count in (7, 4, 2)), 2) for by in (0, 6))
    assert here.keys() == moved.keys()
    assert all(float(here[answer]) == pytest.approx(float(moved[answer]), rel=1e-9, abs=1e-12) for answer in here)


def test_every_translation_invariant_mechanism_is_tested_and_the_page_names_the_rest() -> None:
    offered = {name for name, kind in MECHANISMS.items() if kind.guarantee.translation_invariant}
    assert offered == set(PUBLIC)
    refused = {name for name, kind in MECHANISMS.items() if kind.guarantee.domain == "public"} - offered
    page = (Path(__file__).parents[2] / "docs" / "risers.md").read_text()
    [row] = [line for line in page.splitlines() if line.startswith("| `weighted-order`")]
    assert set(re.findall("`([^`]+)`", row)) == refused


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", PUBLIC)
def test_neighbours_by_rises_stay_within_the_stated_cost(name: str, relation: str) -> None:
    """All users of one window, of the other and of both, with one item in each where the proof leans on that."""
    worst = 0.0
    for weight in (Fraction(1), HALF) if relation == "add-remove" else (HALF,):
        risers = Risers(weight)
        bound = {"max_items_per_user": 1} if name in ("laplace", "gaussian") else {}
        mechanism = replace(mechanism_of(name, relation, **bound), **risers.moves(1))
        worst = max(worst, told(name, mechanism, risers, 1 if bound else 3, relation))
    assert mechanism.cost(2).delta or worst > 0.4


@pytest.mark.parametrize("name", ["peeling", "joint", "gaussian"])
def test_the_sensitivity_of_a_single_window_is_too_small_for_risers(name: str) -> None:
    """At the sensitivity of a single window a user who changes from one item to another is seen."""
    mechanism = mechanism_of(name, cap=1, **{"max_items_per_user": 1, "delta": 1e-3} if name == "gaussian" else {})
    with pytest.raises(AssertionError):
        told(name, mechanism, Risers(1), 1 if name == "gaussian" else 3, "add-remove")


def told(name: str, mechanism: Mechanism, risers: Risers, most: int, relation: str) -> float:
    """The largest that is met of what `mechanism.cost` states, over all pairs of neighbours, both ways."""
    law = cache(lambda scores: law_of(name, mechanism, scores, 2))
    held = [items for items in product((0, 1), repeat=3) if sum(items) <= most]
    users = {
        tuple(risers.now * a - risers.before * b for a, b in zip(now, then, strict=True))
        for now, then in product(held, held)
    }
    moves = (
        users
        if relation == "add-remove"
        else {tuple(np.subtract(one, other).tolist()) for one, other in product(users, users)}
    )
    base, worst = (14, 12, 9), 0.0
    for move in moves:
        moved = tuple(np.add(base, move).tolist())
        if moved != base:
            worst = max(
                worst,
                check_pair(mechanism.cost(2), law(base), law(moved)),
                check_pair(mechanism.cost(2), law(moved), law(base)),
            )
    return worst


def scored(
    rows: Rows,
    period: Period,
    risers: Risers,
    limit: int | None = None,
    way: tuple[int, int] = (1, 1),
    groups: Groups | None = None,
    amounts: Amounts | None = None,
) -> Scores:
    """The scores by the pipeline's functions: by number of the window, group and item; those of 0 left out."""
    reads, (shards, blocks), split = risers.input_period(period), way, 0 if groups is None else groups.size
    layout, own = Partitioning.of(DOMAIN, reads, split), Partitioning.of(DOMAIN, period, split)
    fn = _ShardDoFn(DOMAIN, KEY, shards, layout, 1, amounts, groups)
    counter = UserShard(layout, KEY, limit, amounts and amounts.cap, 1, None, None, risers)
    fn.setup()
    pairs = {shard: [counter.no_rows()] for shard in range(shards)}
    for block in range(blocks):
        users, items, of, times = (
            pa.array(list(c)) for c in zip(*(rows[block::blocks] or [("", "", "", -1)]), strict=True)
        )
        columns: dict[str, Any] = {} if amounts is None else {"amounts": pa.array(np.full(len(users), 40.0))}
        columns |= {} if groups is None else {"groups": of}
        for numbered in _NumberDoFn(reads).process(
            make_block(users, items, pa.array(np.array(times) * 10**6), **columns)[0]
        ):
            for shard, table in fn.process(numbered):
                pairs[shard].append(table)
    found: Scores = {}
    for table in added_up((part for tables in pairs.values() for part in counter.counts(tables)), own):
        windows = table["window"].to_pylist() if own.windows > 1 else [0] * len(table)
        for window, item, score in zip(windows, table["item"].to_pylist(), table["count"].to_pylist(), strict=True):
            found[window // own.rankings, NAMES[window % own.rankings] if groups else "", ITEMS[item]] = score
    return found


def expected(rows: Rows, period: Period, risers: Risers, amount: int = 1) -> Scores:
    """By dictionaries, without a bound on items: windows of a day each."""
    held = {(time // DAY, user, item) for user, item, _, time in rows}
    found: Counter[tuple[int, str, str]] = Counter()
    for number in range(len(period)):
        for day, _, item in held:
            found[number, "", item] += risers.now * amount * (day == 1 + number)
            found[number, "", item] -= risers.before * amount * (day == number)
    return {place: score for place, score in found.items() if score}


ROW = st.tuples(st.sampled_from(ITEMS), st.sampled_from(NAMES), st.integers(0, 5 * DAY - 1))
WAYS = st.sampled_from([(1, 1), (2, 3), (8, 2)])


@examples(60)
@given(
    others=st.lists(st.tuples(st.sampled_from("uvw"), ROW), max_size=30),
    mine=st.lists(ROW, max_size=20),
    period=st.sampled_from([DAYS, ONE_DAY]),
    risers=st.sampled_from([Risers(1), Risers(HALF), Risers(THIRD), Risers(0)]),
    limit=st.sampled_from([None, 1]),
    of=st.tuples(st.sampled_from([None, Groups.of(NAMES)]), st.sampled_from([None, Amounts.of(30)])),
    ways=st.tuples(WAYS, WAYS),
    draw=st.randoms(use_true_random=False),
)
def test_one_user_moves_scores_within_the_stated_bounds(others, mine, period, risers, limit, of, ways, draw) -> None:  # noqa: ANN001
    """Each by -p to q; the scores those of dictionaries, whichever way they are counted."""
    groups, amounts = of
    there = [(user, *row) for user, row in others]
    rows = [*there, *(("the one user", *row) for row in mine)]
    how = {"limit": limit, "groups": groups, "amounts": amounts}
    without, here = (scored(some, period, risers, way=ways[0], **how) for some in (there, rows))
    steps = {place: here.get(place, 0) - without.get(place, 0) for place in {*here, *without}}
    units = 30 if amounts else 1
    assert all(-risers.before * units <= step <= risers.now * units for step in steps.values())
    for number in range(len(period)):
        moved = {(group, item): step for (window, group, item), step in steps.items() if window == number and step}
        assert len({group for group, _ in moved}) <= 2
        if limit is not None:
            assert sum(step > 0 for step in moved.values()) <= 1 and sum(step < 0 for step in moved.values()) <= 1
    draw.shuffle(rows)
    assert here == scored(rows, period, risers, way=ways[1], **how), "scores hang on order, blocks or shards"
    if limit is None and groups is None:
        assert here == expected(rows, period, risers, units)


def ranked(rows: Rows, period: Period, risers: Risers, shards: int = 4) -> list[list[str]]:
    rank = PrivateTopK(3, Laplace(1e6), DOMAIN, period=period, risers=risers, shards=shards)
    stamped = [TimestampedValue((user, item), time) for user, item, _, time in rows]
    found = outcome(
        lambda p: p | beam.Create(stamped) | rank | beam.Map(lambda r: [r.window.start.isoformat(), *r.items])
    )
    return [items for _, (_, *items) in sorted(found, key=lambda row: row[1][0])]


def rise() -> Rows:
    """Of a three were there on every day. b has one more every day, from none; c falls from nine by two."""
    held = {("a", day): 3 for day in range(5)} | {("b", day): day for day in range(5)}
    held |= {("c", day): 9 - 2 * day for day in range(5)}
    rows = [(f"{item}{n}", item, "", day * DAY + 7) for (item, day), number in held.items() for n in range(number)]
    return random.Random(1).sample(rows, len(rows))


def test_rankings_are_by_rise() -> None:
    """With scores below 0, and above a window that nobody was in before; the day before the period is read."""
    assert ranked(rise(), DAYS, Risers(1)) == [["b", "a", "c"]] * 3
    assert ranked(rise(), DAYS, Risers(0))[:2] == [["c", "a", "b"]] * 2, "a weight of 0 is the window alone"
    assert ranked(rise(), ONE_DAY, Risers(1), shards=1) == [["b", "a", "c"]]
    week = Period.of("1970-01-08", "1970-01-15", "7d")
    assert ranked(rise(), week, Risers(1)) == [["a", "b", "c"]], "all of it was a week ago, by 3, 4 and 9 users"


def test_an_unheld_item_ranks_between_rising_and_falling_items() -> None:
    """Its score is 0, above those that fall, in whichever item shard it is."""
    rows = [("u", "c", "", 0), ("v", "c", "", DAY), ("v", "b", "", DAY)]
    assert ranked(rows, ONE_DAY, Risers(1))[0][0] == "b"
    falling = [("u", "a", "", 0), ("v", "a", "", 0), ("u", "b", "", 0)]
    assert ranked(falling, ONE_DAY, Risers(1)) == [["c", "b", "a"]]


@examples(60)
@given(scores=st.lists(st.integers(-5, 5), min_size=6, max_size=6))
def test_scores_below_0_are_ranked_and_named(scores: list[int]) -> None:
    """Every rank is named by the item that holds it, those without a count among them; the histogram starts at 0."""
    items, counts = np.flatnonzero(scores), np.array([score for score in scores if score], np.int64)
    totals = make_table(item=items.astype(np.uint32), count=counts)
    found = WindowCounts.of(TopK(1, Joint(1.0), RangeDomain(0, 6)), [totals])
    histogram = found.histogram
    assert histogram.smallest == max(min(scores), 0) and histogram.items == 6
    assert (histogram.counts() + min(*scores, 0)).tolist() == sorted(scores, reverse=True)
    named = found.items(np.arange(6)).tolist()
    assert named == sorted(range(6), key=lambda item: (-scores[item], item))


def test_a_rise_of_0_yields_no_row_in_dense_and_sparse_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [([0, 1], [2, 1]), ([0], [-2])]
    tables = [make_table(item=np.array(items, np.uint32), count=np.array(counts)) for items, counts in pairs]
    for cells in (1 << 20, 0):
        monkeypatch.setattr(counting, "_MAX_CELLS", cells)
        assert counting.add_up_codes(0, tables, Partitioning(3)).to_pylist() == [{"item": 1, "count": 1}]


def test_the_window_before_has_the_calendar_length_of_its_period() -> None:
    months = Period.of("2026-03-01", "2026-05-01", "month", time_zone="Europe/Berlin")
    assert [str(window.start)[:10] for window in months.with_one_before().windows()] == [
        "2026-01-31", "2026-02-28", "2026-03-31",
    ]  # fmt: skip  # in UTC, midnight in Berlin
    assert months.with_one_before().windows()[1:] == months.windows()
    weeks = Period.of("2026-01-12", "2026-02-02", "7d")
    assert weeks.with_one_before().windows()[1:] == weeks.windows() and len(weeks) == 3
    whole = Period.of("2026-01-12", "2026-01-14")
    assert [str(window.start)[:10] for window in whole.with_one_before().windows()] == ["2026-01-10", "2026-01-12"]
    february = Risers(1, datetime(2026, 1, 1, tzinfo=UTC)).input_period(Period.of("2026-02-01", "2026-03-01"))
    assert [str(window.start)[:10] for window in february.windows()] == ["2026-01-01", "2026-02-01"]
    with pytest.raises(ValueError, match="must have a window before it"):
        Period.of("0001-01-02", "0001-01-12").with_one_before()
    with pytest.raises(ValueError, match="slide does not go with against: a window and the one before it overlap"):
        Period.of("2026-01-12", "2026-01-30", "7d", slide="1d").with_one_before()


def test_risers_cost_both_windows_that_they_compare() -> None:
    """Of a window and the one before it two rankings are paid for; of a user in all of them, all."""
    for period, unit, relation, share in [
        (ONE_DAY, "user-window", "add-remove", 1),
        (DAYS, "user-window", "replace-one", HALF),
        (Period.of("2026-01-01", "2026-01-08", "1d"), "user-window", "add-remove", HALF),
        (Period.of("2026-01-01", "2026-01-08", "1d"), "user", "add-remove", Fraction(1, 7)),
    ]:
        spec = Question(
            TopK(2, Joint(1.0, neighbours=relation), ITEMS, risers=Risers(HALF)), period=period, privacy_unit=unit
        )
        mechanism = spec.top_k.mechanism
        assert mechanism.epsilon == pytest.approx(float(share)) and mechanism.cap == 3
        assert mechanism.sensitivity == 3 * (2 if relation == "replace-one" else 1)
    minutes = Question(TopK(2, Joint(1.0), ITEMS, risers=Risers(HALF), amounts=Amounts.of(60)), period=ONE_DAY)
    assert minutes.top_k.mechanism.cap == 180
    grouped = Question(
        TopK(2, Joint(1.0), ITEMS, risers=Risers(1), groups=Groups.of(["n", "s", "w", "e"])), period=ONE_DAY
    )
    assert grouped.top_k.rankings_of_a_user() == 1 and grouped.top_k.mechanism.epsilon == 1


@dataclass(frozen=True)
class OwnTranslationInvariant(Joint):
    """A mechanism of one's own that says nothing of two draws: it would have to be paid for in both."""

    guarantee: ClassVar[Guarantee] = Guarantee("pure", "public", "sequence", "amounts", translation_invariant=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"period": None}, "risers needs a declared period"),
        ({"domain": UnknownDomain(), "mechanism": LimitDomain(1.0, 1e-6)}, "risers needs a public domain"),
        ({"mechanism": TopStable(1.0, 1e-6)}, "mechanism top-stable does not rank risers"),
        ({"mechanism": OwnTranslationInvariant(1.0)}, "says `translation_invariant` and `replacement_costs_one_draw`"),
        ({"publish_counts": 1.0}, "publish_counts does not go with risers"),
        ({"max_windows_per_user": 1}, "max_windows_per_user does not go with risers"),
        ({"amounts": Amounts.of(2**29), "risers": Risers(1)}, "is too fine for a max_value of 536870912 units"),
        ({"risers": 0.5}, "risers must be Risers"),
    ],
)
def test_invalid_options_of_risers_are_refused(change: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"mechanism": Joint(1.0), "domain": ITEMS, "period": DAYS, "risers": Risers(HALF), **change}
    with pytest.raises((ValueError, TypeError), match=message):
        PrivateTopK(2, **asked)


@pytest.mark.parametrize("weight", [-0.5, 1.5, "nan", float("inf"), True, "half", Fraction(1, 1001)])
def test_an_invalid_weight_is_refused(weight: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="against_weight must"):
        Risers(weight)


def test_a_weight_is_the_decimal_that_is_written() -> None:
    assert (Risers(0.6).now, Risers(0.6).before, Risers("2/3").width) == (5, 3, 5)
    assert Risers(0).width == 1 and Risers(1).width == 2


def test_risers_of_a_stream_are_refused() -> None:
    stream = test_stream.TestStream().add_elements([TimestampedValue(("a", "b"), 0)]).advance_watermark_to_infinity()
    with pytest.raises(ValueError, match="against needs a window and the one before at once"):
        beam.Pipeline() | stream | PrivateTopK(1, Laplace(1.0), ITEMS, period=DAYS, risers=Risers(1))


def test_windows_and_terms_have_item_shards_of_their_own() -> None:
    """Of some millions of items, two windows have larger item shards than the one that is ranked."""
    items = [n << 19 for n in range(32)]
    rows = [TimestampedValue((f"u{user}", item), DAY + DAY // 2) for n, item in enumerate(items) for user in range(n)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rank = PrivateTopK(5, Joint(epsilon=10_000.0), RangeDomain(0, 1 << 24), period=ONE_DAY, risers=Risers(1))
        return pipeline | beam.Create(rows, reshuffle=False) | rank | beam.Map(lambda ranking: list(ranking.items))

    layouts = Partitioning(1 << 24, 2), Partitioning(1 << 24)
    assert layouts[0].item_bits > layouts[1].item_bits
    assert [found for _, found in outcome(build)] == [[str(item) for item in items[:-6:-1]]]
