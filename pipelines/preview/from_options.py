"""Public knowledge of the counts, from the options of a command: for a preview, and for a warning before a run.

It is a shape, the sample, counts that the operator declares public, or an earlier ranking with noisy counts. The rows
of a run are never used: a preview of them would be a release.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from fractions import Fraction
from itertools import groupby, islice, product
from typing import Any

from private_topk.pipelines.files import as_path, exists, open_content, why
from private_topk.pipelines.lists import domain_of
from private_topk.pipelines.preview.outlook import NOISE, Outlook, look
from private_topk.pipelines.preview.setting import Setting
from private_topk.pipelines.preview.shapes import Expected, InAmounts, PublicCounts, Released, Zipf, weight_of
from private_topk.pipelines.preview.solving import noise_in
from private_topk.pipelines.preview.words import named, short
from private_topk.pipelines.process import level
from private_topk.pipelines.release.store import manifest_path, pair_at
from private_topk.pipelines.report import account_of
from private_topk.pipelines.report_spec import ReportSpec, counts_of, declared_period
from private_topk.pipelines.sample import users_per_item
from private_topk.pipelines.select import read_counts
from private_topk.pipelines.sinks.formats import format_of, group_of
from private_topk.transforms.errors import Refusal, did_you_mean, verbatim
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.metric import Amounts
from private_topk.transforms.options import Options, names_a_file
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.texts import count, listed, number, whole_or_power
from private_topk.transforms.windows import Period

__all__ = ["earlier_rankings", "expected_counts", "expected_of", "forewarned", "setting_of", "warn"]

ByGroup = dict[str, Expected]

_ANY = Period(datetime(2000, 1, 1, tzinfo=timezone.utc), datetime(2000, 1, 2, tzinfo=timezone.utc))
_NEEDED = ("zipf", "items", "users", "items_per_user")
_SHAPE = (*_NEEDED, "groups", "groups_zipf")
_IN_TEXT = {"zipf": number, "items": whole_or_power, "users": listed(whole_or_power), "items_per_user": number,
            "groups": count, "groups_zipf": number, "amount": number}  # fmt: skip
_DRAWS, _PLACES = 100, 4


def setting_of(options: Options, k: int, epsilon: Fraction | float) -> Setting:
    """The setting of a run with this k and epsilon, without its mechanism. Reads the ledger. Raises Refusal."""
    period, account = declared_period(options), account_of(options)
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
        overlap=period.overlap if period else 1,
        held=account.budget(unit).total if account else None,
        groups_per_user=options.get("groups_per_user"),
        amounts=_amounts(options),
    )


def _amounts(options: Options) -> Amounts | None:
    """The amounts by their two numbers alone, since a preview reads no column."""
    if "max_value" not in options:
        if "value_resolution" in options:
            raise Refusal("value_resolution", "needs {max_value}: the most that one user adds to an item")
        return None
    return Amounts.of(options["max_value"], options.get("value_resolution"))


def expected_counts(options: Options, given: Mapping[str, Any]) -> ByGroup:
    """The expected counts of a preview, by group.

    Args:
        given: those of the fields of a shape, `amount`, `counts` and `these_counts_are_public` that were given.

    Raises:
        Refusal: not exactly one kind of them is given; or the counts may be private.
    """
    shape = {name: given[name] for name in _SHAPE if name in given}
    kinds = [name for name in ("like", "counts") if name in {**given, **options}] + (["zipf"] if shape else [])
    if len(kinds) != 1:
        raise Refusal("", "give one of {like}, {zipf} and {counts}: what is publicly known of the counts",
                      "{like} sample is the project's own sample")  # fmt: skip
    items, amounts = _items(options), _amounts(options)
    said, sizes = given.get("these_counts_are_public", False), given.get("users")
    if said and "counts" not in given and not isinstance(sizes, str):
        raise Refusal("these_counts_are_public", "is said of {counts}: leave it out")
    if "counts" in given:
        if "amount" in given:
            raise Refusal("amount", "goes with {max_value} and with numbers of users", "sums of amounts need none")
        expected = _public_counts(options, given["counts"], said)
        return {"": expected if amounts is None else InAmounts(expected, amounts)}
    if isinstance(sizes, str):
        _public_counts(options, sizes, said, "users")
        read = read_counts(sizes)
        shape["users"] = dict(zip(read.items or range(1, len(read.values) + 1), read.values.tolist(), strict=True))
    return expected_of(shape or options["like"], items, declared_period(options), amounts, given.get("amount"))


def _items(options: Options) -> int | None:
    """The size of the public domain, or None if none is given."""
    if not {"domain", "found", "domain_range"} & set(options):
        return None
    domain = domain_of(options)
    return domain.size or None


def _public_counts(options: Options, path: str, said: bool, field: str = "counts") -> PublicCounts:
    """Counts that the operator declares public, checked for signs that they are not."""
    if not said:
        raise Refusal("these_counts_are_public", f"must be given with {{{field}}}: what a preview says of private "
                      "counts is a release, and no budget pays for it", "if they are public or made up, say so with "
                      "this word; otherwise give {like} or {zipf}")  # fmt: skip
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
    charges = [entry for entry in Ledger(options["ledger"]).read().charges if entry.key_id == key.key_id()]
    fingerprints = {entry.fingerprint for entry in charges}
    read = {tuple(sorted(entry.rows.items())) for entry in charges}
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


def expected_of(
    like: str | Mapping[str, Any],
    items: int | None,
    period: Period | None,
    amounts: Amounts | None = None,
    each: Fraction | float | None = None,
    groups: int = 1,
) -> ByGroup:
    """The expected counts of every group that a text describes, the largest group first; of "" where it names none.

    Args:
        like: `sample`, the file of an earlier ranking with counts, or a shape such as
            `zipf=1.1,users=1e6,items_per_user=20`, perhaps read already.
        items: the size of the public domain, or None if there is none.
        period: the period whose windows the counts are of.
        each: what a user adds to an item on average, where amounts are ranked; a shape may say it too.
        groups: how many a shape has that says `groups_zipf` alone.

    Raises:
        Refusal: it describes nothing, or not what is ranked.
    """
    by_group: ByGroup
    if like == "sample":
        by_group = {"": _Sample(period)}
    elif isinstance(like, str) and names_a_file(like):
        if each is None:
            return {**earlier_rankings(like, items, amounts)}
        by_group = {**earlier_rankings(like, items)}
    else:
        shape = _named(like) if isinstance(like, str) else like
        by_group, each = _zipf_of(shape, items, groups), shape.get("amount", each)
    if (amounts is None) != (each is None):
        raise Refusal("", "what a user adds to an item on average, as amount=12 in a shape, goes with {max_value}, and "
                      "must be given with it")  # fmt: skip
    return by_group if amounts is None else {name: InAmounts(one, amounts, each) for name, one in by_group.items()}


def _zipf_of(shape: Mapping[str, Any], items: int | None, groups: int) -> ByGroup:
    """The shape from its numbers, of every group; items may be left out if there is a domain. Raises Refusal."""
    values = {**({"items": items} if items is not None else {}), **shape}
    missing = [f"{{{name}}}" for name in _NEEDED if name not in values]
    if missing:
        raise Refusal("", f"{', '.join(missing)} must be given too: a shape takes them all")
    sizes = values["users"]
    users = sum(sizes.values() if isinstance(sizes, dict) else sizes)
    whole = Zipf(float(values["zipf"]), values["items"], users, float(values["items_per_user"]))
    if {"groups", "groups_zipf"} & set(values):
        if len(sizes) > 1:
            raise Refusal("groups", "shares out one number of {users}: leave it out, or give their sum")
        return {**whole.among(values.get("groups", groups), float(values.get("groups_zipf", 1)))}
    return {"": whole} if len(sizes) == 1 else {**whole.in_groups(sizes)}


def _named(text: str) -> dict[str, Any]:
    shape: dict[str, Any] = {}
    for part in re.split(r"[,\s]+(?=[^,\s]*=)", text.strip()):
        name, _, value = part.partition("=")
        name = name.replace("-", "_")
        if name not in _IN_TEXT:
            rule = f"must be a shape such as zipf=1.1,items=1e6,users=1e6,items_per_user=20; got {verbatim(part)}"
            raise Refusal("like", rule, did_you_mean(name, tuple(_IN_TEXT), f"it is made of {', '.join(_IN_TEXT)}"))
        try:
            shape[name] = _IN_TEXT[name](value)
        except ValueError as error:
            raise Refusal("like", f"{verbatim(part)}: {name} {verbatim(error)}") from None
    return shape


def earlier_rankings(path: str, items: int | None, amounts: Amounts | None = None) -> dict[str, Released]:
    """The noisy counts of a ranking's last window that has any above 0, of every group that has such a window, the
    largest first; of "" where there are no groups.

    Args:
        items: the size of the domain; by default that of its manifest.
        amounts: what is asked for are sums of amounts, in units of their resolution.

    Raises:
        Refusal: of the field `like`: there is no such ranking, or it was published without counts, or with others.
    """
    with _about(path):
        place = as_path(path, "like")
        form = format_of(place)
        for needed in (place, manifest_path(place)):
            if not exists(needed):
                rule = f"{verbatim(needed)} does not exist"
                raise Refusal("like", rule, "give a ranking with its manifest beside it, a shape such as "
                              "zipf=1.1,items=900,users=1e4,items_per_user=10, or sample")  # fmt: skip
        there = pair_at(place)
        content, manifest = there
        if manifest is None:
            raise Refusal("like", f"{verbatim(path)} has a manifest that is none of private-topk")
        if content is None or not there.is_whole:
            raise Refusal("like", f"{verbatim(path)} is not the ranking that its manifest is of")
        if (manifest.amounts is None) != (amounts is None):
            rank, asked = ("amounts", "numbers of users") if amounts is None else ("numbers of users", "amounts")
            raise Refusal("like", f"{verbatim(path)} ranks by {rank}, and {asked} are asked for")
        if manifest.privacy is None or not manifest.privacy.publishes_counts:
            raise Refusal("like", f"{verbatim(path)} was published without noisy counts, and ranks alone do not tell "
                          "how far counts are apart", "publish some with {publish_counts}")  # fmt: skip
        rows = form.decode(content)
        size = items if items is not None else None if manifest.domain is None else manifest.domain.size
    rankings: dict[str, Released] = {}
    unit = Fraction(1) if amounts is None else amounts.value_resolution
    for (_, group), members in groupby(rows, key=lambda row: (row["window_start"], group_of(row) or "")):
        ranking = list(members)
        counts = [round(Fraction(row["noisy_count"]) / unit) for row in ranking if row["noisy_count"] is not None]
        if max(counts, default=0) > 0:
            rankings[group] = Released(counts, size, ranking[0]["rank"] is not None, path)
    if not rankings:
        raise Refusal("like", f"{verbatim(path)} has no noisy count above 0", "nothing can be told from it")
    return _falling(rankings)


def _falling(rankings: dict[str, Released]) -> dict[str, Released]:
    return dict(sorted(rankings.items(), key=lambda one: -sum(one[1].noisy_counts)))


@contextmanager
def _about(path: str) -> Iterator[None]:
    """Errors with a file inside become refusals of the field `like`."""
    try:
        yield
    except Refusal as error:
        raise error if error.field == "like" else Refusal("like", verbatim(error)) from None
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


def forewarned(spec: ReportSpec, like: str | None = None, earlier: Iterable[str] = ()) -> tuple[bool, str]:
    """Whether surely less than half of the top k is expected to be found, in any group; and in one line what is known.

    Of groups, by the counts that each had; a declared shape that names none is that of every group.

    Args:
        spec: the specification, whose mechanism has the budget of one window.
        like: the declared counts, as `expected_of` reads them.
        earlier: paths where earlier rankings may exist, the likeliest first; those that do not exist, or have no noisy
            counts, are skipped.

    Raises:
        Refusal: `like` is no shape and no ranking, or does not apply.

    Cost: 100 draws over a histogram, a tenth of a second for most mechanisms, for each group, and for some of more than
    100; nothing where nothing is known.
    """
    top_k = spec.top_k
    if top_k.k is None:
        return False, "not known: what is found has no k of which a part is right"
    unknown, items = not top_k.domain.is_public, top_k.domain.size or None
    groups = 1 if top_k.groups is None else top_k.groups.size
    most, amounts = top_k.max_items_per_user, top_k.amounts
    by_group: ByGroup
    if top_k.risers is not None:
        if like is not None:
            raise Refusal("like", "does not go with {against}: nothing public tells how items rise", "leave it out")
        return False, "not known: no ranking that was published tells how items rise"
    if like is not None:
        by_group = expected_of(like, items, spec.period, amounts, None, groups)
        if len(by_group) > 1 and len(by_group) != groups and not names_a_file(like):
            raise Refusal("like", f"has {len(by_group):,} groups, and {groups:,} are ranked")
    elif top_k.mechanism.weighting is not None:
        return False, f"not known: {top_k.mechanism.about.name} publishes no counts, and no shape is declared"
    else:
        by_group = _published_before(earlier, items, groups, amounts)

    looked: dict[str, Outlook] = {}

    def noise(group: str) -> bool:
        expected = by_group[group]
        weight, histogram = weight_of(top_k.mechanism, expected), expected.histogram(most, unknown)
        if histogram.items < top_k.most and not unknown:
            return False
        looked[group] = look(top_k.mechanism, histogram, top_k.most, _DRAWS, weight=weight)
        return looked[group].recall.high < NOISE

    noisy = noise_in(list(by_group), noise)
    if not looked:
        return False, "not known: there is no earlier ranking with noisy counts, and no shape is declared"
    worst = min(looked, key=lambda group: looked[group].recall.value)
    judging = f"judging by {by_group[worst].words()}, {short(looked[worst])}"
    if len(by_group) > 1:
        judging = f"{len(noisy)} of {len(by_group)} groups ({named(noisy)}); " * bool(noisy) + f"the worst, {judging}"
    if not noisy:
        return False, judging
    return True, (f"close to noise: {judging}. `private-topk preview` compares mechanisms and budgets, and spends "
                  "nothing")  # fmt: skip


def warn(text: str, options: Options, who: str = "private-topk") -> None:
    """Say on stderr that a ranking would be close to noise; or raise Refusal where that was asked for."""
    if options.get("on_noise") == "refuse":
        raise Refusal("on_noise", verbatim(f"refuses what is {text}"), "ask for less, or let it {on_noise} warn")
    with level("warning"):
        print(f"{who}: {text}", file=sys.stderr, flush=True)


def _published_before(places: Iterable[str], items: int | None, groups: int, amounts: Amounts | None) -> ByGroup:
    """What the first of some rankings tell, until there is one for every group."""
    rankings: dict[str, Released] = {}
    for place in islice(places, _PLACES * groups):
        with suppress(Refusal):
            rankings = {**earlier_rankings(place, items, amounts), **rankings}
        if len(rankings) >= groups:
            break
    return {**_falling(rankings)}
