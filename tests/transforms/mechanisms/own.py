"""A mechanism of one's own over a built-in one: what it draws is its own, and so is what it can say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from private_topk.transforms.mechanisms import Guarantee, Joint


@dataclass(frozen=True)
class SaysNothing(Joint):
    """Of users who leave one ranking and enter another."""

    guarantee: ClassVar[Guarantee] = Guarantee("pure", "public", "sequence")
