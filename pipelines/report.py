"""A report: everything that was asked for, checked before any work starts."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from private_topk.pipelines.budget.charging import Account, read_account
from private_topk.pipelines.budget.composition import windows_reached
from private_topk.pipelines.budget.fingerprint import fingerprint
from private_topk.pipelines.budget.units import Privacy, share_out
from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo, exists, match
from private_topk.pipelines.options import as_argument, make_mechanism, require
from private_topk.pipelines.periods import make_period
from private_topk.pipelines.sinks.formats import format_of
from private_topk.pipelines.sinks.manifest import manifest_path
from private_topk.pipelines.sources import Columns, check_files
from private_topk.pipelines.sources.domain import read_domain
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.keys import Release, ReleaseKey, fresh_id
from private_topk.transforms.release import CountBudget, Selection
from private_topk.transforms.top_k import make_selection
from private_topk.transforms.windows import MICROSECOND, Period, SlidingWindows

__all__ = ["Question", "Report", "make_columns", "make_question", "make_report", "user_shards"]

_BYTES_PER_SHARD = 4 << 20
_MOST_STATES = 1 << 18


@dataclass(frozen=True)
class Question:
    """What is asked of the rows, wherever they come from, and under which release and budget."""

    selection: Selection
    period: Period | None
    release: Release
    privacy: Privacy = Privacy()
    account: Account | None = None


@dataclass(frozen=True)
class Report:
    """One run of the batch pipeline."""

    files: tuple[FileInfo, ...]
    columns: Columns
    selection: Selection
    period: Period | None
    release: Release
    output: str
    shards: int
    privacy: Privacy = Privacy()
    account: Account | None = None

    def fingerprint(self) -> str:
        """The name of the input in a ledger. Reads it once."""
        return fingerprint(self.files, self.columns, self.release.key)


def make_report(arguments: argparse.Namespace) -> Report:
    """The report that the arguments describe, with its inputs looked at and its output place tried.

    Raises InputError with one sentence: what is wrong, by which rule, and what to do.
    """
    require(arguments, "input", "output", "mechanism", "k", "epsilon")
    _check_output(arguments.output, arguments.overwrite)
    question = make_question(arguments, make_period(arguments))
    columns = make_columns(arguments, question.period)
    files = tuple(match(arguments.input))
    _keep_apart(arguments.output, [*(file.path for file in files), *filter(None, [arguments.domain])])
    check_files(files, columns)
    shards = user_shards(arguments.shards, files)
    return Report(files, columns, output=arguments.output, shards=shards, **vars(question))


def make_question(arguments: argparse.Namespace, period: Period | None) -> Question:
    """The question that the arguments ask of the windows of a period. Raises InputError."""
    account = read_account(arguments)
    held = account.budget(arguments.privacy_unit).total if account else None
    privacy, arguments = share_out(arguments, len(period) if period else 1, held, _overlap(period))
    mechanism = make_mechanism(arguments)
    release = _release(arguments)
    try:
        counts = _count_budget(arguments)
        selection = make_selection(arguments.k, mechanism, _domain(arguments), arguments.max_items_per_user, counts)
    except (TypeError, ValueError) as error:
        raise InputError(as_argument(str(error))) from None
    return Question(selection, period, release, privacy, account)


def _overlap(period: Period | None) -> int:
    """How many windows the rows of one window can be in."""
    if period is None or not isinstance(period.cut, SlidingWindows):
        return 1
    size, every = (length // MICROSECOND for length in (period.cut.size, period.cut.every))
    return windows_reached("user-window", len(period), size, every)


def make_columns(arguments: argparse.Namespace, period: Period | None) -> Columns:
    time = arguments.time_column if period else None
    names = (arguments.user_column, arguments.item_column, time)
    return Columns(*names, arguments.time_unit, arguments.csv_quoted_newlines)


def _count_budget(arguments: argparse.Namespace) -> CountBudget | None:
    if arguments.publish_counts is None:
        if arguments.publish_counts_delta is not None:
            raise InputError("--publish-counts-delta needs --publish-counts: the epsilon of the noisy counts")
        return None
    try:
        return CountBudget(arguments.publish_counts, arguments.publish_counts_delta or 0.0)
    except ValueError as error:
        raise InputError(f"--publish-counts, --publish-counts-delta: {error}") from None


def _release(arguments: argparse.Namespace) -> Release:
    if arguments.release_key is None:
        if arguments.release_id is not None:
            raise InputError("--release-id needs --release-key: an id repeats a release only under the same key")
        return Release.fresh()
    try:
        key = ReleaseKey.parse(arguments.release_key)
        if not arguments.release_key.startswith("gcp-secret:"):
            key.secret()
        return Release(key, fresh_id() if arguments.release_id is None else arguments.release_id)
    except ValueError as error:
        raise InputError(f"--release-key, --release-id: {error}") from None


def _domain(arguments: argparse.Namespace) -> PublicDomain | UnknownDomain:
    if (arguments.domain is None) == (not arguments.unknown_domain):
        raise InputError("give --domain FILE, a public list of items, or --unknown-domain: one of the two")
    if arguments.unknown_domain:
        return UnknownDomain()
    return read_domain(arguments.domain, arguments.domain_column or arguments.item_column)


def _check_output(output: str, overwrite: bool) -> None:
    format_of(output)
    for path in (output, manifest_path(output)):
        if not overwrite and exists(path):
            raise InputError(f"--output: {path} exists and is kept: give another path, or --overwrite")
        if os.path.isdir(path):
            raise InputError(f"--output: {path} is a folder: give another path")
    if "://" in output:
        return
    folder = os.path.dirname(os.path.abspath(output))
    try:
        if os.path.isdir(folder):
            with open(f"{output}.incomplete", "wb"):
                pass
            os.remove(f"{output}.incomplete")
        else:  # made when there is something to write, so that a refused report leaves nothing behind
            while not os.path.lexists(folder):
                folder = os.path.dirname(folder)
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise InputError(f"--output {output} cannot be written: {error.strerror}") from None


def _keep_apart(output: str, inputs: list[str]) -> None:
    written = {os.path.realpath(output), os.path.realpath(manifest_path(output))}
    for path in inputs:
        if os.path.realpath(path) in written:
            raise InputError(f"--output {output} would replace {path}, which is read: give another path")


def user_shards(shards: int | None, files: Sequence[FileInfo], windows: int = 1) -> int:
    """As asked for; otherwise about 4 MiB of stored input a shard, so that each fits any worker's memory.

    Args:
        windows: of a stream: its runner keeps state for every pair of a shard and a window, from the start on.
    """
    if shards is None:
        stored = sum(file.size for file in files)
        wanted = min(max(16, 1 << (stored // _BYTES_PER_SHARD).bit_length()), 1 << 14)
        return min(wanted, 1 << max(_MOST_STATES // windows, 1).bit_length() - 1)
    if shards not in {1 << n for n in range(17)}:
        raise InputError(f"--shards must be a power of two from 1 to 65536, got {shards}")
    return shards
