"""What of one user reaches the mechanism, without any chance: on every way, key and bound."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from private_topk.testing.audit.sampler import Sampler
from private_topk.testing.audit.scenes import GROUPS, LABELS, RESOLUTION, Sheet
from private_topk.testing.audit.ways import WAYS, Counting, Way, totals_of
from private_topk.transforms.amounts import Amounts
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.groups import Groups

__all__ = ["LIMITS", "wrong_counts"]

LIMITS = (None, 1)
_SIZE = 4


def wrong_counts(sampler: Sampler) -> Iterator[str]:
    """What is wrong with the counts of any scene, in words; nothing where all is well.

    The others' counts must be theirs, whatever the one user does; and that user must add 1, or the cap of amounts, to
    each item held, or to exactly as many of them as the bound allows, the same ones on every way; of groups in the
    one of most rows.
    """
    domains: dict[str, PublicDomain | UnknownDomain] = {
        "public": PublicDomain.of(LABELS[:_SIZE]), "unknown": UnknownDomain()
    }  # fmt: skip
    for (name, domain), limit, (of, what) in product(domains.items(), LIMITS, _COUNTED.items()):
        counting = Counting(domain, limit, sampler.key(0), None, **what)
        for scene, sheet in _SHEETS.items() if not what else [(_OWN, _SHEETS[_OWN])]:
            told = f"{name} domain, {'no bound' if limit is None else f'at most {limit}'}, {of}{scene}"
            yield from (f"{told}, {fault}" for fault in _wrong(counting, sheet))


_CAP = 3
_COUNTED: dict[str, dict[str, Any]] = {
    "": {},
    "amounts, ": {"amounts": Amounts.of(_CAP * RESOLUTION, RESOLUTION)},
    "one group a user, ": {"groups": Groups.of(GROUPS)},
    "amounts in two groups a user, ": {
        "amounts": Amounts.of(_CAP * RESOLUTION, RESOLUTION), "groups": Groups.of(GROUPS, 2)
    },
}  # fmt: skip
_OWN = "an item of one's own"
_SHEETS = {
    "one of many": Sheet((3, 2, 2, 5), (1,)),
    "all items": Sheet((3, 3, 3, 3), (0, 1, 2, 3)),
    _OWN: Sheet((3, 2, 0, 5), (2, 3)),
    "nobody else": Sheet((0, 0, 0, 0), (0, 2, 3)),
}


def _wrong(counting: Counting, sheet: Sheet) -> Iterator[str]:
    held = np.isin(np.arange(_SIZE), sheet.mine)
    allowed = len(sheet.mine) if counting.limit is None else min(counting.limit, len(sheet.mine))
    most = 1 if counting.amounts is None else counting.amounts.cap
    per_user = 1 if counting.groups is None else counting.groups.per_user
    kept: set[tuple[int, ...]] = set()
    for way in WAYS:
        for window, counts in enumerate(_counts(counting, sheet, way)):
            added, group = counts - np.array(sheet.heights), window % counting.parts
            counts_here = per_user > 1 or group == min(sheet.group, counting.parts - 1)
            steps = set(added[added != 0].tolist())
            if np.any((added != 0) & ~held) or steps - {most} or added.sum() != allowed * most * counts_here:
                yield f"{way}, window {window}: one user added {added.tolist()} to {list(sheet.heights)}"
            if counts_here:
                kept.add(tuple(added.tolist()))
    if len(kept) > 1 and counting.parts == 1:
        yield f"what is kept of one user is not the same on every way: {sorted(kept)}"


def _counts(counting: Counting, sheet: Sheet, way: Way) -> Iterator[np.ndarray]:
    for tables in totals_of(counting, sheet, way):
        found = np.zeros(_SIZE, np.int64)
        for table in tables:
            for item, count in zip(table["item"].to_pylist(), table["count"].to_pylist(), strict=True):
                found[item if isinstance(item, int) else sheet.labels().index(item)] += count
        yield found
