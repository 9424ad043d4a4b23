"""Rankings by group: which groups there are, and which of them a user counts in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.transforms.columnar import Codes, Words, mix
from private_topk.transforms.composite import alike
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import InvalidArgument, by_signature
from private_topk.transforms.mechanisms.mechanism import Mechanism
from private_topk.transforms.mechanisms.parameters import check_parameter

OVERALL = "overall"
"""What the ranking of all rows is called among those of groups; of several columns, in each of them."""


@by_signature
@dataclass(frozen=True)
class Groups:
    """The groups that have a ranking each, such as countries. Every one is published in every window, empty or not.

    A user counts in at most `per_user` groups of a window: those of most of their rows, ties by a keyed hash. That
    depends on that user's rows alone.

    Privacy: a user who is added or removed changes at most `per_user` rankings of a window, one by default: any number
    of groups then costs what one ranking costs. One who is replaced may leave some and enter others: twice as many
    change, of which each costs about half of what a replacement within one does (`replacement_costs_one_draw`).
    Rankings that change compose; the mechanism's budget is that of each of them.

    With `overall` there is one ranking more, the last: of all rows, also those of groups that their user does not count
    in, of groups that are not listed, and of no group. What a user adds to it is bounded by itself, as if there were no
    groups, so a user who is added, removed or replaced moves it by what its mechanism's one draw covers, and neither
    enters nor leaves it. So it costs one draw more, whatever the neighbours, beside those of the groups.

    Args:
        labels: the public list, as a `PublicDomain` or any iterable of labels. It must not come from the data.
        overall: all rows have a ranking too. It is published as one more group, of the name "overall".

    Raises:
        InvalidArgument: an argument breaks its rule.
    """

    identity_tag: ClassVar[str] = "groups"

    labels: PublicDomain
    per_user: int = 1
    overall: bool = field(default=False, metadata={"omit_if_default": True})

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(self, labels: PublicDomain | Iterable[Any], per_user: int = 1, overall: bool = False) -> None: ...

    @classmethod
    def of(cls, labels: Groups | PublicDomain | Iterable[Any], per_user: int = 1, overall: bool = False) -> Groups:
        return labels if isinstance(labels, Groups) else cls(labels, per_user, overall)

    @classmethod
    def numbered(cls, number: int | None = None, per_user: int = 1, overall: bool = False) -> Groups:
        """So many groups named by their numbers, where nothing but their number matters; by default any large one.

        A user changes at most twice `per_user` rankings, in however many more groups.
        """
        cls.of(["any"], per_user)
        return cls.of(range(2 * per_user if number is None else number), per_user, overall)

    def __post_init__(self) -> None:
        given: Any = self.labels
        if isinstance(given, str | bytes | Mapping) or not (
            isinstance(given, Iterable) or getattr(given, "is_public", False)
        ):
            got = "a single text" if isinstance(given, str | bytes) else type(given).__name__
            raise InvalidArgument(
                "groups",
                f"must be a list of groups, got {got}",
                "the list is public, and never made from the rows; read a file of it first",
            )
        try:
            object.__setattr__(self, "labels", PublicDomain.of(given))
        except InvalidArgument as error:
            raise InvalidArgument("groups", error.rule, error.remedy) from None
        object.__setattr__(self, "per_user", check_parameter("groups_per_user", self.per_user))
        # In whatever case: whoever reads the rankings would take `Overall` for that of all rows.
        if self.overall and pc.any(pc.equal(pc.utf8_lower(self.labels.index().labels), self._overall)).as_py():
            raise InvalidArgument(
                "groups",
                f"has a group {OVERALL}, in whatever case, as the ranking of all rows is called",
                "rename it in list and rows",
            )

    @property
    def size(self) -> int:
        """How many rankings a window has."""
        return self.labels.size + self.overall

    @property
    def entered(self) -> int:
        """How many rankings of a window a user is in at most."""
        return min(self.per_user, self.labels.size) + self.overall

    def paid_for(self, mechanism: Mechanism) -> int:
        """How many rankings of a window are paid for: those that one user can change, in units of one draw."""
        listed = self.labels.size
        return min(mechanism.rankings_moved(min(self.per_user, listed)), listed) + self.overall

    @cached_property
    def _overall(self) -> str:
        return alike(self.labels.index().labels, OVERALL)

    def name(self, code: int) -> str:
        return self._overall if code == self.labels.size else self.labels.index().labels[code].as_py()

    def encode(self, column: pa.Array) -> Codes:
        """The number of every row's group. For values that are no group -1, or the last number, which is that of all
        rows.
        """
        codes = self.labels.encode(column)
        return np.where(codes < 0, self.labels.size, codes) if self.overall else codes

    def describe(self) -> dict[str, Any]:
        more = {"overall": True} if self.overall else {}
        return {**self.labels.describe(), "per_user": self.per_user, **more}


def first_groups(users: Words, steps: Codes, groups: Codes, per_user: int) -> np.ndarray:
    """Which rows are in one of the first groups that their user has a row of, (n,) of bool.

    The first ones are those of the least step, and among these of the least hash of user and group: what comes later
    changes none of them.

    Args:
        users: words of the users for this choice.
        steps: of the rows.
    """
    return _in_least(users, np.zeros(len(users), np.int64), groups, steps, np.minimum, per_user)


def chosen(users: Words, windows: Codes, groups: Codes, rows: Codes, per_user: int) -> np.ndarray:
    """Which rows are in a group that their user counts in, (n,) of bool: in each window one of those of most rows.

    Args:
        users: words of the users for this choice, which break ties.
        rows: how many rows each stands for, at least 1.
    """
    return _in_least(users, windows, groups, -rows, np.add, per_user)


def _in_least(
    users: Words, windows: Codes, groups: Codes, given: Codes, together: np.ufunc, per_user: int
) -> np.ndarray:
    """Which rows are in a group whose rows are given the least, together, of all that their user has in a window; ties
    by a hash of user and group. Cost: two sorts.
    """
    if not len(users):
        return np.zeros(0, bool)
    order = np.lexsort((groups, windows, users))
    user, window, group = users[order], windows[order], groups[order]
    same = (user[1:] == user[:-1]) & (window[1:] == window[:-1])
    starts = np.flatnonzero(np.append(True, ~same | (group[1:] != group[:-1])))
    user, window, group = user[starts], window[starts], group[starts]
    tie = mix(user ^ mix(group.astype(np.uint64)))
    best = np.lexsort((group, tie, together.reduceat(given[order], starts), window, user))
    user, window = user[best], window[best]
    first = np.flatnonzero(np.append(True, (user[1:] != user[:-1]) | (window[1:] != window[:-1])))
    rank = np.arange(len(best)) - np.repeat(first, np.diff(np.append(first, len(best))))
    kept = np.zeros(len(best), bool)
    kept[best[rank < per_user]] = True
    found = np.empty(len(users), bool)
    found[order] = np.repeat(kept, np.diff(np.append(starts, len(users))))
    return found
