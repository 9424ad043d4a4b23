"""The least epsilon and the largest k for a recall: reached there, and not one step before."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from private_topk.pipelines.preview import PublicCounts, largest_k, least_epsilon, look, outlook, preview
from private_topk.pipelines.question import Question
from private_topk.transforms.domain import Domain, RangeDomain, UnknownDomain
from private_topk.transforms.mechanisms import make_mechanism
from private_topk.transforms.spec import TopK
from tests.pipelines.shapes import zipf
from tests.refusals import refused

SHAPE = zipf(1.0, 300, 2000, 5)
ITEMS = RangeDomain(0, 300)


def questions(k: int, epsilon: float, names: Iterable[str], domain: Domain = ITEMS) -> list[Question]:
    delta = {} if domain.is_public else {"delta": 1e-6}
    return [Question(TopK(k, make_mechanism(name, epsilon=epsilon, **delta), domain)) for name in names]


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they are, the solver must see what `recall` sees: a preview repeats itself."""
    monkeypatch.setattr(outlook, "DRAWS", 100)


def recall(question: Question) -> float:
    top_k = question.top_k
    return look(top_k, SHAPE).recall.value


def test_the_least_epsilon_is_the_least() -> None:
    names = ("peeling", "joint")
    told: list[str] = []
    solved = least_epsilon(SHAPE, questions(5, 1, names), 0.9, told.append)
    assert told and set(told) <= set(names)
    assert recall(solved) >= 0.9
    less = float(solved.epsilon) - 10 ** (math.floor(math.log10(solved.epsilon)) - 1)
    assert all(recall(one) < 0.9 for one in questions(5, less, names)), "one less in the second digit"
    previewed = preview(SHAPE, 5, 1.0, mechanism=names, draws=2).questions.values()
    assert least_epsilon(SHAPE, previewed, 0.9).epsilon == solved.epsilon, "as `preview(recall=...)` advises"


def test_the_largest_k_is_the_largest() -> None:
    names = ("peeling", "joint")
    solved = largest_k(SHAPE, questions(1, 0.5, names), 0.9)
    assert recall(solved) >= 0.9
    assert all(recall(one) < 0.9 for one in questions(solved.top_k.max_items + 1, 0.5, names))


def test_the_largest_k_of_a_small_domain_is_all_items() -> None:
    assert largest_k(PublicCounts([500, 400, 300]), questions(1, 1.0, ["joint"]), 0.9).top_k.max_items == 3


def test_an_unreachable_recall_is_refused() -> None:
    few = PublicCounts([2, 1, 1, 1])
    with refused("recall", "is not reached even for k = 1"):
        largest_k(PublicCounts([1, *[0] * 5000]), questions(1, 0.01, ["joint"], RangeDomain(0, 5001)), 0.9)
    with refused("recall", "is not reached by any epsilon up to 990"):
        least_epsilon(few, questions(3, 1, ["limit-domain"], UnknownDomain()), 1.0)
    with refused("recall", "must be above 0 and at most 1"):
        least_epsilon(few, questions(3, 1, ["joint"]), 90)
