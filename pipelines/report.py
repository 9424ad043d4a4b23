"""A report: its question, its source of rows, its sink for rankings, and the budget that pays."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import repeat
from typing import Any, cast

import msgspec
import pyarrow as pa

from private_topk.pipelines.budget.accounting import HORIZON, OF_A_LOST_LEDGER, budget_usage, heaviest, ledger_named
from private_topk.pipelines.budget.composition import Total
from private_topk.pipelines.budget.ledger import Account, NoBudget, Request
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.files import as_path, exists, is_local, protected_files, reached
from private_topk.pipelines.options import Options, inputs_of, own_of_inputs, require
from private_topk.pipelines.question import Question, asked_by, declared_period
from private_topk.pipelines.registry import sink_of, source_of
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.release.identity import fingerprint, identity_of
from private_topk.pipelines.release.input_record import InputRecord
from private_topk.pipelines.release.manifest import Manifest, PeriodFacts, Publication
from private_topk.pipelines.sinks.sink import Sink
from private_topk.pipelines.sources.columns import Columns, block_of
from private_topk.pipelines.sources.files import Files, Inputs
from private_topk.pipelines.sources.payloads import make_payload
from private_topk.pipelines.sources.source import Source, horizon
from private_topk.transforms.asked import counts_asked
from private_topk.transforms.domain import check_columns
from private_topk.transforms.errors import (
    InputNotReady,
    InvalidArgument,
    did_you_mean,
    literal,
    of_input,
    printable,
    verbatim,
)
from private_topk.transforms.history import Step
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.mechanisms.choice import noise_told, reach_of
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.rows import rankable
from private_topk.transforms.stated import number, some
from private_topk.transforms.types import kind_of
from private_topk.transforms.windows import Period

_BYTES_PER_SHARD = 4 << 20
_MAX_SHARDS = 1 << 16
_MAX_STATES = 1 << 18
_NAMED = 10
_COLUMNS = {  # which an input may have of its own: `Option.own`
    "user_column": "user",
    "item_column": "item",
    "time_column": "time",
    "time_unit": "time_unit",
    "value_column": "value",
    "group_column": "group",
    "csv_quoted_newlines": "quoted_line_ends",
    "csv_delimiter": "delimiter",
    "csv_encoding": "encoding",
    "constants": "constants",
}
_OF_SOURCES = ("clock", "poll", "kafka_readers", "kafka_start", "kafka_config", "snapshot")


@dataclass(frozen=True)
class Report:
    """One run of the pipeline, to be passed to `run`.

    Args:
        account: the account that is charged before the run starts; None charges nothing.
        success_file: the files that exist once the input is complete.
        expect_rows_at_least: so many rows of the period must exist that can be ranked. Whether a run starts then
            depends on the rows, which no epsilon covers: docs/reports.md.
        expect_rows_of_inputs: the same of each input; None of those that need not have any.
        kept: files that the report was made from, which its output must not replace.
        corrects: the earlier publications of the same windows that this one corrects.
        horizon: what holds all declared windows of a scheduled report, of which this run publishes some.
        shards: user shards, a power of two; any number gives the same ranking, None chooses by size.
        step: of windows to date, the one that is published alone.
    """

    question: Question
    source: Source
    sink: Sink
    account: Account | None = None
    shards: int | None = None
    success_file: tuple[str, ...] = ()
    expect_rows_at_least: int | None = None
    kept: tuple[str, ...] = ()
    corrects: tuple[Publication, ...] = ()
    horizon: PeriodFacts | None = None
    step: Step | None = None
    expect_rows_of_inputs: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        check_shards(self.shards)
        self.question.asked.check_windows(self.question.period, self.source.bounded)
        columns, groups = self.source.columns, self.question.asked.groups
        check_columns("domain", columns.of("item"), self.question.asked.domain)
        if groups is not None and columns.group is not None:
            check_columns("groups", columns.of("group"), groups.labels)
        for least in (self.expect_rows_at_least, *self.expect_rows_of_inputs):
            if least is not None and (isinstance(least, bool) or not isinstance(least, int) or least < 1):
                raise InvalidArgument(
                    "expect_rows_at_least", f"must be a whole number of at least 1, got {verbatim(least)}"
                )

    def check_stated_groups(self) -> list[str]:
        """What inputs that state the group of all their rows leave out, in sentences: groups that no input has, and
        inputs that count in the ranking of all rows alone.

        Raises InvalidArgument for an input that counts in no ranking at all.
        """
        groups, parts = self.question.top_k.groups, self.source.parts()
        if groups is None:
            return []
        listed = {groups.name(number) for number in range(groups.labels.size)}
        told = []
        for part in parts:
            for name, value in part.columns.constants:
                if (name,) != part.columns.of("group") or value in listed:
                    continue
                rule = f"of {part.uri} states {value!r}, which is not in the list of groups"
                if not groups.overall:
                    raise InvalidArgument(
                        "constants", verbatim(rule), did_you_mean(value, listed, "leave the input out")
                    )
                told.append(f"an input of overall alone: {part.uri}, whose {value!r} is not in the list of groups")
        stated = [part.stated_groups() for part in parts]
        if None not in stated and (empty := sorted(listed.difference(*filter(None, stated)))):
            told.append(f"no input is of these groups, whose rankings will be noise: {some(empty, _NAMED)}")
        return told

    def check_amounts(self) -> None:
        """Raise InvalidArgument if a column of amounts may have decimals by its type, and nobody says what to do."""
        for part in self.source.parts():
            for name in part.columns.of("value"):
                for kind in (types[name] for types in part.types if name in types):
                    self.question.top_k.score.check_resolution(kind_of(kind), name, part.uri)

    @property
    def windows(self) -> Period | None:
        """The windows that are published, of which rows are read; None where all rows are ranked together."""
        period = self.question.period
        return period if period is None or self.step is None else period.alone(self.step.number)

    def reads(self) -> list[str]:
        """The places and files that are read or keep something: no output may replace them."""
        lists = [uri for _, uri in self.question.top_k.listed()]
        files = {
            "release_key": self.question.release.key.source,
            "success_file": self.success_file,
            "ledger": self.account and self.account.ledger,
        }
        places = [part.uri for part in self.source.parts()]
        return [*places, *self.source.local_paths(), *lists, *protected_files(files), *self.kept]

    def input_record(self) -> InputRecord | None:
        """Where a stream writes down what it has read; None for a report that is never resumed from another input."""
        release, source, period = self.question.release, self.source, self.question.period
        if source.bounded or source.live or release.key.in_memory:
            return None
        closes = {"allowed_lateness": identity_of(horizon(period).allowed_lateness)}
        return self.sink.input_record(
            release, {**self._reads(source.asked()), "windows": Windows.of(period).plain(), **closes}
        )

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest as known before the run, but for the runner. Reads the schema of the input, once. Raises
        InvalidArgument.
        """
        period = self.question.period
        return manifest_of(
            self.question,
            columns=self.source.columns.within(period).by_role(),
            reading=self.source.manner(period),
            integer_items=self.integer_items(),
            dataset=None if self.account is None else self.account.dataset,
            corrects=self.corrects,
            horizon=self.horizon,
        )

    def integer_items(self) -> bool:
        """Whether items are published as integers: where the rows have no others by their schema, and the list too. No
        row decides it. Raises InvalidArgument.
        """
        return self.source.integer_items and self.question.top_k.domain.holds_integers()

    def request(self, identity: str | None = None) -> Request:
        """What the account is asked to pay for, told by all of the question and the source. Needs the release key here.
        Raises InvalidArgument.

        Args:
            identity: of the input; by default its files are read once, for theirs.
        """
        assert self.account is not None
        release = self.question.release
        try:
            key_id, stream = release.key.key_id(), None
            if not self.source.bounded:  # in words: a refusal names what has changed
                stream = {**self._reads(self.source.identified()), "output": self._output()}
            if identity is None:
                identity = self.source.identity(release.key, self.question.period)
                if stream is not None:  # whose contents are not known yet
                    identity = fingerprint({"stream": identity, "output": self._output()}, release.key)
        except InvalidArgument as error:
            if error.field != "release_key":
                raise
            rule = "needs the release key where the run is launched: {release_key} "
            raise InvalidArgument("ledger", rule + error.rule) from None
        request = self.question.request(
            dataset=self.account.dataset,
            key_id=key_id,
            fingerprint=identity,
            stream=stream,
            rows=self._rows(),
        )
        if self.horizon is None:
            return request
        asked = {**request.parameters["asked"], HORIZON: msgspec.to_builtins(self.horizon)}
        return replace(request, parameters={**request.parameters, "asked": asked})

    def same_rows(self, request: Request) -> str:
        """That a correction which is not charged yet has the rows of what it corrects; or nothing."""
        if self.account is None or not self.corrects:
            return ""
        books, corrected = self.account.books, {each.release_id for each in self.corrects}
        if books.find(request.release_id, request.key_id):
            return ""
        charges = books.read(request.dataset).charges
        same = [each for each in charges if each.release_id in corrected and each.fingerprint == request.fingerprint]
        more = "so only the noise and what is asked otherwise will differ"
        return f"the rows are those of {same[-1].release_id}, {more}" if same else ""

    def cheaper(self, request: Request) -> str:
        """That `peeling` would add less than half of what a chosen mechanism adds to the used budget, or would fit
        where that does not; or nothing.
        """
        if self.account is None or self.question.reason is None:
            return ""
        books, used = self.account.books, None
        try:
            quote = books.quote(request)
        except InvalidArgument as refusal:
            if refusal.field:  # for more than its cost
                return ""
        else:
            used = quote.used
            if used is None:  # a repeat
                return ""
        with suppress(InvalidArgument):  # it does not apply here, or does not fit either
            peeled = replace(self, question=self.question.with_mechanism("peeling"))
            less, budget = books.quote(peeled.request(request.fingerprint)).used, self.account.budget(request.unit)
            spent = heaviest(budget, budget_usage(budget, books.read(request.dataset)).charges)
            if less is not None and (used is None or used > 2 * less - budget.used(Cost.sum(spent))):
                asked = self.question.asked
                reach = reach_of(peeled.question.top_k.mechanism, asked.k, asked.domain.size or None) or 0.0
                noise = noise_told(reach, asked.score.resolution)
                told = f"by `peeling`, where {noise}, {float(less):.1%} would be used"
                return f"{told}, and it would fit" if used is None else f"{told} and not {float(used):.1%}"
        return ""

    def _output(self) -> str:
        uri = (self.sink.files(self.question.period) or [self.sink.uri])[0]
        return os.path.realpath(uri) if is_local(uri) else uri

    def _reads(self, source: Any) -> dict[str, Any]:  # noqa: ANN401 - a value with an identity
        read = identity_of(source)
        return {"input": read.get("uri", self.source.uri), "read": read}

    def _rows(self) -> dict[str, str]:
        """The columns that define users, and times where there are windows."""
        columns = self.source.columns
        if self.question.period is None or columns.time is None:
            return {"user_column": columns.user}
        return {"user_column": columns.user, "time_column": columns.time, "time_unit": columns.unit}

    def check_complete(self) -> None:
        """Raise InputNotReady unless all success files exist.

        How many rows there are is private, even that there are none: so the existence of a public file has to
        distinguish an empty input from one that has not come yet.
        """
        missing = []
        for file in self.success_file:
            with reached(file, "success_file", "cannot be looked for"):
                path = as_path(file, "success_file")
                if not (os.path.isfile(path) if is_local(path) else exists(path)):
                    missing.append(file)
        if missing:
            raise InputNotReady(
                "success_file",
                f"{verbatim(some(missing, _NAMED))} {'is' if len(missing) == 1 else 'are'} not there yet, so the input "
                "may still be on its way",
                "nothing was done; call it again",
            )

    def check_rows(self) -> None:
        """Raise InputNotReady if there are fewer rows than expected, of all inputs or of one. Reads as many as it
        takes to decide.
        """
        wanted = self.expect_rows_at_least or 0
        expected = self.expect_rows_of_inputs or repeat(None)
        for place, (part, least) in enumerate(zip(self.source.parts(), expected, strict=False), 1):
            left, counts = least or 0, self._rankable_rows(part)
            while max(wanted, left) > 0 and (count := next(counts, None)) is not None:
                wanted, left = wanted - count, left - count
            if left > 0:
                with of_input(place):
                    raise _too_few(least, f" of {verbatim(part.uri)}")
        if wanted > 0:
            raise _too_few(self.expect_rows_at_least)

    def _rankable_rows(self, part: Source) -> Iterator[int]:
        """How many rows of an input can be ranked, some at a time."""
        period, columns = self.windows, part.columns.within(self.windows)
        there = part.rows(period) if part.bounded else None
        if there is None:
            rule = f"does not apply to {verbatim(part.uri)}"
            raise InvalidArgument("expect_rows_at_least", rule, "only files can be counted before a run")
        for rows in there:
            block, _ = block_of(rows, columns)
            if period is not None:
                block = block.filter(pa.array(period.number(block["time"].to_numpy()) >= 0))
            yield len(rankable(block, self.question.top_k).rows)

    def user_shards(self) -> int:
        """The number of user shards: as given; otherwise about 4 MiB of stored input a shard, so that each fits any
        worker's memory.

        The runner of a stream keeps state for every pair of a shard and a window from the start, so with many windows
        there are few shards.
        """
        if self.shards is not None:
            return self.shards
        wanted = min(max(16, 1 << (self.source.stored_bytes() // _BYTES_PER_SHARD).bit_length()), 1 << 14)
        if self.source.bounded or self.question.period is None:
            return wanted
        return min(wanted, 1 << max(_MAX_STATES // len(self.question.period), 1).bit_length() - 1)


def _too_few(least: int | None, where: str = "") -> InvalidArgument:
    remedy = "nothing was done; call it again if rows are still to come; if those that came cannot be ranked, "
    remedy += "--dry-run --show-dropped-rows tells an operator why"
    return InputNotReady("expect_rows_at_least", f"{least}: fewer rows{where} would count", remedy)


def check_shards(shards: int | None) -> None:
    """Raise InvalidArgument for an invalid number of user shards. None is valid: the number is chosen later."""
    if shards is not None and shards not in {1 << n for n in range(_MAX_SHARDS.bit_length())}:
        raise InvalidArgument("shards", f"must be a power of two from 1 to {_MAX_SHARDS}, got {shards}")


def report_of(options: Options, *, watch: bool = False, account: Account | None = None) -> Report:
    """The report that options describe. Reads the domain and the ledger; accesses no other place yet.

    Args:
        watch: the input is a stream, or files that still arrive, and not a complete set of files.
        account: that which the options name, where it is open already.

    Raises:
        InvalidArgument: naming the field, the rule and the remedy.
    """
    require(options, "input", "output", "epsilon")
    sink, account = sink_for(options, watch=watch), account or Account.of(options)
    question = Question.of(**asked_by(options), held=held_by(account, options) if account else None)
    return Report(
        question,
        source_for(options, watch=watch),
        sink,
        account,
        options.get("shards"),
        options.get("success_file", ()),
        options.get("expect_rows_at_least"),
        tuple(protected_files(options)),
        expect_rows_of_inputs=own_of_inputs(options, "expect_rows_at_least"),
    )


def held_by(account: Account, options: Options) -> Total:
    """The total that a ledger holds. Raises InvalidArgument, with the command that opens a budget for these options.

    Args:
        options: the mechanism may be an object, with the budget that it has.
    """
    unit = options.get("privacy_unit", "user-window")
    try:
        return account.budget(unit).total
    except NoBudget as error:
        drawn, counts = options.get("mechanism"), counts_asked(options)
        if isinstance(drawn, Mechanism):
            own = {name: drawn.parameter(name, options.get(name)) for name in ("epsilon", "delta", "neighbours")}
            options = {**options, **own}
        budgets = {"epsilon": counts and counts.epsilon, "delta": counts and counts.delta}
        epsilon, delta = (
            sum(Fraction(each) for each in (options.get(name), more) if isinstance(each, int | float | Fraction))
            for name, more in budgets.items()
        )
        had, apart = "user" if unit != "user" else "user-window", False
        if error.field == "privacy_unit":
            apart = not account.books.read(account.dataset).charges
        words = {
            "ledger": ledger_named(account.ledger),
            "dataset": f"{account.dataset}-{unit}" if apart else account.dataset,
            "epsilon": epsilon and number(epsilon),
            "delta": delta and number(delta),
            "privacy-unit": unit,
            "release-delta": unit == "user-window" and delta and number(delta),  # by default half of delta
            "neighbours": options.get("neighbours"),
        }
        flags = " ".join(f"--{name} {shlex.quote(value)}" for name, value in words.items() if value)
        room = "or with more epsilon, which corrections and other reports need: it cannot be changed later"
        remedy = f"open one with `private-topk budget create {printable(flags)}`, {room}"
        if apart:
            remedy = f"nothing is charged yet, so give another dataset name or ledger file: {remedy}; {had} is another "
            remedy += "promise, and a second budget of this dataset is charged for all of its releases too"
        elif error.field == "privacy_unit":
            remedy = f"give {had}; a budget for {unit} too would have to hold all that this dataset has spent so far"
        if error.field == "ledger":
            remedy = f"{remedy}; but {OF_A_LOST_LEDGER}"
        raise NoBudget(error.field, error.rule, literal(remedy)) from None


def source_for(options: Options, *, watch: bool = False) -> Source:
    """The source of the rows, in one input or several. Reads the schema of Avro messages. Raises InvalidArgument."""
    columns, each = _columns_of(options), inputs_of(options)
    if len(each) == 1 and _columns_of(each[0]) == columns:
        return _source_of_one(each[0], columns, watch)
    places = [one["input"] for one in each]
    if watch:
        rule = f"must be one stream, without columns of its own, got {verbatim(', '.join(places))}"
        raise InvalidArgument("input", rule, "several inputs are for files that are all there")
    if table := next((place for place in places if place.startswith("bigquery://")), None):
        raise InvalidArgument("input", f"{verbatim(table)} does not go with other inputs, which are files")
    sources = []
    for place, one in enumerate(each, 1):
        with of_input(place):
            sources.append(_source_of_one(one, _columns_of(one), watch))
    return Inputs(cast(tuple[Files, ...], tuple(sources)), columns)


def _source_of_one(options: Options, columns: Columns, watch: bool) -> Source:
    uri = options["input"]
    arguments: dict[str, Any] = {field: options[field] for field in _OF_SOURCES if field in options}
    if options["output"].startswith("kafka://") and not uri.startswith("kafka://"):
        arguments.pop("kafka_config", None)
    if "payload" in options or "payload_schema" in options:
        arguments["payload"] = make_payload(options.get("payload", "json"), options.get("payload_schema"), columns)
    return source_of(uri, columns, watch, **arguments)


def _columns_of(options: Options) -> Columns:
    """The columns that were asked for, with that of the time. Raises InvalidArgument."""
    names: dict[str, Any] = {field: options[field] for field in _COLUMNS if field in options}
    if "max_value" in options and "value_column" not in options:
        raise InvalidArgument("max_value", "needs {value_column}: the column of the amounts")
    columns = Columns(**{_COLUMNS[field]: name for field, name in ({"time_column": "time"} | names).items()})
    columns.check_apart(declared_period(options))
    return columns


def sink_for(options: Options, *, watch: bool = False) -> Sink:
    client = options.get("kafka_config", ())
    overwrite = options.get("overwrite", False)
    return sink_of(options["output"], options.get("output_format"), overwrite, not watch, kafka_config=client)
