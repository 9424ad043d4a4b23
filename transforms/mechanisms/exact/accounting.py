"""Budgets: what a number of draws costs, and the largest share per draw that a budget pays for.

Every inversion ends with a certificate: the parameter returned is a rational for which ball arithmetic has *proved*
that the composed cost stays within the budget, and no neighbouring float on the better side has that proof. Nothing
here looks at data. Logarithms are natural.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import exp, expm1, frexp, inf, log, log1p, sqrt

from flint import arb, ctx

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms.exact.reals import Real, ball, floor, precision, relative_float

_MAX_PRECISION = 1 << 13
_SCALE = 1 << 100  # rho_within answers in multiples of its inverse
_LARGEST_EXACT = 1000  # a delta of the next one has thousands of digits
_ORDERS = [1 + Fraction(step, 32) * Fraction(2) ** octave for octave in range(-6, 26) for step in range(32, 64)]
_FLOATS = [float(order) for order in _ORDERS]  # exactly
_HALVINGS = (8, 20, 36)
_SECANTS, _NEAR, _FAR = 10, 2.0**-22, 100.0
_SLACK_ERROR, _RELATIVE_ERROR = 2.0**-30, 2.0**-40
"""By what floats err at most: logarithms of numbers up to 2**4096 by 2**-40, all else by a few parts in 2**52."""


def at_most(value: Real, bound: Fraction) -> bool:
    """Whether value <= bound is proved. A value too close to tell at 8192 bits counts as above: never overspend."""
    bits = 96
    while bits <= _MAX_PRECISION:
        with precision(bits):
            enclosure, limit = value(), ball(bound)
            if enclosure <= limit:
                return True
            if enclosure > limit:
                return False
        bits *= 2
    return False


def largest(within: Callable[[Fraction], bool], start: Fraction, near: float = 0.0, halvings: int = 52) -> Fraction:
    """The largest parameter, to float precision, that is `within` budget: start is, and all below one that is are.

    Args:
        near: about that, by floats. It shortens the search and does not change what is found.
        halvings: fewer are less than float precision.
    """
    low = start * 2 ** max(0, frexp(near / float(start))[1] - 1)
    while low > start and not within(low):
        low /= 2
    while within(2 * low):
        low *= 2
    for fewer in _HALVINGS if low < near < 2 * low and halvings == 52 else ():
        # Halving comes to the interval around `near`, if what is sought lies there.
        width = low / 2 ** (52 - fewer)
        good = low + (Fraction(near) - low) // width * width
        if within(good) and not within(good + width):
            return _bisect(within, good, good + width, fewer)
    return _bisect(within, low, 2 * low, halvings)


def about(rising: Callable[[Fraction], float], wanted: float, start: Fraction) -> float:
    """About where a rising function has a positive value, by secants of logarithms; 0 where floats do not tell."""
    place, value, power, step = float(start), rising(start), 1.0, 1.0
    for _ in range(_SECANTS):
        if not 0 < value < inf or not 0 < wanted < inf or not power > 0:
            return 0.0
        step = log(wanted / value) / power
        if abs(step) > _FAR:
            return 0.0
        place *= exp(step)
        if not 0 < place < inf:
            return 0.0
        if abs(step) < _NEAR:
            break
        before, value = value, rising(Fraction(place))
        power = log(value / before) / step if 0 < value < inf else 0.0
    return place


def smallest(within: Callable[[Fraction], bool]) -> Fraction:
    """The smallest scale, to float precision, that is `within` budget, where all above one that is are.

    Raises:
        InvalidArgument: no scale below 2**1000 is.
    """
    high = Fraction(1)
    while not within(high):
        high *= 2
        if high > 2**1000:
            raise InvalidArgument(
                "epsilon",
                "must be larger: no noise scale below 2**1000 keeps this budget",
                "raise {epsilon} or {delta}",
            )
    while within(high / 2) and high > Fraction(1, 2**1000):
        high /= 2
    return _bisect(within, high, high / 2)


def _bisect(within: Callable[[Fraction], bool], good: Fraction, bad: Fraction, halvings: int = 52) -> Fraction:
    # Halving a binade 52 times leaves two neighbouring floats.
    for _ in range(halvings):
        middle = (good + bad) / 2
        good, bad = (middle, bad) if within(middle) else (good, middle)
    return good


def bounded_range_epsilon(k: int, share: Fraction, delta: Fraction) -> Real:
    """The epsilon of k adaptive draws that are each share-bounded-range, at delta.

    The mean of one draw's privacy loss is at most s/(1 - exp(-s)) - 1 - ln(s/(1 - exp(-s))) and its range at most s:
    Dong, Durfee & Rogers 2020, the adaptive bound of section 4.
    """

    def value() -> arb:
        s = ball(share)
        ratio = s / -(-s).expm1()
        return k * (ratio - 1 - ratio.log()) + s * (-ball(delta).log() * k / 2).sqrt()

    return value


@lru_cache(maxsize=256)
def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho for which rho-zCDP is proved to give (epsilon, delta)-DP, up to 1 part in 10,000.

    For every order a > 1, delta = exp((a - 1)(a rho - epsilon)) (1 - 1/a)**a / (a - 1) (Canonne, Kamath & Steinke
    2020, Proposition 12 with the Renyi divergence a rho). Solved for rho, the best of a fixed grid of orders is taken,
    so that the answer is the same on every machine. Zero where delta is.
    """
    if delta <= 0:
        return Fraction(0)
    spend = float(epsilon)
    proved = [(spend + slack) / order for order, slack in zip(_FLOATS, _slacks(delta), strict=True)]
    near = _largest(proved, [_error(order, spend) / order for order in _FLOATS])
    return Fraction(max(0, *(floor(_rho_at(_ORDERS[place], epsilon, delta)) for place in near)), _SCALE)


@lru_cache(maxsize=256)
def epsilon_within(rho: Fraction, delta: Fraction) -> Fraction:
    """An epsilon for which rho-zCDP is proved to give (epsilon, delta)-DP: the inverse of `rho_within`."""

    def less(order: Fraction) -> Real:
        return lambda: _SCALE * (_slack(order, delta) - ball(order) * ball(rho))

    spent = float(rho)
    saved = [slack - order * spent for order, slack in zip(_FLOATS, _slacks(delta), strict=True)]
    near = _largest(saved, [_error(order, order * spent) for order in _FLOATS])
    return Fraction(min(-floor(less(_ORDERS[place])) for place in near), _SCALE)


def _rho_at(order: Fraction, epsilon: Fraction, delta: Fraction) -> Real:
    """The rho that one order proves, in units of 1 / _SCALE."""
    return lambda: _SCALE * (ball(epsilon) + _slack(order, delta)) / ball(order)


def _error(order: float, value: float) -> float:
    """At least by what a float errs that is the slack of an order and such a value, added up."""
    return _SLACK_ERROR / (order - 1) + _RELATIVE_ERROR * abs(value)


def _largest(values: Sequence[float], errors: Sequence[float]) -> list[int]:
    """The places of the orders whose real numbers may be the largest, by how far the floats of these may be off."""
    least = max(value - error for value, error in zip(values, errors, strict=True))
    return [place for place, (value, off) in enumerate(zip(values, errors, strict=True)) if value + off >= least]


@lru_cache(maxsize=256)
def _slacks(delta: Fraction) -> list[float]:
    """`_slack` of every order, in floats: only to leave out orders that no ball need be asked of."""
    tail = log(delta.numerator) - log(delta.denominator)
    return [(tail + log(order - 1) - order * log1p(-1 / order)) / (order - 1) for order in _FLOATS]


def _slack(order: Fraction, delta: Fraction) -> arb:
    """`_slack_at` the working precision."""
    return _slack_at(order, delta, ctx.prec)


@lru_cache(maxsize=1 << 13)
def _slack_at(order: Fraction, delta: Fraction, bits: int) -> arb:
    """By how much epsilon may exceed order times rho, in balls of so many bits; below 0 for small delta.

    It is rational for no rational delta but the one where it is 0, which no enclosure shows. That takes a whole order,
    since no two coprime numbers that differ by q > 1 are both q-th powers.
    """
    if order.denominator == 1 and order <= _LARGEST_EXACT and delta == (order - 1) ** (order - 1) / order**order:
        return arb(0)
    a, excess = ball(order), ball(order - 1)
    return (ball(delta).log() + excess.log() - a * (excess / a).log()) / excess


def bounded_range_divergence(order: Fraction, share: Fraction) -> arb:
    """The largest Renyi divergence, of an order above 1, between laws of which one is share-bounded-range of the other.

    The privacy loss L lies between t - s and t for some t, and E[exp(-L)] = 1 under P. With y = exp(-L), the mean of
    y**(1 - order), which is convex in y, is largest where L takes its two extreme values alone (the randomized response
    of Dong, Durfee & Rogers 2020). With x = exp(t) that mean is x**(order - 1) (A - B x), for A = (1 - exp(-order s)) /
    (1 - exp(-s)) and B = (1 - exp((1 - order) s)) / (exp(s) - 1): largest at x = (order - 1) A / (order B).
    """
    a, s = ball(order), ball(share)
    whole, part, one = (-(-each * s).expm1() for each in (a, a - 1, arb(1)))
    return s + ((a - 1) / a * whole / part).log() + (whole / (a * one)).log() / (a - 1)


@lru_cache(maxsize=1024)
def per_round_epsilon(epsilon: Fraction, delta: Fraction, k: int) -> Fraction:
    """The largest s for which k adaptive exponential mechanisms, each s-DP, are proved to be (epsilon, delta)-DP.

    The better of two proofs: basic composition, s = epsilon / k; and Renyi divergences, of which that of each draw is
    at most `bounded_range_divergence`, those of adaptive draws add up (Mironov 2017, Proposition 1), and for an order a
    a sum of epsilon + `_slack(a, delta)` gives (epsilon, delta) (Canonne, Kamath & Steinke 2020, Proposition 12). That
    is never below what zCDP proves of s**2/8 a draw, where the search begins. Cost: about 50 ms, once.
    """
    limit, share = rho_within(epsilon, delta), epsilon / k

    def by_zcdp(share: Fraction) -> bool:
        return k * share * share / 8 <= limit

    share = largest(by_zcdp, share, sqrt(8 * limit / k)) if by_zcdp(share) else share
    while (more := _share_proved(_best_order(share, delta, k), share, epsilon, delta, k)) > share:
        share = more
    return share


def _share_proved(order: Fraction, least: Fraction, epsilon: Fraction, delta: Fraction, k: int) -> Fraction:
    """The largest share that one order proves; 0 if not even the least."""

    def within(share: Fraction) -> bool:
        return at_most(_to_spend(order, share, delta, k), epsilon)

    def spent(share: Fraction) -> float:
        return relative_float(lambda: k * bounded_range_divergence(order, share))

    if not within(least):
        return Fraction(0)
    limit = relative_float(lambda: ball(epsilon) + _slack(order, delta))
    return largest(within, least, about(spent, limit, least))


def _to_spend(order: Fraction, share: Fraction, delta: Fraction, k: int) -> Real:
    """The epsilon that one order proves of k draws."""
    return lambda: k * bounded_range_divergence(order, share) - _slack(order, delta)


def _best_order(share: Fraction, delta: Fraction, k: int) -> Fraction:
    """The order that proves the least epsilon; where it is no single valley, one that proves hardly more."""

    slacks, s = _slacks(delta), float(share)

    def spent(number: int) -> int:
        return floor(lambda: _SCALE * _to_spend(_ORDERS[number], share, delta, k)())

    def best(numbers: range) -> int:
        orders = [_FLOATS[number] for number in numbers]
        diverging = [_divergence(order, s) for order in orders]
        saved = [slacks[number] - k * each for number, each in zip(numbers, diverging, strict=True)]
        errors = [
            _error(order, value) + k * _RELATIVE_ERROR * (1 + s + 1 / (order - 1))
            for order, value in zip(orders, saved, strict=True)
        ]
        near = [numbers[place] for place in _largest(saved, errors)]
        return min(near, key=spent) if len(near) > 1 else near[0]

    near = best(range(0, len(_ORDERS), 16))
    return _ORDERS[best(range(max(near - 15, 0), min(near + 16, len(_ORDERS))))]


def _divergence(order: float, share: float) -> float:
    """`bounded_range_divergence` in floats."""
    whole, part, one = (-expm1(-each * share) for each in (order, order - 1, 1.0))
    return share + log((order - 1) / order * whole / part) + log(whole / (order * one)) / (order - 1)


def gaussian_delta(epsilon: Fraction, variance: Fraction, squared_sensitivity: Fraction) -> Real:
    """The exact delta at epsilon of Gaussian noise; the l_2 sensitivity comes squared. Balle & Wang 2018, Theorem 8."""

    def value() -> arb:
        distance = ball(squared_sensitivity / variance).sqrt()
        middle = ball(epsilon) / distance
        root = arb(2).sqrt()
        near, far = (middle - distance / 2) / root, (middle + distance / 2) / root
        return (near.erfc() - ball(epsilon).exp() * far.erfc()) / 2

    return value


@lru_cache(maxsize=1024)
def gaussian_scale(epsilon: Fraction, delta: Fraction, squared_sensitivity: Fraction) -> Fraction:
    """The smallest standard deviation for which Gaussian noise is (epsilon, delta)-DP. Cost: about 5 ms, once."""
    # A larger epsilon needs no more noise than a smaller one; beyond a million there is next to none left to save.
    capped = min(epsilon, Fraction(2**20))
    return smallest(lambda scale: at_most(gaussian_delta(capped, scale**2, squared_sensitivity), delta))


@lru_cache(maxsize=256)
def gaussian_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """The least epsilon, to float precision, for which Gaussian noise is (epsilon, delta)-DP, rho being squared l_2
    sensitivity over twice the variance.
    """
    return smallest(lambda epsilon: at_most(gaussian_delta(epsilon, Fraction(1), 2 * rho), delta))


@lru_cache(maxsize=1024)
def largest_delta_q(delta: Fraction) -> Fraction:
    """The largest q <= 1, to float precision, with q (3 + ln(1/q)) / 4 <= delta proved. Cost: about 2 ms, once.

    With standard Laplace noises X and Y, P(X > ln(1/q) + Y) = q (2 + ln(1/q)) / 4, so a test of level 0 or less against
    the threshold ln(1/q) passes with probability below delta (Durfee & Rogers 2019, Lemma D.1, which has the 3).
    """
    return largest(
        lambda q: q <= 1 and at_most(lambda: ball(q) * (3 - ball(q).log()) / 4, delta),
        start=delta / 4096,  # within, since ln(4096 / delta) < 16381 for every float
    )


def squared_order_sensitivity(items: int, most: int, neighbours: str) -> Fraction:
    """Squared, of `items` scores to which a user adds numbers in [0, 1] whose squares sum to at most `most`; 1 for a
    single score, whose order is one.

    An order is the same when all scores move together, so that a move v reaches it as far as |v|**2 - (sum of v)**2 /
    items. The sum is at least q = |v|**2, no number being above 1: at most q (items - q) / items, which rises up to q =
    items / 2. And in v it is convex, so that beyond that it is largest at whole numbers: r (items - r) / items, r being
    `most` or half of the items. Under "replace-one" v is the difference of two such moves, neither of which is
    negative: |v|**2 is at most 2 `most`, and at a corner of [-1, 1] to the power of items it is their number, less 1 /
    items where that is odd.
    """
    if items == 1:
        return Fraction(1)
    if neighbours == "replace-one":
        return min(Fraction(2 * most), items - Fraction(items % 2, items))
    moved = min(most, items // 2)
    return Fraction(moved * (items - moved), items)
