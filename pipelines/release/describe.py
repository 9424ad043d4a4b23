"""The manifest of a report, as far as it is known before its job starts."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar

import msgspec

from private_topk.pipelines.budget.composition import SERIES, UNITS
from private_topk.pipelines.budget.ledger import Drawn
from private_topk.pipelines.budget.rows import row_of
from private_topk.pipelines.budget.sharing import Privacy, cost_of
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.release.manifest import (
    AmountsFacts,
    ChargeFacts,
    ListedItems,
    Manifest,
    PeriodFacts,
    PrivacyFacts,
    Publication,
    RankedGroups,
    ShareFacts,
    Weights,
    Zcdp,
)
from private_topk.pipelines.release.promise import promised
from private_topk.transforms.release import Ranking
from private_topk.transforms.stated import stated
from private_topk.transforms.windows import WindowBounds

if TYPE_CHECKING:
    from private_topk.pipelines.budget.ledger import Request
    from private_topk.transforms.spec import TopK
    from private_topk.transforms.windows import Period


_PACKAGES = ("private-topk", "apache-beam", "cryptography", "fastavro", "numpy", "polars", "pyarrow", "python-flint")
_Record = TypeVar("_Record")


class Stated(Drawn, Protocol):
    """Rankings whose promise can be stated, such as a `Question`."""

    @property
    def privacy(self) -> Privacy: ...

    def request(self, **facts: Any) -> Request: ...  # noqa: ANN401 - of the fields of a Request


def manifest_of(
    question: Stated,
    *,
    columns: Mapping[str, str | tuple[str, ...]] | None = None,
    reading: Mapping[str, Any] | None = None,
    integer_items: bool = False,
    dataset: str | None = None,
    corrects: tuple[Publication, ...] = (),
    horizon: PeriodFacts | None = None,
) -> Manifest:
    """The manifest of a report as known before its job starts: without its runner, the key's id, which is read where
    the key is, and an answer.

    Args:
        columns: the names of the columns that are read, by role; and `reading`, how, where that is not the default.
        integer_items: items are published as integers.
        dataset: whose budget is charged, where one is.
        corrects: the earlier publications of the same windows that this one corrects.
        horizon: what holds all declared windows of a scheduled report, of which a run publishes some.
    """
    top_k, release, period = question.top_k, question.release, question.period
    mechanism, counts = top_k.mechanism, top_k.publish_counts
    private = mechanism.guarantee.privacy != "none" and release.key.is_secret
    found = tuple(place.rpartition("/")[2] for field, place in top_k.listed() if field == "found")
    groups = top_k.groups
    manifest = Manifest(
        private=private,
        mechanism=mechanism.about.name,
        answer=mechanism.guarantee.answer,
        parameters=mechanism.parameters(),
        k=top_k.k,
        max_items_per_user=top_k.max_items_per_user,
        max_windows_per_user=top_k.max_windows_per_user,
        **msgspec.convert(top_k.added_up.describe(), _ScoreFacts),
        to_date=PeriodFacts(start=period.start, end=period.end) if period is not None and period.to_date else None,
        privacy=_privacy(question) if private else None,
        release_id=release.id,
        key_id=None,
        groups=_as(RankedGroups, groups, rankings_of_a_user=top_k.rankings_of_a_user()),
        counts_rounded_to=None if counts is None else counts.round_to,
        domain=_as(ListedItems, top_k.domain),
        columns=None if columns is None else dict(columns),
        reading=dict(reading) if reading else None,
        item_type="int64" if integer_items else None,
        delta_of_a_shared_hash=of_a_shared_hash(top_k),
        zcdp_of_a_window=None if mechanism.guarantee.privacy == "none" else Zcdp.of(cost_of(top_k)),
        charge=charge_of(question.request(dataset="", key_id="", fingerprint="")) if private else None,
        time_zone=None if period is None or period.zone == "UTC" else period.zone,
        dataset=dataset,
        found=found or None,
        corrects=corrects,
        horizon=horizon,
        versions={"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
    )
    if private:
        alone = msgspec.structs.replace(manifest, corrects=())
        _, everything = promised([(alone, Windows.of(period))])
        manifest = msgspec.structs.replace(manifest, all_windows=everything)
    return Manifest.decode(manifest.encode())  # equal to what a file gives back


def planned(manifest: Manifest, question: Stated, windows: Period | None) -> Manifest:
    """The manifest with the windows of an answer that is still to be drawn: a ranking of each group, without items.

    Args:
        windows: those that are published.
    """
    top_k, period, group = question.top_k, question.period, manifest.names("group")
    steps = top_k.draws_counts and period is not None and period.to_date
    names = [None] if top_k.groups is None else list(map(top_k.groups.name, range(top_k.groups.size)))
    every, own = (dict.fromkeys([WindowBounds()] if each is None else each.windows()) for each in (period, windows))
    # Where there is no k, the rows decide how many counts there are.
    noise = cache(lambda step: None if top_k.k is None else top_k.noise(top_k.max_items, step=step))
    rankings = [
        Ranking(window, (), 0, "", noise=noise(step if steps else None), group=name, group_number=number)
        for step, window in enumerate(every, 1)
        if window in own
        for number, name in enumerate(names)
    ]
    answer = (ranking.in_columns(("item",), group) for ranking in rankings)
    return msgspec.structs.replace(manifest.with_answer(answer), released=None)


class _ScoreFacts(TypedDict, total=False):
    amounts: AmountsFacts
    weights: Weights


def _as(kind: type[_Record], value: Any, **more: object) -> _Record | None:  # noqa: ANN401 - what describes itself
    return None if value is None else msgspec.convert(value.describe() | more, kind)


def _privacy(question: Stated) -> PrivacyFacts:
    """What a manifest states of the budget: unit, total and share of a window."""
    top_k, privacy = question.top_k, question.privacy
    parameters, counts = top_k.mechanism.parameters(), top_k.publish_counts
    window: dict[str, Any] = {
        "epsilon": top_k.epsilon(),
        "delta": top_k.delta(),
        "ranking": {"epsilon": parameters["epsilon"], "delta": parameters.get("delta", 0)},
        "noisy_counts": counts and counts.describe(),
    }
    series = question.period is not None and question.period.to_date
    unit = SERIES if series and privacy.unit == "user-window" else UNITS[privacy.unit]
    promise: dict[str, Any] = {"neighbours": top_k.mechanism.parameter("neighbours", "add-remove"), "unit": unit}
    if privacy.total is None:
        return PrivacyFacts(**window, **promise, guarantee="approximate" if window["delta"] else "pure")
    pure = privacy.accounting == "basic" and not window["delta"]
    each = privacy.windows // (privacy.each or 1)
    return PrivacyFacts(
        epsilon=stated(privacy.total.epsilon),
        delta=0.0 if pure else stated(privacy.total.delta),
        **promise,
        guarantee="pure" if pure else "approximate",
        windows=privacy.of or each,
        windows_of_a_user=None if privacy.of is None else each,
        rankings_of_a_user_in_a_window=privacy.each,
        accounting=privacy.accounting,
        share_of_a_window=ShareFacts(**window),
    )


def charge_of(request: Request) -> ChargeFacts:
    """What a manifest tells of a charge."""
    row = row_of(request.entry())
    return ChargeFacts(**{each.name: row[each.name] for each in msgspec.structs.fields(ChargeFacts)})


def of_a_shared_hash(spec: TopK) -> float:
    """The most that each other user adds to delta, since two users may share a hash.

    Proof. Compare two data sets under one key. Unless whoever joins shares a hash with one of the n others, they are
    neighbours as hashes too. The probability of an answer is a mean over keys: at most exp(epsilon) times that of the
    other data set, and the part of the keys where a hash is shared, at most n / 2**64. Under "replace-one" either of
    two users may share one: twice as many. Where no bound chooses among a user's rows, two users who count as one move
    scores no more than the one who joins: nothing is added.
    """
    bounded = spec.max_items_per_user or spec.max_windows_per_user or spec.groups is not None
    swapped = spec.mechanism.parameter("neighbours", "add-remove") == "replace-one"
    return 2.0 ** (-63 if swapped else -64) if bounded else 0.0


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
