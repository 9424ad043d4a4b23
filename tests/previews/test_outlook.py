"""What a preview says of a mechanism, against every answer there is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

from private_topk.previews import look
from private_topk.previews.outlook import Outlook
from private_topk.transforms.mechanisms import Canonical, CdpPeeling, Joint, JointSet, Mechanism, Peeling, TopStable
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from tests.quick import few, in_check

COUNTS = [(9, 6, 5, 2, 0), (7, 7, 4, 4, 4, 1), (3, 3, 3, 3), (20, 2, 1)]
K = 2

Answers = Iterator[tuple[tuple[int, ...], float]]


def peeled(rate: float, counts: tuple[int, ...]) -> Answers:
    for answer in itertools.permutations(range(len(counts)), K):
        left, chance = list(range(len(counts))), 1.0
        for item in answer:
            weights = [math.exp(rate * counts[other]) for other in left]
            chance *= math.exp(rate * counts[item]) / sum(weights)
            left.remove(item)
        yield answer, chance


def joint(epsilon: float, counts: tuple[int, ...]) -> Answers:
    top = sorted(counts, reverse=True)
    weights = {
        answer: math.exp(-epsilon / 2 * max(top[i] - counts[item] for i, item in enumerate(answer)))
        for answer in itertools.permutations(range(len(counts)), K)
    }
    return ((answer, weight / sum(weights.values())) for answer, weight in weights.items())


def sets(epsilon: float, counts: tuple[int, ...], name: str) -> Answers:
    top = sorted(counts, reverse=True)
    weights = {}
    for answer in itertools.combinations(range(len(counts)), K):
        taken = sorted((counts[item] for item in answer), reverse=True)
        out = max(counts[item] for item in range(len(counts)) if item not in answer)
        loss = (max(out, taken[-1]) - taken[-1]) / 2
        if name == "joint-set":
            loss = max(a - b for a, b in zip(top, taken, strict=False)) / 2
        elif tuple(taken) == tuple(top[:K]):
            loss = 0.0
        weights[answer] = math.exp(-epsilon * loss)
    return ((answer, weight / sum(weights.values())) for answer, weight in weights.items())


def expected(answers: Answers, counts: tuple[int, ...], ordered: bool) -> dict[str, list[float] | float]:
    """What `Outlook` states, from its definitions, item by item."""
    top = sorted(counts, reverse=True)[:K]
    spots = {value: top.count(value) for value in top}
    found: dict[str, np.ndarray] = {name: np.zeros(K) for name in ("right", "belongs", "so_far", "found")}
    single = dict.fromkeys(("recall", "order", "l_inf", "l_1", "ratio", "returned"), 0.0)
    total = 0.0
    for answer, chance in answers:
        values = [counts[item] for item in answer]
        values = values if ordered else sorted(values, reverse=True)
        right = [value == wanted for value, wanted in zip(values, top, strict=True)]
        found["right"] += chance * np.array(right)
        found["so_far"] += chance * np.logical_and.accumulate(right)
        found["belongs"] += chance * np.array([value >= top[-1] for value in values])
        part = np.array([min(values.count(value), spots[value]) / spots[value] for value in top])
        found["found"] += chance * part
        off = [abs(value - wanted) for value, wanted in zip(values, top, strict=True)]
        single["recall"] += chance * part.mean()
        single["order"] += chance * np.mean(right)
        single["l_inf"] += chance * max(off)
        single["l_1"] += chance * sum(off)
        single["ratio"] += chance * sum(values) / sum(top)
        single["returned"] += chance * len(answer)
        total += chance
    assert total == pytest.approx(1, abs=1e-9)
    return {**{name: list(values) for name, values in found.items()}, **single}


CASES: list[tuple[Mechanism, object]] = [
    (Peeling(1.0), lambda counts: peeled(0.5, counts)),
    (CdpPeeling(1.0, 1e-6), lambda counts: peeled(float(CdpPeeling(1.0, 1e-6).share(K)), counts)),
    (Joint(1.0), lambda counts: joint(1.0, counts)),
    (JointSet(1.0), lambda counts: sets(1.0, counts, "joint-set")),
    (Canonical(1.0), lambda counts: sets(1.0, counts, "canonical")),
]


@in_check("joint-counts0", "canonical-counts0")
@pytest.mark.parametrize("counts", few((counts,) for counts in COUNTS))
@pytest.mark.parametrize(("mechanism", "law"), CASES, ids=[mechanism.about.name for mechanism, _ in CASES])
def test_every_number_is_that_of_the_law(mechanism: Mechanism, law: object, counts: tuple[int, ...]) -> None:
    """2,000 draws, five standard errors: a right preview fails one time in 1e6, one that is 0.06 off nearly always."""
    draws = 2000
    outlook = look(mechanism, Histogram.of(np.array(counts)), K, draws)
    wanted = expected(law(counts), counts, outlook.ordered)  # type: ignore[operator]
    for name in ("right", "belongs", "so_far", "found") if outlook.ordered else ("found",):
        for place, one in enumerate(getattr(outlook, name)):
            off = 5 * math.sqrt(0.25 / draws)
            assert one.value == pytest.approx(wanted[name][place], abs=off), (name, place)  # type: ignore[index]
    for name in ("recall", "order", "l_inf", "l_1", "ratio", "returned"):
        one = getattr(outlook, name)
        if outlook.ordered or name != "order":
            off = 5 * K * max(counts) / 2 / math.sqrt(draws) * (0.2 if name != "l_1" else 1)
            assert one.value == pytest.approx(wanted[name], abs=off), name  # type: ignore[arg-type]


def test_a_preview_repeats_itself() -> None:
    histogram = Histogram.of(np.array([9, 6, 5, 2, 0]))
    assert look(Joint(1.0), histogram, 2, 50) == look(Joint(1.0), histogram, 2, 50)


def test_an_unknown_domain_returns_fewer() -> None:
    histogram = Histogram.of(np.array([1000, 900, 3, 2, 1]))
    outlook = look(TopStable(1.0, 1e-6), histogram, 3, 100)
    assert 0 < outlook.returned.value < 3 and outlook.returned.high < 3
    assert outlook.recall.value == pytest.approx(outlook.returned.value / 3)
    assert not outlook.right and len(outlook.found) == 3


def test_an_unknown_domain_with_fewer_items_than_k() -> None:
    outlook: Outlook = look(TopStable(1.0, 1e-6), Histogram.of(np.array([10**6, 10**5])), 5, 20)
    assert outlook.recall.value == 1 and outlook.returned.value == 2
