"""A bound on windows: which of them a user counts in is told by that user's rows alone, and one user changes as many
windows as is said, whatever the rows, their order, and the windows' overlap are."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue
from hypothesis import given
from hypothesis import strategies as st

from private_topk.pipelines.budget.accounting import Charge
from private_topk.pipelines.budget.sharing import windows_of_a_user
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.question import Question
from private_topk.transforms import (
    Amounts,
    Groups,
    Period,
    PrivateTopK,
    PublicDomain,
    ReleaseKey,
    UnknownDomain,
    user_shards,
)
from private_topk.transforms.assign_windows import _NumberDoFn
from private_topk.transforms.columnar import make_block
from private_topk.transforms.mechanisms import Laplace, LimitDomain, Peeling, TopStable
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.metric import USERS, Score
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.rows import _ShardDoFn
from private_topk.transforms.spec import TopK
from private_topk.transforms.user_shards import UserShard, WindowsOfUsers
from tests.examples import examples
from tests.transforms.pipelines import added_up, create
from tests.transforms.reference import reference

ITEMS, NAMES = ["a", "b", "c"], ["north", "south"]
KEY = ReleaseKey.held(b"0123456789abcdef")
DOMAINS = {"public": PublicDomain.of(ITEMS), "unknown": UnknownDomain()}
DAY, START = 86_400, datetime(1970, 1, 1, tzinfo=UTC)
DAYS = Period(START, START + timedelta(days=5), timedelta(days=1))
SLIDING = Period.of("1970-01-01", "1970-01-06", "2d", slide="1d")
Rows = list[tuple[str, str, str, int]]
Counts = dict[tuple[int, str, str], int]


SPANS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 3)), max_size=40)


@examples(80)
@given(
    spans=SPANS, limit=st.integers(1, 4), piece=st.sampled_from([1, 3, 1 << 22]), draw=st.randoms(use_true_random=False)
)
def test_the_windows_of_least_hash_are_chosen(
    spans: list[tuple[int, int, int]], limit: int, piece: int, draw: random.Random
) -> None:
    """By dictionaries, whatever the order of rows is, who else is there, and how many pairs are written out at once."""
    draw.shuffle(spans)
    words = [user * 0x9E3779B97F4A7C15 % 2**64 for user, *_ in spans]
    active: dict[int, set[int]] = defaultdict(set)
    for word, (_, first, length) in zip(words, spans, strict=True):
        active[word] |= set(range(first, min(first + length, 8)))
    wanted = reference(active, limit)
    users, first = np.array(words, np.uint64), np.array([span[1] for span in spans], np.int64)
    after = np.minimum(first + np.array([span[2] for span in spans], np.int64), 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_shards, "_MAX_PAIRS", piece)
        found = WindowsOfUsers(users, first, after, 8, limit)
    for word in active:
        at = np.arange(8)
        assert set(at[found.count(np.full(8, word, np.uint64), at)].tolist()) == wanted[word]
        mine = users == np.uint64(word)
        alone = WindowsOfUsers(users[mine], first[mine], after[mine], 8, limit)
        assert np.array_equal(
            alone.count(np.full(8, word, np.uint64), at), found.count(np.full(8, word, np.uint64), at)
        )


def counted(
    rows: Rows,
    period: Period,
    most: int,
    domain: str = "public",
    limit: int | None = None,
    way: tuple[int, int] = (1, 1),
    groups: Groups | None = None,
    score: Score = USERS,
) -> Counts:
    """The totals by the pipeline's functions: by number of the window, group and item."""
    known, (shards, blocks) = DOMAINS[domain], way
    layout = Partitioning.of(known, period, 0 if groups is None else groups.size)
    spec = TopK(1, LimitDomain(1.0, 1e-6), known, limit, None, score, groups, most)
    fn, counter = _ShardDoFn(spec, KEY, shards, layout), UserShard.of(spec, layout, KEY)
    fn.setup()
    pairs = {shard: [counter.no_rows()] for shard in range(shards)}
    for block in range(blocks):
        some = rows[block::blocks] or [("", "", "", -1)]
        users, items, of, times = (pa.array(list(column)) for column in zip(*some, strict=True))
        columns: dict[str, Any] = dict.fromkeys(score.columns, pa.array(np.full(len(users), 40.0)))
        columns |= {} if groups is None else {"group": of}
        moments = pa.array(np.array(times) * 10**6)
        for numbered in _NumberDoFn(period).process(make_block(users, items, moments, **columns)[0]):
            for shard, table in fn.process(numbered):
                pairs[shard].append(table)
    found: Counts = {}
    for table in added_up((part for tables in pairs.values() for part in counter.counts(tables)), layout):
        for window, item, count in zip(*(table[name].to_pylist() for name in ("window", "item", "count")), strict=True):
            group = NAMES[window % layout.rankings] if groups else ""
            found[window // layout.rankings, group, ITEMS[item] if domain == "public" else item] = count
    return found


ROW = st.tuples(st.sampled_from(ITEMS), st.sampled_from(NAMES), st.integers(0, 5 * DAY - 1))
MINE = st.lists(ROW, max_size=25)
WAYS = st.sampled_from([(1, 1), (2, 3), (8, 2)])


@examples(60)
@given(
    others=st.lists(st.tuples(st.sampled_from("uvw"), ROW), max_size=30),
    mine=st.tuples(MINE, MINE),
    period=st.sampled_from([DAYS, SLIDING]),
    domain=st.sampled_from(sorted(DOMAINS)),
    most=st.integers(1, 3),
    limit=st.sampled_from([None, 1]),
    of=st.tuples(st.sampled_from([None, Groups.of(NAMES)]), st.sampled_from([USERS, Amounts(60)])),
    ways=st.tuples(WAYS, WAYS),
    draw=st.randoms(use_true_random=False),
)
def test_one_user_changes_as_many_windows_as_is_said(others, mine, period, domain, most, limit, of, ways, draw) -> None:  # noqa: ANN001
    """Added, at most `most` windows, upwards; replaced, at most twice that; the same whichever way they are counted."""
    there = [(user, *row) for user, row in others]
    one, two = ([*there, *(("the one user", *row) for row in rows)] for rows in mine)
    how = {"domain": domain, "limit": limit, "groups": of[0], "score": of[1]}
    without, first, second = (counted(rows, period, most, way=ways[0], **how) for rows in (there, one, two))
    look(without, first, most, limit, 60 if of[1] else 1)
    assert len({window for window, *_ in moved(first, second)}) <= 2 * most
    draw.shuffle(one)
    assert first == counted(one, period, most, way=ways[1], **how), "what counts hangs on order, blocks or shards"


def moved(here: Counts, there: Counts) -> dict[tuple[int, str, str], int]:
    steps = {place: there.get(place, 0) - here.get(place, 0) for place in {*here, *there}}
    return {place: step for place, step in steps.items() if step}


def look(without: Counts, here: Counts, most: int, limit: int | None, cap: int) -> None:
    steps = moved(without, here)
    assert len({window for window, *_ in steps}) <= most, "in more windows than are paid for"
    assert all(0 < step <= cap for step in steps.values())
    for window in {window for window, *_ in steps}:
        assert len({group for at, group, _ in steps if at == window}) == 1
        assert limit is None or sum(at == window for at, *_ in steps) <= limit


@pytest.mark.parametrize("period", [DAYS, SLIDING])
def test_the_check_finds_users_who_count_in_every_window(period: Period, monkeypatch: pytest.MonkeyPatch) -> None:
    everywhere = [("the one user", item, "north", day * DAY) for item in ITEMS for day in range(5)]
    here = counted(everywhere, period, 2)
    look({}, here, 2, None, 1)
    assert len({window for window, *_ in here}) == 2
    monkeypatch.setattr(user_shards.WindowsOfUsers, "count", lambda self, users, windows: np.ones(len(users), bool))
    with pytest.raises(AssertionError, match="in more windows"):
        look({}, counted(everywhere, period, 2), 2, None, 1)


@examples(150)
@given(
    outside=st.sets(st.integers(0, 5)),
    before=st.sets(st.integers(6, 9)),
    after=st.sets(st.integers(6, 9)),
    word=st.integers(0, 2**64 - 1),
    most=st.integers(1, 6),
)
def test_rows_within_a_stretch_change_no_more_than_a_ledger_says(
    outside: set[int], before: set[int], after: set[int], word: int, most: int
) -> None:
    """A unit `user-window`: rows in windows 6 to 9 are others, and windows elsewhere give way or take their place."""
    one, two = (reference({word: outside | rows}, most)[word] for rows in (before, after))
    stretch = {window for window in one | two if window >= 6}  # in which anything may differ
    changed = len(stretch | (one ^ two))
    windows = Windows.of(Period(START, START + timedelta(days=10), timedelta(days=1)))
    charge = Charge(windows, Cost(1, 0), windows_of_a_user(10, most, Peeling(1.0)))
    overlapping = len(before | after)
    assert changed <= charge.reached(overlapping) if overlapping else changed == 0


def test_the_bound_of_windows_that_one_user_moves_is_tight() -> None:
    """The bound of a ledger is tight: one window's rows move two windows."""
    windows = Windows.of(DAYS)
    assert Charge(windows, Cost(1, 0), 1).reached(1) == 2 and Charge(windows, Cost(1, 0), 1).reached(0) == 0
    found = [reference({word: {0}}, 1)[word] ^ reference({word: {0, 1}}, 1)[word] for word in range(20)]
    assert {0, 1} in found


@pytest.mark.parametrize("most", [1, 2, 4, 5, 9])
def test_a_replaced_user_pays_for_counted_or_changed_windows_by_mechanism(most: int) -> None:
    """By whether a window that is left and one that is entered cost one draw together."""
    together, apart = Peeling(1.0, neighbours="replace-one"), TopStable(1.0, 1e-6, neighbours="replace-one")
    assert [windows_of_a_user(5, most, of) for of in (together, apart)] == [min(most, 5), min(2 * most, 5)]
    assert windows_of_a_user(5, most, TopStable(1.0, 1e-6)) == min(most, 5)


def bounded(relation: str, most: int, windows: int, groups: Groups | None = None) -> Question:
    period = Period(START, START + timedelta(days=windows), timedelta(days=1))
    return Question(
        TopK(1, Peeling(1.0, neighbours=relation), ["x", "y"], max_windows_per_user=most, groups=groups),
        period=period,
        privacy_unit="user",
    )


def chosen_of(active: set[int], most: int) -> set[int]:
    return reference({12345: active}, most)[12345]


@pytest.mark.parametrize(
    ("relation", "most", "changed"),
    [("add-remove", 1, 1), ("add-remove", 2, 2), ("replace-one", 1, 1), ("replace-one", 2, 2)],
)
def test_the_rankings_of_several_windows_stay_within_epsilon(relation: str, most: int, changed: int) -> None:
    """Three windows, all user types: the law of the three rankings together, on neighbours both ways, at the share."""
    spec = bounded(relation, most, 3)
    assert spec.privacy.windows == changed and spec.privacy.of == 3
    worst = worst_ratio(spec, lambda active: chosen_of(active, most), relation)
    assert 0.9 < worst <= 1 + 1e-9
    assert worst_ratio(spec, lambda active: active, relation) > 1.4 * worst, "a user who counts in all of them is seen"


def worst_ratio(spec: Question, choose: Callable[[set[int]], set[int]], relation: str) -> float:
    """The largest log-ratio of any three rankings' probability, over all pairs of neighbours."""
    base = ((14, 2), (1, 13), (0, 12))
    rate = spec.top_k.mechanism.epsilon / (2 if relation == "replace-one" else 1)

    def law(window: int, mine: tuple[int, int]) -> np.ndarray:
        weights = np.exp(float(rate) * np.add(base[window], mine))
        return np.log(weights / weights.sum())

    steps = {
        (window, one, other): np.abs(law(window, one) - law(window, other)).max()
        for window, one, other in product(range(3), HELD, HELD)
    }
    users = {types(held, choose) for held in product(HELD, repeat=3)}
    others = users if relation == "replace-one" else {(HELD[0],) * 3}
    return max(sum(steps[w, one[w], other[w]] for w in range(3)) for one in users for other in others)


HELD = ((0, 0), (1, 0), (0, 1), (1, 1))


def types(held: tuple[tuple[int, int], ...], choose: Callable[[set[int]], set[int]]) -> tuple[tuple[int, int], ...]:
    kept = choose({window for window, items in enumerate(held) if any(items)})
    return tuple(items if window in kept else (0, 0) for window, items in enumerate(held))


def test_windows_and_groups_share_together() -> None:
    """Of each of W windows g groups are paid for."""
    one, three = Groups.of(NAMES), Groups.of(["n", "s", "w"], 2)
    for relation, most, groups, reach, each in [
        ("add-remove", 2, one, 2, 1),
        ("replace-one", 2, one, 2, 1),
        ("add-remove", 2, three, 2, 2),
        ("replace-one", 2, three, 2, 2),
    ]:
        spec = bounded(relation, most, 5, groups)
        assert spec.windows_of_a_user == reach, (relation, most)
        assert spec.privacy.windows == reach * each and spec.top_k.rankings_of_a_user() == each


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_windows_per_user": 0}, "max_windows_per_user must be a whole number of at least 1, got 0"),
        ({"max_windows_per_user": True}, "max_windows_per_user must be a whole number of at least 1"),
        ({"period": None}, "max_windows_per_user needs a declared period: a user counts in so many of its windows"),
    ],
)
def test_invalid_options_with_bounded_windows_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        (
            beam.Pipeline()
            | create([("a", "b")])
            | PrivateTopK(1, Laplace(1.0), ITEMS, **{"period": DAYS, "max_windows_per_user": 2, **change})
        )


def test_bounded_windows_of_a_stream_are_refused() -> None:
    stream = test_stream.TestStream().add_elements([TimestampedValue(("a", "b"), 0)]).advance_watermark_to_infinity()
    with pytest.raises(ValueError, match="max_windows_per_user needs all windows at once"):
        beam.Pipeline() | stream | PrivateTopK(1, Laplace(1.0), ITEMS, period=DAYS, max_windows_per_user=2)
