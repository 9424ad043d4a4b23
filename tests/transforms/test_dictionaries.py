"""Counts of any rows against dictionaries in plain Python: groups, amounts, weights, bounds, windows that overlap.

Whoever else is there changes nothing of what one user adds: so the counts of all users must be the sum of those of each
user alone. And what a user alone adds must be what a dictionary says, on every path, in any order.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from itertools import combinations
from typing import Literal, NamedTuple

import pyarrow as pa
import pytest

from benchmarks.audit.paths import Path, count_blocks, rankings_of
from private_topk.transforms import user_shards
from private_topk.transforms.columnar import make_block
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.groups import OVERALL, Groups
from private_topk.transforms.mechanisms import LimitDomain, WeightedOrder
from private_topk.transforms.mechanisms.weighted import UNIT
from private_topk.transforms.metric import USERS as BY_USERS
from private_topk.transforms.metric import Amounts
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.spec import TopK

USERS, ITEMS, GROUPS = ("u", "v", "5", ""), ("a", "b", "a\u0301"), ("north", "south", "west")
DAY = 24 * 3600 * 1_000_000
CAP = 7
Place = tuple[int, str, str]
"""A window, a group and an item."""


class Row(NamedTuple):
    user: str
    item: str
    time: int
    amount: float
    group: str


class Asked(NamedTuple):
    """What is counted, in the words of the options."""

    unknown: bool
    limit: int | None
    score: Literal["users", "amounts", "weights"]
    groups_per_user: int | None
    overall: bool = False

    def spec(self, keep: int | None = None) -> TopK:
        """Of all counts, or of the `keep` largest of an unknown domain."""
        domain = UnknownDomain() if self.unknown else PublicDomain.of(ITEMS)
        groups = None if self.groups_per_user is None else Groups(GROUPS, self.groups_per_user, self.overall)
        if self.score == "weights":
            return TopK(1, WeightedOrder(1.0, 1e-6, self.limit or len(ITEMS), whole_items=1), domain, groups=groups)
        mechanism = LimitDomain(epsilon=1.0, delta=1e-6, kbar=1000 if keep is None else keep - 1)
        score = Amounts(CAP) if self.score == "amounts" else BY_USERS
        return TopK(1, mechanism, domain, self.limit, None, score, groups)


KEY = ReleaseKey.held(b"the key of the dictionaries")
PATHS = [Path("days", 1, 1), Path("sliding", 3, 8), Path("stream", 2, 4), Path("whole", 2, 2)]
AMOUNTS = [0.0, -0.0, -3.0, 0.5, 1.0, 2.0, 2.5, 6.0, 1e300, 2.0**62, float("inf")]


def some_rows(draw: random.Random) -> list[Row]:
    return [
        Row(
            draw.choice(USERS),
            draw.choice([*ITEMS, "\u00e1"]),
            draw.randrange(-DAY, 4 * DAY),
            draw.choice(AMOUNTS),
            draw.choice([*GROUPS, "of no list", ""]),
        )
        for _ in range(draw.choice([0, 2, 6, 15, 40]))
    ]


def some_question(draw: random.Random, *scores: str) -> Asked:
    score = draw.choice(scores)
    unknown, limit, groups = draw.choice([True, False]), draw.choice([None, 1, 2]), draw.choice([None, 1, 2])
    return Asked(unknown and score != "weights", limit, score, groups, draw.choice([True, False]))


def counted(rows: list[Row], asked: Asked, path: Path, keep: int | None = None) -> Counter[Place]:
    """By the pipeline's functions."""
    spec, period = asked.spec(keep), path.period
    blocks = []
    for number in range(path.blocks):
        some = rows[number :: path.blocks]
        users, items, times, amounts, groups = zip(*some, strict=True) if some else ((),) * 5
        start = 0 if period is None else int(period.starts[0])
        block, _ = make_block(
            pa.array(users, pa.string()),
            pa.array(items, pa.string()),
            None if period is None else pa.array([start + time for time in times], pa.int64()),
            pa.array(groups, pa.string()) if asked.groups_per_user is not None else None,
            **({"value": pa.array(amounts, pa.float64())} if asked.score == "amounts" else {}),
        )
        blocks.append(block)
    found: Counter[Place] = Counter()
    for place, counts in enumerate(count_blocks(spec, KEY, blocks, path)):
        window, group = divmod(place, rankings_of(spec))
        for item, count in zip(counts.labels(counts.held).to_pylist(), counts.counts.tolist(), strict=True):
            counted_in = window, "" if spec.groups is None else [*GROUPS, OVERALL][group], item
            assert counted_in not in found, "an item was counted in two item shards"
            found[counted_in] = count
    return +found


def spans(path: Path) -> list[tuple[int, int]]:
    """Start and end of every window, from the period's start; all time where there is no period."""
    if path.period is None:
        return [(-(1 << 60), 1 << 60)]
    start = path.period.starts[0]
    return [(int(a - start), int(b - start)) for a, b in zip(path.period.starts, path.period.ends, strict=True)]


def by_dictionary(rows: list[Row], asked: Asked, path: Path) -> list[list[Counter[Place]]]:
    """What one user's rows may add, window by window: several answers where the choice is a hash's."""
    found = []
    for window, (start, end) in enumerate(spans(path)):
        amounts: dict[str, Counter[str]] = defaultdict(Counter)
        often: Counter[str] = Counter()
        of_all = [OVERALL] if asked.overall and asked.groups_per_user is not None else []
        for row in rows:
            units = min(round(row.amount), CAP) if abs(row.amount) < CAP else CAP * (row.amount > 0)
            known = asked.unknown or row.item in ITEMS
            if start <= row.time < end and known and (units > 0 or asked.score != "amounts"):
                own = [""] if asked.groups_per_user is None else [row.group] if row.group in GROUPS else []
                for group in own + of_all:
                    amounts[group][row.item] += units
                often.update(own)
        per_user = min(asked.groups_per_user or 1, len(often))
        chosen = [set(some) for some in combinations(often, per_user)]
        best = max((sum(often[group] for group in some) for some in chosen), default=0)
        answers: list[Counter[Place]] = []
        for groups in [some for some in chosen if sum(often[group] for group in some) == best]:
            answers += _kept({group: amounts[group] for group in [*groups, *of_all]}, asked, window)
        found.append(answers or [Counter()])
    return found


def _kept(amounts: dict[str, Counter[str]], asked: Asked, window: int) -> list[Counter[Place]]:
    """All ways to keep `limit` items of each group."""
    answers = [Counter[Place]()]
    for group, items in amounts.items():
        size = min(asked.limit or len(items), len(items))
        each = math.isqrt(UNIT**2 // max(size, 1)) if asked.score == "weights" else 1
        added = {item: min(units, CAP) if asked.score == "amounts" else each for item, units in items.items()}
        chosen = [Counter({(window, group, item): added[item] for item in some}) for some in combinations(items, size)]
        answers = [answer + more for answer in answers for more in chosen]
    return answers


def look(rows: list[Row], asked: Asked, path: Path, draw: random.Random) -> None:
    together: Counter[Place] = Counter()
    for user in USERS:
        alone = counted([row for row in rows if row.user == user], asked, path)
        together += alone
        for window, answers in enumerate(by_dictionary([row for row in rows if row.user == user], asked, path)):
            mine = Counter({place: count for place, count in alone.items() if place[0] == window})
            assert mine in answers, (user, window, mine, answers)
    turned = draw.sample(rows, len(rows))
    assert counted(turned, asked, path) == together, "what one user adds hangs on others, or on the order of rows"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.kind)
def test_counts_are_those_of_dictionaries(path: Path) -> None:
    draw = random.Random(path.kind)
    for _ in range(25):
        look(some_rows(draw), some_question(draw, "users", "amounts", "weights"), path, draw)


@pytest.mark.parametrize("seed", range(12))
def test_a_stream_counts_what_its_batch_counts(seed: int) -> None:
    draw = random.Random(seed)
    rows, asked = some_rows(draw), some_question(draw, "users", "amounts", "weights")
    batch, stream = Path("days", 1, 4), Path("stream", 3, 1)
    assert counted(rows, asked, batch) == counted(draw.sample(rows, len(rows)), asked, stream)


def test_the_check_finds_a_bound_that_depends_on_other_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items kept by how many hold them: the most popular first."""

    def popular(ranks, codes, users, words, limit):  # noqa: ANN001, ANN202
        held = Counter(codes.tolist())
        order = sorted(range(len(codes)), key=lambda n: (ranks[n], -held[codes[n]], codes[n]))
        seen: Counter[int] = Counter()
        kept = []
        for place in order:
            seen[int(ranks[place])] += 1
            if seen[int(ranks[place])] <= limit:
                kept.append(place)
        return sorted(kept)

    rows = [
        Row("u", "b", 0, 1.0, "north"),
        Row("u", "a", 0, 1.0, "north"),
        Row("v", "b", 0, 1.0, "north"),
        Row("5", "b", 0, 1.0, "north"),
    ]
    asked, draw = Asked(False, 1, "users", None), random.Random(1)
    look(rows, asked, PATHS[0], draw)
    monkeypatch.setattr(user_shards, "kept_pairs", popular)
    with pytest.raises(AssertionError, match="hangs on others"):
        look(rows, asked, PATHS[0], draw)


@pytest.mark.parametrize("seed", range(20))
def test_counts_dropped_early_are_never_among_the_largest(seed: int) -> None:
    """Of an unknown domain each place keeps its largest counts: those of every window and group are among them."""
    draw = random.Random(seed)
    asked, path, keep = some_question(draw, "users", "amounts")._replace(unknown=True), draw.choice(PATHS), seed % 4 + 2
    rows = some_rows(draw)
    whole, kept = counted(rows, asked, path), counted(rows, asked, path, keep)
    for heading in {place[:2] for place in whole}:
        counts, some = (
            {place: count for place, count in found.items() if place[:2] == heading} for found in (whole, kept)
        )
        largest = sorted(counts, key=lambda place: (-counts[place], place[2]))[:keep]
        assert {place: some.get(place) for place in largest} == {place: counts[place] for place in largest}
        assert some.items() <= counts.items()
