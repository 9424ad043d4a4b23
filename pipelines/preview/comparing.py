"""The preview: what every mechanism is expected to publish of expected counts, and which to take. Spends nothing."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.budget.sharing import Privacy, Shared
from private_topk.pipelines.preview.outlook import DRAWS, NOISE, Outlook, look
from private_topk.pipelines.preview.setting import Setting
from private_topk.pipelines.preview.shapes import Expected, weight_of
from private_topk.pipelines.preview.words import ranks_table, reasons, table
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import MECHANISMS

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Preview", "preview"]


@dataclass(frozen=True, repr=False)
class Preview:
    """The preview of one setting, for every mechanism that applies to it.

    Args:
        expected: the counts in words.
        items: how many items there are.
        outlooks: of every mechanism that applies, the best first.
        privacy: what is protected, for each of these.
        left_out: why each of the other mechanisms does not apply.
        draws: the requested number, or None for as many as a few seconds allow; each outlook has its own number.
    """

    setting: Setting
    expected: str
    items: int
    outlooks: tuple[Outlook, ...]
    privacy: Mapping[str, Privacy]
    left_out: Mapping[str, Refusal]
    draws: int | None = None

    def __getitem__(self, name: str) -> Outlook:
        return next(outlook for outlook in self.outlooks if outlook.name == name)

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
        """The recommendation with its reasons, in sentences."""
        return reasons(self.outlooks, self.windows)

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
        import pandas

        return pandas.DataFrame(self.to_rows())

    def plot(self, path: str) -> None:
        """Draw each rank's chance to be found, and the l_1 errors, as a picture file. Needs the extra `plot`."""
        from private_topk.pipelines.preview.plot import plot

        plot(self.outlooks, path, self.expected, "users" if self.setting.amounts is None else "amounts")

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
            "expected": self.expected,
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


def preview(
    expected: Expected,
    k: int | Setting,
    epsilon: float | Fraction | None = None,
    delta: float | Fraction | None = None,
    *,
    mechanisms: Iterable[str] = tuple(MECHANISMS),
    draws: int | None = None,
    tell: Callable[[str], None] | None = None,
    **asked: Any,  # noqa: ANN401 - what the fields of a setting are
) -> Preview:
    """A preview of what every mechanism is expected to publish of a window, and which one to take. Spends nothing.

    Args:
        expected: the counts of a window, from public knowledge only: `Zipf`, `Released`, or `PublicCounts`; with
            groups those of one group; with amounts `InAmounts`.
        k, epsilon, delta: as for the run; or in place of k a `Setting`, which has all of it.
        mechanisms: their names; all built-in ones by default.
        draws: how many for each mechanism: 400 by default, fewer where they are slow.
        tell: is called with the name of every mechanism before it is tried.
        asked: the other fields of a `Setting`, by name, such as `unknown_domain=True` or `publish_counts`.

    Raises:
        Refusal: a number breaks its rule, or none of the mechanisms applies.

    Cost: up to a second for each mechanism, some seconds for those that are slow at large k.
    """
    if isinstance(k, Setting):
        setting = k
    elif epsilon is None:
        raise Refusal("epsilon", "must be given")
    else:
        given = {name: value for name, value in asked.items() if value is not None}
        setting = Setting(k=k, epsilon=epsilon, delta=delta, **given)
    histogram = expected.histogram(setting.max_items_per_user, setting.unknown_domain)
    shared, left_out = _admissible(setting, mechanisms, histogram.items, expected)
    worth = 1.0 if setting.amounts is None else float(setting.amounts.value_resolution)
    outlooks = []
    for name, share in shared.items():
        if tell is not None:
            tell(name)
        weight = weight_of(share.mechanism, expected)
        outlooks.append(look(share.mechanism, histogram, setting.k, draws, _pure(share), weight, worth))
    privacy = {name: share.privacy for name, share in shared.items()}
    return Preview(setting, expected.words(), histogram.items, tuple(_ordered(outlooks)), privacy, left_out, draws)


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
