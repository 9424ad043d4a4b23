"""The streaming report: one ranking per window of a declared horizon, published as each window closes.

    python -m private_topk.pipelines.stream --input kafka://localhost:9092/plays --domain items.txt --mechanism joint \\
        --k 10 --epsilon 1 --window day --from 2026-01-01 --to 2026-02-01 --output rankings/ [any Beam option]
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import apache_beam as beam

from private_topk.pipelines.batch import launch, reach_files
from private_topk.pipelines.budget.charging import Account, charged
from private_topk.pipelines.budget.units import Privacy
from private_topk.pipelines.errors import InputError, as_arguments, input_error_in
from private_topk.pipelines.options import Parser, require
from private_topk.pipelines.periods import make_period
from private_topk.pipelines.places import sink_of, source_of
from private_topk.pipelines.remote import check_remote
from private_topk.pipelines.report import make_columns, make_question, user_shards
from private_topk.pipelines.sinks.manifest import describe_release
from private_topk.pipelines.sinks.sink import Sink
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.payloads import make_payload
from private_topk.pipelines.sources.source import Source
from private_topk.pipelines.stream_options import add_stream_arguments
from private_topk.runners import Launch
from private_topk.transforms.cut import CutIntoWindows
from private_topk.transforms.keys import Release
from private_topk.transforms.refusal import Refusal
from private_topk.transforms.release import Selection
from private_topk.transforms.top_k import RankBlocks
from private_topk.transforms.windows import Period

__all__ = ["StreamReport", "build", "main", "make_stream", "run", "start"]


@dataclass(frozen=True)
class StreamReport:
    """One run of the streaming pipeline: from a source of blocks to a sink of rankings."""

    source: Source
    sink: Sink
    facts: dict[str, Any]
    shards: int
    selection: Selection
    period: Period
    release: Release
    privacy: Privacy
    account: Account | None

    def fingerprint(self) -> str:
        """The name of the input in a ledger."""
        return self.source.identity(self.release.key)


def make_stream(arguments: argparse.Namespace) -> StreamReport:
    """The report that the arguments describe, with its source and its sink looked at.

    Raises InputError with one sentence: what is wrong, by which rule, and what to do.
    """
    require(arguments, "input", "output", "mechanism", "k", "epsilon")
    period = make_period(arguments, arguments.slack)
    if period is None:
        raise InputError("--from and --to must be given: a stream is published window by window of a declared horizon")
    question = make_question(arguments, period)
    columns = make_columns(arguments, period)
    facts = describe_release(question.selection, question.release, arguments.runner)
    facts["privacy"] = question.privacy.describe(facts["privacy"])
    shards = user_shards(arguments.shards, 0)
    with as_arguments():
        options = _kafka_options(arguments)
        format = arguments.output_format if "://" not in arguments.output else None
        sink = sink_of(arguments.output, format, arguments.overwrite, batch=False, kafka_option=options)
        source = source_of(arguments.input, columns, watch=True, **_asked(arguments, columns, options))
        sink.check(
            period, [arguments.input, *source.local_places(), *filter(None, [arguments.domain])], question.release
        )
        source.check(period)
    return StreamReport(source, sink, facts, shards, **{**vars(question), "period": period})


_DEFAULTS = {"clock": "log", "poll": timedelta(seconds=10), "kafka_reader": "native", "kafka_readers": 1,
             "kafka_start": "earliest", "expansion_service": None}  # fmt: skip


def _asked(arguments: argparse.Namespace, columns: Columns, options: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The source's options, but for those that were left as they are."""
    given = {name: getattr(arguments, name) for name, usual in _DEFAULTS.items() if getattr(arguments, name) != usual}
    if arguments.input.startswith(("kafka://", "pubsub://")):
        given["payload"] = make_payload(arguments.payload, arguments.payload_schema, columns)
    if arguments.input.startswith("kafka://"):
        given["kafka_option"] = options
    return given


def _kafka_options(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    found = []
    for option in arguments.kafka_option:
        key, equals, value = option.partition("=")
        if not key or not equals:
            raise Refusal("kafka_option", "must be NAME=VALUE, such as security.protocol=SASL_SSL")
        found.append((key, value))
    return found


def build(pipeline: beam.Pipeline, report: StreamReport) -> None:
    """The whole pipeline of a report."""
    blocks = (
        pipeline | "Read" >> report.source.read(report.period) | "Cut into windows" >> CutIntoWindows(report.period)
    )
    rankings = blocks | "Rank" >> RankBlocks(report.selection, report.release, report.period, report.shards)
    rankings | "Write" >> report.sink.write(report.facts, report.release)


def run(report: StreamReport, launch: Launch) -> None:
    """Run a report to the end of its horizon. Raises InputError where its input turns out to be bad."""
    with as_arguments():
        report.source.check_runner(launch)
        if launch.remote:
            check_remote(report.source, report.sink, report.selection, report.release.key)
    pipeline = beam.Pipeline(runner=launch.runner, options=launch.options)
    try:
        build(pipeline, report)
    except ValueError as error:  # Beam's own view of a place; there is no data yet that it could show
        raise InputError(str(error)) from None
    try:
        # Beam prints what a worker raises, which may hold data: what went wrong is told once, by whoever catches it.
        with charged(report), redirect_stderr(io.StringIO()):
            pipeline.run().wait_until_finish()
    except Exception as error:
        found = input_error_in(error)
        if found is not None:
            raise found from None
        raise


def start(arguments: argparse.Namespace, beam_arguments: Sequence[str]) -> None:
    """Check everything, then run to the end of the horizon, and say so."""
    reach_files(beam_arguments)
    report = make_stream(arguments)
    ready = launch(arguments.runner, [*beam_arguments, "--streaming"])
    run(report, ready.listening() if report.source.live else ready)
    if not ready.deferred:
        print(f"the horizon is over: {len(report.period):,} windows published to {arguments.output}")


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, check, run. Raises InputError before any work starts."""
    parser = Parser(prog="python -m private_topk.pipelines.stream", description=__doc__, allow_abbrev=False)
    add_stream_arguments(parser)
    arguments, beam_arguments = parser.parse_known_args(argv)
    start(arguments, beam_arguments)


if __name__ == "__main__":
    from private_topk.pipelines.cli import guarded, leave

    leave(guarded(main))
