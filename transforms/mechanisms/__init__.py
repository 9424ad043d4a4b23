"""Private top-k selection from a vector of counts. Numpy and ball arithmetic only: nothing here imports Beam."""

from __future__ import annotations

from private_topk.transforms.mechanisms.bits import RandomBits
from private_topk.transforms.mechanisms.canonical import Canonical
from private_topk.transforms.mechanisms.joint_set import JointSet
from private_topk.transforms.mechanisms.mechanism import About, Mechanism

__all__ = ["MECHANISMS", "About", "Mechanism", "RandomBits"]

MECHANISMS: dict[str, type[Mechanism]] = {mechanism.about.name: mechanism for mechanism in (Canonical, JointSet)}
"""Every mechanism by the name it has on the command line."""
