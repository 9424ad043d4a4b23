"""Counts inside the pipeline equal counting by sets, and one user moves them by no more than promised."""

from __future__ import annotations

import random
from collections import Counter

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue

from private_topk.transforms.columnar import make_block
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.keys import ReleaseKey
from tests.transforms.pipelines import Pairs, count_inside, outcome, set_counts

KEY = ReleaseKey.fresh()
ITEMS = [f"item {n}" for n in range(60)]
DOMAINS = {"public": PublicDomain.of(ITEMS), "unknown": UnknownDomain()}


def random_pairs(seed: int, n: int = 4000) -> Pairs:
    """Users are text and whole numbers of very different lengths; a tenth of the rows repeats, some have no value."""
    draw = random.Random(seed)
    users = [draw.choice([n, str(n), "u" * (n % 30) + str(n), f"ü{n}🎵"]) for n in range(300)]
    rows = [
        (draw.choice(users), draw.choice(ITEMS[: draw.randrange(1, 60)] + ["outside", 7, None])) for _ in range(n)
    ]  # fmt: skip
    rows += [(None, ITEMS[0])] * 3 + rows[: n // 10]
    draw.shuffle(rows)
    return rows


def counts(
    pairs: Pairs, domain: str, limit: int | None = None, shards: int = 4, key: ReleaseKey = KEY
) -> dict[str, int]:
    found = outcome(lambda p: count_inside(DOMAINS[domain], p | beam.Create(pairs), key, limit, shards))
    assert len({item for _, (item, _) in found}) == len(found), "an item was counted in two places"
    return {item: count for _, (item, count) in found}


def expected(pairs: Pairs, domain: str) -> dict[str, int]:
    return {item: n for item, n in set_counts(pairs).items() if domain == "unknown" or item in ITEMS}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("shards", [1, 64])
def test_counts_are_those_of_sets(domain: str, shards: int) -> None:
    pairs = random_pairs(1)
    true = expected(pairs, domain)
    assert len(true) >= 50 and max(true.values()) > 100, "too small to mean anything"
    assert 1000 < sum(true.values()) < len(pairs), "no repeated rows"
    assert counts(pairs, domain, shards=shards) == true


@pytest.mark.long
def test_blocks_of_any_size_and_order_give_the_same_counts() -> None:
    """Short and long labels meet in one block and not in another: a user must stay one user."""
    pairs = [(u, i) for u, i in random_pairs(2, 1500) if u is not None and i is not None]
    true = expected(pairs, "public")
    for size, turn in [(1, 1), (37, -1), (5000, 1)]:
        rows = pairs[::turn]
        cut = [rows[at : at + size] for at in range(0, len(rows), size)]
        found = outcome(
            lambda p, cut=cut: count_inside(DOMAINS["public"], p | beam.Create(cut), KEY, blocks=_AsBlocks())
        )
        assert {item: count for _, (item, count) in found} == true


class _AsBlocks(beam.PTransform):
    def expand(self, parts: beam.PCollection) -> beam.PCollection:
        return parts | beam.Map(_block).with_output_types(pa.RecordBatch)


def _block(rows: Pairs) -> pa.RecordBatch:
    return make_block(pa.array([str(u) for u, _ in rows]), pa.array([str(i) for _, i in rows]))[0]


@pytest.mark.parametrize("windowfn", [FixedWindows(100), FixedWindows(7, offset=3), SlidingWindows(100, 50)])
def test_every_window_counts_for_itself(windowfn: beam.WindowFn) -> None:
    draw = random.Random(3)
    timed = [(pair, draw.randrange(1000)) for pair in random_pairs(3, 1500)]
    true = Counter()
    windows: dict[int, Pairs] = {}
    for pair, time in timed:
        for window in windowfn.assign(windowfn.AssignContext(time)):
            windows.setdefault(window.start.micros, []).append(pair)
    for start, rows in windows.items():
        true.update({(start, item): n for item, n in expected(rows, "public").items()})

    def build(p: beam.Pipeline) -> beam.PCollection:
        rows = p | beam.Create(timed) | beam.MapTuple(TimestampedValue) | beam.WindowInto(windowfn)
        return count_inside(DOMAINS["public"], rows, KEY)

    found = outcome(build)
    assert len(found) == len(true) > 400 and {(start, item): n for start, (item, n) in found} == true


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("limit", [None, 1, 3])
def test_one_user_more_moves_counts_by_one_upwards_and_at_most_limit_of_them(domain: str, limit: int | None) -> None:
    """The neighbour relation itself: everything the release sees of one user is this difference."""
    others = [row for row in random_pairs(4, 1500) if row[0] is not None]
    for seed, items in [(1, ITEMS), (2, ITEMS[:2]), (3, ["outside", "elsewhere"])]:
        mine = [("the user", item) for item in items] * 2
        rows = others + mine
        random.Random(seed).shuffle(rows)
        before, after = counts(others, domain, limit), counts(rows, domain, limit)
        moves = Counter(after)
        moves.subtract(before)
        known = [item for item in items if domain == "unknown" or item in ITEMS]
        assert set(moves.values()) <= {0, 1} and all(item in known for item, move in moves.items() if move)
        assert sum(moves.values()) == min(len(known), limit or len(known))


@pytest.mark.parametrize("domain", DOMAINS)
def test_what_is_kept_of_a_user_depends_on_nothing_else(domain: str) -> None:
    pairs = random_pairs(5, 1500)
    first = counts(pairs, domain, limit=2)
    assert first == counts(pairs[::-1] + pairs[:100], domain, limit=2, shards=1) == counts(pairs, domain, 2, 1024)
    true = expected(pairs, domain)
    assert sum(first.values()) < sum(true.values()) and all(n <= true[item] for item, n in first.items())
    users: dict[str, set[str]] = {}
    for user, item in pairs:
        if user is not None and item is not None and (domain == "unknown" or item in ITEMS):
            users.setdefault(str(user), set()).add(str(item))
    assert sum(first.values()) == sum(min(2, len(held)) for held in users.values())
    assert first != counts(pairs, domain, limit=2, key=ReleaseKey.fresh()), "the choice must hang on the secret key"
