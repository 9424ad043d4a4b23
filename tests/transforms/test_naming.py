"""What is drawn in two rounds, of which the second knows what the first has named; lost parts are in test_guard."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from private_topk.transforms.columnar import make_table
from private_topk.transforms.counts import add_up
from private_topk.transforms.domain import RangeDomain
from private_topk.transforms.draw import rank
from private_topk.transforms.headings import Heading
from private_topk.transforms.keys import Release, ReleaseKey, release_seed
from private_topk.transforms.layout import ITEM_SHARD_BITS, Layout
from private_topk.transforms.mechanisms import CandidatesThenRank, RandomBits
from private_topk.transforms.parts import Part
from private_topk.transforms.tallies import tabulate, tallies
from private_topk.transforms.top_k import make_selection
from private_topk.transforms.user_shard import UserShard
from private_topk.transforms.windows import WindowBounds

SIZE = (5 << ITEM_SHARD_BITS) // 2
LAYOUT = Layout(SIZE)
RELEASE = Release(ReleaseKey.held(b"naming".ljust(32, b".")), "two rounds")


def some_pairs() -> np.ndarray:
    """Users and items, (n, 2): of the first and the last of three item shards."""
    rng = np.random.default_rng(5)
    items = np.append(rng.integers(0, 30, 400), rng.integers(SIZE - 30, SIZE, 400))
    return np.unique(np.stack([rng.integers(0, 90, 800) ** 2 // 90, items], axis=1), axis=0)


def totals_of(pairs: np.ndarray, mechanism: CandidatesThenRank) -> list[pa.RecordBatch]:
    """By the pipeline's functions, from two user shards."""
    shard = UserShard(LAYOUT, RELEASE.key, mechanism.max_items_per_user, weighting=mechanism.weighting)
    parts: dict[int, list[Part]] = defaultdict(list)
    for half in (0, 1):
        own = pairs[pairs[:, 0] % 2 == half]
        table = make_table(user=own[:, 0].astype(np.uint64), item=own[:, 1].astype(LAYOUT.code_type))
        for place, counted in shard.counts([table]):
            parts[place].append(Part(np.array([half]), counted))
    return [add_up(place, its, LAYOUT)[1].table for place, its in parts.items()]


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 7), (50.0, 60), (1000.0, 3)])
def test_the_ranking_is_the_draw_of_both_vectors(epsilon: float, k: int) -> None:
    """Of sums and users counted here; with k = 60 also items that nobody holds, one shard's and others."""
    mechanism = CandidatesThenRank(epsilon, 0.01, 200, whole_items=2)
    selection = make_selection(k, mechanism, RangeDomain(0, SIZE))
    pairs, totals = some_pairs(), totals_of(some_pairs(), mechanism)
    sums, users = np.zeros((2, SIZE), np.int64)
    for user in np.unique(pairs[:, 0]):
        its = pairs[pairs[:, 0] == user, 1]
        sums[its] += mechanism.weighting.weight(len(its))
        users[its] += 1
    tables = [(int(t["item"][0].as_py()) >> LAYOUT.item_bits, tabulate(t)) for t in totals]
    (tally,) = tallies(tables, LAYOUT, range(1))
    seed = release_seed(RELEASE, Heading(WindowBounds(), None).label(), selection.parameters(), tally.digest)
    wanted = mechanism(sums, k, RandomBits.keyed(seed), users)
    for some in (totals, totals[::-1]):
        found = rank(selection, RELEASE, WindowBounds(), some)
        assert found.items == tuple(map(str, wanted.tolist())) and found.noisy_weights is None is found.noisy_counts


def test_other_users_of_equal_sums_have_other_noise() -> None:
    """What the second round is drawn from is in the digest that its bits hang on."""
    table = make_table(item=np.array([3, 4], np.uint32), count=[70, 70], users=[1, 2])
    other = make_table(item=np.array([3, 4], np.uint32), count=[70, 70], users=[1, 1])
    bare = table.drop_columns("users")
    assert len({tabulate(totals)["digest"][0].as_py() for totals in (table, other, bare)}) == 3
