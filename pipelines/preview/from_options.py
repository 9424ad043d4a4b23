"""Public knowledge of the counts, from the options of a command: for a preview, and for a warning before a run.

It is a shape, the sample, counts that the operator declares public, or an earlier ranking with noisy counts. The rows
of a run are never used: a preview of them would be a release.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from fractions import Fraction
from itertools import groupby, islice, product
from typing import Any

from private_topk.pipelines.files import as_path, exists, open_content, open_file, why
from private_topk.pipelines.lists import domain_of
from private_topk.pipelines.preview.outlook import NOISE, Outlook, look
from private_topk.pipelines.preview.setting import Setting
from private_topk.pipelines.preview.shapes import Expected, InAmounts, PublicCounts, Released, Rises, Zipf
from private_topk.pipelines.preview.words import short
from private_topk.pipelines.process import level
from private_topk.pipelines.report import account_of
from private_topk.pipelines.report_spec import RISERS_THAT_SHARE, ReportSpec, counts_of, declared_period, risers_of
from private_topk.pipelines.sample import WEEKS, users_per_item
from private_topk.pipelines.select import read_counts
from private_topk.pipelines.sinks.formats import format_of
from private_topk.pipelines.sinks.manifest import manifest_path
from private_topk.transforms.errors import Refusal, did_you_mean, verbatim
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.metric import Amounts, Risers
from private_topk.transforms.options import Options, names_a_file
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.texts import number, whole_or_power
from private_topk.transforms.windows import Period

__all__ = ["earlier_ranking", "expected_counts", "expected_of", "forewarned", "setting_of", "warn"]

_ANY = Period(datetime(2000, 1, 1, tzinfo=timezone.utc), datetime(2000, 1, 2, tzinfo=timezone.utc))
_SHAPE = {"zipf": number, "items": whole_or_power, "users": whole_or_power, "items_per_user": number}
_DRAWS, _PLACES, _NAMED = 100, 4, 5


def setting_of(options: Options, k: int, epsilon: Fraction | float) -> Setting:
    """The setting of a run with this k and epsilon, without its mechanism. Reads the ledger. Raises Refusal."""
    period, account, risers = declared_period(options), account_of(options), risers_of(options)
    overlap = period.overlap if period else 1
    if risers is not None and period is not None:
        risers.reads(period)
        overlap = min(len(period), RISERS_THAT_SHARE)
    unit = options.get("privacy_unit", "user-window")
    return Setting(
        k=k,
        epsilon=epsilon,
        delta=options.get("delta"),
        unknown_domain=options.get("unknown_domain", False),
        neighbours=options.get("neighbours"),
        max_items_per_user=options.get("max_items_per_user"),
        max_windows_per_user=options.get("max_windows_per_user"),
        parameters=options.get("parameters", {}),
        publish_counts=counts_of(options),
        privacy_unit=unit,
        windows=len(period) if period else 1,
        horizon=options.get("horizon"),
        overlap=overlap,
        held=account.budget(unit).total if account else None,
        groups_per_user=options.get("groups_per_user"),
        amounts=_amounts(options),
        risers=risers,
    )


def _amounts(options: Options) -> Amounts | None:
    """The amounts by their two numbers alone, since a preview reads no column."""
    if "max_value" not in options:
        if "value_resolution" in options:
            raise Refusal("value_resolution", "needs {max_value}: the most that one user adds to an item")
        return None
    return Amounts.of(options["max_value"], options.get("value_resolution"))


def expected_counts(options: Options, given: Mapping[str, Any]) -> Expected:
    """The expected counts of a preview.

    Args:
        given: those of the fields `zipf`, `items`, `users`, `items_per_user`, `amount`, `counts`, `counts_before` and
            `these_counts_are_public` that were given.

    Raises:
        Refusal: not exactly one kind of them is given; or the counts may be private.
    """
    shape = {name: given[name] for name in _SHAPE if name in given}
    kinds = [name for name in ("like", "counts") if name in {**given, **options}] + (["zipf"] if shape else [])
    if len(kinds) != 1:
        raise Refusal("", "give one of {like}, {zipf} and {counts}: what is publicly known of the counts",
                      "{like} sample is the project's own sample")  # fmt: skip
    items, amounts = _items(options), _amounts(options)
    if "amount" in given and (amounts is None or kinds == ["counts"]):
        raise Refusal("amount", "goes with {max_value} and with numbers of users", "sums of amounts need none")
    if amounts is not None and "amount" not in given and (shape or options.get("like") == "sample"):
        raise Refusal("amount", "must be given with {max_value}: what a user adds to an item on average")
    expected = _users_or_sums(options, given, shape, items)
    return expected if amounts is None else InAmounts(expected, amounts, given.get("amount"))


def _users_or_sums(options: Options, given: Mapping[str, Any], shape: Mapping[str, Any], items: int | None) -> Expected:
    if "these_counts_are_public" in given and "counts" not in given:
        raise Refusal("these_counts_are_public", "is said of {counts}: leave it out")
    risers, said = risers_of(options), given.get("these_counts_are_public", False)
    if ("counts_before" in given) != (risers is not None and "counts" in given):
        raise Refusal("counts_before", "goes with {counts} and with {against} previous: the counts of the same items "
                      "in the window before")  # fmt: skip
    if risers is not None:
        if "counts" in given:
            now, before = (_public_counts(options, given[name], said, name) for name in ("counts", "counts_before"))
            return Rises(now.counts, before.counts, risers, now.name)
        if options.get("like") == "sample":
            return _sample_rises(declared_period(options), options.get("max_items_per_user"), risers)
        raise Refusal("against", "can be previewed from {counts} with {counts_before}, or from {like} sample: "
                      "neither a shape nor an earlier ranking tells how items rise",
                      "give public counts of two windows of something alike")  # fmt: skip
    if shape:
        return _zipf_of(shape, items)
    if "like" in options:
        return expected_of(options["like"], items, declared_period(options))
    return _public_counts(options, given["counts"], said)


def _items(options: Options) -> int | None:
    """The size of the public domain, or None if none is given."""
    if not {"domain", "found", "domain_range"} & set(options):
        return None
    domain = domain_of(options)
    return domain.size or None


def _public_counts(options: Options, path: str, said: bool, field: str = "counts") -> PublicCounts:
    """Counts that the operator declares public, checked for signs that they are not."""
    if not said:
        raise Refusal("these_counts_are_public", "must be given with {counts}: what a preview says of private counts "
                      "is a release, and no budget pays for it", "if they are public or made up, say so with this "
                      "word; otherwise give {like} or {zipf}")  # fmt: skip
    user = options.get("user_column", "user")
    if path.lower().endswith(".csv") and user in _header(path):
        raise Refusal(field, f"{verbatim(path)} has a column {verbatim(user)}, so it holds rows of users and no "
                      "public counts", "a preview takes a column count, and perhaps item")  # fmt: skip
    if "ledger" in options:
        if not path.lower().endswith(".csv"):
            raise Refusal("ledger", "knows files of rows, and a .npy is none", "leave it out: whether these counts are "
                          "public is for you to say")  # fmt: skip
        _refuse_known(options, path)
    try:
        counts = read_counts(path)
    except Refusal as error:
        raise Refusal(field, error.rule, error.remedy) from None
    try:
        return PublicCounts(counts.values, path)
    except (Refusal, TypeError) as error:
        raise Refusal(field, verbatim(f"{path}: {error}")) from None


def _refuse_known(options: Options, path: str) -> None:
    """Raise Refusal if the file was the input of a release that is charged to the ledger, under the same key."""
    from private_topk.pipelines.budget.ledger import Ledger
    from private_topk.pipelines.sources.columns import Columns
    from private_topk.pipelines.sources.files import Files

    if "release_key" not in options:
        raise Refusal("ledger", "needs {release_key}: the ledger knows its inputs under the key of their releases only",
                      "give the key, so that a file that was the input of one is told")  # fmt: skip
    key = ReleaseKey.parse(options["release_key"])
    entries = [entry for entry in Ledger(options["ledger"]).read()[1] if entry.request.key_id == key.key_id()]
    fingerprints = {entry.request.fingerprint for entry in entries}
    read = {tuple(sorted(entry.request.rows.items())) for entry in entries}
    for rows, item in product(read, {*_header(path), "item"}):
        named: dict[str, Any] = {**dict(rows), "item_column": item}
        columns = Columns(**{name.removesuffix("_column"): value for name, value in named.items()})
        if Files(path, columns).identity(key, _ANY if columns.time else None) in fingerprints:
            raise Refusal("counts", f"{verbatim(path)} was the input of a release in this ledger, so it is not public")


def _header(path: str) -> list[str]:
    try:
        with open_content(path) as source:
            line = source.readline(1 << 16).decode("utf-8-sig", "replace")
        return next(csv.reader([line]), [])
    except (OSError, Refusal, csv.Error):
        return []  # reading the file later reports what is wrong with it


def expected_of(like: str, items: int | None, period: Period | None) -> Expected:
    """The expected counts that a text describes: `sample`, a shape, or the file of an earlier ranking with counts.

    Args:
        like: such as `zipf=1.1,users=1e6,items_per_user=20`, or a path.
        items: the size of the public domain, or None if there is none.
        period: the period whose windows the counts are of.

    Raises:
        Refusal: of the field `like`.
    """
    if like == "sample":
        return _Sample(period)
    return earlier_ranking(like, items) if names_a_file(like) else _zipf_of(_named(like), items)


def _sample_rises(period: Period | None, max_items_per_user: int | None, risers: Risers) -> Rises:
    """The rises of the sample's tracks from its first window to its second. Raises Refusal."""
    days = _Sample(period).days()
    if days is None or days > WEEKS * 7 / 2:
        raise Refusal(
            "window", f"must be given, of at most {WEEKS * 7 // 2} days: rises are of two windows of the sample"
        )
    before, now = (users_per_item(days, max_items_per_user, after) for after in (0, days))
    return Rises(now, before, risers, f"the sample's made-up plays, its second {days:g} days against the first")


def _zipf_of(shape: Mapping[str, Any], items: int | None) -> Zipf:
    """The shape from its four numbers; items may be left out if there is a domain. Raises Refusal."""
    values = {**({"items": items} if items is not None else {}), **shape}
    missing = [f"{{{name}}}" for name in _SHAPE if name not in values]
    if missing:
        raise Refusal("", f"{', '.join(missing)} must be given too: a shape takes them all")
    return Zipf(float(values["zipf"]), values["items"], values["users"], float(values["items_per_user"]))


def _named(text: str) -> dict[str, Any]:
    shape: dict[str, Any] = {}
    for part in re.split(r"[,\s]+", text.strip()):
        name, _, value = part.partition("=")
        name = name.replace("-", "_")
        if name not in _SHAPE:
            rule = f"must be a shape such as zipf=1.1,items=1e6,users=1e6,items_per_user=20; got {verbatim(part)}"
            raise Refusal("like", rule, did_you_mean(name, tuple(_SHAPE), f"it is made of {', '.join(_SHAPE)}"))
        try:
            shape[name] = _SHAPE[name](value)
        except ValueError as error:
            raise Refusal("like", f"{verbatim(part)}: {name} {verbatim(error)}") from None
    return shape


def earlier_ranking(path: str, items: int | None) -> Released:
    """The noisy counts of a ranking's last window that has any above 0, with the number of items of its manifest.

    Raises:
        Refusal: as `earlier_rankings`.
    """
    return list(earlier_rankings(path, items).values())[-1]


def earlier_rankings(path: str, items: int | None) -> dict[str | None, Released]:
    """Likewise of every group that has any count above 0; of None where there are no groups.

    Raises:
        Refusal: of the field `like`: there is no such ranking, or it was published without counts.
    """
    with _about(path):
        place = as_path(path, "like")
        form = format_of(place)
        for needed in (place, manifest_path(place)):
            if not exists(needed):
                rule = f"{verbatim(needed)} does not exist"
                raise Refusal("like", rule, "give a ranking with its manifest beside it, a shape such as "
                              "zipf=1.1,items=900,users=1e4,items_per_user=10, or sample")  # fmt: skip
        with open_file(place) as source:
            content = source.read()
        with open_file(manifest_path(place)) as source:
            manifest = json.load(source)
        if manifest.get("ranking_sha256") != hashlib.sha256(content).hexdigest():
            raise Refusal("like", f"{verbatim(path)} is not the ranking that its manifest is of")
        if "amounts" in manifest:
            raise Refusal("like", f"{verbatim(path)} ranks by amounts, and a preview is of numbers of users")
        if not manifest["privacy"]["noisy_counts"]:
            raise Refusal("like", f"{verbatim(path)} was published without noisy counts, and ranks alone do not tell "
                          "how far counts are apart", "publish some with {publish_counts}")  # fmt: skip
        rows = form.decode(content)
        size = items if items is not None else manifest["domain"].get("size")
    rankings: dict[str | None, Released] = {}
    for (_, group), members in groupby(rows, key=lambda row: (row["window_start"], row.get("group"))):
        ranking = list(members)
        counts = [row["noisy_count"] for row in ranking]
        if max(counts) > 0:
            rankings[group] = Released(counts, size, ranking[0]["rank"] is not None, path)
    if not rankings:
        raise Refusal("like", f"{verbatim(path)} has no noisy count above 0", "nothing can be told from it")
    return rankings


@contextmanager
def _about(path: str) -> Iterator[None]:
    """Errors with a file inside become refusals of the field `like`."""
    try:
        yield
    except Refusal as error:
        raise error if error.field == "like" else Refusal("like", verbatim(error)) from None
    except (KeyError, TypeError, AttributeError):
        raise Refusal("like", f"{verbatim(path)} has a manifest that is none of private-topk") from None
    except Exception as error:  # every store and every format raises its own kind
        raise Refusal("like", f"{verbatim(path)} cannot be read: {verbatim(why(error))}") from None


@dataclass(frozen=True)
class _Sample:
    """The made-up plays that `private-topk sample` writes: those of one window from its start, or all of them."""

    period: Period | None

    def histogram(self, max_items_per_user: int | None, unknown: bool) -> Histogram:
        return PublicCounts(users_per_item(self.days(), max_items_per_user)).histogram(None, unknown)

    def words(self) -> str:
        days = self.days()
        return "the sample's made-up plays, " + ("all four weeks" if days is None else f"its first {days:g} days")

    def days(self) -> float | None:
        if self.period is None:
            return None
        window = self.period.window(0)
        assert window.start is not None and window.end is not None
        return (window.end - window.start).total_seconds() / 86400


def forewarned(spec: ReportSpec, like: str | None = None, earlier: Iterable[str] = ()) -> str | None:
    """A warning of one line if surely less than half of the top k is expected to be found; None otherwise, or if that
    is not known.

    Of groups, by the counts that each had; a declared shape is that of every group. Of amounts and rises nothing is
    known: what is expected are numbers of users.

    Args:
        spec: the specification, whose mechanism has the budget of one window.
        like: the declared counts, as `expected_of` reads them.
        earlier: paths where earlier rankings may exist, the likeliest first; those that do not exist, or have no noisy
            counts, are skipped.

    Raises:
        Refusal: `like` is no shape and no ranking, or does not apply.

    Cost: 100 draws over a histogram, a tenth of a second for most mechanisms, for each group of an earlier ranking;
    nothing where nothing is known.
    """
    top_k = spec.top_k
    if top_k.risers is not None:
        if like is not None:
            raise Refusal("like", "is of the counts of a window, and {against} ranks by how they rise", "leave it out")
        return None
    if top_k.amounts is not None:
        if like is not None:
            raise Refusal("like", "is of numbers of users, and {value_column} adds up amounts", "leave it out")
        return None
    if top_k.mechanism.weighting is not None:
        return None  # it adds up weights of users, which numbers of users do not determine
    unknown, items = not top_k.domain.is_public, top_k.domain.size or None
    groups = 1 if top_k.groups is None else top_k.groups.size
    if like is None:
        by_group = _published_before(earlier, items, groups)
    elif groups > 1 and names_a_file(like):
        by_group = {**earlier_rankings(like, items)}
    else:
        by_group = {None: expected_of(like, items, spec.period)}
    noisy: dict[str | None, Outlook] = {}
    expected: Expected
    for group, expected in by_group.items():
        histogram = expected.histogram(top_k.max_items_per_user, unknown)
        if unknown or histogram.items >= top_k.most:
            outlook = look(top_k.mechanism, histogram, top_k.most, _DRAWS)
            if outlook.recall.high < NOISE:
                noisy[group] = outlook
    if not noisy:
        return None
    worst = min(noisy, key=lambda group: noisy[group].recall.value)
    judging = f"judging by {by_group[worst].words()}, {short(noisy[worst])}"
    if len(by_group) > 1:
        some = ", ".join(str(group) for group in list(noisy)[:_NAMED])
        more = ", ..." if len(noisy) > _NAMED else ""
        judging = f"{len(noisy)} of {len(by_group)} groups ({some}{more}); the worst, {judging}"
    return f"close to noise: {judging}. `private-topk preview` compares mechanisms and budgets, and spends nothing"


def warn(text: str, options: Options, who: str = "private-topk") -> None:
    """Say on stderr that a ranking would be close to noise; or raise Refusal where that was asked for."""
    if options.get("on_noise") == "refuse":
        raise Refusal("on_noise", verbatim(f"refuses what is {text}"), "ask for less, or let it {on_noise} warn")
    with level("warning"):
        print(f"{who}: {text}", file=sys.stderr, flush=True)


def _published_before(places: Iterable[str], items: int | None, groups: int) -> dict[str | None, Expected]:
    """What the first of some rankings tell, until there is one for every group."""
    rankings: dict[str | None, Expected] = {}
    for place in islice(places, _PLACES * groups):
        with suppress(Refusal):
            rankings = {**earlier_rankings(place, items), **rankings}
        if len(rankings) >= groups:
            break
    return rankings
