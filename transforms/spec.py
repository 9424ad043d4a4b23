"""The specification of a ranking, checked, and the draw that it stands for. Plain arithmetic, without Beam."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from private_topk.transforms.domain import Domain, PublicDomain, as_domain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import Mechanism, RandomBits, noise_of_counts, publish_counts
from private_topk.transforms.mechanisms.exact.count_noise import CountNoise
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.mechanism import Flags, Neighbours, check_k, check_ranks
from private_topk.transforms.mechanisms.noisy_counts import CountBudget, Counts, DrawnCounts, counts_of, rounded_to
from private_topk.transforms.mechanisms.parameters import check_parameter
from private_topk.transforms.metric import USERS, Score, Weights
from private_topk.transforms.release import NoiseSize, Release, release_seed
from private_topk.transforms.stated import stated
from private_topk.transforms.windows import Period

_CENTRAL = Fraction(95, 100)
_MOST = 2**63 - 1  # that a column of integers can hold
MAX_LISTED = 1 << 24
"""The most items of a series: each is scored at every step, held or not."""
_KINDS: dict[str, tuple[type, str]] = {
    "period": (Period, "write Period.of('2026-01-05', '2026-02-02', '7d'), or whole months by 'month'"),
    "release": (Release, "an id repeats a release only under the same key: Release(ReleaseKey.parse('file:PATH'), ID)"),
}


class DrawnRanks(NamedTuple):
    """The ranks drawn of a histogram, in the order of the draw, and all that is published beside their items."""

    ranks: np.ndarray
    noisy_counts: tuple[int | float, ...] | None = None
    noise: NoiseSize | None = None
    noisy_weights: tuple[float, ...] | None = None

    def in_order(self, order: np.ndarray) -> DrawnRanks:
        """The same items in another order."""

        def put(values: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
            return None if values is None else tuple(values[place] for place in order.tolist())

        counts, weights = put(self.noisy_counts), put(self.noisy_weights)
        return self._replace(ranks=self.ranks[order], noisy_counts=counts, noisy_weights=weights)


@dataclass(frozen=True)
class TopK:
    """The specification of a ranking: all that the draw of every window depends on, except the data. Always valid.

    Lists may stand for a domain and for groups, and an epsilon for a budget of counts, or "drawn" for those that come
    with the draw: they are converted.

    Args:
        k: None publishes all above the threshold of a mechanism whose guarantee says `partition_selection`.
        mechanism: its `cap` becomes what one user may move a score by, and it is `with_counts` where counts come with
            the draw.
        max_items_per_user: None for no limit, or for the mechanism's own.
        publish_counts: noisy counts of the released items, with a budget of their own or with the draw; None publishes
            none.
        score: what a user adds to an item: by default 1.
        groups: which groups have a ranking each, of `mechanism`'s budget; None ranks all rows of a window together.
        max_windows_per_user: a user counts in at most so many of the windows; None for all that they are active in.

    Raises:
        InvalidArgument: naming the field, the rule and the remedy.
    """

    identity_tag: ClassVar[str] = "selection"

    k: int | None
    mechanism: Mechanism
    domain: Domain
    max_items_per_user: int | None = None
    publish_counts: Counts | None = None
    score: Score = field(default=USERS, metadata={"omit_if_default": True, "told_as": "amounts"})
    groups: Groups | None = field(default=None, metadata={"omit_if_default": True})
    max_windows_per_user: int | None = field(default=None, metadata={"omit_if_default": True})

    def __post_init__(self) -> None:
        check_made(self.mechanism)
        given: Any = self.score
        if not isinstance(given, Score):
            rule = f"must be Amounts such as Amounts(max_value=60), got {type(given).__name__}"
            raise InvalidArgument("amounts", rule)
        self._set("publish_counts", None if self.publish_counts is None else counts_of(self.publish_counts))
        self._set("domain", as_domain(self.domain))
        self._set("groups", None if self.groups is None else Groups.of(self.groups))
        about, guarantee = self.mechanism.about, self.mechanism.guarantee
        if not self.domain.is_public and guarantee.domain == "public":
            raise InvalidArgument(
                "mechanism",
                f"{about.name} needs a public domain: over an unknown one, that an item appears "
                "at all would tell that somebody holds it",
                "give the public list of items, or use an unknown-domain mechanism such as limit-domain with a delta",
            )
        if self.catalogue is not None and not guarantee.takes_catalogue:
            raise InvalidArgument(
                "mechanism",
                f"{about.name} takes no list of items beside an unknown domain",
                "leave the list out, or take weighted-gaussian",
            )
        self._set("k", None if self.k is None else check_k(self.k, self.domain.size, guarantee.domain))
        domain, labels = self.domain.of_groups(None if self.groups is None else self.groups.labels, self.max_items)
        self._set("domain", domain)
        if self.groups is None and labels is not None:
            self._set("groups", Groups(labels))
        self.mechanism.head(self.max_items)
        bound = self.mechanism.parameter("max_items_per_user")
        if None not in (bound, self.max_items_per_user) and bound != self.max_items_per_user:
            raise InvalidArgument(
                "max_items_per_user", f"must be the mechanism's own bound, got {self.max_items_per_user} and {bound}"
            )
        items = bound if self.max_items_per_user is None else self.max_items_per_user
        self._set("max_items_per_user", check_parameter("max_items_per_user", items))
        self._check_scores()
        self._set("max_windows_per_user", check_parameter("max_windows_per_user", self.max_windows_per_user))
        self._set("mechanism", replace(self.mechanism, cap=self.score.cap, with_counts=self.draws_counts))

    @property
    def draws_counts(self) -> bool:
        """Whether the counts that are published are those that the draw has decided by."""
        return isinstance(self.publish_counts, DrawnCounts)

    @property
    def max_items(self) -> int:
        """The most items of a ranking, as its mechanism takes it for k."""
        return self.mechanism.max_items(self.k)

    @property
    def added_up(self) -> Score:
        """What a user adds to an item as the mechanism has it, which may weigh users."""
        weighting = self.mechanism.parameter("weighting")
        return self.score if weighting is None else Weights(weighting)

    @property
    def catalogue(self) -> PublicDomain | None:
        """The items of an unknown domain that are public all the same."""
        return None if self.domain.is_public else self.domain.catalogue

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_scores(self) -> None:
        name, counts = self.mechanism.about.name, self.publish_counts
        weighs_users = self.mechanism.guarantee.metric == "weights"
        if self.score != USERS and weighs_users:
            raise InvalidArgument(
                "mechanism",
                f"{name} adds up weights of users, and no amounts",
                "rank without amounts, or take another mechanism",
            )
        if self.score != USERS and counts is not None and counts.round_to > 1:
            raise InvalidArgument(
                "round_counts", "does not go with {value_column}: amounts have a resolution", "leave it out"
            )
        if weighs_users and counts is not None:
            raise InvalidArgument(
                "publish_counts", f"does not go with {name}, which adds up weights, not users", "leave it out"
            )

    def parameters(self) -> dict[str, Any]:
        """Every parameter the answer depends on, as JSON: for the release's seed and for the manifest."""
        return {
            "mechanism": self.mechanism.about.name,
            **self.mechanism.parameters(),
            "k": self.k,
            "max_items_per_user": self.max_items_per_user,
            "publish_counts": self.publish_counts and self.publish_counts.parameters(),
            "domain": self.domain.describe(),
            **self.score.describe(),
            **({} if self.groups is None else {"groups": self.groups.describe()}),
            **({} if self.max_windows_per_user is None else {"max_windows_per_user": self.max_windows_per_user}),
        }

    def with_epsilon(self, epsilon: Fraction | float) -> TopK:
        """The same with another epsilon of the ranking. Raises InvalidArgument, also of a mechanism that has none."""
        if self.mechanism.parameter("epsilon") is None:
            raise InvalidArgument("epsilon", f"does not apply to {self.mechanism.about.name}", "leave it out")
        budget: dict[str, Any] = {"epsilon": epsilon}
        return replace(self, mechanism=replace(self.mechanism, **budget))

    def over(self, period: Period | None) -> TopK:
        """The specification for the windows of a period: of windows to date, the mechanism draws one series.

        Raises InvalidArgument if it cannot.
        """
        if period is None or not period.to_date:
            return self
        if not self.mechanism.guarantee.to_date:
            raise InvalidArgument(
                "mechanism",
                f"{self.mechanism.about.name} draws each window alone, and windows to date are one series",
                "take correlated-gaussian, or leave {to_date} out: then every window is a release of its own",
            )
        if self.max_windows_per_user is not None:
            raise InvalidArgument(
                "max_windows_per_user",
                "does not go with {to_date}: a user who counts once counts in all later windows",
                "leave it out: the series costs a user one release, whatever the number of its windows",
            )
        if isinstance(self.publish_counts, CountBudget):
            raise InvalidArgument(
                "publish_counts",
                "does not go with {to_date}: a user moves the counts of all later windows, for each of which it would "
                "have to pay",
                "take {publish_counts} drawn: counts that come with the draw cost nothing",
            )
        size = self.domain.size
        if size > MAX_LISTED:
            raise InvalidArgument(
                "domain", f"of windows to date has at most {MAX_LISTED:,} items, got {size:,}", "rank coarser items"
            )
        settled: Any = {"steps": len(period)}
        return replace(self, mechanism=replace(self.mechanism, **settled))

    def check_windows(self, period: Period | None, bounded: bool) -> None:
        """Raise InvalidArgument if rows of several windows are needed at once, and the input cannot provide them."""
        if period is not None and period.to_date and not bounded:
            raise InvalidArgument(
                "to_date",
                "does not go with a stream: what was counted at every step must be kept, and never change",
                "rank files: with a report (docs/to-date.md), or with `run` once the period is over",
            )
        if self.max_windows_per_user is None:
            return
        if period is None:
            raise InvalidArgument(
                "max_windows_per_user", "needs a declared period: a user counts in so many of its windows"
            )
        if not bounded:
            raise InvalidArgument(
                "max_windows_per_user",
                "needs all windows at once, to choose among those of a user; a stream is published window by window",
                "rank files with `run`, once the horizon is over",
            )

    def listed(self) -> list[tuple[str, str]]:
        """The files of the public lists that are read, each by its field."""
        items = self.catalogue or self.domain
        lists = [("domain", items), *([("groups", self.groups.labels)] if self.groups is not None else [])]
        paths = [(field, getattr(getattr(public_list, "load", None), "path", None)) for field, public_list in lists]
        found = getattr(getattr(items, "load", None), "found", ())
        return [(field, path) for field, path in (*paths, *(("found", file.path) for file in found)) if path]

    def rankings_of_a_user(self) -> int:
        """The number of rankings of a window that are paid for one user: 1, or more where groups are ranked."""
        return 1 if self.groups is None else self.groups.paid_for(self.mechanism)

    def rankings_of_a_newcomer(self) -> int:
        """How many rankings of a window a user can change who is in it in only one of two neighbouring datasets."""
        return 1 if self.groups is None else self.groups.entered

    def bounds_a_user(self) -> bool:
        """Whether a bound selects which of a user's rows in a window count, so that removing some lets others in."""
        return any(bound is not None for bound in (self.max_items_per_user, self.groups))

    def users_move(self) -> bool:
        """Whether a replaced user may leave one ranking and enter another, of which only one is paid for."""
        swapped = self.mechanism.parameter("neighbours", "add-remove") == "replace-one"
        several = self.groups is not None or self.max_windows_per_user is not None
        return swapped and several and self.mechanism.rankings_moved(1) == 1

    def head(self) -> int | None:
        """How many of the largest counts the mechanism looks at; None for all, as of a public domain."""
        return None if self.domain.is_public else self.mechanism.head(self.max_items)

    def epsilon(self) -> float:
        """The whole cost of one window; never less, as a float."""
        counts = self.publish_counts.epsilon if self.publish_counts else 0
        return stated(Fraction(self.mechanism.parameter("epsilon")) + Fraction(counts))

    def delta(self) -> float:
        """The whole delta of one window, rounded up; 0 for a pure release."""
        counts = self.publish_counts.delta if self.publish_counts else 0
        return stated(Fraction(self.mechanism.parameter("delta", 0)) + Fraction(counts))

    def draw(
        self,
        histogram: Histogram,
        digest: bytes,
        window: str,
        release: Release,
        listed: Flags | None = None,
    ) -> DrawnRanks:
        """The draw for these counts: the same for the same release, window, parameters and digest.

        Args:
            listed: which ranks are of items of the `catalogue`, where there is one.

        Sets too come in the order of the draw: sort them into a public order before they are released.
        """
        seed = release_seed(release, window, self.parameters(), digest)
        bits = RandomBits.keyed(seed)
        if self.publish_counts is not None and self.draws_counts:
            ranks, noisy = self.mechanism.select_counted(histogram, self.max_items, bits.draw())
            check_ranks(ranks, self.max_items, histogram.items, self.mechanism.about.name)
            return DrawnRanks(ranks, self._shown(self.publish_counts, noisy), self.noise(len(ranks), histogram.items))
        if listed is None:
            ranks = self.mechanism.prepare(histogram).ranks(self.max_items, bits)
        else:
            ranks = self.mechanism.select_with(listed, histogram, self.max_items, bits.draw())
        if self.mechanism.guarantee.publishes_weights:  # the same draw repeated, whose noise the weights have
            again = RandomBits.keyed(seed).draw()
            hundredths = self.mechanism.noisy_weights(histogram, ranks, again)
            return DrawnRanks(ranks, noisy_weights=tuple(weight / 100 for weight in hundredths.tolist()))
        budget = self.publish_counts
        if not isinstance(budget, CountBudget):
            return DrawnRanks(ranks)
        exact, places = histogram.counts_at(ranks), np.arange(len(ranks))
        noisy = publish_counts(exact, places, bits, budget.epsilon, budget.delta or None, *self._moves())
        return DrawnRanks(ranks, self._shown(budget, noisy), self.noise(len(ranks)))

    def counts_of_step(
        self, noisy: np.ndarray, step: int, items: int
    ) -> tuple[tuple[int | float, ...], NoiseSize | None]:
        """The counts of a window to date as they are published, and their noise.

        Args:
            noisy: those that its draw has decided by.
            step: its number, from 1.
            items: how many there were to choose from.
        """
        assert self.publish_counts is not None
        return self._shown(self.publish_counts, noisy), self.noise(len(noisy), items, step)

    def noise(self, published: int, items: int | None = None, step: int | None = None) -> NoiseSize | None:
        """The noise of so many published counts; None where there are none. Of amounts in their measure.

        Counts that come with the draw are not chosen before it: those that noise has raised are likelier to come out.
        So what they are off by at most is what no count of all items is, with that probability.

        Args:
            items: how many there are to choose from, where it is not all of the domain.
            step: the number of a window to date, from 1; of any if None: of the one with most noise.
        """
        counts = self.publish_counts
        if counts is None or not published:
            return None
        if isinstance(counts, CountBudget):
            law = self.noise_of_own_budget(published, counts)
            width = law.half_width(_CENTRAL)
        else:
            among = items or self.domain.size
            its = self.mechanism
            law = its.noise_of_counts(among, self.max_items) if step is None else its.noise_of_step(step)
            width = law.half_width(1 - (1 - _CENTRAL) / among)
        return self.score.noise(NoiseSize(law.stddev(), min(width + counts.round_to // 2, _MOST)))

    def noise_of_own_budget(self, published: int, counts: CountBudget) -> CountNoise:
        """The law of the noise of so many counts, in units of the score."""
        return noise_of_counts(published, counts.epsilon, counts.delta or None, *self._moves())

    def _moves(self) -> tuple[int | None, Neighbours, int, bool]:
        """How far one user can move published counts, as `noise_of_counts` takes it."""
        neighbours = self.mechanism.parameter("neighbours", "add-remove")
        return self.max_items_per_user, neighbours, self.mechanism.cap, self.users_move()

    def _shown(self, counts: Counts, noisy: np.ndarray) -> tuple[int | float, ...]:
        return tuple(map(self.score.shown, rounded_to(counts.round_to, noisy).tolist()))


def check_kinds(**given: object) -> None:
    """Raise InvalidArgument unless each is what its name says, or None."""
    for name, value in given.items():
        kind, remedy = _KINDS[name]
        if value is not None and not isinstance(value, kind):
            raise InvalidArgument(name, f"must be a {kind.__name__}, got {type(value).__name__}", remedy)


def check_made(mechanism: object) -> None:
    """Raise InvalidArgument of what is no mechanism: also of a class of them."""
    if isinstance(mechanism, type) and issubclass(mechanism, Mechanism):
        rule = f"must be made, such as {mechanism.__name__}(epsilon=1.0), got the class itself"
        raise InvalidArgument("mechanism", rule)
    if not isinstance(mechanism, Mechanism):
        rule = f"must be a Mechanism such as Joint(epsilon=1.0), got {type(mechanism).__name__}"
        raise InvalidArgument("mechanism", rule)
