"""How sure an order is: the least gap between two counts that tells it, and the sentence that follows."""

from __future__ import annotations

import itertools
import json
import math
import re
from fractions import Fraction
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy import special, stats

from private_topk.pipelines.show.certainty import below_a_later, blocks, in_words, least_gap
from private_topk.pipelines.show.page import page
from private_topk.pipelines.show.published import PublishedReport
from private_topk.transforms.domain import RangeDomain
from private_topk.transforms.mechanisms import Gamma, Gaussian, Laplace, Mechanism, RandomBits, noise_of_counts
from private_topk.transforms.mechanisms.exact.count_noise import (
    CountNoise,
    Cube,
    IndependentLaplace,
    RoundedLaplace,
    SharedGaussian,
    Spread,
)
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.spec import TopK
from tests.pipelines.show import rankings
from tests.pipelines.support import command, options, write


def differ(noise: CountNoise, least: int) -> float:
    """P(the noises of two counts differ by at least that, in one direction), or of rounded ones a bound of it."""
    if isinstance(noise, IndependentLaplace):
        q = math.exp(-1 / float(noise.scale))
        more = (least + (1 + q * q) / (1 - q * q)) / (1 - q) + q / (1 - q) ** 2
        return ((1 - q) / (1 + q)) ** 2 * q**least * more
    t = least - 1  # of the real ones
    if isinstance(noise, RoundedLaplace):
        return (2 + t / float(noise.scale)) * math.exp(-t / float(noise.scale)) / 4
    if isinstance(noise, SharedGaussian):
        return float(stats.norm.sf(t / math.sqrt(2 * noise.own)))
    assert isinstance(noise, Cube | Spread)
    # A radius r of law Gamma(n + 1) / rate times the difference of two uniforms on [0, w], E[(1 - t / w r)+ **2] / 2;
    # of Spread, where one of them is 0 with chance 2 / (n + 1), then E[(1 - t / r)+] / 2.
    n, wide = noise.size, 2 if isinstance(noise, Cube) else 1
    x = t * float(noise.rate) / wide
    above = [special.gammaincc(n + 1 - power, x) for power in range(3)]
    linear = above[0] - x * above[1] / n
    squared = above[0] - 2 * x * above[1] / n + x * x * above[2] / (n * (n - 1))
    return (squared if wide == 2 else (2 * linear + (n - 1) * squared) / (n + 1)) / 2


def test_the_law_of_two_counts_is_that_of_their_noise() -> None:
    """500,000 draws by the definition of each noise: the share is within 4.5 deviations of what is said."""
    rng, size = np.random.default_rng(3), 500_000
    for n in (2, 3, 8):
        radius = rng.gamma(n + 1, 9, size)
        points = rng.uniform(0, 1, (2, size))
        places = rng.integers(0, n + 1, size)  # of the points, of which one is at 0
        spread = radius * (np.where(places == 0, 0, points[0]) - np.where(places == 1, 0, points[1]))
        drawn = {
            IndependentLaplace(Fraction(9)): rng.geometric(1 - math.exp(-1 / 9), (2, 2, size)).T @ [1, -1] @ [1, -1],
            Cube(n, Fraction(1, 9)): radius * 2 * (points[0] - points[1]),
            Spread(n, Fraction(1, 9)): spread,
        }
        for noise, found in drawn.items():
            for least in (4, 12, 40):
                said = differ(noise, least)
                share = np.mean(found >= (least if isinstance(noise, IndependentLaplace) else least - 1))
                assert abs(share - said) < 4.5 * math.sqrt(said / size), (noise, least, share, said)


EPSILONS = [0.01, 0.1, 0.3, 1, 2, 5, 12, 40]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_no_order_is_called_certain_that_is_wrong_too_often(neighbours: str, delta: float | None) -> None:
    """Each noise that is drawn: the chances of all pairs add up to 5% at most. Of Laplace noise nine tenths of the gap,
    less rounding, would not be enough."""
    for size in (2, 3, 4, 5, 10, 100, 1000):
        pairs = size * (size - 1) / 2
        for epsilon, limit in itertools.product(EPSILONS, (None, 1, 5)):
            noise = noise_of_counts(size, epsilon, delta, limit, neighbours)
            gap = least_gap(noise.stddev(), size)
            if gap:
                assert pairs * differ(noise, math.floor(gap) + 1) <= 0.05, noise
            if isinstance(noise, IndependentLaplace) and size > 2 and noise.scale > 1:
                assert pairs * differ(noise, math.floor(0.9 * gap - 2)) > 0.05, noise
            if isinstance(noise, SharedGaussian) and gap:
                own = least_gap(noise.stddev(), size, gaussian=math.sqrt(noise.own))
                assert own <= gap and pairs * differ(noise, math.floor(own) + 1) <= 0.05, noise
                assert pairs * differ(noise, math.floor(own - 1)) > 0.05 or noise.own < 1, noise


def test_nor_of_counts_that_come_with_the_draw() -> None:
    """Of all items, or of twice or a hundred times as many, whose noise has a radius in common."""
    for size, deviation in itertools.product((2, 3, 4, 5, 10, 100, 1000), (0.01, 0.1, 0.2, 0.4, 1, 5, 300)):
        wide, many = Fraction(deviation), (size, 2 * size, 100 * size)
        cubes = [Cube(items, items / wide) for items in many]
        for noise in (RoundedLaplace(wide), SharedGaussian(wide**2, Fraction(0)), *cubes):
            gap = least_gap(noise.stddev(), size, of_all=noise.half_width(Fraction(95, 100)) + 1)
            assert size * (size - 1) / 2 * differ(noise, math.floor(gap) + 1) <= 0.05, noise


@pytest.mark.parametrize("lead", [0, 0.5, 1, 2, 3, 5])
@pytest.mark.parametrize("law", ["laplace", "normal", "uniform", "standard_cauchy"])
def test_noise_that_chooses_items_makes_no_shown_pair_wrong_more_often(law: str, lead: float) -> None:
    """The n largest of d noisy numbers, of which n - 1 are above the others by some deviations: of the pairs shown no
    more than 5% are turned by what turns 5% of pairs that nothing has chosen. Of 12,000 draws the share is off by
    0.003 at most, four deviations of it. Of noise whose density is not log-concave it is more."""
    rng, d, n = np.random.default_rng(5), 60, 4
    noise = partial(rng.uniform, -1, 1) if law == "uniform" else getattr(rng, law)
    deviation = {"laplace": 2**0.5, "normal": 1, "uniform": 3**-0.5, "standard_cauchy": 1}[law]
    gap = np.quantile(noise(size=500_000) - noise(size=500_000), 0.95)
    true = np.where(np.arange(d) < n - 1, lead * deviation, 0.0) - 1e-9 * np.arange(d)
    noisy = true + noise(size=(12_000, d))
    shown = np.argsort(-noisy, axis=1)[:, :n]
    values = np.take_along_axis(noisy, shown, axis=1)
    turned = (values[:, :, None] - values[:, None, :] > gap) & (shown[:, :, None] > shown[:, None, :])
    share = turned.sum(axis=(1, 2)).mean() / (n * (n - 1) / 2)
    assert share > 0.15 if law == "standard_cauchy" else share <= 0.053


def in_order(counts: np.ndarray, noisy: list[int], gap: float) -> bool:
    """Whether all that is said of an order is right. The items are given in order of rank."""
    return all(min(counts[:last], default=0) >= max(counts[last:], default=-1) for _, last in blocks(noisy, gap))


def test_true_orders_fall_into_the_blocks() -> None:
    """2,000 draws over counts with gaps and ties. A rule that held with 93% only would pass with probability below
    1e-4 (the mean of 2,000 at 93% is 3.5 deviations below 95%)."""
    counts = np.array([900, 700, 690, 690, 400, 390, 380, 100, 99, 98])
    noise, bits, held = noise_of_counts(10, 0.5, None, 1), RandomBits.keyed(b"certain".ljust(32, b".")), 0
    for _ in range(2000):
        noisy = counts + np.array(noise.sample(10, bits.draw()), int)
        order = np.argsort(-noisy, kind="stable")
        held += in_order(counts[order], noisy[order].tolist(), least_gap(noise.stddev(), 10))
    assert held >= 0.95 * 2000


@pytest.mark.parametrize("limit", [None, 1])
def test_gaussian_counts_are_judged_by_the_law_of_their_own(limit: int | None) -> None:
    """As the manifest gives it, in a report: 2,000 draws as above, and the gap is a seventh less at least."""
    counts = {"epsilon": 1.0, "delta": 1e-6}
    privacy = {**msgspec.to_builtins(rankings.manifest(1).privacy), "noisy_counts": counts}
    said = rankings.manifest(1, privacy=privacy, counts_rounded_to=1, max_items_per_user=limit)
    noise, bits, held = noise_of_counts(5, 1, 1e-6, limit), RandomBits.keyed(b"gaussian".ljust(32, b".")), 0
    about = {"noise_stddev": noise.stddev(), "noise_95": noise.half_width(Fraction(95, 100))}

    def gap(noisy: list[int]) -> float:
        placed = zip(rankings.rows(1, list("abcde")), noisy, strict=True)
        found = PublishedReport([{**row, "noisy_count": count, **about} for row, count in placed], said).listings()[0]
        assert found._gap is not None
        return found._gap

    least = gap([0] * 5)
    assert least <= 0.85 * least_gap(noise.stddev(), 5)
    true = np.cumsum([0, 1, 0, *[int(least / 3)] * 2])[::-1]
    for _ in range(2000):
        noisy = true + np.array(noise.sample(5, bits.draw()), int)
        order = np.argsort(-noisy, kind="stable")
        held += in_order(true[order], noisy[order].tolist(), least)
    assert held >= 0.95 * 2000


def test_places_that_counts_contradict_are_marked_rightly() -> None:
    """2,000 draws of counts in an order that they did not draw: each mark of one draw is right in 95% of draws. A rule
    that held with 93% only would pass with probability below 1e-4."""
    counts, order = np.array([700, 690, 90, 400, 90, 91, 380, 92, 99, 98]), range(10)
    noise, bits, held, marks = noise_of_counts(10, 0.5, None, 1), RandomBits.keyed(b"marked".ljust(32, b".")), 0, 0
    for _ in range(2000):
        noisy = (counts + np.array(noise.sample(10, bits.draw()), int)).tolist()
        marked = [place for place in order if below_a_later(noisy, least_gap(noise.stddev(), 10))[place]]
        held += all(counts[place] < max(counts[place + 1 :]) for place in marked)
        marks += 2 in marked
    assert held >= 0.95 * 2000 and marks > 1900


def test_a_place_that_its_own_count_denies_is_marked_and_explained() -> None:
    """A higher count further down that noise explains is told of, not marked; equal counts and true orders are not."""

    def told(*noisy: int) -> tuple[list[str], str]:
        noise = {"noise_stddev": 9.5, "noise_95": 20}
        placed = zip(rankings.rows(1, list("abcdefghij"[: len(noisy)])), noisy, strict=True)
        counted = [{**row, "noisy_count": count, **noise} for row, count in placed]
        report = PublishedReport(counted, rankings.manifest(1, counts_rounded_to=1))
        text, html = repr(report.listings()[0]), page(report)
        marks = [line.split()[1] for line in text.splitlines() if line.startswith("? ")]
        assert re.findall(r"<td>[?] (\d+)</td>", html) == marks
        why = report.listings()[0].disorder
        assert why in text and f"<p>{why}</p>" in html if why else "drawn separately" not in text + html
        return marks, why

    assert told(900, 700, 63, 26, 313) == (
        ["3", "4"],
        "Counts may be out of order: the order is drawn separately. Places marked ? are doubtful: "
        "an item further down has a larger true count (95% confidence), so "
        "theirs may belong below it or not in the list.",
    )
    assert told(900, 300, 310) == ([], "Counts may be out of order: the order is drawn separately.")
    assert told(900, 300, 300) == told(900, 700) == ([], "")


@pytest.mark.parametrize(
    "mechanism", [Laplace(0.05, 1), Gaussian(0.1, 1e-6, 4), Gamma(0.4)], ids=lambda m: m.about.name
)
def test_they_do_where_noise_has_chosen_what_is_shown(mechanism: Mechanism) -> None:
    """300 draws of 5 items, of which 4 are above 196 others by four deviations. A rule that held with 85% would pass
    with probability below 0.002, and one that holds with 95% fails with probability 0.0013."""
    spec = TopK(5, mechanism, RangeDomain(0, 200), publish_counts="drawn")
    assert stats.binom.sf(272, 300, 0.85) < 0.002 and stats.binom.cdf(272, 300, 0.95) < 0.0013
    noise, bits = spec.noise(5), RandomBits.keyed(b"chosen")
    counts = np.where(np.arange(200) < 4, int(4 * noise.stddev) + 10, 10) - (np.arange(200) > 100)
    gap, right = least_gap(noise.stddev, 5, of_all=noise.within_95), 0
    for _ in range(300):
        ranks, noisy = spec.mechanism.select_counted(Histogram.of(counts), 5, bits.draw())
        right += in_order(counts[ranks], noisy.tolist(), gap)
    assert right >= 273


def test_two_counts_of_ten_are_apart_if_their_difference_is() -> None:
    """Though intervals that hold for all ten at once overlap."""
    noise = IndependentLaplace(Fraction(62, 3))
    assert noise.half_width(Fraction(95, 100)) == 62
    counts = [1407, 1235, *range(900, 100, -100)]
    assert "ranks 1 to 2 are certain" in in_words(counts, least_gap(noise.stddev(), 10))


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([50, 30, 10], "The order of these items is certain (95% confidence, from the noisy counts)."),
        ([12, 11, 10], "Among these items, within ranks 1 to 3 some may be in another order (95%"),
        (
            [50, 30, 12, 11, 10],
            "Among these items, ranks 1 to 2 are certain; within ranks 3 to 5 some may be in another order",
        ),
        ([50, 12, 11], "Among these items, rank 1 is certain; within ranks 2 to 3 some may be in another order (95%"),
        ([50, 49, 11, 10], "Among these items, within ranks 1 to 2 and 3 to 4 some may be in another order (95%"),
        ([90, 50, 30, 12, 11, 0], "Among these items, ranks 1 to 3 and 6 are certain; within ranks 4 to 5"),
        ([10, 50], "Among these items, within ranks 1 to 2 some may be in another order"),
        ([10, 50, 30], "Among these items, within ranks 1 to 3 some may be in another order"),
        ([50, 10, 48], "Among these items, within ranks 1 to 3 some may be in another order"),
    ],
)
def test_the_sentence_on_certainty_follows_from_the_counts(counts: list[float], said: str) -> None:
    assert in_words(counts, 5).startswith(said)


def test_counts_that_noise_leaves_as_they_are_tell_the_order() -> None:
    """Of huge epsilon: `97 ± 0` is above `96 ± 0`, also in tens, and ties stay open. Of counts that come with the draw
    the noise of all items has to be as small, of which one may have come in by it."""
    for size in (2, 3):
        stddev = noise_of_counts(size, 40).stddev()
        assert [*blocks([97, 96, 95][:size], least_gap(stddev, size))] == [(place, place + 1) for place in range(size)]
        assert [*blocks([97] * size, least_gap(stddev, size))] == [(0, size)]
    assert [*blocks([90, 80], least_gap(stddev, 2, 1, 10))] == [(0, 1), (1, 2)]
    assert least_gap(0.01, 2, of_all=0) == least_gap(0.01, 2, 1, 10, of_all=5) == 0
    assert least_gap(0.01, 2, of_all=1) > 1 and least_gap(0.01, 2, 1, 10, of_all=6) > 10


def test_certainty_is_shown_only_below_a_ranking_with_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"user": f"u{n}", "item": item} for item, size in (("a", 900), ("b", 500), ("c", 4)) for n in range(size)]
    write(tmp_path / "rows.csv", rows)
    write(tmp_path / "items.txt", "a\nb\nc\n")
    asked = dict(input="rows.csv", domain="items.txt", mechanism="joint", k=3, epsilon=2)
    done = command("run", *options(**asked, output="r.csv", publish_counts=2))
    assert done.status == 0 and "The order of these items is certain" in done.out, done.out
    assert command("show", "r.csv", "--html", "r.html").status == 0
    page = Path("r.html").read_text()
    assert "<p>The order of these items is certain (95% confidence" in page
    assert (
        "for each item by itself." in page
        and "Where an order is certain, no item below has a larger count without noise" in page
    )
    bare = command("run", *options(**asked, output="bare.csv"))
    assert bare.status == 0 and "certain" not in bare.out
    assert command("show", "bare.csv", "--html", "bare.html").status == 0
    assert "Where an order is certain" not in Path("bare.html").read_text()
    Path("r.manifest.json").unlink()
    assert "certain" not in command("show", "r.csv").out, "nobody says what counts were rounded to"
    assert json.loads(command("show", "bare.csv", "--json").out)["rows"]


BEYOND = "What a person has beyond the bounds is in no count: with all rows counts may be larger"


def test_counts_of_what_bounds_keep_are_not_said_to_be_those_of_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`b` is held by most, and of what one item of each person keeps `a` has more, with next to no noise."""
    monkeypatch.chdir(tmp_path)
    others = [f"rare {n}" for n in range(20)]
    held = {**{f"u{n}": ["b", *others] for n in range(300)}, **{f"v{n}": ["a"] for n in range(100)}}
    rows = [
        {"user": user, "item": item, "land": land, "time": f"2026-01-0{day}"}
        for user, items in held.items()
        for item in items
        for land, day in (("x", 1), ("y", 2))
    ]
    write(tmp_path / "rows.csv", rows)
    write(tmp_path / "items.txt", "\n".join(["a", "b", *others]))
    write(tmp_path / "lands.txt", "x\ny\n")
    asked = dict(input="rows.csv", domain="items.txt", mechanism="oneshot", k=2, epsilon=40, publish_counts=40)
    days = {"window": "1d", "from": "2026-01-01", "to": "2026-01-03", "privacy_unit": "user"}
    for n, (bound, told) in enumerate(
        [
            ({"max_items_per_user": 1}, True),
            ({"group_column": "land", "groups": "lands.txt"}, True),
            ({"group_column": "land", "groups": "lands.txt", "groups_per_user": 2}, False),
            ({"max_windows_per_user": 1, **days}, True),
            ({"max_windows_per_user": 2, **days}, False),
            ({}, False),
        ]
    ):
        done = command("run", *options(**asked, **bound, output=f"{n}.csv"))
        assert done.status == 0 and (BEYOND in done.out) is told, (bound, done.err)
        assert (BEYOND in command("show", f"{n}.csv").out) is told
        assert command("show", f"{n}.csv", "--html", f"{n}.html").status == 0
        assert (BEYOND in Path(f"{n}.html").read_text()) is told
        if n == 0:
            assert re.search(r"1  a +about 100 ± 0", done.out) and "certain" in done.out
    for first, bound in (("2026-01-01", {"max_items_per_user": 1}), ("2026-01-02", {})):
        day = {"window": "1d", "from": first, "to": f"{first[:-1]}{int(first[-1]) + 1}", "output": f"s/{first}.csv"}
        assert command("run", *options(**asked, **day, **bound)).status == 0
    assert BEYOND in command("show", "s").out, "of a series that was bounded once"
    groups = {"group_column": "land", "groups": "lands.txt", "overall": True}
    assert command("run", *options(**asked, **groups, output="all.csv")).status == 0
    for group, told in (("x", True), ("overall", False)):
        assert (BEYOND in command("show", "all.csv", "--group", group).out) is told, "all rows have everybody's"
    bare = command("run", *options(**{**asked, "publish_counts": None}, max_items_per_user=1, output="bare.csv"))
    assert bare.status == 0 and BEYOND not in bare.out
    assert command("show", "bare.csv").out.replace("\n", " ").count("What a person has beyond the bounds") == 1
