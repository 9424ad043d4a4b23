"""Private top-k selection from a vector of counts. Numpy and ball arithmetic only: nothing here imports Beam."""

from __future__ import annotations

from private_topk.transforms.mechanisms.canonical import Canonical
from private_topk.transforms.mechanisms.cdp_peeling import CdpPeeling
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.bits import RandomBits
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.fast_joint import FastJoint
from private_topk.transforms.mechanisms.gamma import Gamma
from private_topk.transforms.mechanisms.gaussian import Gaussian
from private_topk.transforms.mechanisms.joint import Joint
from private_topk.transforms.mechanisms.joint_set import JointSet
from private_topk.transforms.mechanisms.laplace import Laplace
from private_topk.transforms.mechanisms.laplace_limit_domain import LaplaceLimitDomain
from private_topk.transforms.mechanisms.limit_domain import LimitDomain
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Mechanism
from private_topk.transforms.mechanisms.noisy_counts import noise_of_counts, publish_counts
from private_topk.transforms.mechanisms.oneshot import Oneshot
from private_topk.transforms.mechanisms.parameters import Parameter, parameter, parameters_of
from private_topk.transforms.mechanisms.peeling import Peeling
from private_topk.transforms.mechanisms.pnf_peeling import PnfPeeling
from private_topk.transforms.mechanisms.registry import MECHANISMS, make_mechanism, mechanism_by_name
from private_topk.transforms.mechanisms.restricted import Restricted
from private_topk.transforms.mechanisms.restricted_gumbel import RestrictedGumbel
from private_topk.transforms.mechanisms.restricted_laplace import RestrictedLaplace
from private_topk.transforms.mechanisms.restricted_normal import RestrictedNormal
from private_topk.transforms.mechanisms.restricted_pnf import RestrictedPnf
from private_topk.transforms.mechanisms.top_stable import TopStable
from private_topk.transforms.mechanisms.weighted_gaussian import WeightedGaussian
from private_topk.transforms.mechanisms.weighted_order import WeightedOrder

__all__ = [
    "MECHANISMS",
    "About",
    "Canonical",
    "CdpPeeling",
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
