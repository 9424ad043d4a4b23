"""The answer of a key never changes: a release repeated on another machine, or by a later version, repeats its answer.

`pinned_answers.json` holds, for every mechanism and configuration, a checksum of its draws. It is written anew
(`python -m tests.transforms.mechanisms.test_pinned_answers`) only where the changelog says that rankings change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from private_topk.transforms.mechanisms import (
    MECHANISMS,
    Mechanism,
    Peeling,
    PnfPeeling,
    RandomBits,
    Restricted,
    parameters_of,
)
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from private_topk.transforms.mechanisms.weighted import UNIT
from tests.nightly import nightly_but

PINNED = Path(__file__).with_name("pinned_answers.json")
VECTORS = {
    "steps": (np.arange(1, 2001) * 7919 % 2003) ** 2 // 1000,
    "zipf": 10**6 // (1 + np.arange(3000) * 1009 % 3001),
    "ties": np.arange(500) % 7,
    "small": np.array([3, 1, 0, 2, 2]),
    "large": np.array([2**62, 2**62 - 1, 2**62 - 1, 5, 2**61, 0, 1, 2**62]),
}
VARIANTS: dict[str, list[dict[str, object]]] = {
    "joint": [{}, {"skew": 0.75}, {"noise": "exponential"}],
    "joint-set": [{}, {"noise": "exponential"}, {"noise": "logistic"}],
    "canonical": [{}, {"gamma": 1}, {"gamma": Fraction(1, 3), "noise": "laplace"}, {"noise": "exponential"}],
    "oneshot": [{"noise": noise} for noise in ("gumbel", "exponential", "laplace", "logistic", "half-logistic")],
    "laplace": [{}, {"max_items_per_user": 2}],
    "weighted-gaussian": [{}, {"whole_items": 1}],
    "gaussian": [{"max_items_per_user": 2}, {}],
}


def configurations() -> Iterator[Mechanism]:
    for name, kind in MECHANISMS.items():
        own = kind.__dataclass_fields__
        needed: dict[str, object] = {"delta": 1e-6} if "delta" in own else {}
        if "max_items_per_user" in own and parameters_of(kind)["max_items_per_user"].required:
            needed["max_items_per_user"] = 2
        for variant in VARIANTS.get(name, [{}]):
            yield kind(epsilon=0.1, **needed, **variant)
            yield kind(epsilon=2.0, neighbours="replace-one", **needed, **variant)
    yield Restricted(PnfPeeling(1.0), 0.5, 1e-6)
    yield Restricted(Peeling(1.0, "replace-one"), 0.5, 1e-6)


def checksum(mechanism: Mechanism) -> str:
    """Of ten draws for each vector and k."""
    found = []
    for counts in VECTORS.values():
        for k in (1, 5) if len(counts) < 10 else (1, 5, 20):
            given = counts * UNIT if mechanism.guarantee.metric == "weights" and counts.max() < 2**40 else counts
            bits, named = RandomBits.keyed(b"pinned"), IndexedCounts.of(given)
            prepared = mechanism.prepare(named.histogram)
            # Ten draws of one prepared mechanism are ten calls: `test_front` and `frequencies` compare them.
            drawn = [named.items(prepared.ranks(k, bits)) for _ in range(10)]
            found.append([sorted(a.tolist()) if mechanism.guarantee.answer == "set" else a.tolist() for a in drawn])
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]


BY_DAY = [each for each in configurations() if each.parameter("neighbours") == "add-remove"]
"""The other relation has half the share of a draw, at another epsilon."""


@pytest.mark.parametrize("mechanism", nightly_but(configurations(), *BY_DAY), ids=repr)
def test_the_answers_of_a_key_are_what_they_were(mechanism: Mechanism) -> None:
    assert checksum(mechanism) == json.loads(PINNED.read_text())[repr(mechanism)]


if __name__ == "__main__":
    PINNED.write_text(json.dumps({repr(m): checksum(m) for m in configurations()}, indent=1) + "\n")
