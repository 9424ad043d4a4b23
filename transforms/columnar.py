"""The columnar kernels: blocks of rows in, arrays out. No Beam here, and never one Python object per row.

A *block* is a `pyarrow.RecordBatch` with the columns `user` and `item` (strings without nulls) and, where windows are
cut from event times, `time` (int64, microseconds since 1970 UTC); where values are added up, `value` (float64, no
NaN); where every group has a ranking, `group` (strings).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from private_topk.transforms.types import rule_of, written_out

Words = NDArray[np.uint64]
Codes = NDArray[np.int64]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def as_labels(values: pa.Array) -> pa.Array:
    """A column of users or items as strings: integers become their decimal digits, so 5 and "5" are one user.

    Raises TypeError for a type that holds no labels; of bytes, ArrowInvalid where one is no UTF-8.
    """
    broken = rule_of("label", values.type)
    if broken is not None:
        raise TypeError(broken.rule)
    return written_out(values).cast(pa.large_string())


def make_block(
    user: pa.Array, item: pa.Array, time: pa.Array | None = None, group: pa.Array | None = None, **numbers: pa.Array
) -> tuple[pa.RecordBatch, int]:
    """A block of the rows that have every value, and how many rows were dropped for a null."""
    columns = {"user": as_labels(user), "item": as_labels(item)}
    if time is not None:
        columns["time"] = time.cast(pa.int64())
    columns |= numbers
    if group is not None:
        columns["group"] = as_labels(group)
    block = pa.RecordBatch.from_pydict(columns)
    if not any(column.null_count for column in block.columns):
        return block, 0
    complete = block
    for name in columns:
        complete = complete.filter(pc.is_valid(complete[name])) if complete[name].null_count else complete
    return complete, len(block) - len(complete)


def are_pairs(block: pa.RecordBatch) -> bool:
    """Whether a block holds pairs that were counted before, of keyed users; in rows users are texts."""
    return block["user"].type == pa.uint64()


def of_rows(block: pa.RecordBatch) -> pa.RecordBatch:
    """A block without its times and windows."""
    return block.select([name for name in ("user", "item", "group", "rows", "value") if name in block.schema.names])


def mix(values: Words) -> Words:
    """A bijection of 64-bit words that spreads every bit (Stafford's variant of the Murmur3 finaliser, after Weyl)."""
    state = values + _MULTIPLIER
    state ^= state >> np.uint64(30)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(27)
    state *= np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return state


def partition(keys: Codes, size: int) -> Iterator[tuple[int, Codes]]:
    """Every key in [0, size) that occurs, with the positions of its rows in their order."""
    order, runs = _by_key(keys, size)
    return ((key, order[start:stop]) for key, start, stop in runs)


def parted(keys: Codes, size: int, table_of: Callable[[Codes], pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Every key in [0, size) that occurs, with the table of its rows in their order.

    Cost: one table of all rows, whatever the number of keys: the others are slices of it, and hold its memory.

    Args:
        table_of: the table of the rows at some positions.
    """
    order, runs = _by_key(keys, size)
    table = table_of(order)
    return ((key, table.slice(start, stop - start)) for key, start, stop in runs)


def _by_key(keys: Codes, size: int) -> tuple[Codes, list[tuple[int, int, int]]]:
    """The positions of the rows by key, and each key that occurs with where its rows begin and end there."""
    narrow = keys.astype(np.uint16) if size <= 1 << 16 else keys  # numpy sorts 16-bit keys by radix
    order = np.argsort(narrow, kind="stable")
    ordered = narrow[order]
    starts = np.flatnonzero(np.append(len(keys) > 0, ordered[1:] != ordered[:-1]))
    ends = np.append(starts, len(keys))[1:]
    return order, list(zip(ordered[starts].tolist(), starts.tolist(), ends.tolist(), strict=True))


def sorted_pairs(users: Words, codes: Codes) -> tuple[Codes, Codes, Words]:
    """The distinct (user, code) pairs, sorted by user and then code.

    Returns:
        ranks (n,): a number 0, 1, ... for the user of every pair; codes (n,); and the user words by rank (users,).

    Cost: two sorts of 64-bit integers.
    """
    n = len(users)
    if n == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), users
    by_user, order = sorted_with_order(users)
    fresh = np.empty(n, bool)
    fresh[0] = True
    np.not_equal(by_user[1:], by_user[:-1], out=fresh[1:])
    pairs = _distinct_sorted(numbered(fresh), codes.take(order))
    return *pairs, by_user[fresh]


def sorted_sums(users: Words, codes: Codes, added: Codes, cap: int | Codes) -> tuple[Codes, Codes, Words, Codes]:
    """The distinct (user, code) pairs as `sorted_pairs` has them, and the sum of what each adds, at most `cap`.

    What rows add is at least 0, so capping early, late or often gives the same sums in the end.

    Args:
        added: (n,), or (m, n) for m kinds of them.
        cap: one, or (m, 1).
    """
    if len(users) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), users, added
    order = np.lexsort((codes, users))
    by_user, by_code = users[order], codes[order]
    fresh = np.append(True, by_user[1:] != by_user[:-1])
    starts = np.flatnonzero(fresh | np.append(True, by_code[1:] != by_code[:-1]))
    sums = np.minimum(np.add.reduceat(added[..., order], starts, axis=-1), cap)
    return numbered(fresh)[starts], by_code[starts], by_user[fresh], sums


def _distinct_sorted(ranks: Codes, codes: Codes) -> tuple[Codes, Codes]:
    width = max(int(codes.max()), 1).bit_length()
    if int(ranks[-1]).bit_length() + width > 63:
        order = np.lexsort((codes, ranks))
        ranks, codes = ranks[order], codes[order]
        new = np.append(True, (ranks[1:] != ranks[:-1]) | (codes[1:] != codes[:-1]))
        return ranks[new], codes[new]
    keys = sorted_words((ranks << width) | codes)
    keys = keys[np.append(True, keys[1:] != keys[:-1])]
    return keys >> width, keys & ((1 << width) - 1)


STEP_BITS = 10
"""The bits of the number of a step of a series."""


def kept_pairs(
    ranks: Codes, codes: Codes, users: Words, items: Words | None, limit: int, steps: Codes | None = None
) -> Codes:
    """The positions of at most `limit` pairs of every user, chosen by a hash of the user and the item.

    What is kept depends on that user's rows only and on nothing random, so one user moves at most `limit` counts
    (Gillenwater et al. 2022, section 5) and a repeated run keeps the same. Ties of the hash go to the lower code.

    Keeping may be repeated as pairs arrive: a pair that is among a user's `limit` lowest hashes in the end was among
    them at any time.

    Args:
        ranks, codes, users: what `sorted_pairs` returns.
        items: a stable word of every code, indexed by code; None for that of the code itself.
        steps: of every pair, below 2**STEP_BITS: those of the least stay, and of one step those of the least hash.
    """
    held = np.bincount(ranks) if len(ranks) else np.empty(0, np.int64)
    over = held[ranks] > limit
    if not over.any():
        return np.arange(len(codes))
    places = np.flatnonzero(over)  # only users over the limit need sorting
    ranks, codes = ranks.take(places), codes.take(places)
    words = codes.view(np.uint64) if items is None else items.take(codes)
    hashes = mix(users.take(ranks) ^ mix(words))
    if steps is not None:
        hashes = steps.take(places).astype(np.uint64) << np.uint64(64 - STEP_BITS) | hashes >> np.uint64(STEP_BITS)
    order = _by_hash(ranks, hashes)
    starts = np.flatnonzero(np.append(True, ranks[1:] != ranks[:-1]))  # ranks are sorted, and stay so in this order
    place = np.arange(len(ranks)) - np.repeat(starts, np.diff(np.append(starts, len(ranks))))
    return np.concatenate([np.flatnonzero(~over), places.take(order[place < limit])])


def _by_hash(ranks: Codes, hashes: Words) -> Codes:
    """The order by rank, then hash, then position. Ranks are sorted.

    Cost: a sort of 64-bit integers, the number of the rank above the top of the hash. Hashes of a rank that agree in
    that fall back to a full sort.
    """
    number = numbered(np.append(True, ranks[1:] != ranks[:-1]))
    bits = int(number[-1]).bit_length()
    keys = hashes >> np.uint64(bits)
    if bits:
        keys |= number.view(np.uint64) << np.uint64(64 - bits)
    keys, order = sorted_with_order(keys)
    return np.lexsort((hashes, ranks)) if np.any(keys[1:] == keys[:-1]) else order


def count_pairs(codes: Codes, size: int) -> tuple[Codes, Codes]:
    """The codes that occur, increasing, and how often. Cost: O(n + size), or O(n log n) where the codes are sparse."""
    if len(codes) * 8 < size:
        return np.unique(codes, return_counts=True)
    counts = np.bincount(codes, minlength=size)
    present = np.flatnonzero(counts)
    return present, counts[present]


def add_up(codes: Codes, added: Codes) -> tuple[Codes, Codes]:
    """The codes that occur, increasing, and the sum of what each adds. Cost: a sort."""
    if len(codes) == 0:
        return codes, added
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    return codes[starts], np.add.reduceat(added[order], starts)


def make_table(**columns: pa.Array | NDArray) -> pa.RecordBatch:
    """Columns of one length as one piece of a table."""
    return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})


def joined(tables: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Tables of one schema, at least one, as a single table."""
    table = pa.Table.from_batches(tables)
    columns = {name: table[name] for name in table.schema.names}
    # A single chunk as it is: combining would copy it.
    return make_table(**{name: c.chunk(0) if c.num_chunks == 1 else c.combine_chunks() for name, c in columns.items()})


Keys = TypeVar("Keys", Words, Codes)

_MIN_POLARS_WORDS = 1 << 13  # words


def sorted_words(words: Keys) -> Keys:
    """64-bit words, increasing; not to be written to. Cost: 10 to 16 ns a word, on every processor.

    By polars, on this thread and without Python's lock: numpy's own sort takes four times that where a processor has
    AVX-512 and its compressed stores are slow, as on AMD Zen 4. A few are not worth a call of polars.
    """
    if len(words) < _MIN_POLARS_WORDS:
        return np.sort(words)
    import polars as pl

    return pl.Series(words).sort(multithreaded=False).to_numpy()


def sorted_with_order(words: Words) -> tuple[Words, Codes]:
    """The words, increasing, and their positions: of equal ones the first is first.

    Cost: a sort of 64-bit integers. It sorts the top bits of the word with the position below them, so no index array
    is sorted along; words equal in those bits and no further are sorted once more.
    """
    low = np.uint64(max(len(words) - 1, 1).bit_length())
    packed = sorted_words((words >> low << low) | np.arange(len(words), dtype=np.uint64))
    order = (packed & ((np.uint64(1) << low) - np.uint64(1))).view(np.int64)
    in_order = words.take(order)
    wrong = np.flatnonzero(in_order[1:] < in_order[:-1])
    if len(wrong):
        tops = in_order >> low
        run = numbered(np.append(True, tops[1:] != tops[:-1]))
        rows = np.flatnonzero(np.bincount(run.take(wrong), minlength=len(words)).take(run))
        some = order.take(rows)
        order[rows] = some.take(np.argsort(words.take(some), kind="stable"))
        in_order = words.take(order)
    return in_order, order


def numbered(fresh: NDArray[np.bool_]) -> Codes:
    """0, 1, ... for every run of rows that starts where `fresh` is true; the first row does.

    Cost: 3 ns a row. Adding up truth values as they are takes numpy ten times that, with Python's lock in its hands.
    """
    ranks = fresh.astype(np.int64)
    ranks[:1] = 0
    return np.cumsum(ranks)
