"""Private top-k selection from a vector of counts. Numpy and ball arithmetic only: nothing here imports Beam."""

from __future__ import annotations

from private_topk.transforms.mechanisms.bits import RandomBits
from private_topk.transforms.mechanisms.laplace_limit_domain import LaplaceLimitDomain
from private_topk.transforms.mechanisms.limit_domain import LimitDomain
from private_topk.transforms.mechanisms.mechanism import About, Mechanism
from private_topk.transforms.mechanisms.restricted_gumbel import RestrictedGumbel
from private_topk.transforms.mechanisms.restricted_laplace import RestrictedLaplace
from private_topk.transforms.mechanisms.restricted_normal import RestrictedNormal
from private_topk.transforms.mechanisms.top_stable import TopStable

__all__ = ["MECHANISMS", "About", "Mechanism", "RandomBits"]

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.about.name: mechanism
    for mechanism in (
        LimitDomain,
        LaplaceLimitDomain,
        TopStable,
        RestrictedGumbel,
        RestrictedNormal,
        RestrictedLaplace,
    )
}
"""Every mechanism by the name it has on the command line."""
