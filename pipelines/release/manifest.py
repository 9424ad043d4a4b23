"""The manifest: what was published and how, for anyone who reads the ranking. Nothing private.

It is read through its type alone: JSON that does not fit it is no manifest. What does not apply is left out.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from private_topk.pipelines.budget.composition import UNITS
from private_topk.pipelines.differences import NOT_KNOWN, Differences, differences, differing, told
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.metric import USERS, Amounts, Score
from private_topk.transforms.release import Label, Ranking
from private_topk.transforms.stated import stated

MANIFEST = ".manifest.json"
"""The ending of a manifest's name."""

PERIOD = re.compile(r"/(\d{8}T\d{6}Z--\d{8}T\d{6}Z)(/correction-.*)?$")
"""The end of the release id of a report's period, or of its correction: before it stands the report's name."""

Whole = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Moment = Annotated[datetime, Meta(tz=True)]
Exact = int | float | str
"""An exact number: a text where no float is equal to it."""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """A part of a manifest."""


class BudgetFacts(Record, frozen=True, kw_only=True):
    epsilon: Annotated[float, Meta(gt=0)]
    delta: Annotated[float, Meta(ge=0)]


class ShareFacts(BudgetFacts, frozen=True, kw_only=True):
    """What one window has spent, and of it the ranking and the noisy counts."""

    ranking: dict[str, Any]
    noisy_counts: dict[str, Any] | None


class PrivacyFacts(BudgetFacts, frozen=True, kw_only=True):
    """The promise: of every window, or where `windows` is given, of so many together.

    Args:
        windows_of_a_user: in how many of them a user counts, where that is not in all.
        ranking, noisy_counts: as of a `ShareFacts`, where the promise is of every window.
    """

    neighbours: Literal["add-remove", "replace-one"]
    unit: str
    guarantee: Literal["pure", "approximate"]
    ranking: dict[str, Any] | None = None
    noisy_counts: dict[str, Any] | None = None
    windows: Positive | None = None
    windows_of_a_user: Positive | None = None
    rankings_of_a_user_in_a_window: Positive | None = None
    accounting: str | None = None
    share_of_a_window: ShareFacts | None = None

    def __post_init__(self) -> None:
        if (self.windows is None) != (self.share_of_a_window is None):
            raise ValueError("a total is of so many windows, each with its share")

    @property
    def of_all_windows(self) -> bool:
        """Whether the promise is of a user's rows in all windows together, and not in each."""
        return self.unit == UNITS["user"]

    @property
    def counts(self) -> dict[str, Any]:
        """What is told of the noisy counts; nothing where none are published."""
        share = self.share_of_a_window
        return (self.noisy_counts if share is None else share.noisy_counts) or {}

    @property
    def publishes_counts(self) -> bool:
        return bool(self.counts)


class ListedItems(Record, frozen=True, kw_only=True):
    """A domain, or the list of groups."""

    kind: Literal["public", "range", "unknown"]
    size: Positive | None = None
    sha256: str | None = None
    start: int | None = None
    stop: int | None = None
    catalogue: ListedItems | None = None
    by_group: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.kind == "public" and self.size is None or self.kind == "range" and None in (self.start, self.stop):
            raise ValueError("a public list has a size, and a range its bounds")

    @property
    def number(self) -> int | None:
        """How many items there are; None if nobody knows."""
        return self.stop - self.start if self.start is not None and self.stop is not None else self.size


class RankedGroups(ListedItems, frozen=True, kw_only=True):
    """The groups, of which each has a ranking.

    Args:
        per_user: in how many of them a user counts in a window.
        overall: all rows have a ranking too, behind those of the list.
        rankings_of_a_user: for how many rankings of a window a user has paid.
    """

    per_user: Positive
    overall: bool = False
    rankings_of_a_user: Positive

    @property
    def rankings(self) -> int:
        """How many rankings a window has."""
        return (self.number or 1) + self.overall


class AmountsFacts(Record, frozen=True, kw_only=True):
    max_value: Exact
    value_resolution: Exact


class Weights(Record, frozen=True, kw_only=True):
    of_a_user_with_t_items: str
    noise_stddev: float | None = None


class Zcdp(Record, frozen=True, kw_only=True):
    """What a window costs as zCDP.

    Args:
        gdp: it is Gaussian differential privacy too (`Cost.gdp`).
    """

    rho: Annotated[float, Meta(ge=0)]
    delta: Annotated[float, Meta(ge=0)]
    gdp: bool = False

    @classmethod
    def of(cls, cost: Cost) -> Zcdp:
        return cls(rho=stated(cost.rho), delta=stated(cost.zcdp_delta), gdp=cost.gdp)


class ChargeFacts(Record, frozen=True, kw_only=True):
    """What a ledger is charged for the whole release, in the words and exact numbers of its table (docs/budget.md):
    what one window costs, by the reading of its cost that was charged (`Cost.readings`), and which windows are paid
    for.
    """

    unit: str
    windows: str
    windows_of_a_user: Positive | None = None
    bounded: bool = False
    epsilon: str
    delta: str
    rho: str
    zcdp_delta: str


class Window(Record, frozen=True, kw_only=True):
    """A window, or one group of it. How many items were returned is part of what is published."""

    start: Moment | None
    end: Moment | None
    group: Label | None = None
    group_number: Whole | None = None
    returned: Whole
    noise_stddev: float | None = None
    noise_95: int | float | None = None

    def __post_init__(self) -> None:
        if self.start and self.end and self.start >= self.end:
            raise ValueError("a window ends after it starts")


class PeriodFacts(Record, frozen=True, kw_only=True):
    """The period that windows to date all begin with: they are one series, which is paid for as a whole. Or the one
    that holds all windows of a horizon.
    """

    start: Moment
    end: Moment


class Publication(Record, frozen=True, kw_only=True):
    """A ranking of the same windows that was published before, and what each of them has cost a user."""

    release_id: str = msgspec.field(name="report")
    epsilon: Annotated[float, Meta(gt=0)]
    delta: Annotated[float, Meta(ge=0)]
    zcdp: Zcdp | None = None

    @classmethod
    def of(cls, release_id: str, cost: Cost) -> Publication:
        return cls(release_id=release_id, epsilon=stated(cost.epsilon), delta=stated(cost.delta), zcdp=Zcdp.of(cost))


class SeriesFacts(Record, frozen=True, kw_only=True):
    """What is asked of all periods of a report. A series is shown with a mark where it changed."""

    private: bool = True
    mechanism: str
    answer: Literal["sequence", "set"]
    parameters: dict[str, Any]
    k: Positive | None
    max_items_per_user: Positive | None
    max_windows_per_user: Positive | None = None
    amounts: AmountsFacts | None = None
    weights: Weights | None = None
    to_date: PeriodFacts | None = None
    privacy: PrivacyFacts | None = None

    def __post_init__(self) -> None:
        if self.private == (self.privacy is None):
            raise ValueError("a ranking promises something, or is not private")


class QuestionFacts(SeriesFacts, frozen=True, kw_only=True):
    """What a release id may stand for once: another ranking under it and its key must have the same. Its windows are
    compared apart, as a folder may have more.
    """

    release_id: str | None = msgspec.field(name="report")
    key_id: str | None
    groups: RankedGroups | None = None
    counts_rounded_to: Positive | None = None
    domain: ListedItems | None
    columns: dict[str, str | tuple[str, ...]] | None = None
    reading: dict[str, Any] | None = None
    item_type: str | None = None


class Manifest(QuestionFacts, frozen=True, kw_only=True):
    """The record beside a ranking: its question, and below what follows from it, or is of the answer.

    Raises:
        ValueError: its parts contradict each other.
    """

    delta_of_a_shared_hash: float | None = None
    zcdp_of_a_window: Zcdp | None = None
    all_windows: BudgetFacts | None = None
    charge: ChargeFacts | None = None
    time_zone: str | None = None
    dataset: str | None = None
    found: tuple[str, ...] | None = None
    corrects: tuple[Publication, ...] = ()
    horizon: PeriodFacts | None = None
    runner: str | None = None
    versions: dict[str, str] | None = None
    released: str | None = None
    output: str | None = None
    ranking_sha256: str | None = None
    windows: tuple[Window, ...] = ()

    @classmethod
    def decode(cls, content: bytes) -> Manifest:
        """The manifest that a file holds. Raises ValueError if it is none."""
        try:
            return _DECODER.decode(content)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(str(error)) from None

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    def to_json(self) -> dict[str, Any]:
        facts: dict[str, Any] = msgspec.to_builtins(self)
        return facts

    @property
    def score(self) -> Score:
        """What a user adds to an item, but for a mechanism that weighs users."""
        return USERS if self.amounts is None else Amounts(self.amounts.max_value, self.amounts.value_resolution)

    def leaves_rows_out(self, of_groups: bool = True) -> bool:
        """Whether a bound may keep some rows of a user out of what is counted; one on amounts is told as their cap.

        Args:
            of_groups: that on groups counts too, which keeps none out of the ranking of all rows.
        """
        windows, groups = self.privacy and self.privacy.windows, self.groups
        of_windows = self.max_windows_per_user is not None and self.max_windows_per_user < (windows or math.inf)
        bounded = of_groups and groups is not None and groups.per_user < (groups.number or math.inf)
        return self.max_items_per_user is not None or of_windows or bounded

    def names(self, role: str) -> tuple[str, ...]:
        """The names of the columns of the ranking that have a role, item or group."""
        names = (self.columns or {}).get(role)
        return names if isinstance(names, tuple) else (role,)

    def with_answer(self, rankings: Iterable[Ranking]) -> Manifest:
        """The manifest with the windows of an answer."""
        windows = tuple(
            Window(
                start=ranking.window.start,
                end=ranking.window.end,
                group=ranking.group,
                group_number=ranking.group_number,
                returned=len(ranking.items),
                noise_stddev=ranking.noise and ranking.noise.stddev,
                noise_95=ranking.noise and ranking.noise.within_95,
            )
            for ranking in in_order(rankings)
        )
        return msgspec.structs.replace(self, windows=windows, released=f"{datetime.now(UTC):%Y-%m-%d}")

    def at(self, path: str, ranking: bytes) -> Manifest:
        """The manifest of a ranking file with this content."""
        digest = hashlib.sha256(ranking).hexdigest()
        return msgspec.structs.replace(self, output=path.rpartition("/")[2], ranking_sha256=digest)

    def is_of(self, ranking: bytes) -> bool:
        """Whether a ranking file is the one that this is the manifest of."""
        return self.ranking_sha256 == hashlib.sha256(ranking).hexdigest()

    @property
    def draws_counts(self) -> bool:
        """Whether its noisy counts come with the draw: then they are too high, and their noise has chosen the items."""
        return self.privacy is not None and self.privacy.counts.get("drawn", False)

    def paid_for(self) -> set[tuple[datetime | None, datetime | None]]:
        """The windows that cost a draw each: of a series to date, the whole period."""
        return self.bounds() if self.to_date is None else {(self.to_date.start, self.to_date.end)}

    def bounds(self) -> set[tuple[datetime | None, datetime | None]]:
        return {(window.start, window.end) for window in self.windows}


_DECODER = msgspec.json.Decoder(Manifest)
_DRAWN = "drawn"
_OF_A_SERIES = frozenset(
    ("private", "answer", "neighbours", "unit", "max_windows_per_user", "to_date", "start", "end", "drawn")
    + ("amounts", "max_value", "value_resolution", "weights", "of_a_user_with_t_items", "privacy_unit")
)
"""The settings that are the same in a series: what its places mean, and whom its budgets protect."""


def question_difference(was: Manifest, now: Manifest, of: type[SeriesFacts], but: Collection[str] = ()) -> Differences:
    """The settings by which two manifests differ in a kind of facts."""
    return differing(_facts(was, of, but), _facts(now, of, but), _as_asked)


def _facts(manifest: Manifest, of: type[SeriesFacts], but: Collection[str] = ()) -> dict[str, Any]:
    facts = manifest.to_json()
    return {
        each.encode_name: facts.get(each.encode_name) for each in msgspec.structs.fields(of) if each.name not in but
    }


def _as_asked(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with the budget as it was asked for, and nothing that follows from others."""
    privacy = facts["privacy"] or {}
    share = privacy.get("share_of_a_window", privacy)
    ranking, counts = (share.get("ranking") or {}).get("epsilon"), share.get("noisy_counts") or {}
    if not ranking:
        return facts
    # The share is parted as the whole is, so the whole is parted as the share: but for the rounding of a float.
    parts = [Fraction(part) for part in (ranking, counts.get("epsilon") or 0)]  # texts, where floats would not do
    epsilon, of_counts = (float(f"{float(Fraction(privacy['epsilon']) * part / sum(parts)):.12g}") for part in parts)
    composed = privacy["guarantee"] == "approximate" or share is privacy
    asked = {
        "epsilon": epsilon,
        "delta": privacy["delta"] if composed else NOT_KNOWN,
        "publish_counts": _DRAWN if counts.get("drawn") else of_counts or None,
        "neighbours": privacy["neighbours"],
        "privacy_unit": privacy["unit"],
        "horizon": privacy.get("windows") if privacy["unit"] == UNITS["user"] else None,
    }
    parameters = {name: value for name, value in facts["parameters"].items() if name not in (*asked, "cap")}
    rounded = facts.get("counts_rounded_to")
    others = {"parameters": parameters, "privacy": None, "counts_rounded_to": None}
    return {**facts, **asked, **others, "round_counts": None if rounded == 1 else rounded}


def in_order(rankings: Iterable[Ranking]) -> list[Ranking]:
    """Rankings in the order in which they are published, however they arrive."""
    return sorted(
        rankings,
        key=lambda each: (each.window.start is not None, each.window.start, each.window.end, each.group_number or 0),
    )


def series_difference(one: Manifest, other: Manifest) -> str | None:
    """The settings by which a manifest is of another series than an earlier one, in words; None if both are of one."""
    found = question_difference(one, other, SeriesFacts)
    apart = {name: values for name, values in found.items() if name in _OF_A_SERIES or _is_drawn(*values)}
    users = [(each.columns or {}).get("user") for each in (one, other)]  # of a pipeline of one's own nothing tells
    was, now = (
        {
            "user column": None if None in users else user,
            "group column": each.groups and ", ".join(each.names("group")),
            "item column": ", ".join(each.names("item")),
        }
        for each, user in zip((one, other), users, strict=True)
    )
    return told(apart | differences(was, now)) or None


def _is_drawn(was: object, now: object) -> bool:
    """Whether counts come with the draw in one of two manifests, and have a budget of their own in the other."""
    return _DRAWN in (was, now) and None not in (was, now)


def series_change(one: Manifest, other: Manifest) -> str | None:
    """What was asked otherwise from one manifest of a series to a later one, in words; None if nothing was."""
    alike = one.groups and other.groups and one.groups.number == other.groups.number
    was, now = (
        {
            **_facts(each, SeriesFacts),
            "number of groups": each.groups and each.groups.number,
            "groups": each.groups and each.groups.sha256 if alike else None,
            "overall": each.groups and each.groups.overall or None,
        }
        for each in (one, other)
    )
    return told(differing(was, now, _as_asked)) or None
