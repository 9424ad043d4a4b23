"""The one road of a report, batch or streaming: check, charge, build, wait. `build` is the recipe."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.runners.runner import PipelineResult

from private_topk.pipelines.announce import followed, progress
from private_topk.pipelines.budget.ledger import charge
from private_topk.pipelines.live import LiveRun, NoteWindows
from private_topk.pipelines.published import (
    check_all_is_out,
    check_repeat,
    interruption_in,
    loss_in,
    refusal_in,
    what_is_out,
    windows_before,
)
from private_topk.pipelines.remote import check_remote
from private_topk.pipelines.report import Report
from private_topk.pipelines.requests import how_to_resume, request_of
from private_topk.pipelines.sinks.manifest import describe_release
from private_topk.pipelines.sinks.sink import about_the_output
from private_topk.pipelines.unfinished import Interrupted, Unfinished, check_signals
from private_topk.runners import Launch
from private_topk.transforms.counters import exact_counters, read_left_out
from private_topk.transforms.errors import Refusal, refused
from private_topk.transforms.top_k import RankBlocks
from private_topk.transforms.validation import check_key
from private_topk.transforms.windows.assign import AssignWindows

__all__ = ["Done", "build", "check", "run"]


@dataclass(frozen=True)
class Done:
    """A report that has run to its end; or, where the launch is deferred, a template that was written."""

    report: Report
    job: PipelineResult
    deferred: bool

    def rows_left_out(self) -> dict[str, str]:
        """How many rows were left out, by reason: roughly, or exactly where that was asked for. For operators."""
        return read_left_out(self.job.metrics())


def build(pipeline: beam.Pipeline, report: Report, launch: Launch, live: LiveRun) -> None:
    """The whole pipeline of a report."""
    spec = report.spec
    reading = report.source.read(spec.reads)
    reading.live = live
    blocks = pipeline | "Read" >> reading
    if spec.reads is not None:
        blocks = blocks | "Cut into windows" >> AssignWindows(spec.reads)
    waits = launch.waits_for_timers and not report.source.bounded
    shards = report.user_shards()
    rank = RankBlocks(spec.top_k, spec.release, spec.period, shards, waits, cores=launch.cores,
                      readers=reading.readers, by_reference=launch.by_reference)  # fmt: skip
    rankings = blocks | "Rank" >> rank
    facts = describe_release(spec.top_k, spec.release, launch.name)
    facts["privacy"] = spec.privacy.describe(facts["privacy"])
    if spec.period is not None and spec.period.zone != "UTC":
        facts["time_zone"] = spec.period.zone
    written = rankings | "Write" >> report.sink.write(facts, spec.release, live)
    if spec.period is not None and not report.source.bounded and report.sink.files(spec.period) is None:
        _ = written | "Note what is published" >> NoteWindows(spec.period, live)


def check(report: Report, launch: Launch) -> None:
    """Look at the places of a report, and whether the runner can do it. Raises Refusal; changes nothing."""
    spec = report.spec
    if not launch.remote:
        check_key(spec.release.key, launch.runner, launch.options)
    if launch.deferred and report.account is not None:
        raise Refusal("ledger", "does not go with a classic template, which is charged when it is made and not when it "
                      "runs", "use the flex template (docs/dataflow.md), whose every run is charged")  # fmt: skip
    report.check_complete()  # before the look at the input, which is a list of its files
    with about_the_output(report.sink.place):
        report.sink.check(spec.period, report.reads(), spec.release)
    report.source.check(spec.reads)
    report.source.check_runner(launch)
    if launch.holding_tasks:
        launch.check_size(report.source.stored_bytes())
    report.check_rows()
    if launch.remote:
        check_remote(report)


def run(
    report: Report,
    launch: Launch,
    again: str = "run the same report again",
    say: Callable[[str], None] | None = None,
    show_exact_counters: bool = False,
) -> Done:
    """Run a report to its end: that of its input, or of its horizon.

    Args:
        again: how the same release is run again, as the door says it: told where this run ends early.
        say: takes a line for each window of a stream that is published.
        show_exact_counters: let the runner show exactly how many rows were left out, which no epsilon covers.

    Raises:
        Refusal: before anything was charged or started; or where the input turns out to be bad, as a worker found.
        Unfinished, Interrupted: the run failed or was ended, with what is published by then.
    """
    check(report, launch)
    launch = launch.listening() if report.source.live else launch
    live = LiveRun()
    with _pipeline_of(launch) as pipeline:
        with exact_counters(show_exact_counters):
            _build(pipeline, report, launch, live)
        return Done(report, _finished(pipeline, report, launch, live, again, say), launch.deferred)


@contextmanager
def _pipeline_of(launch: Launch) -> Iterator[beam.Pipeline]:
    """Beam makes a folder for each, and leaves it where the pipeline does not come to run."""
    pipeline = beam.Pipeline(runner=launch.runner, options=launch.options)
    try:
        yield pipeline
    finally:
        shutil.rmtree(pipeline.local_tempdir, ignore_errors=True)


def _build(pipeline: beam.Pipeline, report: Report, launch: Launch, live: LiveRun) -> None:
    try:
        build(pipeline, report, launch, live)
    except Refusal:
        raise
    except ValueError as error:  # Beam's own view of a place; there is no data yet that it could show
        raise refused(error) from None


def _finished(
    pipeline: beam.Pipeline,
    report: Report,
    launch: Launch,
    live: LiveRun,
    again: str,
    say: Callable[[str], None] | None,
) -> PipelineResult:
    """Charge for it and run it to its end."""
    job = None
    before = windows_before(report)
    try:
        check_signals()  # a library that was being loaded may have lost one
        # Beam prints what a worker raises, which may hold data: what went wrong is told once, by whoever catches it.
        with (
            _charged(report, again),
            progress(live),
            followed(report, launch, live, say),
            redirect_stderr(io.StringIO()),
        ):
            job = pipeline.run()
            job.wait_until_finish()
            if not launch.deferred:
                check_all_is_out(report, again, before)
    except Unfinished:
        raise
    except (Exception, KeyboardInterrupt) as error:
        stop = interruption_in(error)
        if stop is not None:
            raise Interrupted(what_is_out(report, launch, live, job, again, before), stop) from None
        found = refusal_in(error)
        if found is not None:
            raise found from None
        raise Unfinished(what_is_out(report, launch, live, job, again, before)) from (loss_in(error) or error)
    finally:
        live.close()
    return job


@contextmanager
def _charged(report: Report, again: str) -> Iterator[None]:
    account = report.account
    if account is None:
        yield
    else:
        request, resume = request_of(report, account.dataset), how_to_resume(report, again)
        with charge(request, account.ledger, resume=resume, check=lambda receipt: check_repeat(report, receipt)):
            yield
