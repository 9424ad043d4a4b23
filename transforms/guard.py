"""No lost part is silent: what is drawn from is whole, or nothing is drawn.

A runner may drop an element behind the watermark, or hand one over twice. So every user shard sends, for every window,
a manifest: the places that it has sent counts to. What is added up names the user shards that are in it. The two must
agree, part by part, when the draw is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from private_topk.transforms.columnar import Codes
from private_topk.transforms.parts import MANIFEST, PlacedPart

__all__ = ["LostPartError", "check_whole"]


class LostPartError(RuntimeError):
    """Counts of a window were lost or doubled between two stages of the job: nothing is published for it."""

    shows_no_data = True
    """Its text may be told to whoever runs the job."""


def check_whole(parts: Sequence[PlacedPart], shards: int) -> None:
    """Raise LostPartError unless exactly what every user shard has sent for a window is here, once.

    Every user shard and every place is told apart, so a loss and a duplicate do not cancel. The message holds no count:
    how many user shards were heard does not depend on the rows.

    Args:
        parts: what the final stage was handed for a window, manifests among it.
        shards: how many user shards there are: 0 .. shards - 1, each of which sends a manifest for every window.

    Cost: a sort of (user shard, place) pairs, at most `shards` times the number of item shards.
    """
    manifests = [part for place, part in parts if place == MANIFEST]
    heard = _joined([part.sources for part in manifests])
    if not np.array_equal(np.sort(heard), np.arange(shards)):
        raise _lost(f"of {shards} user shards {len(np.unique(heard))} were heard, {len(heard)} times in all")
    sent = _pairs([(p.table["source"].to_numpy(), p.table["place"].to_numpy()) for p in manifests])
    came = _pairs([(p.sources, np.full(len(p.sources), place)) for place, p in parts if place != MANIFEST])
    if not np.array_equal(sent, came):
        raise _lost("every user shard was heard, but what they sent is not what came")


def _lost(what: str) -> LostPartError:
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
