"""What several releases cost together, and the largest share of a total that each of them may spend.

An example. 52 weekly rankings by an exponential mechanism, epsilon 1 and delta 1e-6 in all. Adding up, a week gets
1/52 = 0.0192. By zCDP the total allows rho = 0.02436 (`rho_within`), a week at epsilon e costs e**2/8, and 52 of them
fit for e = sqrt(8 * 0.02436 / 52) = 0.0612, 3.18 times as much. `largest` finds that e to the last bit of a float, and
ball arithmetic proves that it fits.

Every bound here holds for releases that are chosen after seeing earlier ones, and every share is certified: a rational
for which integers or ball arithmetic have *proved* that n of them stay within the total. Nothing here looks at data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from numbers import Real as Number
from typing import ClassVar

from flint import arb

from private_topk.transforms.errors import InvalidArgument, kind_shown, plain
from private_topk.transforms.mechanisms.cost import Cost, at_least_0
from private_topk.transforms.mechanisms.exact.accounting import (
    about,
    at_most,
    bounded_range_epsilon,
    gaussian_scale,
    largest,
    rho_within,
)
from private_topk.transforms.mechanisms.exact.reals import Real, ball, relative_float
from private_topk.transforms.mechanisms.parameters import check_parameter, no_text

UNITS = {
    "user-window": "one user's rows within one window",
    "user": "one user's rows in all windows",
}
"""The privacy units, whose rows taken together a budget protects, and how a manifest and the ledger word them."""

SERIES = "one user's rows in the whole period"
"""How a manifest words `user-window` of windows to date, which are one series."""

ACCOUNTINGS = ("basic", "optimal", "bounded-range", "zcdp", "gaussian")
"""The accountings, in the order in which a preview prints them."""

MAX_WINDOWS_OF_OPTIMAL = 1000
_ONE = Fraction(1)
_MIN, _MAX, _MAX_WINDOWS = Fraction(1, 10**100), 10**6, 10**15
"""Budgets stay within these, so that all arithmetic on them ends, and no float of them is 0 or infinite."""

Price = Callable[[Fraction, Fraction], Cost]
"""What one window costs that may spend an epsilon and a delta; a pure one takes no notice of the delta."""


@dataclass(frozen=True)
class Total:
    """The budget of all releases together, exactly as the numbers were given.

    Args:
        epsilon, delta: the guarantee of the whole. A float is the binary number that it is; for the decimal 0.1 give
            Fraction("0.1"), as the command line does.
        release_delta: the part of delta that goes to the deltas of the single releases; the rest pays for composing
            them better than by adding up. By default what suits the mechanism and the accounting.

    Raises:
        InvalidArgument: a number is negative, or no finite number.
    """

    identity_tag: ClassVar[str] = "total"

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    release_delta: Fraction | None = None

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "release_delta"):
            value = getattr(self, name)
            if value is not None or name != "release_delta":
                object.__setattr__(self, name, at_least_0(name, value))


@dataclass(frozen=True)
class Share:
    """What each of n releases may spend, a float as a fraction, and the accounting that allows it."""

    accounting: str
    epsilon: Fraction
    delta: Fraction
    cost: Cost


def shares(price: Price, total: Total, windows: int) -> dict[str, Share]:
    """The largest share under every accounting that applies; for one release, the total itself. Cost: 10 to 100 ms.

    basic: epsilons and deltas add up (Dwork & Roth 2014, Theorem 3.16).
    optimal: the best that holds for all epsilon-DP releases (Kairouz, Oh & Viswanath 2015, Theorem 3.3).
    bounded-range: for exponential mechanisms (Dong, Durfee & Rogers 2020, the adaptive bound of section 4).
    zcdp: rhos add up (Bun & Steinke 2016, Lemma 2.3; epsilon**2/8 for exponential mechanisms: Cesar & Rogers 2021).
    gaussian: n releases of rho each that are all Gaussian are one of n rho, however each was chosen by the answers of
        those before (Dong, Roth & Su 2022, Corollary 3.3), of which delta is known exactly (Balle & Wang 2018).
    """
    found = {}
    for accounting in ACCOUNTINGS if windows > 1 else ACCOUNTINGS[:1]:
        share = share_under(accounting, price, total, windows)
        if share is not None:
            found[accounting] = share
    return found


def best_share(found: dict[str, Share]) -> Share:
    """The share with the least noise: the largest rho, and the first of equals."""
    return max(found.values(), key=lambda share: share.cost.rho)


def share_under(accounting: str, price: Price, total: Total, windows: int) -> Share | None:
    """The largest share under one accounting, or None where it does not apply."""
    probe = price(total.epsilon, total.delta)
    # What of a window's delta adds up over windows.
    adding = probe.zcdp_delta if accounting in ("zcdp", "gaussian") else probe.delta
    release = total.release_delta
    if release is None:
        release = total.delta if accounting == "basic" else total.delta / 2 if adding else Fraction(0)
    rest = total.delta - release
    if accounting != "basic" and rest <= 0:
        return None
    # The deltas that add up fill the release's part. Where none does, a window's delta costs nothing.
    delta = rounded_down(min(release / windows * probe.delta / adding, total.delta) if adding else rest)

    def cost(epsilon: Fraction) -> Cost:
        return price(epsilon, delta)

    bound = _bound(accounting, cost, probe, Total(total.epsilon, total.delta, release), windows)
    if bound is None:
        return None
    within, spent, limit = bound
    start = Fraction(2) ** _exponent(total.epsilon / windows)  # a power of two, so that floats are what is searched
    if not within(start):
        return None
    epsilon = largest(within, start, about(spent, float(limit), start))
    return Share(accounting, epsilon, delta if probe.delta else Fraction(0), cost(epsilon))


def _bound(
    accounting: str, cost: Callable[[Fraction], Cost], probe: Cost, total: Total, windows: int
) -> tuple[Callable[[Fraction], bool], Callable[[Fraction], float], Fraction] | None:
    """Whether a share stays within the total, whose `release_delta` is for what adds up of the windows' deltas; and, in
    floats, what such shares spend, and of how much.
    """
    epsilon, release = total.epsilon, total.release_delta or Fraction(0)
    delta = total.delta - release
    if accounting == "basic":
        return lambda share: windows * share <= epsilon, lambda share: float(windows * share), epsilon
    if accounting == "optimal" and windows <= MAX_WINDOWS_OF_OPTIMAL:

        def least(share: Fraction) -> Real:
            return optimal_delta(epsilon, share, windows)

        return lambda share: at_most(least(share), delta), lambda share: relative_float(least(share)), delta
    if accounting == "bounded-range" and probe.bounded_range is not None:

        def composed(share: Fraction) -> Real:
            return bounded_range_epsilon(windows, cost(share).bounded_range or share, delta)

        return lambda share: at_most(composed(share), epsilon), lambda share: relative_float(composed(share)), epsilon
    if accounting == "zcdp" or (accounting == "gaussian" and probe.gdp):
        if accounting == "zcdp":
            limit = rho_within(epsilon, delta)
        else:
            limit = 1 / (2 * gaussian_scale(epsilon, delta, _ONE) ** 2)

        def fits(share: Fraction) -> bool:
            its = cost(share)
            return windows * its.rho <= limit and windows * its.zcdp_delta <= release

        return fits, lambda share: float(windows * cost(share).rho), limit
    return None


def optimal_delta(epsilon: Fraction, share: Fraction, windows: int) -> Real:
    """The smallest delta for which n share-DP releases are always (epsilon, delta)-DP together, for n up to 1000."""

    def value() -> arb:
        step = ball(share).exp()
        sign, bound = step / (1 + step), ball(epsilon).exp()
        least = 1 - sign
        total = arb(0)
        for misses in range(windows + 1):
            if (windows - 2 * misses) * share <= epsilon:
                break
            hits = windows - misses
            total += comb(windows, misses) * (sign**hits * least**misses - bound * sign**misses * least**hits)
        return total

    return value


def rounded_down(value: Fraction) -> Fraction:
    """The largest float (of 53 bits) at most `value`, as a fraction; 0 stays 0."""
    if value <= 0:
        return Fraction(0)
    unit = Fraction(2) ** (_exponent(value) - 52)
    return value // unit * unit


def _exponent(value: Fraction) -> int:
    """The e for which 2**e <= value < 2**(e + 1)."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def check_epsilon(epsilon: Fraction | float, field: str = "epsilon") -> None:
    """Raise InvalidArgument unless a total epsilon is from 1e-100 to 1e6: beyond these it is a slip of the pen."""
    check_parameter("epsilon", epsilon)
    if epsilon > _MAX:
        raise InvalidArgument(
            field, f"must be at most 1e+06, got {plain(epsilon)}", "beyond 10 or so little is promised"
        )
    if epsilon < _MIN:
        raise InvalidArgument(field, f"must be at least 1e-100, got {plain(epsilon)}")


def check_delta(delta: Fraction | float, field: str = "delta") -> None:
    """Raise InvalidArgument unless a total delta is 0, or from 1e-100 to below 1."""
    if not isinstance(delta, Number) or not 0 <= delta < 1:
        raise InvalidArgument(
            field, f"must be a number, at least 0 and below 1, got {kind_shown(delta)}", no_text(delta)
        )
    if 0 < delta < _MIN:
        raise InvalidArgument(field, f"must be 0 or at least 1e-100, got {plain(delta)}")


def check_unit(unit: object) -> None:
    if unit not in tuple(UNITS):
        raise InvalidArgument("privacy_unit", f"must be one of {', '.join(UNITS)}, got {kind_shown(unit)}")


def check_windows(windows: int, field: str) -> None:
    if not 1 <= windows <= _MAX_WINDOWS:
        least = f"at least 1, got {windows}" if windows < 1 else "at most 10**15"
        raise InvalidArgument(field, f"must be {least}")
