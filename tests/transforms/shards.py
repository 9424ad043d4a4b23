"""User shards by themselves."""

from __future__ import annotations

from private_topk.transforms.domain import UnknownDomain
from private_topk.transforms.mechanisms import LimitDomain
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.spec import TopK
from private_topk.transforms.user_shards import UserShard


def shard_of(layout: Partitioning, key: ReleaseKey, limit: int | None = None, most: int | None = None) -> UserShard:
    """A user shard that counts users, within bounds on their items and on their windows."""
    return UserShard(TopK(1, LimitDomain(1.0, 1e-6), UnknownDomain(), limit, max_windows_per_user=most), layout, key)
