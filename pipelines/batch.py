"""The batch report: read, cut into windows, rank, write.

    python -m private_topk.pipelines.batch --input 'rows-*.avro' --domain items.txt --mechanism joint --k 10 \\
        --epsilon 1 --output ranking.avro [any Beam option]
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult

from private_topk.pipelines.budget.charging import charged
from private_topk.pipelines.errors import InputError, input_error_in
from private_topk.pipelines.options import Parser, add_run_arguments
from private_topk.pipelines.progress import PROGRESS
from private_topk.pipelines.remote import check_remote
from private_topk.pipelines.report import Report, make_report
from private_topk.pipelines.sinks import WriteRankings
from private_topk.pipelines.sinks.manifest import describe_release
from private_topk.pipelines.sources import ReadBlocks, cut_into_pieces
from private_topk.runners import Launch, prepare
from private_topk.transforms.blocks import LEFT_OUT, NAMESPACE
from private_topk.transforms.cut import CutIntoWindows
from private_topk.transforms.refusal import Refusal
from private_topk.transforms.top_k import RankBlocks

__all__ = ["build", "launch", "main", "reach_files", "run"]


def build(pipeline: beam.Pipeline, report: Report, runner: str) -> None:
    """The whole pipeline of a report."""
    blocks = pipeline | "Read" >> ReadBlocks(cut_into_pieces(report.files), report.columns)
    if report.period is not None:
        blocks = blocks | "Cut into windows" >> CutIntoWindows(report.period)
    rankings = blocks | "Rank" >> RankBlocks(report.selection, report.release, report.period, report.shards)
    facts = describe_release(report.selection, report.release, runner)
    facts["privacy"] = report.privacy.describe(facts["privacy"])
    rankings | "Write" >> WriteRankings(report.output, facts, report.release.key)


def run(report: Report, launch: Launch) -> PipelineResult:
    """Run a report to its end. Raises InputError where its input turns out to be bad; nothing is written then."""
    if launch.remote:
        check_remote(report)
    pipeline = beam.Pipeline(runner=launch.runner, options=launch.options)
    build(pipeline, report, launch.name)
    try:
        # Beam prints what a worker raises, which may hold data: what went wrong is told once, by whoever catches it.
        with charged(report), PROGRESS.shown(), redirect_stderr(io.StringIO()):
            result = pipeline.run()
            result.wait_until_finish()
    except Refusal:
        raise
    except Exception as error:
        found = input_error_in(error)
        if found is not None:
            raise found from None
        raise
    return result


def rows_left_out(result: PipelineResult) -> dict[str, int]:
    """How many rows were left out, by reason. Exact counts of private data: for the operator's eyes only."""
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    return {counter.key.metric.name.removeprefix(LEFT_OUT): counter.committed for counter in found}


def reach_files(beam_arguments: Sequence[str]) -> None:
    """Let Beam's options of file systems, such as credentials and endpoints, hold from the first look at a file on."""
    with _options_explained():
        FileSystems.set_options(PipelineOptions(list(beam_arguments)))


def launch(runner: str, beam_arguments: Sequence[str]) -> Launch:
    """The runner, checked and ready. Raises InputError with what it lacks."""
    with _options_explained():
        return prepare(runner, beam_arguments)


@contextmanager
def _options_explained() -> Iterator[None]:
    said = io.StringIO()
    try:
        with redirect_stderr(said):  # Beam's own parser prints all of its options before what is wrong
            yield
    except ValueError as error:
        raise InputError(str(error)) from None
    except SystemExit:
        reason = said.getvalue().strip().rpartition("\n")[2].partition("error: ")[2]
        raise InputError(f"Beam's options cannot be read: {reason}") from None


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, check, run. Raises InputError before any work starts."""
    parser = Parser(prog="python -m private_topk.pipelines.batch", description=__doc__, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add_run_arguments(parser)
    arguments, beam_arguments = parser.parse_known_args(argv)
    reach_files(beam_arguments)
    run(make_report(arguments), launch(arguments.runner, beam_arguments))


if __name__ == "__main__":
    from private_topk.pipelines.cli import guarded, leave

    leave(guarded(main))
