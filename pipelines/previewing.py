"""From what a door was asked to a preview of it: the question as a run would settle it, and the counts to expect."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from datetime import datetime, timezone
from fractions import Fraction
from itertools import product
from typing import Any

from private_topk.pipelines.expecting import expected_of, sample_rises, zipf_of
from private_topk.pipelines.files import open_content
from private_topk.pipelines.lists import domain_of
from private_topk.pipelines.preview import Expected, InAmounts, PublicCounts, Rises, Setting
from private_topk.pipelines.report import account_of
from private_topk.pipelines.report_spec import RISERS_THAT_SHARE, counts_of, declared_period, risers_of
from private_topk.pipelines.select import read_counts
from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.metric import Amounts
from private_topk.transforms.options import Options
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period

__all__ = ["expected_counts", "setting_of"]

_ANY = Period(datetime(2000, 1, 1, tzinfo=timezone.utc), datetime(2000, 1, 2, tzinfo=timezone.utc))
_SHAPE = ("zipf", "items", "users", "items_per_user")


def setting_of(options: Options, k: int, epsilon: Fraction | float) -> Setting:
    """The question of a run with this k and epsilon, but for its mechanism. Reads the ledger. Raises Refusal."""
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
    """Of the two numbers alone: a preview reads no column."""
    if "max_value" not in options:
        if "value_resolution" in options:
            raise Refusal("value_resolution", "needs {max_value}: the most that one user adds to an item")
        return None
    return Amounts.of(options["max_value"], options.get("value_resolution"))


def expected_counts(options: Options, given: Mapping[str, Any]) -> Expected:
    """The counts that a preview is of.

    Args:
        given: those of the fields `zipf`, `items`, `users`, `items_per_user`, `amount`, `counts`, `counts_before` and
            `these_counts_are_public` that were given.

    Raises:
        Refusal: there is not one kind of them; or counts that may be private.
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
    found = _users_or_sums(options, given, shape, items)
    return found if amounts is None else InAmounts(found, amounts, given.get("amount"))


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
            return sample_rises(declared_period(options), options.get("max_items_per_user"), risers)
        raise Refusal("against", "can be previewed from {counts} with {counts_before}, or from {like} sample: "
                      "neither a shape nor an earlier ranking tells how items rise",
                      "give public counts of two windows of something alike")  # fmt: skip
    if shape:
        return zipf_of(shape, items)
    if "like" in options:
        return expected_of(options["like"], items, declared_period(options))
    return _public_counts(options, given["counts"], said)


def _items(options: Options) -> int | None:
    """How many a public domain has, where one is given."""
    if "domain" not in options and "domain_range" not in options:
        return None
    domain = domain_of(options)
    return domain.size or None


def _public_counts(options: Options, path: str, said: bool, field: str = "counts") -> PublicCounts:
    """Counts that somebody says are public, and that nothing here tells otherwise."""
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
    """Raise Refusal where the file was the input of a release that is charged to the ledger, under the same key."""
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
        return []  # whoever reads the file says what is wrong with it
