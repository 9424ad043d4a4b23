"""The least epsilon, or the largest k, with which a recall can be expected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from private_topk.pipelines.preview.outlook import look
from private_topk.pipelines.preview.setting import Setting
from private_topk.pipelines.preview.shapes import Expected, weight_of
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import MECHANISMS
from private_topk.transforms.mechanisms.exact.histogram import Histogram

__all__ = ["Solved", "fewest_windows", "largest_k", "least_epsilon", "noise_in", "reaching"]

_DECADES = range(-4, 3)
_EPSILONS = [Fraction(Decimal(digits).scaleb(decade - 1)) for decade in _DECADES for digits in range(10, 100)]
"""Two digits each, from 0.0001 to 990: more digits would be meaningless."""
_MOST_K = 1 << 17
_MOST_WINDOWS = 100
_ALL_GROUPS = 100


@dataclass(frozen=True)
class Solved:
    """The solution: the setting, and the mechanism that reaches the recall in it."""

    setting: Setting
    mechanism: str


def least_epsilon(
    expected: Expected,
    setting: Setting,
    recall: float,
    mechanisms: Iterable[str] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Solved:
    """The least epsilon of two digits, from 0.0001 to 990, at which a mechanism is expected to find so much.

    Recall is taken to grow with epsilon, and is estimated by the draws of `look`, the same for every epsilon.

    Args:
        setting: its epsilon is ignored.
        recall: as a part of the top k, above 0 and at most 1.
        mechanisms: names; by default all that answer with a sequence.
        tell: is called with the name of every mechanism that does better than those before it.

    Raises:
        Refusal: no such epsilon is enough.
    """
    (_, reaches), names = reaching(expected, setting, recall), _names(mechanisms)
    best, winner = len(_EPSILONS), ""
    for name in names:

        def enough(place: int, name: str = name) -> bool:
            return reaches(replace(setting, epsilon=_EPSILONS[place]), name)

        if best > 0 and enough(best - 1):
            if tell is not None:
                tell(name)
            best, winner = _first(enough, 0, best - 1), name
    if not winner:
        raise Refusal("recall", f"of {recall:g} is not reached by any epsilon up to {float(_EPSILONS[-1]):g}",
                      "ask for less of it")  # fmt: skip
    return Solved(replace(setting, epsilon=_EPSILONS[best]), winner)


def largest_k(
    expected: Expected,
    setting: Setting,
    recall: float,
    mechanisms: Iterable[str] | None = None,
    tell: Callable[[str], None] | None = None,
    draws: int | None = None,
) -> Solved:
    """The largest k, up to 131,072, with which a mechanism is expected to find so much of the top k.

    Recall is taken to fall in k: the search doubles k as long as the recall is reached, so a k beyond one that misses
    it is never tried.

    Args:
        setting: its k is ignored.
        recall, mechanisms, tell: as for `least_epsilon`; draws: as for `look`.

    Raises:
        Refusal: not even k = 1 is reached.
    """
    (items, reaches), names = reaching(expected, setting, recall, draws), _names(mechanisms)
    most, best, winner = min(items, _MOST_K), 0, ""
    for name in names:

        def missed(k: int, name: str = name) -> bool:
            return not reaches(replace(setting, k=k), name)

        if best >= most or missed(best + 1):
            continue
        if tell is not None:
            tell(name)
        low = best + 1
        while low < most and not missed(min(2 * low, most)):
            low = min(2 * low, most)
        best, winner = low if low == most else _first(missed, low + 1, min(2 * low, most)) - 1, name
    if not winner:
        rule = f"of {recall:g} is not reached even for k = 1"
        raise Refusal("recall", rule, "take a larger epsilon, or ask for less")
    return Solved(replace(setting, k=best), winner)


def fewest_windows(expected: Expected, setting: Setting, recall: float, name: str, draws: int | None) -> int | None:
    """How many windows, at least 2, have to be merged into one for a mechanism to find so much; None beyond 100.

    A merged window is taken to have as many times the users, and no more budget: its counts are multiplied. So it is
    for groups that are merged. Recall is taken to grow with them.
    """
    _, reaches = reaching(expected, setting, recall, draws)

    def enough(times: int) -> bool:
        return reaches(setting, name, times)

    return _first(enough, 2, _MOST_WINDOWS) if enough(_MOST_WINDOWS) else None


def noise_in(groups: Sequence[str], noise: Callable[[str], bool]) -> list[str]:
    """Those groups that are noise. Of more than 100 groups, the largest first, only some are looked at: recall is taken
    to grow with their size.
    """
    if len(groups) <= _ALL_GROUPS:
        return [group for group in groups if noise(group)]
    if not noise(groups[-1]):
        return []
    return list(groups[_first(lambda place: noise(groups[place]), 0, len(groups) - 1) :])


def _names(mechanisms: Iterable[str] | None) -> Iterable[str]:
    sequences = [name for name, kind in MECHANISMS.items() if kind.guarantee.answer == "sequence"]
    return sequences if mechanisms is None else mechanisms


def reaching(
    expected: Expected, setting: Setting, recall: float, draws: int | None = None
) -> tuple[int, Callable[..., bool]]:
    """How many items there are; and a function that tells whether a mechanism reaches the recall in a setting, False if
    it does not apply; perhaps of so many times the counts.
    """
    if not 0 < recall <= 1:
        raise Refusal("recall", f"must be above 0 and at most 1, got {recall:g}", "it is a part of the top k")

    histogram = expected.histogram(setting.max_items_per_user, setting.unknown_domain)

    def reaches(tried: Setting, name: str, times: int = 1) -> bool:
        try:
            mechanism = tried.share_of(name).mechanism
            weight = weight_of(mechanism, expected)
        except Refusal:
            return False
        merged = Histogram(histogram.values * times, histogram.sizes)
        return tried.k <= merged.items and look(mechanism, merged, tried.k, draws, weight=weight).recall.value >= recall

    return histogram.items, reaches


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least number at which a monotone condition holds; it does at `high`."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high
