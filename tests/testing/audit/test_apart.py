from __future__ import annotations

import pytest

from private_topk.testing.audit.apart import dependence
from private_topk.testing.audit.cases import cases_of
from private_topk.testing.audit.sampler import Sampler
from private_topk.transforms import selection

CASE = cases_of(["laplace"])[2]


def test_noise_and_answer_have_bits_of_their_own() -> None:
    for seed in (b"1",):
        assert dependence(CASE, Sampler(seed), 400, 1e-4).holds


def test_noise_that_follows_the_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise whose last digit is that of the first item."""
    real = selection.publish_counts

    def following(counts, chosen, *rest):  # noqa: ANN001, ANN002, ANN202
        noisy = real(counts, chosen, *rest)
        noise = noisy - counts[chosen]
        return noisy - noise % 4 + chosen[0] % 4

    monkeypatch.setattr(selection, "publish_counts", following)
    found = dependence(CASE, Sampler(b"1"), 600, 1e-4)
    assert not found.holds and found.bound > 0.5
