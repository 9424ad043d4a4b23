from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact import noise
from private_topk.transforms.mechanisms.exact.noise import QUERY_LANE, above_bottom, first_crossing, log_threshold
from private_topk.transforms.testing import assert_follows, draws_to_see
from tests.transforms.mechanisms.unknown_laws import above_bottom as law_above_bottom
from tests.transforms.mechanisms.unknown_laws import passes


@pytest.mark.parametrize("up", [True, False])
def test_the_first_crossing_follows_its_law(up: bool) -> None:
    gaps, scale, odds = np.array([3, -2, 4, 1, 0]), Fraction(3, 2), Fraction(5)
    law = {(t,): p for t, p in enumerate(passes(tuple(g / scale for g in gaps.tolist()), odds, until=up))}
    bits, seen = RandomBits.keyed(b"crossing"), Counter()
    for _ in range(draws_to_see(law, 0.08)):
        draw = bits.draw()
        threshold = log_threshold(odds, "laplace", draw)
        where = {"addresses": np.arange(5), "lane": QUERY_LANE}
        seen[(first_crossing(gaps, scale, threshold, "laplace", draw, up=up, **where),)] += 1
    assert_follows(seen, law, 0.08)


def test_above_bottom_follows_its_law() -> None:
    top, scale, odds = np.array([6, 4, 4, 1]), Fraction(2), Fraction(3)
    law = law_above_bottom([(c - 1 - 1) / scale for c in top[:-1].tolist()], odds, 2, "laplace")
    bits = RandomBits.keyed(b"bottom")
    seen = Counter(
        tuple(above_bottom(top, 1, scale, "laplace", odds, 2, bits.draw()).tolist())
        for _ in range(draws_to_see(law, 0.08))
    )
    assert_follows(seen, law, 0.08)


def test_floats_that_leave_it_open_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = np.random.default_rng(1).integers(-3, 9, 30)

    def answers() -> list[int]:
        bits, found = RandomBits.keyed(b"open"), []
        for up in (True, False):
            for _ in range(40):
                draw = bits.draw()
                threshold = log_threshold(Fraction(100), "gumbel", draw)
                where = {"addresses": np.arange(30), "lane": QUERY_LANE}
                found.append(first_crossing(gaps, Fraction(2), threshold, "gumbel", draw, up=up, **where))
        return found

    before = answers()
    monkeypatch.setattr(noise, "NOISE_ERROR", 0.5)
    assert answers() == before
