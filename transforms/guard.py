"""No lost part is silent: what is drawn from is whole, or nothing is drawn.

A runner may drop an element behind the watermark, or hand one over twice. So every user shard sends, for every window,
a manifest: the places that it has sent counts to. What is added up names the user shards that are in it. The two must
agree, part by part, when the draw is made. And what readers state that they have sent must be what the manifests say
was received: transforms/sent.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from apache_beam.utils.windowed_value import PaneInfoTiming

from private_topk.transforms.columnar import Codes
from private_topk.transforms.parts import MANIFEST, RECEIVED, SENT, PlacedPart

__all__ = ["LostPartError", "check_pane", "check_whole", "lost"]


class LostPartError(RuntimeError):
    """Counts of a window were lost or doubled between two stages of the job: nothing is published for it."""

    shows_no_data = True
    """Its text may be told to whoever runs the job."""


def check_whole(parts: Sequence[PlacedPart], shards: int, readers: Sequence[int] | None = None) -> None:
    """Raise LostPartError unless exactly what every user shard has sent for a window is here, once, and was counted
    from exactly what the readers have sent.

    Every user shard and every place is told apart, so a loss and a duplicate do not cancel. The message holds no count:
    how many user shards and readers were heard does not depend on the rows.

    Args:
        parts: what the final stage was handed for a window, manifests among it.
        shards: how many user shards there are: 0 .. shards - 1, each of which sends a manifest for every window.
        readers: the numbers of those that state what they have sent; None where nobody does.

    Cost: a sort of (user shard, place) pairs, at most `shards` times the number of item shards.
    """
    manifests = [part for place, part in parts if place == MANIFEST]
    heard = _joined([part.sources for part in manifests])
    if not np.array_equal(np.sort(heard), np.arange(shards)):
        raise lost(f"of {shards} user shards {len(np.unique(heard))} were heard, {len(heard)} times in all")
    tables = [part.table.filter(pc.not_equal(part.table["place"], RECEIVED)) for part in manifests]
    sent = _pairs([(table["source"].to_numpy(), table["place"].to_numpy()) for table in tables])
    came = _pairs([(p.sources, np.full(len(p.sources), place)) for place, p in parts if place >= 0])
    if not np.array_equal(sent, came) or not _in_one_piece(parts):
        raise lost("every user shard was heard, but what they sent is not what came")
    if readers is not None:
        _check_received(parts, readers)


def _in_one_piece(parts: Sequence[PlacedPart]) -> bool:
    """Whether of the totals of every place all pieces are here, each once."""
    found = defaultdict[int, list[tuple[int, int]]](list)
    for place, part in parts:
        if place >= 0:
            found[place].append((part.piece, part.pieces))
    return all(sorted(its) == [(number, len(its)) for number in range(len(its))] for its in found.values())


def _check_received(parts: Sequence[PlacedPart], readers: Sequence[int]) -> None:
    heard = _joined([part.sources for place, part in parts if place == SENT])
    if not np.array_equal(np.sort(heard), np.sort(np.array(readers, np.int64))):
        known = len(np.intersect1d(heard, np.array(readers, np.int64)))
        raise lost(f"of {len(readers)} readers {known} have stated what they sent, {len(heard)} times in all")
    sent, received = (_joined([part.table["sum"].to_numpy() for at, part in parts if at == place])
                      for place in (SENT, MANIFEST))  # fmt: skip
    if (sum(sent.tolist()) - sum(received.tolist())) % (1 << 63):
        raise lost("the rows that readers sent are not those that user shards received")


def check_pane(pane: Any) -> None:  # noqa: ANN401 - Beam's pane
    """Raise RuntimeError unless it is the only firing of its window."""
    if not pane.is_first or pane.timing not in (PaneInfoTiming.ON_TIME, PaneInfoTiming.UNKNOWN):
        raise RuntimeError("a window fired twice, which would be two releases: use the default trigger and "
                           "an allowed lateness of 0")  # fmt: skip


def lost(what: str) -> LostPartError:
    return LostPartError(
        f"counts were lost or doubled on the way to the final stage ({what}), which is a fault of the runner or of its "
        "settings: nothing is published for their window. Run it again under the same release key and id"
    )


def _pairs(parts: Sequence[tuple[Codes, Codes]]) -> Codes:
    sources, places = (_joined(columns) for columns in (zip(*parts, strict=True) if parts else ([], [])))
    order = np.lexsort((places, sources))
    return np.stack([sources[order], places[order]])


def _joined(columns: Sequence[Codes]) -> Codes:
    return np.concatenate([np.empty(0, np.int64), *columns])
