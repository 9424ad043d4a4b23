"""Private top-k selection from a vector of counts. Numpy and ball arithmetic only: nothing here imports Beam."""

from __future__ import annotations

from private_topk.transforms.mechanisms.correlated_gaussian import CorrelatedGaussian
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.bits import RandomBits
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Mechanism
from private_topk.transforms.mechanisms.noisy_counts import noise_of_counts, publish_counts
from private_topk.transforms.mechanisms.noisy_order import (
    CdpPeeling,
    Gamma,
    Gaussian,
    Laplace,
    Oneshot,
    Peeling,
    PnfPeeling,
)
from private_topk.transforms.mechanisms.parameters import Parameter, parameter, parameters_of
from private_topk.transforms.mechanisms.registry import MECHANISMS, make_mechanism, mechanism_by_name
from private_topk.transforms.mechanisms.restricted import (
    Restricted,
    RestrictedGumbel,
    RestrictedLaplace,
    RestrictedNormal,
    RestrictedPnf,
)
from private_topk.transforms.mechanisms.unknown_domain import LaplaceLimitDomain, LimitDomain, TopStable
from private_topk.transforms.mechanisms.weighted_sums import WeightedGaussian, WeightedOrder
from private_topk.transforms.mechanisms.whole_answers import Canonical, FastJoint, Joint, JointSet

__all__ = [
    "MECHANISMS",
    "About",
    "Canonical",
    "CdpPeeling",
    "CorrelatedGaussian",
    "Cost",
    "FastJoint",
    "Gamma",
    "Gaussian",
    "Guarantee",
    "Histogram",
    "Joint",
    "JointSet",
    "Laplace",
    "LaplaceLimitDomain",
    "LimitDomain",
    "Mechanism",
    "Oneshot",
    "Parameter",
    "Peeling",
    "PnfPeeling",
    "RandomBits",
    "Restricted",
    "RestrictedGumbel",
    "RestrictedLaplace",
    "RestrictedNormal",
    "RestrictedPnf",
    "TopStable",
    "WeightedGaussian",
    "WeightedOrder",
    "make_mechanism",
    "mechanism_by_name",
    "noise_of_counts",
    "parameter",
    "parameters_of",
    "publish_counts",
]
