"""How sure an order is: intervals that hold together, and the sentence that follows from them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.show.certainty import blocks, half_width, in_words
from private_topk.transforms.mechanisms import RandomBits, noise_of_counts
from tests.pipelines.support import command, options, write


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1, 5, 12, 40])
@pytest.mark.parametrize("size", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("limit", [None, 1, 5])
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_the_width_is_never_below_the_exact_one(
    epsilon: float, size: int, neighbours: str, limit: int | None, delta: float | None
) -> None:
    """Each noise that is drawn, at the confidence that is left for one of so many counts."""
    noise = noise_of_counts(size, epsilon, delta, limit, neighbours)
    exact = noise.half_width(1 - Fraction(5, 100 * size))
    width = half_width(noise.stddev(), size)
    assert exact <= width and (size > 10 or width <= 2.2 * exact + 3)


def test_true_orders_fall_into_the_blocks() -> None:
    """2,000 draws over counts with gaps and ties. A rule that held with 93% only would pass with probability below
    1e-4 (the mean of 2,000 at 93% is 3.5 deviations below 95%)."""
    counts = np.array([900, 700, 690, 690, 400, 390, 380, 100, 99, 98])
    noise, bits, held = noise_of_counts(10, 0.5), RandomBits.keyed(b"certain".ljust(32, b".")), 0
    for _ in range(2000):
        noisy = (counts + np.array(noise.sample(10, bits.draw()), int)).tolist()
        order = sorted(range(10), key=lambda place: -noisy[place])
        found = blocks([noisy[place] for place in order], half_width(noise.stddev(), 10))
        true = [counts[place] for place in order]
        held += all(min(true[:last], default=0) > max(true[last:], default=-1) for _, last in found)
    assert held >= 0.95 * 2000


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([50, 30, 10], "The order of these items is certain (95% confidence, from the noisy counts)."),
        ([12, 11, 10], "The counts are too close, compared with their noise, to tell the true order of these items."),
        ([50, 30, 12, 11, 10], "Ranks 1 and 2 are certain; ranks 3 to 5 could be in any order (95%"),
        ([50, 12, 11], "Rank 1 is certain; ranks 2 to 3 could be in any order (95%"),
        ([50, 49, 11, 10], "Ranks 1 to 2 and 3 to 4 could each be in any order (95%"),
        ([10, 50], "The counts are too close"),
        ([10, 50, 30], "The counts are too close"),
        ([50, 10, 48], "The counts are too close"),
    ],
)
def test_the_sentence_on_certainty_follows_from_the_counts(counts: list[float], said: str) -> None:
    assert in_words(counts, 5).startswith(said)


def test_counts_that_noise_leaves_as_they_are_tell_the_order() -> None:
    """Of huge epsilon: `97 ± 0` is above `96 ± 0`. Ties stay open, and so does what rounding to tens may have moved."""
    for size in (2, 3):
        stddev = noise_of_counts(size, 40).stddev()
        assert [*blocks([97, 96, 95][:size], half_width(stddev, size))] == [(place, place + 1) for place in range(size)]
        assert [*blocks([97] * size, half_width(stddev, size))] == [(0, size)]
    assert [*blocks([90, 80], half_width(noise_of_counts(2, 40).stddev(), 2, 1, 10))] == [(0, 2)]


def test_certainty_is_shown_only_below_a_ranking_with_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"user": f"u{n}", "item": item} for item, size in (("a", 900), ("b", 500), ("c", 4)) for n in range(size)]
    write(tmp_path / "rows.csv", rows)
    write(tmp_path / "items.txt", "a\nb\nc\n")
    asked = dict(input="rows.csv", domain="items.txt", mechanism="joint", k=3, epsilon=2)
    done = command("run", *options(**asked, output="r.csv", publish_counts=2))
    assert done.status == 0 and "The order of these items is certain" in done.out, done.out
    assert command("show", "r.csv", "--html", "r.html").status == 0
    assert "<p>The order of these items is certain (95% confidence" in Path("r.html").read_text()
    bare = command("run", *options(**asked, output="bare.csv"))
    assert bare.status == 0 and "certain" not in bare.out
    Path("r.manifest.json").unlink()
    assert "certain" not in command("show", "r.csv").out, "nobody says what counts were rounded to"
    assert json.loads(command("show", "bare.csv", "--json").out)["rows"]
