"""The least epsilon and the largest k for a recall: reached there, and not one step before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from private_topk.pipelines.preview import PublicCounts, Setting, Zipf, largest_k, least_epsilon, look
from private_topk.transforms.errors import Refusal

SHAPE = Zipf(1.0, 300, 2000, 5)


def recall(setting: Setting, name: str) -> float:
    return look(setting.share_of(name).mechanism, SHAPE.histogram(None, False), setting.k).recall.value


def test_the_least_epsilon_is_the_least() -> None:
    names = ("peeling", "joint")
    solved = least_epsilon(SHAPE, Setting(5, 1), 0.9, names)
    assert recall(solved.setting, solved.mechanism) >= 0.9
    less = replace(solved.setting, epsilon=solved.setting.epsilon * 9 / 10)
    assert all(recall(less, name) < 0.9 for name in names), "a step of two digits is a tenth at most"
    told: list[str] = []
    assert least_epsilon(SHAPE, Setting(5, 1), 0.9, names, told.append) == solved
    assert told and set(told) <= set(names)


def test_the_largest_k_is_the_largest() -> None:
    names = ("peeling", "joint")
    solved = largest_k(SHAPE, Setting(1, 0.5), 0.9, names)
    assert recall(solved.setting, solved.mechanism) >= 0.9
    assert all(recall(replace(solved.setting, k=solved.setting.k + 1), name) < 0.9 for name in names)


def test_all_items_are_found_by_anybody() -> None:
    assert largest_k(PublicCounts([500, 400, 300]), Setting(1, 1.0), 0.9, ("joint",)).setting.k == 3


def test_what_cannot_be_reached_is_refused() -> None:
    few = PublicCounts([2, 1, 1, 1])
    with pytest.raises(Refusal, match="is not reached even for k = 1"):
        largest_k(PublicCounts([1, *[0] * 5000]), Setting(1, 0.01), 0.9, ("joint",))
    with pytest.raises(Refusal, match="is not reached by any epsilon up to 990"):
        least_epsilon(few, Setting(3, 1, 1e-6, unknown_domain=True), 1.0, ("limit-domain",))
    with pytest.raises(Refusal, match="recall must be above 0 and at most 1, got 90"):
        least_epsilon(few, Setting(3, 1), 90)
