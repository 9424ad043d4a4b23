"""Every rule of the contract has a mechanism that breaks it, and is caught."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import About, Cost, Guarantee, Histogram, Mechanism, Peeling, RandomBits
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.testing import check_mechanism


def broken(name: str, **methods: object) -> Mechanism:
    given = {"about": About(name, "-", "-", "-"), "guarantee": Peeling.guarantee, **methods, "__module__": __name__}
    kind = globals()[name] = type(name, (Peeling,), given)  # where pickle finds it
    return kind(1.0)


def narrow(self: Mechanism, counts: np.ndarray, k: int, bits: RandomBits) -> np.ndarray:
    shifted = np.asarray(counts) * np.asarray(counts).dtype.type(3) if np.asarray(counts).dtype.kind in "iu" else counts
    return Peeling.__call__(self, shifted, k, bits)


def writes(self: Mechanism, counts: np.ndarray, k: int, bits: RandomBits) -> np.ndarray:
    counts[0] += 0
    return Peeling.__call__(self, counts, k, bits)


def at_random(self: Mechanism, histogram: Histogram, k: int, draw: Draw) -> np.ndarray:
    left = list(range(histogram.items))
    return np.array([left.pop(draw.below(len(left))) for _ in range(k)])


def at_random_mostly(self: Mechanism, histogram: Histogram, k: int, draw: Draw) -> np.ndarray:
    return (at_random if draw.below(3) < 2 else Peeling.select)(self, histogram, k, draw)


@dataclass(frozen=True)
class Turned(Peeling):
    about: ClassVar[About] = About("turned", "-", "-", "-")
    guarantee: ClassVar[Guarantee] = Guarantee("pure", "public", "set")

    def __call__(self, counts: np.ndarray, k: int, bits: RandomBits) -> np.ndarray:
        return Peeling.__call__(self, counts, k, bits)[::-1]


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (broken("Repeats", select=lambda self, histogram, k, draw: np.zeros(k, np.int64)), "different ranks"),
        (broken("Short", select=lambda self, histogram, k, draw: np.arange(k - 1)), "different ranks"),
        (broken("Ambient", select=lambda self, histogram, k, draw: np.arange(k)), "two draws gave one answer"),
        (broken("Narrow", __call__=narrow), "a negative count was given"),
        (broken("Writes", __call__=writes), "read-only"),
        (broken("Blind", select=at_random), r"a quarter of 20 answers must be \{0, 1\}, got \{1, 3\}"),
        (broken("Small", sensitivity=1), "the noise is that of counts though a user moves a sum by the cap"),
        (
            broken("Free", cost=lambda self, k: Cost(Fraction(1, 2))),
            r"cost\(1\) must have the mechanism's epsilon and delta",
        ),
        (broken("Uncosted", cost=lambda self, k: self.epsilon), r"cost\(1\) must return a Cost, got a float"),
        (broken("Namesake", about=Peeling.about), "Namesake must have a name of its own: peeling is a built-in one's"),
        (
            broken("Nowhere", __qualname__="f.<locals>.Nowhere"),
            "Nowhere must be importable from a module, here and on the workers",
        ),
        (Turned(1.0), "any other order may tell the ranks"),
        (Turned, r"mechanism must be made, such as Turned\(epsilon=1.0\), got the class itself"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_broken_mechanism_is_caught(mechanism: Mechanism, said: str) -> None:
    with pytest.raises((AssertionError, ValueError, AttributeError), match=said):
        check_mechanism(mechanism)


@pytest.mark.parametrize("sound", [Peeling(1.0), broken("Lazy", select=at_random_mostly)], ids=repr)
def test_a_sound_mechanism_passes_the_contract(sound: Mechanism) -> None:
    """One that answers at random with a fixed probability, whatever the counts are, is as private."""
    check_mechanism(sound)


def test_an_approximate_mechanism_has_a_delta() -> None:
    with pytest.raises(ValueError, match="Deltaless must have a field `delta`, as its guarantee is approximate"):
        broken("Deltaless", guarantee=Guarantee("approximate", "public", "sequence"))
