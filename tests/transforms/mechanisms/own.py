"""Mechanisms of one's own: what they draw is their own, and so is what they can say of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from private_topk.transforms.mechanisms import About, Guarantee, Histogram, Joint, Mechanism
from private_topk.transforms.mechanisms.exact.bits import Draw


@dataclass(frozen=True)
class SaysNothing(Joint):
    """Over a built-in one: of users who leave one ranking and enter another."""

    about: ClassVar[About] = replace(Joint.about, name="says-nothing")
    guarantee: ClassVar[Guarantee] = Guarantee("pure", "public", "sequence")


@dataclass(frozen=True)
class Namesake(Joint):
    """Has the name of the mechanism that it is made of."""

    guarantee: ClassVar[Guarantee] = Joint.guarantee


@dataclass(frozen=True)
class OfOneRelation(Mechanism):
    """Has no field for its neighbours."""

    about: ClassVar[About] = replace(Joint.about, name="of-one-relation")
    guarantee: ClassVar[Guarantee] = Guarantee("pure", "public", "sequence", neighbours=("add-remove",))
    epsilon: float

    def select(self, histogram: Histogram, k: int, draw: Draw) -> np.ndarray:
        return np.arange(k)
