"""From counts to the table of their values, which is all that a draw looks at, and back to the items that it means.

Where items count alike, the order among them is that of the domain: item shards are ranges of codes, in their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from private_topk.transforms.columnar import Codes, make_table
from private_topk.transforms.layout import Layout
from private_topk.transforms.mechanisms.exact.histogram import Histogram

__all__ = ["Tally", "find_items", "tabulate", "tallies", "users_of"]


class Tally(NamedTuple):
    """How many items of each item shard have each value, in one window: (n,) by decreasing value, then by shard.

    Args:
        seen: which item shards hold a count other than 0, (item shards,) of bool.
        digest: of all counts of the window.
    """

    values: Codes
    shards: Codes
    sizes: Codes
    seen: np.ndarray
    digest: bytes

    def histogram(self) -> Histogram:
        """Scores below 0 are moved up together, so that the least is 0: a mechanism that is given any looks at their
        differences alone.
        """
        starts = np.flatnonzero(np.append(True, self.values[1:] != self.values[:-1]))
        return Histogram(self.values[starts] - min(self.values[-1], 0), np.add.reduceat(self.sizes, starts))

    def where(self, ranks: Codes) -> tuple[Codes, Codes, Codes]:
        """The value and the item shard of the items at these ranks, and their numbers in that shard's value."""
        ends = np.cumsum(self.sizes)
        rows = np.searchsorted(ends, ranks, "right")
        return self.values[rows], self.shards[rows], ranks - (ends - self.sizes)[rows]


def tabulate(totals: pa.RecordBatch) -> pa.RecordBatch:
    """The totals of one place as {window, value, size, digest}, by window and decreasing value.

    A window's digest is SHA-256 over its codes and their counts, and their users where these are beside them; it stands
    in the window's first row.
    """
    (windows, _, counts), hashed = _columns(totals), _hashed(totals)
    order = np.lexsort((-counts, windows))
    starts = _starts(windows[order], counts[order])
    kept = order[starts]
    digests = np.full(len(kept), b"", object)
    edges = np.append(_starts(windows), len(windows))
    first_rows = np.searchsorted(windows[kept], windows[edges[:-1]])
    for row, start, end in zip(first_rows, edges[:-1], edges[1:], strict=True):
        digests[row] = _digest(hashed, slice(start, end))
    return make_table(
        window=windows[kept],
        value=counts[kept],
        size=np.diff(np.append(starts, len(order))),
        digest=pa.array(digests, pa.binary()),
    )


def tallies(tables: Sequence[tuple[int, pa.RecordBatch]], layout: Layout, windows: range) -> Iterator[Tally]:
    """The tally of every window of the range, from the tables of its item shards, each by its shard."""
    parts = [(table["window"], np.full(len(table), shard), table["value"], table["size"]) for shard, table in tables]
    empty = [(np.empty(0, np.int64),) * 4]
    window, shard, value, size = (np.concatenate(column) for column in zip(*empty, *parts, strict=True))
    order = np.lexsort((shard, -value, window))
    window, shard, value, size = window[order], shard[order], value[order], size[order]
    digests = _digests_by_window(tables)
    cuts = np.searchsorted(window, np.arange(windows.start, windows.stop + 1)).tolist()
    for number, start, end in zip(windows, cuts[:-1], cuts[1:], strict=True):
        rows = slice(start, end)
        digest = hashlib.sha256(b"".join(digests.get(number, []))).digest()
        yield _with_the_unseen(value[rows], shard[rows], size[rows], digest, layout.widths(number))


def find_items(totals: pa.RecordBatch, asked: pa.RecordBatch, codes: Callable[[int], range | Codes]) -> Codes | None:
    """The codes of the items that are asked for by {window, value, number, digest}, (n,), in their order.

    Args:
        totals: those of one place, by window and code.
        codes: all codes of its item shard that are items of a window, in their order. Those without a count have the
            value 0.

    Returns:
        None if these are not the totals of which the digests speak.
    """
    (windows, items, counts), hashed = _columns(totals), _hashed(totals)
    wanted, value, number = (asked[name].to_numpy() for name in ("window", "value", "number"))
    found = np.empty(len(asked), np.int64)
    edges = np.append(_starts(wanted), len(wanted))
    for start, end in zip(edges[:-1], edges[1:], strict=True):
        rows = slice(*np.searchsorted(windows, [wanted[start], wanted[start] + 1]))
        if _digest(hashed, rows) != asked["digest"][int(start)].as_py():
            return None
        listed = codes(int(wanted[start]))
        found[start:end] = _find(items[rows], counts[rows], value[start:end], number[start:end], listed)
    return found


def users_of(totals: pa.RecordBatch, windows: Codes, codes: Codes) -> Codes:
    """Of each code in its window, how many users hold it; totals by window and code have them beside the counts."""
    at, items, _ = _columns(totals)
    width = 1 + max(int(items.max()), int(codes.max()))
    held, asked = at * width + items, windows * width + codes
    places = np.minimum(np.searchsorted(held, asked), len(held) - 1)
    return np.where(held[places] == asked, totals["users"].to_numpy()[places], 0)


def _find(items: Codes, counts: Codes, value: Codes, number: Codes, codes: range | Codes) -> Codes:
    some = np.flatnonzero(np.isin(counts, value))
    some = some[np.argsort(counts[some], kind="stable")]
    found = np.empty(len(value), np.int64)
    held = value != 0
    found[held] = items[some[np.searchsorted(counts[some], value[held]) + number[held]]]
    places = items - codes.start if isinstance(codes, range) else np.searchsorted(codes, items)
    gaps = places - np.arange(len(items))  # how many unseen codes come before each
    unseen = number[~held] + np.searchsorted(gaps, number[~held], "right")
    found[~held] = codes.start + unseen if isinstance(codes, range) else codes[unseen]
    return found


def _with_the_unseen(value: Codes, shard: Codes, size: Codes, digest: bytes, widths: Codes) -> Tally:
    seen = np.zeros(len(widths), np.int64)
    np.add.at(seen, shard, size)
    unseen = widths - seen
    rest = np.flatnonzero(unseen)
    places = np.full(len(rest), np.searchsorted(-value, 0))  # after all that are above 0
    columns = ((value, np.zeros(len(rest), np.int64)), (shard, rest), (size, unseen[rest]))
    values, shards, sizes = (np.insert(old, places, new) for old, new in columns)
    return Tally(values, shards, sizes, seen > 0, digest)


def _digests_by_window(tables: Sequence[tuple[int, pa.RecordBatch]]) -> dict[int, list[bytes]]:
    """Of every window: each item shard with a count above 0 and its digest, in the order of the shards."""
    found: dict[int, list[bytes]] = {}
    for shard, table in sorted(tables, key=lambda pair: pair[0]):
        windows = table["window"].to_numpy()
        for row in _starts(windows).tolist():
            digest = table["digest"][row].as_py()
            found.setdefault(int(windows[row]), []).append(shard.to_bytes(8, "little") + digest)
    return found


def _columns(totals: pa.RecordBatch) -> tuple[Codes, Codes, Codes]:
    items, counts = totals["item"].to_numpy().astype(np.int64), totals["count"].to_numpy()
    if "window" not in totals.schema.names:
        return np.zeros(len(items), np.int64), items, counts
    return totals["window"].to_numpy().astype(np.int64), items, counts


def _starts(*columns: Codes) -> Codes:
    """Where a row differs from the one before it."""
    if not len(columns[0]):
        return np.empty(0, np.int64)
    fresh = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(np.append(True, fresh))


def _hashed(totals: pa.RecordBatch) -> list[Codes]:
    return [totals[name].to_numpy() for name in ("item", "count", "users") if name in totals.schema.names]


def _digest(columns: Sequence[Codes], rows: slice) -> bytes:
    return hashlib.sha256(b"".join(column[rows].astype("<i8").tobytes() for column in columns)).digest()
