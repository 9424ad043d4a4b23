"""How often an audit is wrong, and what it sees, with draws whose law is known: randomised responses."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from private_topk.testing.audit.audit import audit_case
from private_topk.testing.audit.cases import Case, cases_of
from private_topk.testing.audit.events import Answer
from private_topk.testing.audit.sampler import Sampler
from private_topk.testing.audit.scenes import Sheet


class Responses(Sampler):
    """Whether the one user is there, told with odds of exp(loss): the worst that loss allows."""

    def __init__(self, loss: float, seed: int) -> None:
        super().__init__(b"not used")
        self._loss, self._draw = loss, random.Random(seed)

    def draw(
        self, case: Case, world: Sequence[Sheet], numbers: Sequence[int], name: str, one_way: bool = False
    ) -> list[tuple[Answer, ...]]:
        truth = 1 / (1 + math.exp(-self._loss))
        there = bool(world[-1].mine)
        return [(Answer((int((self._draw.random() < truth) == there),), None),) for _ in numbers]


CASE = cases_of(["laplace"])[0]


def test_a_loss_of_what_is_declared_is_never_taken_for_more() -> None:
    """At a risk of one half: for more than 20 seeds of 24 once in a thousand audits, for all of 8 once in 256."""
    seeds = range(24)
    wrong = sum(not audit_case(CASE, Responses(2.0, seed), 200, 0.5).holds for seed in seeds)
    assert wrong <= (20 if len(seeds) == 24 else 7)
    assert all(audit_case(CASE, Responses(2.0, seed), 200, 1e-5).holds for seed in range(10))


def test_twice_what_is_declared_is_found() -> None:
    """At a risk of 1e-5, with the draws of a default audit."""
    for seed in range(2):
        met = audit_case(CASE, Responses(4.0, seed), 2000, 1e-5)
        assert not met.holds and 2.7 < met.bound < 4.0
    assert 1.5 < audit_case(CASE, Responses(2.0, 1), 2000, 1e-5).bound < 2
