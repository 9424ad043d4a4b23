"""What is publicly known of the counts of a window: a shape, counts that are public, or an earlier release.

Every class gives a histogram, and one line of words that describes its origin. The rows of a run are never used: a
preview of them would be a release.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import groupby
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from private_topk.pipelines.files import as_path, exists, open_content, why
from private_topk.pipelines.options import Options, names_a_file
from private_topk.pipelines.question import declared_period
from private_topk.pipelines.sample import users_per_item
from private_topk.pipelines.select import read_counts
from private_topk.pipelines.texts import listed, number, share, whole_or_power
from private_topk.transforms.asked import score_of
from private_topk.transforms.errors import InvalidArgument, by_signature, did_you_mean, kind_shown, verbatim
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.mechanisms.exact.histogram import Histogram, check_counts
from private_topk.transforms.metric import USERS, Amounts, Score
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period

Floats = NDArray[np.float64]
ByGroup = dict[str, "Expected"]
"""By group, the largest first; of "" where there are no groups."""


def _users(text: str) -> tuple[int, ...]:
    """The users of every group; or of each, where all are alike: `2500 each`."""
    return listed(whole_or_power)(text if "," in text else text.removesuffix(EACH).strip())


EACH = " each"
_IN_TEXT = {"items": whole_or_power, "users": _users, "amount": number}
_EXAMPLE = "items=5000,users=2e4,rank1=30%,rank50=3%"
_RANK, _REACHES = re.compile(r"rank[1-9]\d{0,11}"), 2

_BENT = (0.5, 2.0)
"""Real counts that have the reaches of two ranks fall between half and twice as steeply at the further one as a power
of the rank does, nearly always: `python -m benchmarks.reaches` says how often recall is then within what is stated.
"""
_MIN_SHIFT, _MAX_SHIFT = 1e-9 - 1, 1e6

_SINGLE = 20_000
_GROWTH = 1.001
_MAX_ITEMS, _MAX_USERS = 10**12, 10**12


@runtime_checkable
class Expected(Protocol):
    """The counts that are expected of one window. All of it is public."""

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        """The counts, bounded as in the run.

        Args:
            max_items_per_user: how many items of a user are counted, or None for all.
            unknown: the domain is unknown, so there are no items of count 0.
        """

    def summary(self) -> str:
        """A description of these counts, in one line."""


@by_signature
@dataclass(frozen=True)
class InAmounts:
    """Expected sums of amounts: histograms are of sums, in units of the resolution.

    Args:
        expected: users per item, where `each` is given; otherwise sums of amounts already.
        amounts: the cap and the resolution of the run.
        each: what a user adds to an item that they hold, on average and after the cap.

    Raises:
        InvalidArgument: `each` is above the cap, or not positive, or is missing of a shape, which is of users.
    """

    expected: Expected
    amounts: Amounts
    each: Fraction | float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.expected, Expected):
            raise InvalidArgument(
                "expected",
                f"must be counts of users, got {type(self.expected).__name__}",
                "such as Reaches(...); of groups each has InAmounts of its own",
            )
        most = self.amounts.most
        if self.each is None and isinstance(self.expected, Reaches):
            rule = "must be given with Reaches, which tell numbers of users"
            raise InvalidArgument("each", rule, "it is what a user adds to an item on average, after the cap")
        if self.each is not None and not 0 < self.each <= most:
            raise InvalidArgument(
                "each",
                f"must be above 0 and at most {float(most):g}, got {float(self.each):g}",
                "it is what a user adds on average, after the cap of {max_value}",
            )

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        expected, worth = self.expected, float(Fraction(1 if self.each is None else self.each) / self.amounts.unit)
        if self.each is None and isinstance(expected, Released):  # which keeps counts a unit apart, and not an amount
            sums, worth = np.asarray(expected.noisy_counts, np.float64), 1.0
            expected = replace(expected, noisy_counts=np.round(sums / float(self.amounts.unit)))
        users = expected.histogram(max_items_per_user, unknown)
        return _histogram(users.values.astype(np.float64) * worth, users.sizes, unknown)

    def summary(self) -> str:
        each = "" if self.each is None else f", who add {float(self.each):g} each"
        return f"{self.expected.summary()}{each}; sums of amounts of at most {float(self.amounts.most):g}"


@by_signature
@dataclass(frozen=True)
class Reaches:
    """A shape: what share of the users hold the items of two ranks, and how many items and users there are.

    The rule: a user holds item i with probability 1 - exp(-w (i + shift)**-exponent), as somebody does who takes items
    one after the other by Zipf-Mandelbrot's law; w, exponent and shift follow from the two reaches and the steepness.
    The count of item i is `users` times its probability, rounded: what is expected, without chance. Where at most m
    items of a user are counted, each of a user's items is among them with probability m / `items_per_user`. Beyond
    20,000 items ranks are taken in stretches of a thousandth, all of a stretch with the count of its middle.

    Args:
        reaches: the share of the users that hold the item of a rank, for two ranks: {1: 0.04, 50: 0.005}.
        items: how many there are, held or not.
        users: of one window.
        steepness: of the curve at the further rank, by that of the curve without a shift. Real counts fall between half
            and twice as steeply as that, nearly always: `bent` has both.

    Raises:
        InvalidArgument: a number breaks its rule, the reaches are not two, or they do not fall.
    """

    reaches: Mapping[int, Fraction | float] | tuple[tuple[int, float], ...]
    items: int
    users: int
    steepness: float = 1.0

    def __post_init__(self) -> None:
        _check_whole("items", self.items, _MAX_ITEMS)
        _check_whole("users", self.users, _MAX_USERS)
        given: dict[Any, Any]
        try:
            given = dict(self.reaches)
        except (TypeError, ValueError):
            given = {"": type(self.reaches).__name__}
        if not all(isinstance(each, Real) for each in (*given, *given.values())):
            rule = f"must be shares by rank, such as {{1: 0.04, 50: 0.005}}, got {given.get('', given)}"
            raise InvalidArgument("reaches", verbatim(rule))
        if len(given) != _REACHES:
            rule = f"must say the reach of two ranks, got {len(given)}"
            raise InvalidArgument("reaches", rule, "two fix the curve, such as {{1: 0.04, 50: 0.005}}")
        (first, most), (second, least) = sorted(given.items())
        if not 1 <= first < second <= self.items:
            rule = (
                f"must say the reach of ranks from 1 to {self.items:,}, the number of items, got {first} and {second}"
            )
            raise InvalidArgument("reaches", rule)
        if not 0 < least <= most < 1:
            rule = f"must say reaches between 0 and 100%, that of rank {second} not above that of rank {first}"
            told = " and ".join(f"{float(each) * 100:.6g}%" for each in (least, most))
            raise InvalidArgument("reaches", f"{rule}, got {told}", "0.04 is 4%")
        object.__setattr__(self, "reaches", ((first, float(most)), (second, float(least))))

    def _held(self) -> tuple[Floats, NDArray[np.int64]]:
        """The share of the users that hold an item of each stretch of ranks, and how many items it has."""
        (first, most), (second, least) = dict(self.reaches).items()
        high, low = (-math.log1p(-float(share)) for share in (most, least))
        shift = _shift(first, second, self.steepness)
        exponent = math.log(high / low) / math.log((second + shift) / (first + shift))
        ranks, sizes = _slices(self.items)
        return -np.expm1(-high * ((ranks + shift) / (first + shift)) ** -exponent), sizes

    @property
    def items_per_user(self) -> float:
        """How many items a user holds in the mean."""
        held, sizes = self._held()
        return float(held @ sizes)

    def bent(self) -> tuple[Reaches, ...]:
        """The curves with the same two reaches that are half and twice as steep at the further."""
        return tuple(replace(self, steepness=steepness) for steepness in _BENT)

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        held, sizes = self._held()
        kept = min(1.0, (max_items_per_user or math.inf) / float(held @ sizes))
        return _histogram(held * self.users * kept, sizes, unknown)

    def items_of_a_user(self, most: int) -> int:
        """How many items every user has, where at most so many are counted: a whole number."""
        return max(1, round(min(self.items_per_user, most)))

    @by_signature
    def in_groups(self, sizes: Sequence[int] | Mapping[str, int]) -> dict[str, Reaches]:
        """The shape of each group, the largest first: as this one, with a number of users of its own."""
        named = sizes if isinstance(sizes, Mapping) else enumerate(sorted(sizes, reverse=True), 1)
        falling = sorted(dict(named).items(), key=lambda one: -one[1])
        return {f"{name}: {users:,} users": replace(self, users=users) for name, users in falling}

    def summary(self) -> str:
        (first, most), (second, least) = dict(self.reaches).items()
        return (
            f"{self.items:,} items and {self.users:,} users, of whom {100 * float(most):.3g}% hold the item of rank "
            f"{first} and {100 * float(least):.3g}% that of rank {second}"
        )


@by_signature
@dataclass(frozen=True)
class PublicCounts:
    """Counts that are public, or made up: users per item of one window, as they are after any bound of items per user.

    Never counts that a run has to protect: a preview of them is a release that no budget pays for.

    Raises:
        InvalidArgument, TypeError: they are no valid counts.
    """

    counts: ArrayLike
    name: str = "counts"
    _checked: Histogram = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_checked", Histogram.of(check_counts(self.counts)))

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        return _seen(self._checked) if unknown else self._checked

    def summary(self) -> str:
        return f"{self.name}: {self._checked.items:,} items, the largest count {self._checked.largest:,}"


@by_signature
@dataclass(frozen=True)
class Released:
    """An earlier ranking with its noisy counts: all of it is public, and costs nothing to use again.

    The rule: published ranks say that counts fall, so that noisy counts which rise are replaced by their mean (isotonic
    regression; the noise shrinks with it), one user apart from each other; those below 0 are 0, and all of them where
    none is above it. Counts of the items that were not published are extrapolated: they fall as the power of the rank
    that fits the published ones best.

    That is a guess, so `bent` has the same with half and twice that power.

    Args:
        noisy_counts: of one window, in the order of the ranks, or of a set in any order.
        items: of the domain; None where it is unknown. Then items are those with an extrapolated count of at least 1.
        ranked: whether their order was published.
        steepness: of the counts that were not published, by that of the published ones.

    Raises:
        InvalidArgument: there is no count.
    """

    noisy_counts: Sequence[float] | Floats
    items: int | None = None
    ranked: bool = True
    name: str = "an earlier ranking"
    steepness: float = 1.0

    def __post_init__(self) -> None:
        counts: Any = self.noisy_counts
        if not isinstance(counts, Sequence) and np.ndim(counts) == 1:  # a column
            counts = np.asarray(counts).tolist()
            object.__setattr__(self, "noisy_counts", counts)
        if not isinstance(counts, Sequence) or not all(isinstance(each, Real) for each in counts):
            rule = f"must be numbers, got {type(self.noisy_counts).__name__}"
            remedy = "give those of one ranking: rankings[0].noisy_counts, or a column of them"
            raise InvalidArgument("noisy_counts", rule, remedy)
        if self.items is not None:
            _check_whole("items", self.items, _MAX_ITEMS)
        if not len(counts):
            raise InvalidArgument("like", f"{self.name} has no noisy count", "nothing can be told from it")

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        known = self._falling()
        after = np.arange(1, len(known) + 1)
        last, power = max(known[-1], 0.5), self._power(known) * self.steepness
        total = self.items if self.items is not None else math.ceil(len(known) * (2 * last) ** (1 / power))
        ranks, sizes = _slices(min(max(total, len(known)), _MAX_ITEMS), len(known))
        values = np.concatenate((known, last * (ranks / len(known)) ** -power))
        return _histogram(values, np.concatenate((np.ones(len(after), np.int64), sizes)), unknown)

    def summary(self) -> str:
        power = self._power(self._falling())
        beyond = f"and beyond them counts that fall as 1 / rank^{power:.2f}"
        told = beyond if max(self.noisy_counts) > 0 else "none of them above 0"
        return f"{self.name}: {len(self.noisy_counts)} noisy counts, {told}"

    def bent(self) -> tuple[Released, ...]:
        """Half and twice as steep beyond the published ones."""
        return tuple(replace(self, steepness=steepness) for steepness in _BENT)

    def _falling(self) -> Floats:
        counts = np.asarray(self.noisy_counts, np.float64)
        if counts.max() <= 0:
            return np.zeros(len(counts))
        blocks = pooled((counts if self.ranked else np.sort(counts)[::-1]).tolist())
        # Pooled counts are not distinguishable, but are not made equal, since equal counts are right in any order.
        apart = np.concatenate([value + (size - 1) / 2 - np.arange(size) for value, size in blocks])
        return np.maximum(np.sort(apart)[::-1], 0.0)

    def _power(self, known: Floats) -> float:
        """The slope of log count over log rank by least squares, within [1/20, 4]; 1 if there is only one count."""
        logs = np.log(np.maximum(known, 0.5))
        ranks = np.log(np.arange(1, len(known) + 1))
        spread = ranks - ranks.mean()
        if not spread.any():
            return 1.0
        return float(np.clip(-(spread @ logs) / (spread @ spread), 0.05, 4.0))


def pooled(values: Iterable[float]) -> list[tuple[float, int]]:
    """The decreasing sequence closest to the values in least squares, as runs of (value, length).

    Neighbours that rise are pooled to their mean, as often as it takes (Ayer et al. 1955).
    """
    runs: list[tuple[float, int]] = []
    for value in values:
        total, size = value, 1
        while runs and runs[-1][0] * size <= total * runs[-1][1]:
            before, more = runs.pop()
            total, size = total + before, size + more
        runs.append((total, size))
    return [(total / size, size) for total, size in runs]


@dataclass(frozen=True)
class Begun:
    """The first part of a period, of which `expected` has the whole, if rows come evenly over it."""

    expected: Expected
    part: Fraction

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        kept = 1.0
        if isinstance(self.expected, Reaches):
            # The first items of a user are counted: of few there are as many as of the whole.
            held = float(self.part) * self.expected.items_per_user
            max_items_per_user, kept = None, min(1.0, (max_items_per_user or math.inf) / held)
        whole = self.expected.histogram(max_items_per_user, unknown)
        return _histogram(whole.values.astype(np.float64) * (float(self.part) * kept), whole.sizes, unknown)

    def summary(self) -> str:
        return f"{self.expected.summary()}; the first {float(self.part):.3g} of the period"


def counts_of(top_k: TopK, expected: Expected) -> Histogram:
    """The counts that are expected to be ranked."""
    return expected.histogram(top_k.max_items_per_user, not top_k.domain.is_public)


def scored(by_group: Mapping[str, Expected], score: Score, each: Fraction | float | None = None) -> ByGroup:
    """The expected counts of what is ranked: of amounts `InAmounts`."""
    if not isinstance(score, Amounts):
        return {**by_group}
    return {name: InAmounts(one, score, each) for name, one in by_group.items()}


def check_score(expected: Expected, score: Score) -> None:
    """Raise InvalidArgument unless the expected counts are of what is asked for: of users, or of the same amounts."""
    own = expected.amounts if isinstance(expected, InAmounts) else USERS
    if own == score:
        return
    told, wanted = (
        f"{one.measure} of at most {float(one.most):g} in units of {float(one.unit):g}" if one != USERS else one.measure
        for one in (own, score)
    )
    remedy = "give the preview the same amounts as InAmounts"
    if own == USERS:
        remedy = (
            "give InAmounts(expected, amounts, each) of private_topk.pipelines.preview, where each is what a user adds "
            "to an item on average; leave each out with an earlier ranking of amounts"
        )
    raise InvalidArgument("expected", f"has {told}, and {wanted} are asked for", remedy)


def bent(expected: Expected) -> tuple[Expected, ...]:
    """Other counts that are as likely by what is known: of curves that two reaches tell, or beyond published counts."""
    if isinstance(expected, InAmounts):
        return tuple(replace(expected, expected=one) for one in bent(expected.expected))
    return expected.bent() if isinstance(expected, Reaches | Released) else ()


def weight_of(mechanism: Mechanism, expected: Expected) -> int:
    """The weight that a user adds to an item, in the units of a mechanism that adds up weights; 1 if users are counted.

    Raises:
        InvalidArgument: the number of items of each user is not known; it is for a shape, where all users have equally
            many.
    """
    weighting = mechanism.parameter("weighting")
    if weighting is None:
        return 1
    if not isinstance(expected, Reaches):
        raise InvalidArgument(
            "like",
            f"must be a shape, such as {_EXAMPLE}: the mechanism adds up weights of users, which numbers of users do "
            "not tell",
        )
    return weighting.weight(expected.items_of_a_user(weighting.limit))


def expected_counts(options: Options, given: Mapping[str, Any], items: int | None = None) -> ByGroup:
    """The expected counts of a preview, by group.

    Args:
        given: those of the fields `counts` and `these_counts_are_public` that were given.
        items: the size of the public domain, or None if none is given.

    Raises:
        InvalidArgument: not exactly one kind of them is given; or the counts may be private.
    """
    if ("like" in options) == ("counts" in given):
        raise InvalidArgument(
            "",
            "give one of {like} and {counts}: what is publicly known of the counts",
            "{like} sample is the project's own sample",
        )
    score, said = score_of(options), given.get("these_counts_are_public", False)
    if said and "counts" not in given:
        raise InvalidArgument("these_counts_are_public", "is said of {counts}: leave it out")
    if "counts" in given:
        return scored({"": _public_counts(given["counts"], said)}, score)
    return expected_of(options["like"], items, declared_period(options), score)


def _public_counts(path: str, said: bool) -> PublicCounts:
    """Counts that the operator declares public, checked for signs that they are not."""
    if not said:
        raise InvalidArgument(
            "these_counts_are_public",
            "must be given with {counts}: what a preview says of private counts is a release, which no budget pays for",
            "if they are public or made up, say so with this word; otherwise give {like}",
        )
    if path.lower().endswith(".csv") and "user" in _header(path):
        raise InvalidArgument(
            "counts",
            f"{verbatim(path)} has a column user, so it holds rows of users and no public counts",
            "a preview takes a column count, and perhaps item",
        )
    try:
        counts = read_counts(path)
    except InvalidArgument as error:
        raise InvalidArgument("counts", error.rule, error.remedy) from None
    try:
        return PublicCounts(counts.values, path)
    except (InvalidArgument, TypeError) as error:
        raise InvalidArgument("counts", verbatim(f"{path}: {error}")) from None


def _header(path: str) -> list[str]:
    try:
        with open_content(path) as source:
            line = source.readline(1 << 16).decode("utf-8-sig", "replace")
        return next(csv.reader([line]), [])
    except (OSError, InvalidArgument, csv.Error):
        return []  # reading the file later reports what is wrong with it


def expected_of(like: str, items: int | None, period: Period | None, score: Score = USERS) -> ByGroup:
    """The expected counts of every group that a text describes, the largest group first; of "" where it names none.

    Args:
        like: `sample`, the file of an earlier ranking with counts, or a shape such as
            `items=5000,users=2e4,rank1=30%,rank50=3%`.
        items: the size of the public domain, or None if there is none.
        period: the period whose windows the counts are of.

    Raises:
        InvalidArgument: it describes nothing, or not what is ranked.
    """
    if names_a_file(like):
        return scored(earlier_rankings(like, items, score), score)
    shape: Mapping[str, Any] = {} if like == "sample" else _named(like)
    by_group: ByGroup = {"": _Sample(period)} if like == "sample" else _shape_of(shape, items)
    each = shape.get("amount")
    if (score == USERS) != (each is None):
        raise InvalidArgument(
            "",
            "what a user adds to an item on average, as amount=12 in a shape, goes with {max_value}, and "
            "must be given with it",
        )
    try:
        return scored(by_group, score, each)
    except InvalidArgument as error:
        raise InvalidArgument("like", f"amount {error.rule}", error.remedy) from None


def _shape_of(shape: Mapping[str, Any], items: int | None) -> ByGroup:
    """The shape from its numbers, of every group; items may be left out if there is a domain.

    Raises InvalidArgument.
    """
    values = {**({"items": items} if items is not None else {}), **shape}
    missing = [name for name in ("items", "users") if name not in values]
    if missing:
        raise InvalidArgument("like", f"must say {' and '.join(missing)} too", f"such as {_EXAMPLE}")
    reaches = {int(name[4:]): value for name, value in values.items() if _RANK.fullmatch(name)}
    try:
        whole = Reaches(reaches, values["items"], sum(values["users"]))
    except InvalidArgument as error:
        if error.field != "reaches":
            raise
        raise InvalidArgument("like", error.rule, f"such as {_EXAMPLE}") from None
    return {"": whole} if len(values["users"]) == 1 else {**whole.in_groups(values["users"])}


def _named(text: str) -> dict[str, Any]:
    shape: dict[str, Any] = {}
    for part in re.split(r"[,\s]+(?=[^,\s]*=)", text.strip()):
        name, _, value = part.partition("=")
        name = name.replace("-", "_")
        if name not in _IN_TEXT and not _RANK.fullmatch(name):
            rule = f"must be a shape such as {_EXAMPLE}; got {verbatim(part)}"
            known = (*_IN_TEXT, "rank1")
            raise InvalidArgument("like", rule, did_you_mean(name, known, "give the reach of two ranks"))
        try:
            shape[name] = _IN_TEXT.get(name, share)(value)
        except ValueError as error:
            raise InvalidArgument("like", f"{verbatim(part)}: {name} {verbatim(error)}") from None
    return shape


def earlier_rankings(path: str, items: int | None, score: Score = USERS) -> dict[str, Released]:
    """The noisy counts of a ranking's last window that has any above 0, or else of its last one, of every group, the
    largest first; of "" where there are no groups.

    Args:
        items: the size of the domain; by default that of its manifest.
        score: what is asked for.

    Raises:
        InvalidArgument: of the field `like`: there is no such ranking, or it was published without counts, or with
            others.
    """

    from private_topk.pipelines.release.formats import format_of, group_of
    from private_topk.pipelines.release.place import manifest_path, pair_at  # loads Beam

    with _about(path):
        place = as_path(path, "like")
        form = format_of(place)
        for needed in (place, manifest_path(place)):
            if not exists(needed):
                rule = f"{verbatim(needed)} does not exist"
                raise InvalidArgument(
                    "like",
                    rule,
                    f"give a ranking with its manifest beside it, a shape such as {_EXAMPLE}, or sample",
                )
        there = pair_at(place)
        content, manifest = there
        if manifest is None:
            raise InvalidArgument("like", f"{verbatim(path)} has a manifest that is none of private-topk")
        if content is None or not there.is_whole:
            raise InvalidArgument("like", f"{verbatim(path)} is not the ranking that its manifest is of")
        if manifest.score.measure != score.measure:
            rule = f"{verbatim(path)} ranks by {manifest.score.measure}, and {score.measure} are asked for"
            raise InvalidArgument("like", rule)
        if manifest.privacy is None or not manifest.privacy.publishes_counts:
            raise InvalidArgument(
                "like",
                f"{verbatim(path)} was published without noisy counts, and ranks alone do not tell "
                "how far counts are apart",
                "publish some with {publish_counts}",
            )
        if manifest.draws_counts:
            raise InvalidArgument(
                "like",
                f"{verbatim(path)} has noisy counts that came with its draw: they are too high, since noise has helped "
                "what is shown",
                "publish some with an epsilon of their own, or give a shape",
            )
        rows = form.decode(content)
        size = items if items is not None else None if manifest.domain is None else manifest.domain.size
    rankings: dict[str, Released] = {}
    for (_, group), members in groupby(rows, key=lambda row: (row["window_start"], group_of(row) or "")):
        ranking = list(members)
        counts = [row["noisy_count"] for row in ranking if row["noisy_count"] is not None]
        if counts and (max(counts) > 0 or group not in rankings or max(rankings[group].noisy_counts) <= 0):
            rankings[group] = Released(counts, size, ranking[0]["rank"] is not None, path)
    if not rankings:
        raise InvalidArgument("like", f"{verbatim(path)} has no noisy count", "nothing can be told from it")
    return falling(rankings)


def falling(rankings: dict[str, Released]) -> dict[str, Released]:
    """The rankings of groups, the largest first."""
    return dict(sorted(rankings.items(), key=lambda one: -sum(one[1].noisy_counts)))


@contextmanager
def _about(path: str) -> Iterator[None]:
    """Errors with a file inside become refusals of the field `like`."""
    try:
        yield
    except InvalidArgument as error:
        raise error if error.field == "like" else InvalidArgument("like", verbatim(error)) from None
    except Exception as error:  # every store and every format raises its own kind
        raise InvalidArgument("like", f"{verbatim(path)} cannot be read: {verbatim(why(error))}") from None


@cache
def _played(days: float | None, max_items_per_user: int | None) -> PublicCounts:
    return PublicCounts(users_per_item(days, max_items_per_user))


@dataclass(frozen=True)
class _Sample:
    """The made-up plays that `private-topk sample` writes: those of one window from its start, or all of them."""

    period: Period | None

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        return _played(self.days(), max_items_per_user).histogram(None, unknown)

    def summary(self) -> str:
        days = self.days()
        return "the sample's made-up plays, " + ("all four weeks" if days is None else f"its first {days:g} days")

    def days(self) -> float | None:
        if self.period is None:
            return None
        window = self.period.released.window(0)
        assert window.start is not None and window.end is not None
        return (window.end - window.start).total_seconds() / 86400


def _check_whole(name: str, value: object, most: int) -> None:
    if not isinstance(value, int | float | np.integer) or not 1 <= value <= most or value != int(value):
        raise InvalidArgument(name, f"must be a whole number from 1 to {most:,}, got {kind_shown(value)}")


def _slices(items: int, after: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """Stretches of the ranks after + 1 .. items: the middle of each, and how many ranks it has."""
    single = np.arange(after + 1, min(items, after + _SINGLE) + 1)
    first = int(single[-1]) if len(single) else after
    steps = math.ceil(math.log(max(items, 1) / max(first, 1)) / math.log(_GROWTH)) if items > first else 0
    ends = np.unique(np.minimum(np.ceil(first * _GROWTH ** np.arange(1, steps + 1)), items).astype(np.int64))
    starts = np.concatenate(([first], ends))[:-1].astype(np.int64)
    middles = (starts + 1 + ends) / 2
    return np.concatenate((single, middles)), np.concatenate((np.ones(len(single), np.int64), ends - starts))


def _shift(first: int, second: int, steepness: float) -> float:
    """The shift with which a curve through two ranks is so many times as steep at the second as the one without.

    Or as near to that as there is: at the one end it is an exponential function, at the other rank 1 is far above all.
    """
    if steepness == 1:
        return 0.0
    apart = second - first

    def steeper(least: float) -> float:  # least: the first rank with its shift
        return second * math.log(second / first) / ((apart + least) * math.log1p(apart / least))

    return min(max(_bisected(steeper, steepness) - first, _MIN_SHIFT), _MAX_SHIFT * second)


def _bisected(rising: Callable[[float], float], wanted: float) -> float:
    """The positive number at which a rising function has the wanted value, by bisection of its logarithm."""
    low, high = -200.0, 200.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(math.exp(middle)) < wanted else (low, middle)
    return math.exp((low + high) / 2)


def _histogram(values: Floats, sizes: NDArray[np.int64], unknown: bool) -> Histogram:
    rounded = np.floor(values + 0.5).astype(np.int64)
    different, places = np.unique(-rounded, return_inverse=True)
    numbers = np.zeros(len(different), np.int64)
    np.add.at(numbers, places.reshape(-1), sizes)
    histogram = Histogram(-different, numbers)
    return _seen(histogram) if unknown else histogram


def _seen(histogram: Histogram) -> Histogram:
    """A histogram without the items of count 0, unless there are no others."""
    held = histogram.values > 0
    return Histogram(histogram.values[held], histogram.sizes[held]) if held.any() else histogram
