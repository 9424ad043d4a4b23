"""Shapes of counts for tests: those of Zipf's law, told by the reaches of their first and last rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from private_topk.pipelines.preview import Expected, Outlook, PublicCounts, Reaches, look
from private_topk.transforms.domain import RangeDomain, UnknownDomain
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.spec import TopK


def zipf(exponent: float, items: int, users: int, per_user: float) -> Reaches:
    """Counts that fall as 1 / rank**exponent, for users of so many items each."""
    return Reaches(_reaches(exponent, items, per_user), items, users)


def looked(mechanism: Mechanism, expected: Expected | Sequence[int], k: int, draws: int | None = None) -> Outlook:
    """The outlook of a mechanism on counts, over a list of that length or over items that are not public."""
    expected = PublicCounts(np.array(expected, np.int64)) if isinstance(expected, Sequence) else expected
    items = expected.histogram(None, False).items
    unknown = mechanism.guarantee.domain == "unknown"
    most = mechanism.parameter("max_items_per_user")
    top_k = TopK(k, mechanism, UnknownDomain() if unknown else RangeDomain(0, items), max_items_per_user=most)
    return look(top_k, expected, draws)


def like(exponent: float, items: int, users: object, per_user: float, *, told: bool = True) -> str:
    """The same in words, of one number of users or of several; `told`: with the number of items."""
    reaches = (f"rank{rank}={reach:.12f}" for rank, reach in _reaches(exponent, items, per_user).items())
    return ",".join([*([f"items={items}"] if told else []), f"users={users}", *reaches])


def _reaches(exponent: float, items: int, per_user: float) -> dict[int, float]:
    popularity = np.arange(1.0, items + 1) ** -exponent
    low, high = 0.0, 1e9
    for _ in range(200):
        w = (low + high) / 2
        low, high = (w, high) if -np.expm1(-popularity * w).sum() < per_user else (low, w)
    return {rank: float(-np.expm1(-w * rank**-exponent)) for rank in (1, items)}
