"""Answers that name an item twice, or none at all, never come out of a draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import About, Guarantee, LimitDomain, Mechanism, RandomBits
from private_topk.transforms.mechanisms.mechanism import check_ranks
from private_topk.transforms.testing.audit.datasets import cases_of

WRONG = [[0, 1], np.array([0, 0]), np.array([0.0, 1.0]), np.array([0]), np.array([0, 3]), np.array([-1, 0]),
         np.array([[0, 1]]), np.array([0, 1, 2]), np.array([True, False]), None]  # fmt: skip


@dataclass(frozen=True)
class Broken(Mechanism):
    """Answers with whatever `ANSWER` is."""

    about: ClassVar[About] = About(name="broken", cost="none", source="none", when="never")
    guarantee: ClassVar[Guarantee] = Guarantee("pure", "public", "sequence")
    epsilon: float = 1.0

    def select(self, histogram: Any, k: int, draw: Any) -> Any:  # noqa: ANN401 - what a user may have written
        return ANSWER[0]


@dataclass(frozen=True)
class Hiding(LimitDomain):
    about: ClassVar[About] = About(name="hiding", cost="none", source="none", when="")
    guarantee: ClassVar[Guarantee] = Guarantee("approximate", "unknown", "sequence")

    def sampler(self, histogram: Any, k: int) -> Any:  # noqa: ANN401 - what a user may have written
        return lambda draw: ANSWER[0]


ANSWER: list[Any] = [None]


@pytest.mark.parametrize("answer", WRONG, ids=str)
def test_a_mechanism_of_one_s_own_answers_with_different_items(answer: object) -> None:
    ANSWER[0] = answer
    with pytest.raises(Refusal, match="mechanism broken must answer with 2 different ranks, an array of integers"):
        Broken()([5, 4, 3], 2, RandomBits.keyed(b"ranks"))


def test_fewer_may_come_of_an_unknown_domain_only() -> None:
    for size in range(4):
        ANSWER[0] = np.arange(size)
        hiding, bits = Hiding(epsilon=1.0, delta=1e-3), RandomBits.keyed(b"ranks")
        if size <= 2:
            assert hiding([9, 8, 7], 2, bits).tolist() == list(range(size))
        else:
            with pytest.raises(Refusal, match="must answer with at most 2 different ranks"):
                hiding([9, 8, 7], 2, bits)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32])
def test_any_integers_are_ranks(dtype: type) -> None:
    ranks = np.array([2, 0, 1], dtype)
    assert check_ranks(ranks, 3, 3, "any") is ranks and len(check_ranks(ranks[:0], 3, 0, "any", fewer=True)) == 0


def test_what_is_proved_of_a_built_in_one_is_not_audited_of_one_that_derives_from_it() -> None:
    """That amounts are offered is said by the class that draws: of another there is nothing to audit."""
    of = {name: {case.of for case in cases_of([name])} for name in ("limit-domain", f"{__name__}:Hiding")}
    assert of == {"limit-domain": {"users", "amounts", "groups"}, f"{__name__}:Hiding": {"users", "groups"}}
