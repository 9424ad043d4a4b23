"""The contract of a mechanism: counts in, indices out, by nothing but the bits it is given."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from private_topk.transforms.errors import InvalidArgument, kind_shown, plain, verbatim
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.bits import Draw, RandomBits
from private_topk.transforms.mechanisms.exact.count_noise import CountNoise
from private_topk.transforms.mechanisms.exact.histogram import (
    Histogram,
    IndexedCounts,
    Indices,
    check_counts,
)
from private_topk.transforms.mechanisms.exact.series import NewCounts, TopOfStep
from private_topk.transforms.mechanisms.parameters import check_parameter, no_text, parameters_of

Neighbours = Literal["add-remove", "replace-one"]
"""What a neighbour is: one user added or removed, with everything they hold; or one user's data replaced."""


ALL = 2**63 - 1
"""As k: however many items there are."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class About:
    """What `private-topk mechanisms` prints of a mechanism beside its guarantee."""

    name: str
    cost: str
    source: str
    when: str


@dataclass(frozen=True)
class Guarantee:
    """What is proved of the draws of one mechanism's class, and of no other: a subclass, which may draw otherwise,
    states its own.

    Args:
        privacy: "pure" for epsilon-DP, "approximate" for (epsilon, delta)-DP; "none" for what stands in for a mechanism
            in tests, which no command takes.
        domain: "public" where everybody may know which items there are, "unknown" where the data tells.
        answer: "sequence" in rank order, or "set".
        metric: what one user adds to the count of an item: 1 ("users"); also, with `cap` taken into account, anything
            in [0, cap] ("amounts"); or a weight, as its `weighting` says ("weights").
        neighbours: the relations that there is a proof for.
        replacement_costs_one_draw: under "replace-one" two draws, one over counts that a user leaves and one over
            others that a user enters, cost no more together than one over counts in which a user is replaced. So it is
            wherever one user
            who comes or goes costs half: noise is calibrated to moves of twice the size. docs/groups.md has the proofs.
        publishes_weights: the noisy sums that decide come out with the items, and what is proved is proved of both.
        partition_selection: k may be None: all items above a threshold come out then, at the cost of any k.
        takes_catalogue: items of a public list need no threshold: `select_with` is told which these are.
        publishes_counts: where they are asked for, the noisy counts that decide come out with the items:
            `select_counted`. Then what is proved is proved of both, as the class says, which may add more noise for it.
            A user who is added or removed costs half of one who is replaced only where a bound on the items of a user
            is given.
        to_date: it draws all windows of a period that begin with it, as one series, which costs one draw.
    """

    privacy: Literal["pure", "approximate", "none"]
    domain: Literal["public", "unknown"]
    answer: Literal["sequence", "set"]
    metric: Literal["users", "amounts", "weights"] = "users"
    neighbours: tuple[Neighbours, ...] = ("add-remove", "replace-one")
    replacement_costs_one_draw: bool = False
    publishes_weights: bool = False
    partition_selection: bool = False
    takes_catalogue: bool = False
    publishes_counts: bool = False
    to_date: bool = False


@dataclass(frozen=True)
class Mechanism(abc.ABC):
    """One differentially private top-k selection, fixed by its parameters.

    Subclasses are frozen dataclasses: their fields are their parameters, checked when made. `epsilon` and `delta` are
    the budget of *one* release in terms of `neighbours`; nothing else of the release costs budget.

    Args:
        cap: the most that one user adds to a count, in units: 1 where users are counted, more where their amounts are
            added up. What a proof says of moves of 0 or 1 it says of moves in [0, cap] with all rates divided by cap.
        with_counts: the noisy counts that decide come out with the items, and the noise is such that this is covered.
    """

    about: ClassVar[About]
    guarantee: ClassVar[Guarantee]

    cap: int = field(
        default=1,
        kw_only=True,
        repr=False,
        metadata={"settled": "by what is counted", "not_in_fingerprint": "the amounts that are asked for say it"},
    )
    with_counts: bool = field(
        default=False,
        kw_only=True,
        repr=False,
        metadata={"settled": "by what is published", "not_in_fingerprint": "the counts that are asked for say it"},
    )

    def __init_subclass__(cls, **named: Any) -> None:  # noqa: ANN401 - for whatever other base there is
        super().__init_subclass__(**named)
        check_draws(cls)

    def __call__(self, counts: ArrayLike, k: int, bits: RandomBits) -> Indices:
        """Draw a top-k answer.

        Args:
            counts: users per item, or units, shape (d,), integers >= 0 (any integer dtype). In the unknown domain: of
                the items seen, none at all if none were, ties broken by position.
            k: how many items to answer with, 1 <= k, and k <= d in a public domain.
            bits: where every random bit comes from; its next draw is taken.

        Returns:
            Distinct indices into counts, int64: shape (k,), or (at most k,) in the unknown domain. A sequence is in
            rank order; a set in increasing order of index, which says nothing of the ranks.

        Raises:
            ValueError, TypeError: an argument breaks its rule; nothing has been drawn then.
        """
        counts = check_counts(counts, self.guarantee.domain)
        named = IndexedCounts.of(counts if len(counts) else np.zeros(1, np.int64))
        chosen = named.items(self.prepare(named.histogram).ranks(k, bits))
        return np.sort(chosen) if self.guarantee.answer == "set" else chosen

    def prepare(self, histogram: Histogram) -> Prepared:
        """This mechanism over one histogram, for many draws: each then costs O(D + k), whatever d is.

        Args:
            histogram: of all items of a public domain; in an unknown one, of those seen, or at least of the kbar + 1
                largest. Items of equal counts have to be numbered in a public order then.
        """
        return Prepared(self, histogram)

    def max_items(self, k: int | None) -> int:
        """The most items that come out: k, or `ALL` for None. Raises InvalidArgument where None does not apply."""
        if k is None and not self.guarantee.partition_selection:
            raise InvalidArgument("k", f"must be given for {self.about.name}", "how many items to publish")
        return ALL if k is None else k

    def head(self, k: int) -> int | None:
        """How many of the largest counts it looks at; None for all.

        Raises InvalidArgument where k asks for too many.
        """
        return None

    def noisy_weights(self, histogram: Histogram, ranks: Indices, draw: Draw) -> Indices:
        """Of a mechanism that `publishes_weights`: the noisy sums of the items that a draw has chosen.

        In hundredths, int64. They are what the draw decided by, so that whoever pays for the items has paid for them.
        """
        raise NotImplementedError

    def select_counted(self, histogram: Histogram, k: int, draw: Draw) -> tuple[Indices, Indices]:
        """Of a mechanism `with_counts`: the answer of `select`, and of each item the noisy count that has decided.

        In whole units, int64: the exact rounding of the real number that the item has been ranked by, so that ranks and
        counts never contradict each other.
        """
        raise NotImplementedError

    def noise_of_counts(self, d: int, k: int) -> CountNoise:
        """Of a mechanism `with_counts`: the noise of one count beforehand, for k of d items, in units."""
        raise NotImplementedError

    def series(self, new: NewCounts, listed: range | Indices, k: int, draws: Sequence[Draw]) -> list[TopOfStep]:
        """Of a mechanism that draws rankings `to_date`: the items of every step so far, in order, and their counts.

        Args:
            new: what is new at each step.
            listed: the items that can be ranked, by their public numbers, rising.
            draws: the keystream of each step: of one history, and of no other (`transforms/history.py`).
        """
        raise NotImplementedError

    def noise_of_step(self, step: int) -> CountNoise:
        """Of a mechanism that draws rankings `to_date`: the noise of one count at a step, from 1, in units."""
        raise NotImplementedError

    @abc.abstractmethod
    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        """Draw an answer of checked arguments, as ranks: `histogram` explains them. Sets may come in any order."""

    def select_with(self, listed: Flags | None, histogram: Histogram, k: int, draw: Draw) -> Indices:
        """Of a mechanism that `takes_catalogue`: `select` beside a public list.

        Args:
            listed: which ranks are of items on the list, shape (d,).
        """
        raise NotImplementedError

    def sampler(self, histogram: Histogram, k: int) -> Callable[[Draw], Indices]:
        """`select` for many draws: what does not depend on the bits may be done once, here."""
        return lambda draw: self.select(histogram, k, draw)

    def cost(self, k: int) -> Cost:
        """What one release of k items costs, for `neighbours`: everything that is proved of it.

        A subclass states more where its docstring proves more. Without that nothing is known but its epsilon, and
        the delta of an approximate one.
        """
        pure = self.guarantee.privacy == "pure"
        return Cost(Fraction(self.parameter("epsilon")), Fraction(0 if pure else self.parameter("delta")))

    def parameter(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - fields differ in type
        """The value of the field `name`, or `default` where the mechanism has none."""
        return getattr(self, name, default)

    def rankings_moved(self, groups: int) -> int:
        """For how many draws to pay where a user counts in so many groups, which have a draw each.

        Replaced, a user leaves some and enters as many others, in pairs that cost one draw each, or two.
        """
        halves = not self.with_counts or self.parameter("max_items_per_user") is not None
        one = self.guarantee.replacement_costs_one_draw and halves
        return groups if one or self.parameter("neighbours", "add-remove") != "replace-one" else 2 * groups

    @property
    def sensitivity(self) -> int:
        """By how much one user can change the difference of two counts: `cap`, or under "replace-one" twice that."""
        return sensitivity(self.parameter("neighbours", "add-remove")) * self.cap

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name, in a form that JSON can hold: what a manifest and a release's seed are made of."""
        told = [its for its in fields(self) if "settled" not in its.metadata or (its.name == "cap" and self.cap != 1)]
        values = {its.name: getattr(self, its.name) for its in told}
        written = {name for name, v in values.items() if isinstance(v, Fraction)}
        # A skew of 3/5 is named so; an epsilon of 1/10 is named 0.1, as the float is.
        kinds = parameters_of(type(self)) if written else {}
        named = {name for name in written if kinds[name].kind == "fraction"}
        return {name: str(v) if name in named else plain(v) for name, v in values.items()}

    def __post_init__(self) -> None:
        check_stated(type(self))
        own = parameters_of(type(self))
        for its in fields(self):
            kind = own[its.name].kind if its.name in own else None
            object.__setattr__(self, its.name, check_parameter(its.name, getattr(self, its.name), kind))
        if self.cap > 1 and self.guarantee.metric != "amounts":
            raise InvalidArgument(
                "mechanism",
                f"{self.about.name} does not rank amounts: it is proved for users counted once "
                "an item, whom a sum of amounts gives more weight",
                'rank without amounts, or take a mechanism whose guarantee says metric="amounts"',
            )
        if self.with_counts and not self.guarantee.publishes_counts:
            raise InvalidArgument(
                "publish_counts",
                f"drawn does not go with {self.about.name}: what it draws by, if it is noisy counts at all, is not "
                "proved to hide a user once it is published",
                ("take laplace or gaussian, or " if self.guarantee.domain == "public" else "")
                + "give the counts an epsilon of their own, such as 0.5",
            )
        offered, chosen = self.guarantee.neighbours, self.parameter("neighbours", "add-remove")
        if chosen not in offered:
            rule = f"must be one of {', '.join(offered)} for {self.about.name}, got {kind_shown(chosen)}"
            raise InvalidArgument("neighbours", rule)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A mechanism over one histogram."""

    mechanism: Mechanism
    histogram: Histogram
    _samplers: dict[int, Callable[[Draw], Indices]] = field(default_factory=dict, repr=False)

    def ranks(self, k: int, bits: RandomBits) -> Indices:
        """Draw an answer, as ranks.

        A sequence comes in rank order. So does a set: the caller must put its items into a public order before anybody
        sees them.
        """
        k = check_k(k, self.histogram.items, self.mechanism.guarantee.domain)
        if not isinstance(bits, RandomBits):
            raise InvalidArgument("bits", "must be RandomBits", "use RandomBits.fresh() or RandomBits.keyed(key)")
        if k not in self._samplers:
            self._samplers[k] = self.mechanism.sampler(self.histogram, k)
        ranks, fewer = self._samplers[k](bits.draw()), self.mechanism.guarantee.domain == "unknown"
        return check_ranks(ranks, k, self.histogram.items, self.mechanism.about.name, fewer)


def check_stated(kind: type[Mechanism]) -> None:
    """Refuse a class that leaves its name or its guarantee to the one that it is derived from, or to nobody."""
    if not isinstance(getattr(kind, "about", None), About):
        remedy = "give the class an `about: ClassVar[About]`"
        raise InvalidArgument("mechanism", f"{verbatim(kind.__name__)} must say what it is", remedy)
    if not isinstance(vars(kind).get("guarantee"), Guarantee):
        rule = f"{verbatim(kind.__name__)} must state what is proved of its own draws: no class inherits that"
        raise InvalidArgument("mechanism", rule, "give the class a `guarantee: ClassVar[Guarantee]`")
    names = {its.name for its in fields(kind)}
    if kind.guarantee.privacy == "approximate" and "delta" not in names and not hasattr(kind, "delta"):
        rule = f"{verbatim(kind.__name__)} must have a field `delta`, as its guarantee is approximate"
        raise InvalidArgument("mechanism", rule, "add `delta: float`, or state what is pure")


def check_draws(kind: type[Mechanism]) -> None:
    """Refuse a class whose own `select` nobody calls, since the `sampler` of a class above it draws in its place."""
    above = next(each for each in kind.__mro__ if "sampler" in vars(each))
    if "select" in vars(kind) and above not in (kind, Mechanism):
        rule = f"{verbatim(kind.__name__)} has a `select` that is passed by: draws go through {above.__name__}.sampler"
        raise InvalidArgument("mechanism", rule, "write its `sampler` as well, or `sampler = Mechanism.sampler`")


def sensitivity(neighbours: Neighbours) -> int:
    """By how much one user can change the difference of two counts of users.

    A user added or removed moves all counts the same way, each by 0 or 1; one replaced moves some up and others down.
    """
    return 2 if neighbours == "replace-one" else 1


def check_k(k: object, d: int, domain: str = "public") -> int:
    """k as an int, or a refusal."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise InvalidArgument("k", f"must be a whole number, got {kind_shown(k)}", no_text(k, "10"))
    whole = int(k)
    if whole < 1:
        raise InvalidArgument("k", f"must be at least 1, got {whole}")
    if domain == "public" and whole > d:
        raise InvalidArgument("k", f"must be at most the number of items, got k = {whole} and {d} items")
    return whole


def check_ranks(ranks: Any, k: int, items: int, name: str, fewer: bool = False) -> Indices:  # noqa: ANN401
    """The ranks that a mechanism called `name` has drawn, or a refusal: of others, some item would be named twice.

    Args:
        items: how many there are; `ranks` must be different integers from 0 to `items` - 1.
        fewer: whether less than k may come out.

    Cost: some microseconds and O(k log k), beside a draw.
    """
    if isinstance(ranks, np.ndarray) and ranks.dtype.kind in "iu" and ranks.ndim == 1:
        ordered = sorted(ranks.tolist())
        whole = len(ordered) == k or (fewer and len(ordered) < k)
        if whole and len(set(ordered)) == len(ordered) and (not ordered or (ordered[0] >= 0 and ordered[-1] < items)):
            return ranks
    many = f"at most {k}" if fewer else f"{k}"
    raise InvalidArgument(
        "mechanism",
        f"{name} must answer with {many} different ranks, an array of integers from 0 up to the number of items",
        "private_topk.transforms.testing.check_mechanism shows what else it owes",
    )
