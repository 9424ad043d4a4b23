"""Closed forms against every answer there is, and against draws where there are too many answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from private_topk.previews import PublicCounts, Zipf, look
from private_topk.previews.laws import law_of
from private_topk.transforms.mechanisms import Canonical, Joint, Mechanism, Oneshot, Peeling, PnfPeeling
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from tests.previews.test_outlook import CASES, K, expected, peeled
from tests.quick import in_check


def histogram(*counts: int) -> Histogram:
    return PublicCounts(counts).histogram(None, False)


@pytest.mark.parametrize("counts", [(9, 6, 5, 2, 0), (7, 7, 4, 1, 1), (20, 2, 1), (3, 3, 2, 2, 1, 1), (4, 1)])
@pytest.mark.parametrize(("mechanism", "law"), CASES, ids=[mechanism.about.name for mechanism, _ in CASES])
def test_closed_forms_are_the_law(mechanism: Mechanism, law: object, counts: tuple[int, ...]) -> None:
    found = law_of(mechanism, histogram(*counts), K)
    assert bool(found) == (mechanism.about.name != "joint-set")
    if len(counts) > K or mechanism.answer == "sequence":
        wanted = expected(law(counts), counts, mechanism.answer == "sequence")  # type: ignore[operator]
        for name, chances in found.items():
            assert chances == pytest.approx(wanted[name][: len(chances)], abs=1e-12), name  # type: ignore[index]


def test_gumbel_noise_once_is_peeling() -> None:
    counts = (9, 6, 5, 2, 0)
    found = law_of(Oneshot(1.0, noise="gumbel"), histogram(*counts), K)
    assert found["so_far"] == pytest.approx(expected(peeled(0.5, counts), counts, True)["so_far"], abs=1e-12)


@pytest.mark.parametrize("skew", ["0.5", "0.75", "1"])
@pytest.mark.parametrize("neighbours", ["add-remove", "swap"])
def test_a_skewed_joint_by_its_definition(skew: str, neighbours: str) -> None:
    import itertools

    counts, g, rate = (9, 6, 5, 2, 0), float(skew), 1.0 if neighbours == "add-remove" else 0.5
    weights = {
        answer: math.exp(-rate * max((1 - g) * counts[i] - g * counts[item] for i, item in enumerate(answer)))
        for answer in itertools.permutations(range(5), 3)
    }
    right = sum(w for answer, w in weights.items() if answer[1] == 1) / sum(weights.values())
    there = sum(w for answer, w in weights.items() if 2 in answer) / sum(weights.values())
    found = law_of(Joint(1.0, skew=skew, neighbours=neighbours), histogram(*counts), 3)  # type: ignore[arg-type]
    assert found["right"][1] == pytest.approx(right, abs=1e-12)
    assert found["found"][2] == pytest.approx(there, abs=1e-12)


@in_check("10-*")
@pytest.mark.parametrize(("k", "epsilon"), [(10, 0.05), (40, 0.3), (40, 3.0)])
def test_closed_forms_agree_with_draws_of_many_items(k: int, epsilon: float) -> None:
    """300 draws, five standard errors: fails for nothing one time in 1e5, and sees what is 0.15 off in one rank."""
    shape = Zipf(0.9, 3000, 5000, 12).histogram(None, False)
    for mechanism in (Joint(epsilon), Canonical(epsilon), Peeling(epsilon)):
        known, top = law_of(mechanism, shape, k), shape.top(k)
        assert known
        prepared, hits = mechanism.prepare(shape), {name: np.zeros(k) for name in ("right", "found", "belongs")}
        from private_topk.transforms.mechanisms import RandomBits

        bits = RandomBits.keyed(b"laws")
        for _ in range(300):
            ranks = prepared.ranks(k, bits)
            hits["found"] += np.isin(np.arange(k), ranks)
            values = shape.counts_at(ranks)
            hits["right"] += values == top
            hits["belongs"] += values >= top[-1]
        for name in hits.keys() & known.keys():
            seen = (hits[name] / 300)[: len(known[name])]
            assert np.abs(seen - known[name]).max() <= 5 * math.sqrt(0.25 / 300), (mechanism.about.name, name)
            assert seen.mean() == pytest.approx(known[name].mean(), abs=0.05)


@pytest.mark.long
def test_where_there_is_no_closed_form_nothing_is_claimed() -> None:
    assert not law_of(Joint(1.0), histogram(5, 3, 3), 2), "two items have the count of the last place"
    assert not law_of(Joint(1.0, noise="exponential"), histogram(5, 3, 1), 2)
    assert not law_of(PnfPeeling(1.0), histogram(5, 3, 1), 2)
    assert not law_of(Joint(1e-7), Zipf(0.5, 10**6, 10**9, 50).histogram(None, False), 200), "the sum is too long"
    assert law_of(Canonical(1.0), histogram(5, 3), 2)["found"].tolist() == [1, 1]
    assert law_of(Canonical(50.0), histogram(5000, 3000, 10), 2)["found"].tolist() == [1, 1]


def test_what_is_exact_says_so() -> None:
    outlook = look(Joint(1.0), histogram(9, 6, 5, 2, 0), 2, 5)
    assert outlook.recall.exact and outlook.order.exact and all(one.exact for one in outlook.right)
    assert not outlook.l_1.exact
    peeling = look(Peeling(1.0), histogram(9, 6, 5, 2, 0), 2, 5)
    assert peeling.right[0].exact and not peeling.right[1].exact and all(one.exact for one in peeling.so_far)
    assert not peeling.recall.exact
