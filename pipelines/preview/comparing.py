"""The preview: what every mechanism is expected to publish of expected counts, and which to take. Spends nothing."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from private_topk.pipelines.budget.sharing import Privacy, Shared
from private_topk.pipelines.preview.outlook import DRAWS, NOISE, Outlook, look
from private_topk.pipelines.preview.setting import Setting
from private_topk.pipelines.preview.shapes import Expected, weight_of
from private_topk.pipelines.preview.solving import fewest_windows, largest_k, noise_in, reaching
from private_topk.pipelines.preview.words import comparison, named, ranks_table, reasons, table
from private_topk.transforms.errors import Refusal, did_you_mean
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, mechanism_by_name, parameters_of
from private_topk.transforms.mechanisms.registry import name_of

if TYPE_CHECKING:
    import pandas
    import polars


__all__ = ["GroupsPreview", "Preview", "preview"]

_FEW = 100


@dataclass(frozen=True, repr=False)
class Preview:
    """The preview of one setting, for every mechanism that applies to it.

    Args:
        items: how many items there are.
        outlooks: of every mechanism that applies, the best first.
        privacy: what is protected, for each of these.
        left_out: why each of the other mechanisms does not apply.
        draws: the requested number, or None for as many as a few seconds allow; each outlook has its own number.
    """

    setting: Setting
    expected: Expected
    items: int
    outlooks: tuple[Outlook, ...]
    privacy: Mapping[str, Privacy]
    left_out: Mapping[str, Refusal]
    draws: int | None = None

    def __getitem__(self, name: str) -> Outlook:
        return {outlook.name: outlook for outlook in self.outlooks}[name]

    def __iter__(self) -> Iterator[Outlook]:
        return iter(self.outlooks)

    def __len__(self) -> int:
        return len(self.outlooks)

    @property
    def best(self) -> Outlook:
        """The recommended mechanism: a sequence if there is any.

        The one with the largest recall. Among those that are not distinguishable from it, the one with most places
        right; among those that are not distinguishable from that one, a pure run, and then the first in the list of
        mechanisms.
        """
        return self.outlooks[0]

    @property
    def best_set(self) -> Outlook | None:
        """The set of the largest recall, or None."""
        return next((outlook for outlook in self.outlooks if not outlook.ordered), None)

    @property
    def close_to_noise(self) -> bool:
        """Whether even the best one is expected to miss more than half of the top k."""
        return self.best.recall.value < NOISE

    @property
    def windows(self) -> int:
        """The number of windows that share the budget."""
        return next(iter(self.privacy.values())).windows

    def reasons(self) -> list[str]:
        """The recommendation with its reasons, in sentences; of what is close to noise, what would be better."""
        return [*reasons(self.outlooks), *([self.advice()] if self.close_to_noise else [])]

    def advice(self) -> str:
        """What would find at least half of the top k, by more draws of the same."""
        setting, best, better = self.setting, self.best, []
        with suppress(Refusal):
            smaller = largest_k(self.expected, setting, NOISE, [best.name], draws=self.draws).setting.k
            if smaller < setting.k:
                better.append(f"k = {smaller}")
        times = fewest_windows(self.expected, setting, NOISE, best.name, self.draws)
        if times is not None:
            alike = f" or {times} such groups merged" if setting.groups_per_user is not None else ""
            better.append(f"{times} times the users, as windows {times} times as long{alike} may have")
        if others := [name for name in MECHANISMS if name not in {*self.left_out, *self.privacy}]:
            with suppress(Refusal):
                other = preview(self.expected, setting, mechanism=others, draws=self.draws or _FEW).best
                if other.recall.low > best.recall.high and other.recall.value >= NOISE:
                    better.append(f"{other.name}, which was not asked for")
        said = "; or with ".join(better)
        return f"At least half of the top k would be found with {said}." if said else (
            "Neither a smaller k nor 100 times the users would be enough.")  # fmt: skip

    def __repr__(self) -> str:
        setting = self.setting
        return f"Preview(k={setting.k}, epsilon={float(setting.epsilon):g}, best={self.best.name!r})"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each mechanism, the best first: mechanism, ordered, pure, draws, and recall, order, l_inf, l_1,
        ratio and returned, each with `_low` and `_high`, which hold it in 95 of 100 previews.
        """
        return [outlook.to_row() for outlook in self.outlooks]

    def to_polars(self) -> polars.DataFrame:
        import polars

        return polars.DataFrame(self.to_rows())

    def to_pandas(self) -> pandas.DataFrame:
        """Raises Refusal where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise Refusal("", "to_pandas() needs pandas", "`pip install pandas`, or take .to_polars()") from None
        return pandas.DataFrame(self.to_rows())

    def __str__(self) -> str:
        parts = [table(self.outlooks), *self._few(), ranks_table(self.best), self.reasons()]
        return "\n\n".join("\n".join(lines) for lines in parts)

    def _few(self) -> list[list[str]]:
        """How often slow mechanisms were drawn, which depends on the machine unless a number of draws is given."""
        few = [f"{o.name} {o.draws}" for o in self.outlooks if self.draws is None and o.draws < DRAWS]
        return [[f"Draws that fitted into 3 s of CPU time, of {DRAWS}: {', '.join(few)}"]] if few else []

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        setting = self.setting
        return {
            "expected": self.expected.words(),
            "items": self.items,
            "k": setting.k,
            "epsilon": float(setting.epsilon),
            "delta": None if setting.delta is None else float(setting.delta),
            "privacy_unit": setting.privacy_unit,
            "windows": self.windows,
            "recommended": self.best.name,
            "close_to_noise": self.close_to_noise,
            "reasons": self.reasons(),
            "mechanisms": [outlook.plain() for outlook in self.outlooks],
            "left_out": {name: error.shown() for name, error in self.left_out.items()},
        }


@dataclass(frozen=True, repr=False)
class GroupsPreview:
    """The preview of one setting for groups, which one mechanism ranks.

    Args:
        previews: of the largest, the median and the smallest group, by their names.
        best: the recommended mechanism: of those that are recommended for one of these, the one with which most groups
            are worth publishing.
        worth: the groups that are, the largest first: in which at least half of the top k is expected to be found.
        groups: how many there are.
    """

    previews: Mapping[str, Preview]
    best: str
    worth: tuple[str, ...]
    groups: int

    def reasons(self) -> list[str]:
        """The recommendation, in sentences."""
        largest, smallest = list(self.previews.values())[0], list(self.previews.values())[-1]
        if not self.worth:
            return largest.reasons()
        which = "all" if len(self.worth) == self.groups else f"{len(self.worth)} of"
        said = f"Take {self.best}: {which} {self.groups:,} groups are worth publishing ({named(self.worth)})."
        advice = smallest.advice() if smallest.close_to_noise else ""
        return [said, *([f"In the smallest, {advice[0].lower()}{advice[1:]}"] if advice else [])]

    def to_rows(self) -> list[dict[str, Any]]:
        """The rows of the previews, each with its group."""
        return [{"group": group, **row} for group, one in self.previews.items() for row in one.to_rows()]

    _repr_html_, to_polars, to_pandas = Preview._repr_html_, Preview.to_polars, Preview.to_pandas

    def __str__(self) -> str:
        columns = {name: one.outlooks for name, one in self.previews.items()}
        return "\n".join([*comparison(columns), "", *self.reasons()])

    def __repr__(self) -> str:
        return f"GroupsPreview(best={self.best!r}, worth={len(self.worth)} of {self.groups} groups)"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        mechanisms = {name: [outlook.plain() for outlook in one.outlooks] for name, one in self.previews.items()}
        return {"recommended": self.best, "groups": self.groups, "worth_publishing": list(self.worth),
                "reasons": self.reasons(), "mechanisms": mechanisms}  # fmt: skip


@overload
def preview(expected: Mapping[str, Expected], *args: Any, **asked: Any) -> GroupsPreview: ...  # noqa: ANN401


@overload
def preview(expected: Expected, *args: Any, **asked: Any) -> Preview: ...  # noqa: ANN401


def preview(
    expected: Expected | Mapping[str, Expected],
    k: int | Setting,
    epsilon: float | Fraction | None = None,
    delta: float | Fraction | None = None,
    *,
    mechanism: Mechanism | str | Iterable[str] = tuple(MECHANISMS),
    draws: int | None = None,
    tell: Callable[[str], None] | None = None,
    **asked: Any,  # noqa: ANN401 - what the fields of a setting are
) -> Preview | GroupsPreview:
    """A preview of what every mechanism is expected to publish of a window, and which one to take. Spends nothing.

    Args:
        expected: the counts of a window, from public knowledge only: `Zipf`, `Released`, or `PublicCounts`; with
            amounts `InAmounts`; of groups those of each by its name, the largest first, such as
            `Zipf(...).among(30)`.
        k, epsilon, delta: as for the run; or in place of k a `Setting`, which has all of it.
        mechanism: an object such as `Joint(epsilon=1.0)`, which has its own epsilon; a name, such as "joint"; or some
            names, to compare, by default of all built-in ones.
        draws: how many for each mechanism: 400 by default, fewer where they are slow; 100 for groups.
        tell: is called with the name of every mechanism before it is tried.
        asked: the other fields of a `Setting`, by name, such as `unknown_domain=True` or `publish_counts`.

    Raises:
        Refusal: a number breaks its rule, none of the mechanisms applies, or `expected` holds rows or a name.

    Cost: up to a second for each mechanism, some seconds for those that are slow at large k.
    """
    _check_expected(expected)
    if isinstance(k, Setting):
        setting = k
        if isinstance(mechanism, Mechanism):
            raise Refusal("mechanism", "must be a name beside a Setting, which has the budget",
                          f"give {name_of(type(mechanism))}")  # fmt: skip
    else:
        asked |= {"epsilon": epsilon, "delta": delta}
        given = {name: value for name, value in asked.items() if value is not None}
        for name in given:
            if name not in (known := [field.name for field in fields(Setting)]):
                raise Refusal(name, "is no argument of preview", did_you_mean(name, [*known, "mechanism", "draws"]))
        if isinstance(mechanism, Mechanism):
            given |= _told_by(mechanism, given)
        elif epsilon is None:
            raise Refusal("epsilon", "must be given")
        setting = Setting(k=k, **given)
    names = _names(mechanism)
    if isinstance(expected, Mapping):
        return _of_groups(expected, setting, names, draws or _FEW, tell)
    histogram = expected.histogram(setting.max_items_per_user, setting.unknown_domain)
    shared, left_out = _admissible(setting, names, histogram.items, expected)
    worth = 1.0 if setting.amounts is None else float(setting.amounts.value_resolution)
    outlooks = []
    for name, share in shared.items():
        if tell is not None:
            tell(name)
        weight = weight_of(share.mechanism, expected)
        outlooks.append(look(share.mechanism, histogram, setting.k, draws, _pure(share), weight, worth))
    privacy = {name: share.privacy for name, share in shared.items()}
    return Preview(setting, expected, histogram.items, tuple(_ordered(outlooks)), privacy, left_out, draws)


def _check_expected(expected: object) -> None:
    """Raise Refusal unless this is public knowledge of counts; of groups, of each."""
    groups = list(expected.values()) if isinstance(expected, Mapping) else [expected]
    wrong = [value for value in groups if not (hasattr(value, "histogram") and hasattr(value, "words"))]
    if wrong or not groups:
        got = type(wrong[0]).__name__ if wrong else "an empty dict"
        raise Refusal("expected", f"must say what is publicly known of the counts, got {got}", "give Zipf(...), "
                      "Released(...) or PublicCounts(...), or a dict of them by group: a preview of private rows "
                      "would be a release")  # fmt: skip


def _names(mechanism: Mechanism | str | Iterable[str]) -> tuple[str, ...]:
    """The names of one mechanism or of some. Raises Refusal for one that there is none of."""
    if isinstance(mechanism, Mechanism):
        return (name_of(type(mechanism)),)
    some = mechanism if isinstance(mechanism, Iterable) and not isinstance(mechanism, str) else [mechanism]
    if names := tuple(name_of(mechanism_by_name(name)) for name in some):
        return names
    raise Refusal("mechanism", "must be at least one", f"leave it out for all, or name some of {', '.join(MECHANISMS)}")


def _told_by(mechanism: Mechanism, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a setting that a mechanism is made of. Raises Refusal where another value is given beside it."""
    own = {name: value for name in parameters_of(type(mechanism))
           if (value := mechanism.parameter(name)) is not None}  # fmt: skip
    told = {field.name: own.pop(field.name) for field in fields(Setting) if field.name in own} | {"parameters": own}
    for name, value in told.items():
        if given.get(name, value) != value:
            raise Refusal(name, "is of a mechanism that is given by its name", "the object has its own")
    return told


def _of_groups(
    by_group: Mapping[str, Expected],
    setting: Setting,
    names: tuple[str, ...],
    draws: int,
    tell: Callable[[str], None] | None,
) -> GroupsPreview:
    setting = replace(setting, groups_per_user=setting.groups_per_user or 1)
    groups = list(by_group)
    some = dict.fromkeys((groups[0], groups[len(groups) // 2], groups[-1]))
    previews = {one: preview(by_group[one], setting, mechanism=names, draws=draws, tell=tell) for one in some}
    noisy: dict[str, list[str]] = {}
    for name in dict.fromkeys(one.best.name for one in previews.values()):

        def noise(group: str, name: str = name) -> bool:
            return not reaching(by_group[group], setting, NOISE, draws)[1](setting, name)

        noisy[name] = noise_in(groups, noise)
    best = min(noisy, key=lambda name: len(noisy[name]))
    return GroupsPreview(previews, best, tuple(one for one in groups if one not in noisy[best]), len(groups))


def _pure(share: Shared) -> bool:
    """Whether the run as a whole is pure: composing windows may need a delta where the mechanism needs none."""
    counted = share.counts is not None and share.counts.delta > 0
    pure = share.mechanism.guarantee.privacy == "pure" and not counted
    return pure and share.privacy.accounting in (None, "basic")


def _admissible(
    setting: Setting, mechanisms: Iterable[str], items: int, expected: Expected
) -> tuple[dict[str, Shared], dict[str, Refusal]]:
    """The share of every mechanism that applies, and the refusal of each of the others.

    Raises:
        Refusal: none applies.
    """
    shared: dict[str, Shared] = {}
    left_out: dict[str, Refusal] = {}
    if not setting.unknown_domain and setting.k > items:
        raise Refusal("k", f"must be at most the number of items, got k = {setting.k} and {items} items")
    for name in mechanisms:
        try:
            share = setting.share_of(name)
            weight_of(share.mechanism, expected)
            shared[name] = share
        except Refusal as error:
            left_out[name] = error
    if not shared:
        raise next(iter(left_out.values()))
    return shared, left_out


def _ordered(outlooks: list[Outlook]) -> list[Outlook]:
    """The recommended outlook, then the others by their recall; sequences before sets."""
    ranked: list[Outlook] = []
    for ordered in (True, False):
        some = [outlook for outlook in outlooks if outlook.ordered is ordered]
        some.sort(key=lambda outlook: (-outlook.recall.value, -outlook.order.value))
        if some:
            first = _chosen([outlook for outlook in outlooks if outlook in some])
            ranked += [first, *(outlook for outlook in some if outlook is not first)]
    return ranked


def _chosen(outlooks: list[Outlook]) -> Outlook:
    """The recommended one of some outlooks, which are in the order of the list of mechanisms."""
    most = max(outlooks, key=lambda outlook: outlook.recall.value)
    equal = [outlook for outlook in outlooks if outlook.recall.high >= most.recall.low]
    ordered = max(equal, key=lambda outlook: outlook.order.value)
    equal = [outlook for outlook in equal if outlook.order.high >= ordered.order.low]
    return next((outlook for outlook in equal if outlook.pure), equal[0])
