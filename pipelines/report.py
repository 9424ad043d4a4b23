"""A report: a question, where its rows come from, where its rankings go, and whose budget pays."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from private_topk.pipelines.budget.ledger import Account
from private_topk.pipelines.fields import Asked, require
from private_topk.pipelines.files import as_path, exists, is_local, why
from private_topk.pipelines.lists import groups_of
from private_topk.pipelines.places import sink_of, source_of
from private_topk.pipelines.protected_files import protected_files
from private_topk.pipelines.question import Question, question_of
from private_topk.pipelines.sinks.partition import Partition
from private_topk.pipelines.sinks.sink import Sink
from private_topk.pipelines.sources.columns import Columns, block_of
from private_topk.pipelines.sources.payloads import make_payload
from private_topk.pipelines.sources.source import Source
from private_topk.transforms.admission import check_all_windows
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["Report", "account_of", "check_shards", "report_of", "sink_for", "source_for"]

_BYTES_PER_SHARD = 4 << 20
_MOST_SHARDS = 1 << 16
_MOST_STATES = 1 << 18
_COLUMNS = {"user_column": "user", "item_column": "item", "time_column": "time", "time_unit": "time_unit",
             "value_column": "value", "group_column": "group", "csv_quoted_newlines": "quoted_line_ends"}  # fmt: skip
_OF_SOURCES = ("clock", "poll", "kafka_readers", "kafka_start", "snapshot")


@dataclass(frozen=True)
class Report:
    """One run of the pipeline, `run` takes it.

    Args:
        account: whose budget is charged, before the run starts; None keeps no books.
        complete_when: a file that is there once the input is all there, or None where nobody says so.
        expect_rows_at_least: so many rows with a user, an item and a time in the period must be there. Whether a run
            starts then hangs on the rows themselves, which no epsilon covers: docs/reports.md.
        kept: files that the report was made of, which its output must not replace.
        shards: user shards, a power of two; any number gives the same ranking, None chooses by size.
    """

    question: Question
    source: Source
    sink: Sink
    account: Account | None = None
    shards: int | None = None
    complete_when: str | None = None
    expect_rows_at_least: int | None = None
    kept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_shards(self.shards)
        check_all_windows(self.question.selection, self.question.period, self.source.bounded)
        least = self.expect_rows_at_least
        if least is not None and (isinstance(least, bool) or not isinstance(least, int) or least < 1):
            raise Refusal("expect_rows_at_least", f"must be a whole number of at least 1, got {verbatim(least)}")

    def reads(self) -> list[str]:
        """The places and files that are read, or that something is kept in: no output may take their place."""
        lists = [place for _, place in self.question.selection.listed()]
        own = {"release_key": self.question.release.key.source, "complete_when": self.complete_when,
               "ledger": self.account and self.account.ledger}  # fmt: skip
        return [self.source.place, *self.source.local_places(), *lists, *protected_files(own), *self.kept]

    def check_complete(self) -> None:
        """Raise Refusal where the file is not there that says that the input is.

        How many rows there are is private, and none at all is an answer like any other: a public name has to tell an
        input that is empty from one that has not come yet.
        """
        if self.complete_when is None:
            return
        try:
            path = as_path(self.complete_when, "complete_when")
            there = os.path.isfile(path) if is_local(path) else exists(path)
        except Refusal:
            raise
        except Exception as error:  # every file system raises its own kind
            rule = f"{verbatim(self.complete_when)} cannot be looked for: {verbatim(why(error))}"
            raise Refusal("complete_when", rule) from None
        if not there:
            raise Refusal("complete_when", f"{verbatim(self.complete_when)} is not there yet, so the input may still "
                          "be on its way", "nothing was done; call it again")  # fmt: skip

    def check_rows(self) -> None:
        """Raise Refusal where fewer rows are there than were expected. Reads as many as it takes to tell."""
        wanted, period = self.expect_rows_at_least, self.question.period
        if wanted is None:
            return
        parts = self.source.rows(period)
        if parts is None:
            raise Refusal("expect_rows_at_least", f"does not apply to {verbatim(self.source.place)}",
                          "only files can be counted before a run")  # fmt: skip
        columns = self.source.columns if period is not None else replace(self.source.columns, time=None)
        for rows in parts:
            block, _ = block_of(rows, columns)
            wanted -= len(block) if period is None else int((period.number(block["time"].to_numpy()) >= 0).sum())
            if wanted <= 0:
                return
        raise Refusal("expect_rows_at_least", f"{self.expect_rows_at_least}: fewer rows are there",
                      "nothing was done; --check --show-left-out tells an operator more")  # fmt: skip

    def user_shards(self) -> int:
        """As asked for; otherwise about 4 MiB of stored input a shard, so that each fits any worker's memory.

        The runner of a stream keeps state for every pair of a shard and a window, from the start on: many windows
        take few shards.
        """
        if self.shards is not None:
            return self.shards
        wanted = min(max(16, 1 << (self.source.stored_bytes() // _BYTES_PER_SHARD).bit_length()), 1 << 14)
        if self.source.bounded or self.question.period is None:
            return wanted
        return min(wanted, 1 << max(_MOST_STATES // len(self.question.period), 1).bit_length() - 1)


def check_shards(shards: int | None) -> None:
    """Raise Refusal for a number of user shards that hashes cannot be parted into. None is chosen later."""
    if shards is not None and shards not in {1 << n for n in range(_MOST_SHARDS.bit_length())}:
        raise Refusal("shards", f"must be a power of two from 1 to {_MOST_SHARDS}, got {shards}")


def report_of(asked: Asked, *, watch: bool = False) -> Report:
    """The report that a door was given. Reads the domain and the ledger; looks at no other place yet.

    Args:
        watch: the input is a stream, or files that still arrive, and not files that are all there.

    Raises:
        Refusal: naming the field, the rule and the remedy.
    """
    require(asked, "input", "output", "mechanism", "k", "epsilon")
    sink, account = sink_for(asked, watch=watch), account_of(asked)
    unit = asked.get("privacy_unit", "user-window")
    question = question_of(asked, account.budget(unit).total if account else None)
    return Report(question, source_for(asked, watch=watch), sink, account, asked.get("shards"),
                  asked.get("complete_when"), asked.get("expect_rows_at_least"),
                  tuple(protected_files(asked)))  # fmt: skip


def source_for(asked: Asked, *, watch: bool = False) -> Source:
    """Where the rows come from. Reads the schema of Avro messages. Raises Refusal."""
    place = asked["input"]
    columns = _columns_of(asked)
    options: dict[str, Any] = {field: asked[field] for field in _OF_SOURCES if field in asked}  # type: ignore[literal-required]
    if "payload" in asked or "payload_schema" in asked:
        options["payload"] = make_payload(asked.get("payload", "json"), asked.get("payload_schema"), columns)
    if _is_kafka(place):
        options["kafka_option"] = asked.get("kafka_option", ())
    elif "kafka_option" in asked and not _is_kafka(asked["output"]):
        raise Refusal(
            "kafka_option", "does not apply to {input} and {output}, of which none is kafka://", "leave it out"
        )
    return source_of(place, columns, watch, **options)


def _columns_of(asked: Asked) -> Columns:
    """The columns that were asked for, with that of the time. Raises Refusal."""
    names: dict[str, Any] = {field: asked[field] for field in _COLUMNS if field in asked}  # type: ignore[literal-required]
    if asked.get("user_column", "user") == asked.get("item_column", "item"):
        raise Refusal("user_column", "must be another column than {item_column}", "the one says who a row is of, the "
                      "other what is ranked")  # fmt: skip
    return Columns(**{_COLUMNS[field]: name for field, name in ({"time_column": "time"} | names).items()})


def sink_for(asked: Asked, *, watch: bool = False) -> Sink:
    """Where the rankings go. Raises Refusal."""
    place = asked["output"]
    options: dict[str, Any] = {"kafka_option": asked.get("kafka_option", ())} if _is_kafka(place) else {}
    if "partition_by" in asked:
        options["partition"] = _partition(asked)
    return sink_of(place, asked.get("output_format"), asked.get("overwrite", False), not watch, **options)


def _partition(asked: Asked) -> Partition:
    word, groups = asked["partition_by"], groups_of(asked)
    if groups is None:
        raise Refusal("partition_by", "needs {group_column} and {groups}: the groups that have a folder each")
    if word not in ("group", asked["group_column"]):
        raise Refusal("partition_by", f"must be group or {verbatim(asked['group_column'])}, got {verbatim(word)}")
    return Partition(word, groups.labels)


def _is_kafka(place: str) -> bool:
    return place.startswith("kafka://")


def account_of(asked: Asked) -> Account | None:
    """The account that is charged, or None. Raises Refusal if half of it is missing."""
    ledger, dataset = asked.get("ledger"), asked.get("dataset")
    if ledger is None and dataset is None:
        return None
    if ledger is None or dataset is None:
        raise Refusal("ledger", "and {dataset} go together: where spending is kept, and whose budget it is")
    return Account(ledger, dataset)
