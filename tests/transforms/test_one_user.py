"""One user more moves the counts that reach the mechanism by what is declared, for any rows: found by search.

Two inputs are counted as the pipeline counts, in any order, blocks, shards, windows and bound, and compared with sets.
"""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from private_topk.transforms.columnar import make_block
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.mechanisms import LimitDomain, Mechanism, WeightedGaussian
from private_topk.transforms.mechanisms.weighted import UNIT
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.rows import _ShardDoFn
from private_topk.transforms.spec import TopK
from private_topk.transforms.user_shards import UserShard
from tests.examples import examples
from tests.transforms.pipelines import added_up

HOSTILE = [
    "a",
    "a\x01",
    "A",
    "a ",
    "\ufeffa",
    "á",
    "a\u0301",
    "5",
    "05",
    "x" * 8,
    "x" * 16,
    "x" * 17,
    "日本",
    "\U0001f3b5",
]
LABELS = st.sampled_from(HOSTILE) | st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20
)
ROWS = st.lists(st.tuples(LABELS, st.sampled_from(HOSTILE)), max_size=40)
USER = "the one user"
DOMAINS = {"public": PublicDomain.of(HOSTILE[:10]), "unknown": UnknownDomain()}


def counted(
    rows: list[tuple[str, str]],
    domain: str,
    limit: int | None,
    key: ReleaseKey,
    shards: int,
    blocks: int,
    early: bool,
    mechanism: Mechanism = LimitDomain(1.0, 1e-6),  # noqa: B008 - frozen
) -> dict[str, int]:
    """The totals of one window, by the pipeline's functions.

    Args:
        early: pairs are deduplicated and bounded as they come, as in a stream.
    """
    known, layout = DOMAINS[domain], Partitioning.of(DOMAINS[domain])
    spec = TopK(1, mechanism, known, limit)
    fn, counter = _ShardDoFn(spec, key, shards, layout), UserShard(spec, layout, key)
    fn.setup()
    pairs = {shard: [counter.no_rows()] for shard in range(shards)}
    for block in range(blocks):
        users, items = zip(*rows[block::blocks], strict=True) if rows[block::blocks] else ((), ())
        for shard, table in fn.process(make_block(pa.array(users, pa.string()), pa.array(items, pa.string()))[0]):
            pairs[shard].append(table)
            if early:
                pairs[shard] = [counter.distinct(pairs[shard])]
    found: dict[str, int] = {}
    for table in added_up((part for tables in pairs.values() for part in counter.counts(tables)), layout):
        for item, count in zip(table["item"].to_pylist(), table["count"].to_pylist(), strict=True):
            label = HOSTILE[item] if domain == "public" else item
            assert label not in found, "an item was counted in two item shards"
            found[label] = count
    return found


def of_sets(rows: list[tuple[str, str]], domain: str) -> dict[str, set[str]]:
    """Who holds each item that counts."""
    holders: dict[str, set[str]] = defaultdict(set)
    for user, item in rows:
        if domain == "unknown" or item in HOSTILE[:10]:
            holders[item].add(user)
    return holders


@examples(100)
@given(
    others=ROWS.map(lambda rows: [row for row in rows if row[0] != USER]),
    mine=st.lists(st.sampled_from(HOSTILE), max_size=25),
    other=st.lists(st.sampled_from(HOSTILE), max_size=25),
    domain=st.sampled_from(sorted(DOMAINS)),
    limit=st.sampled_from([None, 1, 2, 3]),
    secret=st.binary(min_size=16, max_size=16),
    way=st.tuples(st.sampled_from([1, 2, 64]), st.integers(1, 4), st.booleans(), st.randoms(use_true_random=False)),
    again=st.tuples(st.sampled_from([1, 8]), st.integers(1, 4), st.booleans()),
)
def test_one_user_moves_counts_by_what_is_declared(others, mine, other, domain, limit, secret, way, again) -> None:  # noqa: ANN001
    """Added, removed or replaced: each count by at most 1, at most `limit` of them in each direction, and no other."""
    key, (shards, blocks, early, draw) = ReleaseKey.held(secret), way

    def counts(items: list[str], *how: object) -> dict[str, int]:
        rows = [*others, *((USER, item) for item in items)]
        draw.shuffle(rows)
        return counted(rows, domain, limit, key, *how)

    absent, here, there = (counts(items, shards, blocks, early) for items in ([], mine, other))
    assert here == counts(mine, *again), "the counts hang on order, blocks, shards or when pairs are bounded"
    held = [set(of_sets([(USER, item) for item in items], domain)) for items in (mine, other)]
    for after, items in ((here, held[0]), (there, held[1])):
        moved = {item: after.get(item, 0) - absent.get(item, 0) for item in {*after, *absent}}
        moved = {item: move for item, move in moved.items() if move}
        assert set(moved.values()) <= {1} and set(moved) <= items
        assert len(moved) == min(len(items), limit or len(items))
    swapped = {item: there.get(item, 0) - here.get(item, 0) for item in {*here, *there}}
    for direction in (1, -1):
        assert sum(move == direction for move in swapped.values()) <= (limit or len(HOSTILE))
    assert set(swapped.values()) <= {-1, 0, 1}
    if limit is None:
        assert absent == {item: len(users) for item, users in of_sets(others, domain).items()}
    else:
        users = defaultdict(set)
        for item, holders in of_sets(others, domain).items():
            for user in holders:
                users[user].add(item)
        assert sum(absent.values()) == sum(min(limit, len(items)) for items in users.values())


@examples(60)
@given(
    others=ROWS.map(lambda rows: [row for row in rows if row[0] != USER]),
    mine=st.lists(st.sampled_from(HOSTILE), max_size=25),
    domain=st.sampled_from(sorted(DOMAINS)),
    bound=st.sampled_from([(1, 1), (1, 3), (2, 5), (3, 100), (20, 100)]),
    secret=st.binary(min_size=16, max_size=16),
    way=st.tuples(st.sampled_from([1, 2, 64]), st.integers(1, 4), st.booleans()),
    again=st.tuples(st.sampled_from([1, 8]), st.integers(1, 4), st.booleans()),
)
def test_one_user_moves_weights_by_no_more_than_their_norm(others, mine, domain, bound, secret, way, again) -> None:  # noqa: ANN001
    """All sums that move go up by one weight, that of the number of items kept; the sums are those of sets."""
    key, (whole, limit) = ReleaseKey.held(secret), bound
    weighs = WeightedGaussian(1.0, 0.01, limit, whole)
    rows = [*((USER, item) for item in mine), *others]
    absent = counted(others, domain, limit, key, *way, weighs)
    here = counted(rows, domain, limit, key, *way, weighs)
    assert here == counted(rows[::-1], domain, limit, key, *again, weighs)
    held = set(of_sets([(USER, item) for item in mine], domain))
    moved = {item: here.get(item, 0) - absent.get(item, 0) for item in {*here, *absent}}
    moved = {item: move for item, move in moved.items() if move}
    assert set(moved) <= held and len(moved) == min(len(held), limit)
    assert set(moved.values()) <= {weighs.weighting.weight(len(moved) or 1)}
    assert sum(move**2 for move in moved.values()) <= whole * UNIT**2
    if limit == 100:
        holders = of_sets(rows, domain)
        items = {user: sum(user in some for some in holders.values()) for some in holders.values() for user in some}
        assert here == {item: sum(weighs.weighting.weight(items[u]) for u in some) for item, some in holders.items()}
