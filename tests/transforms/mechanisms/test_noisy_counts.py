from __future__ import annotations

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits, publish_counts


def publish(bits: bytes = b"publish", **parameters: object) -> list[int]:
    return publish_counts(np.arange(100, 0, -1), np.arange(50), RandomBits.keyed(bits), **parameters).tolist()


@pytest.mark.parametrize("delta", [None, 1e-5])
def test_noise_is_calibrated_to_the_fewest_counts_one_user_moves(delta: float | None) -> None:
    assert publish(epsilon=1.0, delta=delta) == publish(epsilon=1.0, delta=delta, max_items_per_user=50)
    assert publish(epsilon=1.0, delta=delta) == publish(epsilon=1.0, delta=delta, max_items_per_user=99)
    swapped = publish(epsilon=1.0, delta=delta, max_items_per_user=3, neighbours="swap")
    assert swapped == publish(epsilon=1.0, delta=delta, max_items_per_user=6)
    assert swapped != publish(epsilon=1.0, delta=delta, max_items_per_user=3)


def test_scale_is_moved_over_epsilon() -> None:
    assert publish(epsilon=1.0, max_items_per_user=2) == publish(epsilon=2.0, max_items_per_user=4)
    noise = np.array(publish(epsilon=0.5, max_items_per_user=2)) - np.arange(100, 50, -1)
    assert 2 < np.abs(noise).mean() < 8  # scale 4


def test_counts_come_in_the_order_of_the_answer() -> None:
    exact = publish_counts([7, 10**9, 10**5], [1, 2, 0], RandomBits.keyed(b"order"), 10.0)
    assert np.abs(exact - [10**9, 10**5, 7]).max() < 50
    assert publish_counts([7, 8], [], RandomBits.keyed(b"none"), 1.0).tolist() == []


def test_noise_beyond_int64_neither_wraps_nor_fails() -> None:
    counts = [2**62] * 200
    noisy = publish_counts(counts, range(200), RandomBits.keyed(b"wide"), 1e-30).tolist()
    assert set(noisy) == {-(2**63), 2**63 - 1}
    noisy = publish_counts(counts, range(200), RandomBits.keyed(b"wrap"), 200 / 2**62).tolist()
    assert noisy.count(2**63 - 1) > 20 and sum(count < 0 for count in noisy) < 60, "by the law about 37 each"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive finite number, got 0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must lie strictly between 0 and 1, got 1.0"),
        ({"epsilon": 1.0, "max_items_per_user": 0}, "max_items_per_user must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_budgets_are_refused(parameters: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        publish(**parameters)
