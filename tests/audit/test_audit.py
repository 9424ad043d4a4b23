"""How often an audit is wrong, and what it sees: draws whose law is known, and noise that tells of its answer."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks.audit.audit import Sampler, audit_case, dependence
from benchmarks.audit.datasets import GROUPS, LABELS, Case, Dataset, cases_of
from benchmarks.audit.distinguish import Answer, Drawn
from benchmarks.audit.paths import PATHS, Path
from private_topk.transforms import spec
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.mechanisms.exact.histogram import Histogram

pytestmark = pytest.mark.nightly  # what the audit itself is worth; by day it has to find two planted defects

CASE, _, COUNTED, *_ = cases_of(["laplace"])


class Responses(Sampler):
    """Whether the target is there, told with odds of exp(loss): the worst that loss allows."""

    def __init__(self, loss: float, seed: int) -> None:
        super().__init__(b"not used")
        self._loss, self._draw = loss, random.Random(seed)

    def draw(
        self,
        case: Case,
        datasets: tuple[Dataset, ...],
        numbers: Sequence[int],
        name: str,
        paths: Sequence[Path] = PATHS,
    ) -> Drawn:
        truth = 1 / (1 + math.exp(-self._loss))
        there = bool(datasets[-1].target)
        return [(Answer((int((self._draw.random() < truth) == there),), None),) for _ in numbers]


def test_a_loss_of_the_declared_epsilon_passes() -> None:
    """At a risk of one half: for more than 20 seeds of 24 once in a thousand."""
    wrong = sum(not audit_case(CASE, Responses(2.0, seed), 200, 0.5).holds for seed in range(24))
    assert wrong <= 20
    assert all(audit_case(CASE, Responses(2.0, seed), 200, 1e-5).holds for seed in range(10))


def test_a_loss_of_twice_the_declared_epsilon_is_found() -> None:
    """At a risk of 1e-5, with the draws of a default audit."""
    for seed in range(2):
        found = audit_case(CASE, Responses(4.0, seed), 2000, 1e-5)
        assert not found.holds and 2.7 < found.bound < 4.0
    assert 1.5 < audit_case(CASE, Responses(2.0, 1), 2000, 1e-5).bound < 2


def test_noise_that_follows_the_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise whose last digit is that of the first item; before that, noise with bits of its own."""
    assert dependence(COUNTED, Sampler(b"1"), 400, 1e-4) == 0
    real = spec.TopK.draw

    def following(self: spec.TopK, histogram: Histogram, *rest: Any) -> spec.DrawnRanks:  # noqa: ANN401
        drawn = real(self, histogram, *rest)
        assert drawn.noisy_counts is not None
        noisy = np.array(drawn.noisy_counts)
        noise = noisy - histogram.counts_at(drawn.ranks)
        return drawn._replace(noisy_counts=tuple((noisy - noise % 4 + drawn.ranks[0] % 4).tolist()))

    monkeypatch.setattr(spec.TopK, "draw", following)
    assert dependence(COUNTED, Sampler(b"1"), 600, 1e-4) > 0.5


def test_a_seed_repeats_every_draw_and_fresh_ones_differ() -> None:
    datasets = (Dataset((9,) * len(LABELS)),)
    drawn = [
        one.draw(COUNTED, datasets, range(30), "x") for one in (Sampler(b"1"), Sampler(b"1"), Sampler(), Sampler())
    ]
    assert drawn[0] == drawn[1] != drawn[2] != drawn[3] != drawn[1]
    assert Sampler(b"1").draw(COUNTED, datasets, range(30), "y") != drawn[0], "each draw has an id of its own"
    assert "1" not in repr(Sampler(b"1"))


def test_every_case_of_every_mechanism_can_be_drawn() -> None:
    sampler = Sampler(b"every")
    for number, case in enumerate(cases_of()):
        domain, k = case.spec.domain, case.spec.k
        size = domain.size if isinstance(domain, PublicDomain) else 5
        for answers in sampler.draw(case, (Dataset((80,) * size),) * case.releases, range(2), f"case {number}"):
            assert len(answers) == case.releases * (len(GROUPS) if case.of == "groups" else 1)
            for answer in answers:
                assert len(answer.items) <= k and set(answer.items) <= set(range(size))
                told = case.counted or case.spec.mechanism.guarantee.publishes_weights
                assert (answer.noisy is not None) == told


def test_a_fair_coin_chooses_the_dataset_of_every_draw() -> None:
    """Each number is on one side, the same ones for a seed; how many are on one is binomial: 5 sigmas, once in 1e6."""
    sides = Sampler(b"1").coins(10_000, "x")
    assert sorted(sides[0] + sides[1]) == list(range(10_000)) and abs(len(sides[0]) - 5000) < 250
    assert sides == Sampler(b"1").coins(10_000, "x") != Sampler(b"1").coins(10_000, "y")
