"""Where the counts of labels meet a public list that no worker holds all of: each residue of their hash by itself.

    counts by label, of user shards ----> residue r: labels to codes --> counts by code, as if of user shard r
    chunks of the list: label, code --/   \\--> what was taken --> all that was sent? --> as if of one user shard more

What comes out looks like the counts of so many user shards, with a manifest of each, so that whatever adds up and draws
is the same as of a list that every worker holds. Labels that are not on the list drop out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from private_topk.transforms.columnar import Codes, joined, make_table, parted
from private_topk.transforms.counters import LeftOutRows
from private_topk.transforms.counts import sums_by_cell
from private_topk.transforms.domain import SplitDomain
from private_topk.transforms.domain_index import DomainIndex
from private_topk.transforms.guard import check_whole, lost
from private_topk.transforms.hashing import hash_labels
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.layout import Layout
from private_topk.transforms.parts import Part, PlacedPart, manifest_of, slice_of, with_manifest
from private_topk.transforms.shelf import PutAside, Shelf, taken

__all__ = ["JoinWithList"]

_NOTES = -1
"""In the place of a residue: where manifests and statements go, on the way that counts go."""

_ON, _TAKEN = 0, 1
"""What becomes of what the join puts out: it goes on to the draw, or tells what has come."""

Keyed = tuple[int, PlacedPart]


class JoinWithList(beam.PTransform):
    """Counts by label, manifests and statements to counts by code, as if `senders` user shards had sent them.

    The guard holds over the hop. Chunks of the list are numbered after the user shards, and state what they send as
    these do; every residue states what it took. Only if that is the same, part by part, and what readers state was
    received, the last of the senders answers, without whom nothing is drawn.

    Memory of a worker: a chunk of the list, or of one residue the list and the counts of all user shards.

    Args:
        layout: that of the codes; its residues are those in which counts and list meet.
        shards: how many user shards there are.
        readers: those that state what they have sent, if they do.
        by_reference: as for `CountContributions`.
    """

    def __init__(
        self,
        domain: SplitDomain,
        key: ReleaseKey,
        layout: Layout,
        shards: int,
        readers: Sequence[int] | None = None,
        by_reference: bool = False,
    ) -> None:
        super().__init__()
        self._domain, self._key, self._layout, self._shards = domain, key, layout, shards
        self._readers, self._shelf = readers, Shelf() if by_reference else None
        self.senders = layout.residues + 1

    def expand(self, inputs: tuple[beam.PCollection, ...]) -> beam.PCollection:
        domain, chunks = self._domain, len(self._domain.chunks)
        read = beam.ParDo(_ReadDoFn(domain, self._key, self._layout, self._shards))
        listed = (
            inputs[0].pipeline
            | beam.Impulse()
            | "Chunks of the list" >> beam.FlatMap(_numbers, chunks).with_output_types(tuple[int, int])
            | "Spread the chunks" >> beam.GroupByKey()
            # (number, [number])  ->  (place, Part of {item: label, code}) for every residue, and a manifest
            | "Read and split the list" >> read.with_output_types(PlacedPart)
        )
        shelf = None if self._shelf is None else self._shelf.name
        # Each by itself, since a runner may encode what comes from several stages where it is put together.
        keyed = [
            each | f"To their residues {number}" >> _ToResidues(self._layout.residues, self._shelf)
            for number, each in enumerate((*inputs, listed))
        ]
        join = beam.ParDo(_JoinDoFn(domain, self._layout, shelf))
        # (residue, [(place, Part)])  ->  (_ON, counts of codes and a manifest), and (_TAKEN, what came here)
        found = (
            keyed
            | "Counts and the list" >> beam.Flatten()
            | "Gather each residue" >> beam.GroupByKey()
            | "Join" >> join.with_output_types(Keyed)
        )
        check = beam.Map(_checked, self._shards + chunks, self._readers, self._layout.residues)
        answer = (
            found
            | "What came" >> beam.Filter(_is_taken).with_output_types(Keyed)
            | "Await all residues" >> beam.GroupByKey()
            | "Did all come" >> check.with_output_types(PlacedPart)
        )
        counts = found | "Counts of codes" >> beam.FlatMap(_going_on).with_output_types(PlacedPart)
        return (counts, answer) | "With the answer" >> beam.Flatten()


class _ToResidues(beam.PTransform):
    """(place, Part) to (residue, it), or to (residue, its number on a shelf)."""

    def __init__(self, residues: int, shelf: Shelf | None) -> None:
        super().__init__()
        self._residues, self._shelf = residues, shelf

    def expand(self, placed: beam.PCollection) -> beam.PCollection:
        keyed = placed | beam.Map(_by_residue, self._residues).with_output_types(Keyed)
        return keyed if self._shelf is None else keyed | "Put labels aside" >> PutAside(self._shelf)


def _is_taken(keyed: Keyed) -> bool:
    return keyed[0] == _TAKEN


def _going_on(keyed: Keyed) -> Iterator[PlacedPart]:
    if keyed[0] == _ON:
        yield keyed[1]


def _numbers(_: bytes, chunks: int) -> Iterator[tuple[int, int]]:
    yield from ((number, number) for number in range(chunks))


def _by_residue(placed: PlacedPart, residues: int) -> Keyed:
    return (placed[0] % residues if placed[0] >= 0 else _NOTES), placed


class _ReadDoFn(beam.DoFn):
    """Every chunk goes to every residue, if with no item: so each residue wakes, and knows when the list is there."""

    def __init__(self, domain: SplitDomain, key: ReleaseKey, layout: Layout, shards: int) -> None:
        self._domain, self._key, self._layout, self._first_source = domain, key, layout, shards

    def setup(self) -> None:
        self._hash_key = self._key.derive("item hash")

    def process(self, chunk: tuple[int, Iterable[int]]) -> Iterator[PlacedPart]:
        for number in chunk[1]:
            yield from with_manifest(self._first_source + number, self._split(self._domain.chunks[number]))

    def _split(self, blocks: range) -> Iterator[tuple[int, pa.RecordBatch]]:
        labels = pa.concat_arrays([self._domain.block(number) for number in blocks])
        residues, codes = self._layout.residues, self._domain.edges[blocks.start] + np.arange(len(labels))
        keys = (hash_labels(labels, self._hash_key) % np.uint64(residues)).astype(np.int64)

        def table_of(rows: Codes) -> pa.RecordBatch:
            return make_table(item=labels.take(pa.array(rows)), code=codes[rows].astype(self._layout.item_type))

        found = dict(parted(keys, residues, table_of))
        nothing = table_of(np.empty(0, np.int64))
        first = _place_of_list(self._layout)
        return ((first + residue, found.get(residue, nothing)) for residue in range(residues))


def _place_of_list(layout: Layout) -> int:
    """Parts of the list have the places of one more group of windows."""
    return layout.groups * layout.residues


class _JoinDoFn(beam.DoFn):
    def __init__(self, domain: SplitDomain, layout: Layout, shelf: str | None) -> None:
        self._layout, self._shelf, self._chunks = layout, shelf, len(domain.chunks)
        self._first_place = _place_of_list(layout)
        self._left_out = LeftOutRows("not_in_domain_after_counting")

    def process(self, gathered: tuple[int, Iterable[Any]]) -> Iterator[Keyed]:
        residue, parts = gathered
        parts = parts if self._shelf is None else taken(self._shelf, parts)
        if residue == _NOTES:
            yield from ((_TAKEN, placed) for placed in parts)
            return
        listed, counts, sources = list[pa.RecordBatch](), list[pa.RecordBatch](), defaultdict[int, list[Codes]](list)
        for place, part in parts:
            sources[place].append(part.sources)
            (listed if place >= self._first_place else counts).append(part.table)
        for place, its in sources.items():
            yield _TAKEN, (place, Part(np.concatenate(its), _NOTHING))
        self._check_list(np.concatenate([_NOBODY, *sources[self._first_place + residue]]))
        yield from ((_ON, placed) for placed in with_manifest(residue, self._by_place(listed, counts)))

    def _check_list(self, sources: Codes) -> None:
        """Raise LostPartError unless parts of all chunks are here, none of them twice: no item is zero in silence."""
        if len(np.unique(sources)) != len(sources) or len(np.unique(slice_of(sources)[0])) != self._chunks:
            raise lost("of the list of items a part came not at all, or twice")

    def _by_place(
        self, listed: list[pa.RecordBatch], counts: list[pa.RecordBatch]
    ) -> Iterable[tuple[int, pa.RecordBatch]]:
        layout = self._layout
        if not counts:
            return ()
        held, whole = joined(counts), joined(listed)
        found = DomainIndex(whole["item"]).encode(held["item"]) if len(whole) else np.full(len(held), -1)
        rows = np.flatnonzero(found >= 0)
        if len(rows) < len(held):
            self._left_out.inc(len(held) - len(rows))
        if not len(rows):
            return ()
        codes = whole["code"].to_numpy()[found[rows]].astype(np.int64)
        numbers = {name: held[name].to_numpy()[rows] for name in held.schema.names if name not in ("window", "item")}
        windows = held["window"].to_numpy()[rows].astype(np.int64) if layout.windows > 1 else 0
        cells, totals = sums_by_cell([(windows * layout.size + codes, numbers)])
        windows, codes = np.divmod(cells, layout.size)

        def table_of(rows: Codes) -> pa.RecordBatch:
            column = {"window": windows[rows].astype(np.uint32)} if layout.windows > 1 else {}
            sums = {name: its[rows] for name, its in totals.items()}
            return make_table(**column, item=codes[rows].astype(layout.item_type), **sums)

        places = layout.places(windows, codes >> layout.item_bits)
        return parted(places, layout.groups * layout.item_shards, table_of)


_NOBODY = np.empty(0, np.int64)
_NOTHING = make_table(item=np.empty(0, np.int64))


def _checked(
    came: tuple[int, Iterable[PlacedPart]], sources: int, readers: Sequence[int] | None, number: int
) -> PlacedPart:
    """The manifest of one sender more. Raises LostPartError unless all that was sent was taken, once."""
    check_whole(list(came[1]), sources, readers)
    return manifest_of(np.array([number]))
