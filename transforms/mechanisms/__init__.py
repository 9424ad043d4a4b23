"""Private top-k selection from a vector of counts. Numpy and ball arithmetic only: nothing here imports Beam."""

from __future__ import annotations

from private_topk.transforms.mechanisms.bits import RandomBits
from private_topk.transforms.mechanisms.cdp_peeling import CdpPeeling
from private_topk.transforms.mechanisms.fast_joint import FastJoint
from private_topk.transforms.mechanisms.gamma import Gamma
from private_topk.transforms.mechanisms.gaussian import Gaussian
from private_topk.transforms.mechanisms.joint import Joint
from private_topk.transforms.mechanisms.laplace import Laplace
from private_topk.transforms.mechanisms.mechanism import About, Mechanism
from private_topk.transforms.mechanisms.oneshot import Oneshot
from private_topk.transforms.mechanisms.peeling import Peeling
from private_topk.transforms.mechanisms.pnf_peeling import PnfPeeling

__all__ = [
    "MECHANISMS",
    "About",
    "CdpPeeling",
    "FastJoint",
    "Gamma",
    "Gaussian",
    "Joint",
    "Laplace",
    "Mechanism",
    "Oneshot",
    "Peeling",
    "PnfPeeling",
    "RandomBits",
]

_ALL: tuple[type[Mechanism], ...] = (
    Joint,
    FastJoint,
    Peeling,
    CdpPeeling,
    PnfPeeling,
    Oneshot,
    Laplace,
    Gaussian,
    Gamma,
)

MECHANISMS: dict[str, type[Mechanism]] = {mechanism.about.name: mechanism for mechanism in _ALL}
"""Every mechanism by the name it has on the command line."""
