from __future__ import annotations

from typing import Any

import pytest

from private_topk.testing.audit.apart import dependence
from private_topk.testing.audit.cases import cases_of
from private_topk.testing.audit.sampler import Sampler
from private_topk.transforms import selection
from private_topk.transforms.mechanisms.exact.histogram import Histogram

CASE = cases_of(["laplace"])[2]


def test_noise_and_answer_have_bits_of_their_own() -> None:
    for seed in (b"1",):
        assert dependence(CASE, Sampler(seed), 400, 1e-4).holds


def test_noise_that_follows_the_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise whose last digit is that of the first item."""
    real = selection.Selection.draw

    def following(self: selection.Selection, histogram: Histogram, *rest: Any) -> selection.Draws:  # noqa: ANN401
        drawn = real(self, histogram, *rest)
        assert drawn.noisy_counts is not None
        noise = drawn.noisy_counts - histogram.picks(drawn.ranks).values
        return drawn._replace(noisy_counts=drawn.noisy_counts - noise % 4 + drawn.ranks[0] % 4)

    monkeypatch.setattr(selection.Selection, "draw", following)
    found = dependence(CASE, Sampler(b"1"), 600, 1e-4)
    assert not found.holds and found.bound > 0.5
