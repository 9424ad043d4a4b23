"""The streaming report: one ranking per window of a declared horizon, published as each window closes.

    python -m private_topk.pipelines.stream --input kafka://localhost:9092/plays --domain items.txt --mechanism joint \\
        --k 10 --epsilon 1 --window day --from 2026-01-01 --to 2026-02-01 --output rankings/ [any Beam option]
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass

import apache_beam as beam

from private_topk.pipelines.announce import announced
from private_topk.pipelines.batch import launch, reach_files
from private_topk.pipelines.budget.charging import Account, charged
from private_topk.pipelines.budget.fingerprint import place_fingerprint
from private_topk.pipelines.budget.units import Privacy
from private_topk.pipelines.errors import InputError, input_error_in
from private_topk.pipelines.options import Parser, require
from private_topk.pipelines.periods import make_period
from private_topk.pipelines.places import make_sink, make_source
from private_topk.pipelines.remote import check_places
from private_topk.pipelines.report import Question, make_columns, make_question, user_shards
from private_topk.pipelines.sinks.manifest import describe_release
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.pubsub import ReadPubSub
from private_topk.pipelines.stream_options import add_stream_arguments
from private_topk.runners import Launch
from private_topk.runners.direct import live
from private_topk.transforms.cut import CutIntoWindows
from private_topk.transforms.keys import Release
from private_topk.transforms.release import Selection
from private_topk.transforms.top_k import RankBlocks
from private_topk.transforms.windows import Period

__all__ = ["StreamReport", "build", "main", "make_stream", "run", "start"]


@dataclass(frozen=True)
class StreamReport:
    """One run of the streaming pipeline: from a source of blocks to a sink of rankings."""

    source: beam.PTransform
    sink: beam.PTransform
    shards: int
    input_name: str
    places: dict[str, str]
    selection: Selection
    period: Period
    release: Release
    privacy: Privacy
    account: Account | None

    def fingerprint(self) -> str:
        """The name of the input in a ledger."""
        return self.input_name


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
    sink = make_sink(arguments, period, question.release, facts)
    shards = user_shards(arguments.shards, (), len(period))
    source = make_source(arguments, columns, period)
    name = _input_name(arguments, columns, question)
    places = {"--input": arguments.input, "--output": arguments.output}
    return StreamReport(source, sink, shards, name, places, **{**vars(question), "period": period})


def _input_name(arguments: argparse.Namespace, columns: Columns, question: Question) -> str:
    if question.account is None:  # then the key need not be here
        return ""
    return place_fingerprint(arguments.input, columns, arguments.clock, arguments.kafka_start, question.release.key)


def build(pipeline: beam.Pipeline, report: StreamReport, waits_for_timers: bool = False) -> None:
    """The whole pipeline of a report."""
    blocks = pipeline | "Read" >> report.source | "Cut into windows" >> CutIntoWindows(report.period)
    rank = RankBlocks(report.selection, report.release, report.period, report.shards, waits_for_timers)
    rankings = blocks | "Rank" >> rank
    rankings | "Write" >> report.sink


def run(report: StreamReport, launch: Launch) -> None:
    """Run a report to the end of its horizon. Raises InputError where its input turns out to be bad."""
    if launch.remote:
        check_places(report.release, report.selection, report.places)
    pipeline = beam.Pipeline(runner=launch.runner, options=launch.options)
    try:
        build(pipeline, report, launch.waits_for_timers)
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
    if ready.name == "direct" and isinstance(report.source, ReadPubSub):
        ready = live(ready)
    told = "://" not in arguments.output and not ready.deferred
    place = (report.period, arguments.output, f".{arguments.output_format}", arguments.clock == "log")
    with announced(*place) if told else nullcontext():
        run(report, ready)
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
