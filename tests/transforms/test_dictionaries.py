"""Counts of any rows against dictionaries in plain Python: groups, amounts, bounds, windows that overlap, all at once.

Whoever else is there changes nothing of what one user adds: so the counts of all users must be the sum of those of each
user alone. And what a user alone adds must be what a dictionary says, on every path, in any order.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import combinations
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.audit.paths import Path, count_blocks, rankings_of
from private_topk.transforms import user_shards
from private_topk.transforms.columnar import make_block
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.groups import OVERALL, Groups
from private_topk.transforms.mechanisms import LimitDomain
from private_topk.transforms.metric import USERS as BY_USERS
from private_topk.transforms.metric import Amounts
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.spec import TopK
from tests.examples import examples

USERS, ITEMS, GROUPS = ("u", "v", "5", ""), ("a", "b", "c"), ("north", "south", "west")
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
    amounts: bool
    groups_per_user: int | None
    overall: bool = False

    def spec(self, keep: int | None = None) -> TopK:
        """Of all counts, or of the `keep` largest of an unknown domain."""
        domain = UnknownDomain() if self.unknown else PublicDomain.of(ITEMS)
        mechanism = LimitDomain(epsilon=1.0, delta=1e-6, kbar=1000 if keep is None else keep - 1)
        groups = None if self.groups_per_user is None else Groups(GROUPS, self.groups_per_user, self.overall)
        return TopK(1, mechanism, domain, self.limit, None, Amounts(CAP) if self.amounts else BY_USERS, groups)


KEY = ReleaseKey.held(b"the key of the dictionaries")
ROWS = st.lists(
    st.builds(
        Row,
        user=st.sampled_from(USERS),
        item=st.sampled_from([*ITEMS, "of no list"]),
        time=st.integers(-DAY, 4 * DAY),
        amount=st.sampled_from([0.0, -0.0, -3.0, 0.5, 1.0, 2.0, 2.5, 6.0, 1e300, 2.0**62, float("inf")]),
        group=st.sampled_from([*GROUPS, "of no list", ""]),
    ),
    max_size=40,
)
ASKED = st.builds(
    Asked,
    unknown=st.booleans(),
    limit=st.sampled_from([None, 1, 2]),
    amounts=st.booleans(),
    groups_per_user=st.sampled_from([None, 1, 2]),
    overall=st.booleans(),
)
PATHS = [Path("days", 1, 1), Path("sliding", 3, 8), Path("stream", 2, 4), Path("whole", 2, 2)]


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
            **({"value": pa.array(amounts, pa.float64())} if asked.amounts else {}),
        )
        blocks.append(block)
    found: Counter[Place] = Counter()
    for place, counts in enumerate(count_blocks(spec, KEY, blocks, path)):
        window, group = divmod(place, rankings_of(spec))
        for item, count in zip(counts.labels(counts.held).to_pylist(), counts.counts.tolist(), strict=True):
            found[window, "" if spec.groups is None else [*GROUPS, OVERALL][group], item] += count
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
            if start <= row.time < end and known and (units > 0 or not asked.amounts):
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
        some = [
            Counter({(window, group, item): min(items[item], CAP) if asked.amounts else 1 for item in chosen})
            for chosen in combinations(items, size)
        ]
        answers = [answer + more for answer in answers for more in some]
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


@examples(80)
@given(rows=ROWS, asked=ASKED, path=st.sampled_from(PATHS), draw=st.randoms(use_true_random=False))
def test_counts_are_those_of_dictionaries(rows: list[Row], asked: Asked, path: Path, draw: random.Random) -> None:
    look(rows, asked, path, draw)


@examples(25)
@given(rows=ROWS, asked=ASKED, draw=st.randoms(use_true_random=False))
def test_a_stream_counts_what_its_batch_counts(rows: list[Row], asked: Asked, draw: random.Random) -> None:
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
    asked, draw = Asked(False, 1, False, None), random.Random(1)
    look(rows, asked, PATHS[0], draw)
    monkeypatch.setattr(user_shards, "kept_pairs", popular)
    with pytest.raises(AssertionError, match="hangs on others"):
        look(rows, asked, PATHS[0], draw)


@examples(60)
@given(rows=ROWS, asked=ASKED, path=st.sampled_from(PATHS), keep=st.integers(2, 5))
def test_counts_dropped_early_are_never_among_the_largest(rows: list[Row], asked: Asked, path: Path, keep: int) -> None:
    """Of an unknown domain each place keeps its largest counts: those of every window and group are among them."""
    asked = asked._replace(unknown=True)
    whole, kept = counted(rows, asked, path), counted(rows, asked, path, keep)
    for heading in {place[:2] for place in whole}:
        counts, some = (
            {place: count for place, count in found.items() if place[:2] == heading} for found in (whole, kept)
        )
        largest = sorted(counts, key=lambda place: (-counts[place], place[2]))[:keep]
        assert {place: some.get(place) for place in largest} == {place: counts[place] for place in largest}
        assert some.items() <= counts.items()
