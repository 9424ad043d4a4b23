"""Windows to date: a user counts from their first row on, for their first items and groups, whatever comes later."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import TimestampedValue
from scipy.stats import norm

from private_topk import Amounts, Groups, Period, PrivateTopK, RangeDomain, Ranking, Release, ReleaseKey, UnknownDomain
from private_topk.transforms.columnar import make_table
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.history import History, series_root
from private_topk.transforms.mechanisms import CorrelatedGaussian, Gaussian, WeightedGaussian
from private_topk.transforms.mechanisms.exact.series import NewCounts, exact_row
from private_topk.transforms.mechanisms.noisy_counts import DrawnCounts
from private_topk.transforms.metric import USERS
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.select import WindowCounts
from private_topk.transforms.spec import TopK
from private_topk.transforms.user_shards import SeriesShard, UserShard
from tests.transforms.pipelines import create, direct

KEY = ReleaseKey.for_tests()
YEAR = Period.of("2026-01-05", "2026-02-09", "7d", to_date=True)
ITEMS = [f"i{n:02}" for n in range(12)]
GROUPS = ["DE", "FR", "IT"]


class Row(NamedTuple):
    user: str
    item: int
    step: int
    group: int = 0
    amount: int = 1


def some_rows(seed: int, users: int = 30, rows: int = 400) -> list[Row]:
    rng = random.Random(seed)
    return [
        Row(f"u{rng.randrange(users)}", rng.randrange(12), rng.randrange(5), rng.randrange(3), rng.randrange(1, 5))
        for _ in range(rows)
    ]


def shard_of(limit: int, cap: int | None = None, groups: int = 0, per_user: int = 1) -> UserShard:
    amounts = USERS if cap is None else Amounts(cap, 1)
    groups_asked = Groups.of(GROUPS[:groups], per_user) if groups else None
    spec = TopK(3, CorrelatedGaussian(1.0, 1e-6, limit), PublicDomain.of(ITEMS), None, None, amounts, groups_asked)
    return UserShard.of(spec.over(YEAR), Partitioning.of(spec.domain, YEAR, groups), KEY)


def counted(shard: UserShard, rows: Sequence[Row], amounts: bool = False, groups: bool = False) -> dict[Any, int]:
    """What is new in every window: by window, group and item. Rows come in two pieces."""
    words = hash_labels(pa.array([row.user for row in rows], pa.large_string()), KEY.derive("user hash"))
    pieces = []
    for part in (slice(0, len(rows) // 3), slice(len(rows) // 3, None)):
        some = rows[part]
        columns: dict[str, Any] = {
            "user": words[part],
            "item": np.array([row.item for row in some], np.uint8),
            "first": np.array([row.step for row in some], np.uint8),
        }
        if groups:
            columns["group"] = np.array([row.group for row in some], np.int64)
            columns["rows"] = np.ones(len(some), np.uint32)
        if amounts:
            columns["value"] = np.array([row.amount for row in some], np.uint32)
        pieces.append(make_table(**columns))
    found: dict[Any, int] = defaultdict(int)
    rankings = 3 if groups else 1
    for _, table in shard.counts(pieces):
        for row in table.to_pylist():
            found[row["window"] // rankings, row["window"] % rankings, row["item"]] += row["count"]
    return dict(found)


def by_user(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.user].append(row)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_pair_counts_once_at_its_first_step(seed: int) -> None:
    rows = some_rows(seed)
    firsts: dict[tuple[str, int], int] = {}
    for row in rows:
        firsts[row.user, row.item] = min(firsts.get((row.user, row.item), 9), row.step)
    expected: dict[Any, int] = defaultdict(int)
    for (_, item), step in firsts.items():
        expected[step, 0, item] += 1
    assert counted(shard_of(12), rows) == expected


@pytest.mark.parametrize(("seed", "limit"), [(0, 1), (1, 3), (2, 5)])
def test_the_first_items_of_a_user_stay(seed: int, limit: int) -> None:
    """Of each user by themselves: so many items as the limit, and none that came before is left out for a later one."""
    for rows in by_user(some_rows(seed)).values():
        found = counted(shard_of(limit), rows)
        firsts = {item: min(row.step for row in rows if row.item == item) for item in {row.item for row in rows}}
        assert all(count == 1 and firsts[item] == step for (step, _, item), count in found.items())
        kept = {item for _, _, item in found}
        assert len(kept) == min(limit, len(firsts))
        left = [step for item, step in firsts.items() if item not in kept]
        assert not left or max(step for step, _, _ in found) <= min(left)


@pytest.mark.parametrize("limit", [1, 3])
def test_what_comes_later_changes_nothing_that_was_counted(limit: int) -> None:
    """The prefix property: the counts up to a step follow from the rows up to it, also with groups and amounts."""
    for cap, groups in itertools.product((None, 6), (0, 3)):
        rows, shard = some_rows(7), shard_of(limit, cap, groups)
        flags = cap is not None, groups > 0
        whole = counted(shard, rows, *flags)
        for step in range(5):
            part = counted(shard, [row for row in rows if row.step <= step], *flags)
            assert part == {cell: count for cell, count in whole.items() if cell[0] <= step}


@pytest.mark.parametrize(("cap", "groups", "per_user"), [(None, 0, 1), (6, 0, 1), (None, 3, 1), (4, 3, 2)])
def test_users_do_not_touch_each_other_and_order_does_not_matter(cap: int | None, groups: int, per_user: int) -> None:
    rows, shard = some_rows(3), shard_of(2, cap, groups, per_user)
    flags = cap is not None, groups > 0
    apart: dict[Any, int] = defaultdict(int)
    for own in by_user(rows).values():
        for cell, count in counted(shard, own, *flags).items():
            apart[cell] += count
    assert counted(shard, rows, *flags) == apart
    assert counted(shard, random.Random(1).sample(rows, len(rows)), *flags) == apart
    assert counted(shard, rows * 2, *flags) == apart or cap is not None, "repeated rows add nothing, but amounts"


def test_a_user_moves_no_more_than_the_proof_allows() -> None:
    """At most `limit` items in each of at most `per_user` groups, each up to the cap, and sums that never fall."""
    for own in by_user(some_rows(5, users=10, rows=900)).values():
        found = counted(shard_of(3, 6, 3, 2), own, amounts=True, groups=True)
        cells: dict[tuple[int, int], int] = defaultdict(int)
        for (_, group, item), grown in found.items():
            assert grown > 0
            cells[group, item] += grown
        assert max(cells.values()) <= 6
        groups = {group for group, _ in cells}
        assert len(groups) == 2
        first = {group: min(row.step for row in own if row.group == group) for group in range(3)}
        assert max(first[group] for group in groups) <= min([first[g] for g in range(3) if g not in groups])
        assert all(sum(group == g for group, _ in cells) == 3 for g in groups)


def test_amounts_are_the_growth_of_the_capped_sum() -> None:
    rows = [Row("a", 1, 0, amount=2), Row("a", 1, 0, amount=3), Row("a", 1, 2, amount=4), Row("a", 1, 3, amount=9)]
    assert counted(shard_of(1, 7), rows, amounts=True) == {(0, 0, 1): 5, (2, 0, 1): 2}


# The whole way.

FOUND: list[Ranking] = []


def keep(ranking: Ranking) -> None:
    FOUND.append(ranking)


def element(row: Row, groups: bool) -> TimestampedValue:
    values = (row.user, ITEMS[row.item], GROUPS[row.group]) if groups else (row.user, ITEMS[row.item])
    return TimestampedValue(values, YEAR.start.timestamp() + 7 * 86_400 * row.step)  # an edge is of the next step


def ranked(rows: Sequence[Row], release: Release, groups: bool = False, **more: str) -> dict[str, Ranking]:
    FOUND.clear()
    named, kind = (GROUPS, tuple[str, str, str]) if groups else (None, tuple[str, str])
    mechanism = CorrelatedGaussian(2.0, 1e-5, 2)
    transform = PrivateTopK(3, mechanism, ITEMS, release=release, period=YEAR, shards=4, groups=named, **more)
    with direct() as pipeline:
        elements = pipeline | create(list(rows)) | beam.Map(element, groups).with_output_types(kind)
        elements | transform | beam.Map(keep)
    return {ranking.label(): ranking for ranking in FOUND}


@pytest.mark.parametrize("groups", [False, True])
def test_rankings_are_drawn_of_the_counts_to_date(groups: bool) -> None:
    """By the mechanism itself, of its own histories; every window is there, also one in which nothing is new."""
    rows = [row for row in some_rows(11, users=200, rows=1200) if row.step not in (0, 3)]
    release, rankings = Release(KEY, f"to date {groups}"), 3 if groups else 1
    found = ranked(rows, release, groups)
    new = counted(shard_of(2, None, 3 if groups else 0), rows, groups=groups)
    domain, named = PublicDomain.of(ITEMS), GROUPS if groups else None
    spec = TopK(3, CorrelatedGaussian(2.0, 1e-5, 2), domain, groups=named).over(YEAR)
    windows = [window.label() for window in YEAR.windows()]
    root, expected = series_root(release, windows, spec.parameters()), {}
    for group in range(rankings):
        history, draws, parts = History(root, group), [], []
        for step in range(5):
            cells = sorted((item, count) for (s, g, item), count in new.items() if (s, g) == (step, group))
            items, counts = (np.array([cell[column] for cell in cells], np.int64) for column in (0, 1))
            history = history.then(WindowCounts(items, counts, range(12), domain).digest)
            draws.append(history.draw())
            parts.append((items, counts))
        for window, answer in zip(
            windows, spec.mechanism.series(NewCounts.of(parts), range(12), 3, draws), strict=True
        ):
            expected[f"{window}|{GROUPS[group]}" if groups else window] = tuple(ITEMS[item] for item in answer.items)
    assert {label: ranking.items for label, ranking in found.items()} == expected
    assert {ranking.window.start for ranking in found.values()} == {YEAR.start}
    assert found == ranked(random.Random(2).sample(rows, len(rows)), release, groups), "the same again"


@pytest.mark.parametrize("groups", [False, True])
def test_counts_that_come_with_the_draw_are_those_of_each_step(groups: bool) -> None:
    """They fall along every ranking, a repeat has the same, and each step states the noise that it has itself."""
    rows = some_rows(13, users=200, rows=1200)
    found = ranked(rows, Release(KEY, "counts to date"), groups, publish_counts="drawn")
    assert found == ranked(rows[::-1], Release(KEY, "counts to date"), groups, publish_counts="drawn")
    spec = TopK(3, CorrelatedGaussian(2.0, 1e-5, 2), PublicDomain.of(ITEMS), publish_counts=DrawnCounts()).over(YEAR)
    sigma = float(spec.mechanism.scale())
    windows = [window.label() for window in YEAR.windows()]
    for label, ranking in found.items():
        counts, step = ranking.noisy_counts, windows.index(label.partition("|")[0])
        assert counts is not None and list(counts) == sorted(counts, reverse=True) and ranking.noise is not None
        deviation = sigma * math.sqrt(sum(float(entry) ** 2 for entry in exact_row(5, step + 1)))
        assert ranking.noise.stddev == pytest.approx(math.sqrt(deviation**2 + 1 / 12), rel=1e-5)
        assert ranking.noise.within_95 == pytest.approx(norm.isf(0.025 / len(ITEMS)) * deviation, abs=1)
    assert len({ranking.noise for ranking in found.values()}) == 5


def test_a_large_epsilon_shows_true_counts_to_date() -> None:
    """As docs/beam.md tells those who test their pipelines."""
    rows, exact = [Row(f"u{n}", 0, 0) for n in range(9)] + [Row(f"u{n}", 1, 1) for n in range(5)], []
    testing: dict[str, Any] = {"epsilon": 1e5, "delta": 1e-6, "max_items_per_user": 100, "publish_counts": "drawn"}
    FOUND.clear()
    with direct() as pipeline:
        elements = pipeline | create(rows) | beam.Map(element, False).with_output_types(tuple[str, str])
        elements | PrivateTopK(2, domain=ITEMS, period=YEAR, **testing) | beam.Map(keep)
    for ranking in sorted(FOUND, key=Ranking.label):
        exact.append([int(count) for count in ranking.noisy_counts or ()])
    assert exact == [[9, 0], *[[9, 5]] * 4]


def test_amounts_that_come_with_the_draw_are_in_their_measure() -> None:
    amounts = Amounts(Decimal("1.50"), Decimal("0.25"))
    spec = TopK(3, CorrelatedGaussian(2.0, 1e-5, 2), PublicDomain.of(ITEMS), None, DrawnCounts(), amounts).over(YEAR)
    counts, noise = spec.counts_of_step(np.array([40, 7, -2]), 2, len(ITEMS))
    units = spec.mechanism.noise_of_step(2)
    assert counts == (10, 1.75, -0.5) and noise is not None
    assert noise.stddev == pytest.approx(units.stddev() / 4)


def test_lists_of_groups_are_ranked_each_by_its_own() -> None:
    """With next to no noise: the largest of the counts to date of each group, among its own items alone."""
    lists = {"DE": ITEMS[:6], "FR": ITEMS[4:]}
    rows = [Row(f"u{n}-{item}", item, n % 5, n % 2) for item in range(12) for n in range(20 + 10 * item)]
    FOUND.clear()
    transform = PrivateTopK(2, CorrelatedGaussian(400.0, 1e-5, 2), lists, period=YEAR, shards=4)
    with direct() as pipeline:
        elements = pipeline | create(rows) | beam.Map(element, True).with_output_types(tuple[str, str, str])
        elements | transform | beam.Map(keep)
    assert len(FOUND) == 10
    for ranking in FOUND:
        assert ranking.items == tuple(lists[str(ranking.group)][:-3:-1]), ranking


def test_a_forecast_is_of_the_step_with_most_noise() -> None:
    """A run is not told of less noise than its last windows have."""
    series = TopK(3, CorrelatedGaussian(1.0, 1e-6, 3), PublicDomain.of(ITEMS)).over(YEAR).mechanism
    assert isinstance(series, CorrelatedGaussian)
    forecast = float(series.noise_and_scale(12, 3)[1])
    assert forecast == pytest.approx(max(series.noise_of_step(step).stddev() for step in range(1, 6)), rel=1e-5)
    assert forecast > 1.1 * float(series.scale())


def test_a_later_row_does_not_move_an_earlier_ranking() -> None:
    rows, release = some_rows(12, users=60, rows=500), Release(KEY, "frozen")
    whole = ranked(rows, release)
    more = ranked([*rows, *[Row(f"v{n}", n % 12, 4) for n in range(400)]], release)
    labels = sorted(whole)
    assert [whole[label] for label in labels[:4]] == [more[label] for label in labels[:4]]
    fewer = ranked([row for row in rows if not (row.step == 1 and row.user == "u3")], release)
    assert whole[labels[0]] == fewer[labels[0]]


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("mechanism", {"mechanism": Gaussian(1.0, 1e-6, 3)}),
        ("mechanism", {"mechanism": WeightedGaussian(1.0, 1e-6, 3), "domain": UnknownDomain()}),
        ("mechanism", {"domain": UnknownDomain()}),
        ("domain", {"domain": RangeDomain(0, 1 << 25)}),
        ("max_windows_per_user", {"max_windows_per_user": 2}),
        ("publish_counts", {"publish_counts": 1.0}),
    ],
)
def test_what_does_not_go_with_windows_to_date_is_refused(field: str, asked: dict[str, Any]) -> None:
    given = {"mechanism": CorrelatedGaussian(1.0, 1e-6, 3), "domain": ITEMS, **asked}
    with pytest.raises(InvalidArgument) as refused:
        PrivateTopK(3, period=YEAR, **given)
    assert refused.value.field == field, refused.value


def test_windows_to_date_need_steps() -> None:
    for given in ({}, {"window": "7d", "slide": "1d"}):
        with pytest.raises(InvalidArgument, match="how often a ranking of the period so far is published"):
            Period.of("2026-01-05", "2026-02-09", to_date=True, **given)
    months = Period.of("2026-01-01", "2027-01-01", "month", to_date=True, time_zone="Europe/Berlin")
    assert len(months) == 12 and {window.start for window in months.windows()} == {months.start}
    assert months.released.windows() == [months.window(11)]


def test_the_scale_is_that_of_all_steps() -> None:
    spec = TopK(3, CorrelatedGaussian(1.0, 1e-6, 3), PublicDomain.of(ITEMS))
    assert spec.over(YEAR).mechanism.steps == 5
    assert spec.over(None) is spec
    assert Fraction(spec.over(YEAR).mechanism.scale()) > spec.mechanism.scale()
    assert isinstance(shard_of(2), SeriesShard)
