"""What of one user reaches the mechanism, without any chance: on every way, key and bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from private_topk.testing.audit.sampler import Sampler
from private_topk.testing.audit.scenes import LABELS, Sheet
from private_topk.testing.audit.ways import WAYS, Counting, Way, totals_of
from private_topk.transforms.domain import PublicDomain, UnknownDomain

__all__ = ["LIMITS", "wrong_counts"]

LIMITS = (None, 1)
_SIZE = 4


def wrong_counts(sampler: Sampler) -> Iterator[str]:
    """What is wrong with the counts of any scene, in words; nothing where all is well.

    The others' counts must be theirs, whatever the one user does; and that user must add 1 to each item held, or to
    exactly as many of them as the bound allows, the same ones on every way.
    """
    domains: dict[str, PublicDomain | UnknownDomain] = {
        "public": PublicDomain.of(LABELS[:_SIZE]), "unknown": UnknownDomain()
    }  # fmt: skip
    for name, domain in domains.items():
        for limit in LIMITS:
            counting = Counting(domain, limit, sampler.key(0), None)
            for scene, sheet in _SHEETS.items():
                told = f"{name} domain, {'no bound' if limit is None else f'at most {limit}'}, {scene}"
                yield from (f"{told}, {what}" for what in _wrong(counting, sheet))


_SHEETS = {
    "one of many": Sheet((3, 2, 2, 5), (1,)),
    "all items": Sheet((3, 3, 3, 3), (0, 1, 2, 3)),
    "an item of one's own": Sheet((3, 2, 0, 5), (2, 3)),
    "nobody else": Sheet((0, 0, 0, 0), (0, 2, 3)),
}


def _wrong(counting: Counting, sheet: Sheet) -> Iterator[str]:
    held = np.isin(np.arange(_SIZE), sheet.mine)
    allowed = len(sheet.mine) if counting.limit is None else min(counting.limit, len(sheet.mine))
    kept: set[tuple[int, ...]] = set()
    for way in WAYS:
        for window, counts in enumerate(_counts(counting, sheet, way)):
            added = counts - np.array(sheet.heights)
            if np.any((added != 0) & ~held) or added.min() < 0 or added.max() > 1 or added.sum() != allowed:
                yield f"{way}, window {window}: one user added {added.tolist()} to {list(sheet.heights)}"
            kept.add(tuple(added.tolist()))
    if len(kept) > 1:
        yield f"what is kept of one user is not the same on every way: {sorted(kept)}"


def _counts(counting: Counting, sheet: Sheet, way: Way) -> Iterator[np.ndarray]:
    for tables in totals_of(counting, sheet, way):
        found = np.zeros(_SIZE, np.int64)
        for table in tables:
            for item, count in zip(table["item"].to_pylist(), table["count"].to_pylist(), strict=True):
                found[item if isinstance(item, int) else sheet.labels().index(item)] += count
        yield found
