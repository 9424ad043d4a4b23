"""Running a report, batch or streaming: check, charge, build the pipeline, run, publish."""

from __future__ import annotations

import io
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from dataclasses import dataclass

import apache_beam as beam
import msgspec
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, PortableOptions
from apache_beam.runners.runner import PipelineResult

from private_topk.pipelines.budget.ledger import Request, charge, tell_operator
from private_topk.pipelines.files import is_local
from private_topk.pipelines.options import Options, inputs_of
from private_topk.pipelines.preview.forewarning import with_delta
from private_topk.pipelines.process import Interrupted, RunFailed, check_signals, level, received_signal, speaks
from private_topk.pipelines.progress import Health, followed, progress
from private_topk.pipelines.release.describe import charge_of
from private_topk.pipelines.release.input_record import InputRecord
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.store import sole_launcher
from private_topk.pipelines.report import Report
from private_topk.pipelines.run_state import RecordPublished, RunState
from private_topk.pipelines.show.words import weak_promise
from private_topk.pipelines.sinks.sink import about_the_output
from private_topk.pipelines.standing import (
    cannot_be_finished,
    check_adopted,
    check_all_published,
    check_record_kept,
    check_repeat,
    count_published,
    how_it_stands,
    is_finished,
    windows_of,
)
from private_topk.runners import Launch, Line, UnknownArgument, check_arguments, prepare
from private_topk.transforms.counters import exact_counters
from private_topk.transforms.domain import check_digits, padded
from private_topk.transforms.errors import (
    InvalidArgument,
    Told,
    causes_of,
    of_field,
    printable,
    refused,
    told_by,
    verbatim,
)
from private_topk.transforms.plan import Execution
from private_topk.transforms.top_k import RankBlocks
from private_topk.transforms.types import kind_of
from private_topk.transforms.validation import check_key

_PLACES = ("domain", "output", "snapshot")
_HIDING = threading.Lock()
_BESIDE = (None, "", "LOOPBACK")  # environments whose workers are threads of this process
_EMULATOR = "STORAGE_EMULATOR_HOST"


@dataclass(frozen=True)
class Done:
    """A report that has run to its end; or, where the launch is deferred, a job that its launcher submits.

    Args:
        job: None where all was published before, and no job was started.
    """

    report: Report
    job: PipelineResult | None
    deferred: bool


def build(
    pipeline: beam.Pipeline,
    report: Report,
    launch: Launch,
    live: RunState,
    record: InputRecord | None = None,
    request: Request | None = None,
) -> None:
    """The whole pipeline of a report.

    Args:
        record: where a stream writes down what it has read, and looks up what earlier runs have.
        request: what is charged, where anything is.
    """
    question = report.question
    reading = report.source.read(report.windows)
    reading.live, reading.record = live, record
    blocks = pipeline | "Read" >> reading
    execution = Execution(
        report.user_shards(), tuple(reading.readers or ()), launch.waits_for_timers, launch.by_reference, launch.cores
    )
    columns = report.manifest.names("item"), report.manifest.names("group")
    rankings = blocks | "Rank" >> RankBlocks(
        question.top_k, question.release, question.period, execution, step=report.step, columns=columns
    )
    manifest = msgspec.structs.replace(report.manifest, runner=launch.name)
    if request is not None and manifest.charge is not None:
        manifest = msgspec.structs.replace(manifest, charge=charge_of(request))
    written = rankings | "Write" >> report.sink.write(manifest, question.release, live, report.windows)
    if question.period is not None and not report.source.bounded and report.sink.files(question.period) is None:
        _ = written | "Record published windows" >> beam.ParDo(RecordPublished(live))


def check(report: Report, launch: Launch) -> None:
    """Check the places of a report, and that the runner can run it, but not how many rows there are. Raises
    InvalidArgument; changes nothing.
    """
    question = report.question
    if not launch.remote:
        check_key(question.release.key, launch.runner, launch.options)
    report.check_complete()  # before the input is listed
    with about_the_output(report.sink.uri):
        report.sink.check(report.windows, report.reads(), question.release)
    finished = is_finished(report)
    if not finished:
        report.check_stated_groups()
        report.source.check(report.windows)
        report.check_amounts()
    if report.source.integer_items:
        check_digits("domain", kind_of(pa.int64()), question.top_k.domain)
    with about_the_output(report.sink.uri):
        report.sink.check_columns(report.manifest)
        report.sink.check_place(report.windows, question.release, report.manifest)
    report.source.check_runner(launch)
    if launch.deferred and not report.source.bounded:
        raise InvalidArgument(
            "runner",
            f"{launch.runner} would hand this stream over to a launcher, and nobody would watch what is published",
            "start the stream without --template_location, or let a flex template rank files",
        )
    record = None if launch.remote else report.input_record()  # where the key may not be read here, the workers look
    if record is not None:
        record.read()  # also of a finished stream, though nothing would be drawn: it may be taken for another one
    if record is not None and not finished:
        check_record_kept(report)
        with of_field("input"):
            report.source.check_record(record)
    if launch.holding_tasks:
        launch.check_size(report.source.stored_bytes())
    if launch.remote:
        _check_remote(report)
    elif launch.options.view_as(PortableOptions).environment_type not in _BESIDE:
        _check_absolute(report)


def run(
    report: Report,
    launch: Launch,
    again: str = "make the same call again",
    say: Callable[[str], None] | None = None,
    show_exact_counters: bool = False,
    health: Health | None = None,
    once_checked: Callable[[], object] = lambda: None,
    in_series: Callable[[], Manifest | None] | None = None,
) -> Done:
    """Run a report to its end: that of its input, or of its horizon.

    Args:
        again: how to run the same release again, in the words of the caller's interface: told if this run ends early.
        say: takes a line for each window of a stream that is published.
        health: where the progress of a stream is written, every second.
        show_exact_counters: let the runner show exactly how many rows were dropped, which no epsilon covers.
        once_checked: is called when nothing is in the way, and before anything is charged; may raise InvalidArgument.
        in_series: the series that this will be in, whose promise is told if it is weak; None where that was told
            before. By default the run is one by itself.

    Raises:
        InvalidArgument: before anything was charged or started.
        RunFailed, Interrupted: the run failed or was ended, with what is published by then. Also where a worker met
            bad input: its refusal is the cause.
    """
    check(report, launch)
    report.check_rows()
    once_checked()
    series = report.manifest if in_series is None else in_series()
    files = report.sink.files(report.windows)
    with nullcontext() if report.source.bounded or not files else sole_launcher(files[0]):
        launch.name_after(report.question.release.id)  # not beside a live launcher, whose job would be told to cancel
        running = _Running(report, launch.listening() if report.source.live else launch, again)
        with running.ending(), running.pipeline(show_exact_counters) as pipeline:
            with running.charged(series):
                return running.publish(pipeline, say, health)


class _Running:
    """A report that is being run: its pipeline, its charge, its job, and its end."""

    job: PipelineResult | None = None
    started = asked = False
    """Whether something may have been drawn, or charged; and whether a ledger was asked to."""

    def __init__(self, report: Report, launch: Launch, again: str) -> None:
        self._report, self._launch, self._again, self._live = report, launch, again, RunState()
        self._before = 0 if report.question.release.key.in_memory else count_published(report)
        self._finished = is_finished(report)
        self._record = None if self._finished else report.input_record()
        # Before the pipeline is built, whose readers hold what they read against the input that was identified here.
        self._request = None if report.account is None else report.account.books.as_charged(report.request())
        check_adopted(report)

    @contextmanager
    def pipeline(self, show_exact_counters: bool) -> Iterator[beam.Pipeline]:
        """The built pipeline. Its temporary folder is removed at the end: Beam leaves it if the pipeline does not run.

        Raises InvalidArgument: Beam itself refuses a place.
        """
        pipeline = beam.Pipeline(runner=self._launch.runner, options=self._launch.options)
        try:
            with exact_counters(show_exact_counters), _no_notebook(), _explained():
                if not self._finished:
                    build(pipeline, self._report, self._launch, self._live, self._record, self._request)
            yield pipeline
        finally:
            self._live.close()
            shutil.rmtree(pipeline.local_tempdir, ignore_errors=True)

    @contextmanager
    def charged(self, series: Manifest | None) -> Iterator[None]:
        """The charge to the report's account, if it has one, around what is run inside."""
        report, request = self._report, self._request
        if report.question.reason is not None and speaks():
            more = "" if self._finished else with_delta(report.question)
            print(f"mechanism: {report.question.mechanism_told()}{more}", file=sys.stderr)
        with level("warning"):
            for sentence in () if self._finished else _told(report, series):
                print(f"private-topk: {sentence}", file=sys.stderr)
        if request is None or report.account is None:
            yield
            return
        why = cannot_be_finished(report)
        if why is not None:  # told before the charge, since it cannot be put right after it
            rule = InvalidArgument(why.field, why.rule)
            tell_operator(f"if this run ends early, its charge stays and it cannot be finished: {rule}")
        for told in filter(None, (report.same_rows(request), report.cheaper(request))):
            tell_operator(told)
        check_signals()  # a library may have swallowed one
        self.asked = True
        # How to go on is told by this run, with what is published: the charge need not say it.
        with charge(request, report.account.books, resume="", check=lambda made: check_repeat(report, made.outcome)):
            self.started = True
            yield

    def publish(self, pipeline: beam.Pipeline, say: Callable[[str], None] | None, health: Health | None) -> Done:
        report, live = self._report, self._live
        # Beam prints and logs what a worker raises, which may hold data: whoever catches an error reports it, once.
        with (
            progress(live) if report.source.bounded else nullcontext(),
            followed(report, self._launch, live, say, health),
            redirect_stderr(io.StringIO()),
            _unlogged(),
        ):
            if self._finished:  # a batch is drawn again, and fails if that comes out otherwise
                if say is not None:
                    windows, uri = windows_of(report), printable(report.sink.uri)
                    told = f"all {windows:,} windows are published in {uri}: nothing is left to do"
                    say(Line(told, event="standing", published=windows, of=windows))
                return Done(report, None, False)
            check_signals()
            self.started = True
            self.job = pipeline.run()
            self.job.wait_until_finish()
            if not self._launch.deferred:
                check_all_published(report, self._again, self._before)
        return Done(report, self.job, self._launch.deferred)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """The one place in which whatever ends the run early becomes the error that the caller is told."""
        try:
            yield
        except RunFailed as error:
            raise RunFailed(f"{error}{self._charge_stays()}") from error.__cause__
        except (Exception, KeyboardInterrupt) as error:
            stop, told = interruption_in(error), told_by(error)
            if isinstance(told, InvalidArgument) and stop is None and not self.started:
                raise told from None
            if not self.started and not self.asked:
                if stop is None:
                    raise
                raise Interrupted("this run has charged and published nothing", stop) from None
            with redirect_stderr(io.StringIO()):  # workers fail while the job ends
                state = f"{self._ended(told)}{self._charge_stays()}"
            if stop is not None:
                raise Interrupted(state, stop) from None
            raise RunFailed(state) from (told or error)

    def _charge_stays(self) -> str:
        return f"; the charge to {self._request.dataset} stays" if self.started and self._request is not None else ""

    def _ended(self, told: Told | None) -> str:
        """Stop the run from publishing more; returns one or two sentences on what is published."""
        if self._launch.remote:
            name = self._launch.name
            return "nothing was started" if self.job is None else f"the job goes on in {name}: look there, or cancel it"
        self._live.close()
        if self.job is not None:
            with suppress(Exception):  # it may be over, or its server gone
                self.job.cancel()
        return how_it_stands(self._report, self._again, self._before, told)


def _told(report: Report, series: Manifest | None) -> Iterator[str]:
    """What may not be meant of a report that is about to run, in sentences: what stays so, of a series once."""
    asked = report.question.asked
    yield from padded(domain=asked.domain, groups=asked.groups and asked.groups.labels)
    if report.manifest.privacy is not None:
        yield from report.check_stated_groups()
    if series is not None:
        if series.privacy is not None:
            yield from weak_promise(series.privacy, series.all_windows)
        yield from zone_told(report)


def zone_told(report: Report) -> Iterator[str]:
    """That times may lie in other windows than they are meant for, in a sentence, if they may."""
    period = report.question.period
    if period is not None and period.zone != "UTC" and report.source.may_lack_zone:  # whether one does is private
        yield f"times that have no zone are read as UTC, and windows are in {period.zone}"


@contextmanager
def _unlogged() -> Iterator[None]:
    """Inside, Beam does not log what workers in this process raise, with a handler that kept the stderr of before."""
    logger = logging.getLogger("apache_beam.runners.common")

    def nothing(_: logging.LogRecord) -> bool:
        return False

    logger.addFilter(nothing)
    try:
        yield
    finally:
        logger.removeFilter(nothing)


@contextmanager
def _no_notebook() -> Iterator[None]:
    """Inside, IPython cannot be imported. In a notebook Beam would otherwise label transforms by their cell, for which
    it needs an old pandas, and makes the notebook load scripts from elsewhere.
    """
    with _HIDING:
        held = sys.modules.get("IPython")
        if held is not None:
            sys.modules["IPython"] = None  # type: ignore[assignment]  # Python's own way to say that there is none
        try:
            yield
        finally:
            if held is not None:
                sys.modules["IPython"] = held


def interruption_in(error: BaseException) -> KeyboardInterrupt | None:
    """The signal that caused an error, or None.

    A signal is raised wherever the main thread is at that moment. Inside a DoFn Beam turns it into an error of its own,
    as everything that is raised there, and so do libraries while they are being loaded.
    """
    return next((each for each in causes_of(error) if isinstance(each, KeyboardInterrupt)), received_signal())


def _local_places(report: Report) -> Iterator[tuple[str, str]]:
    """The paths of this machine that workers read or write, each with its field."""
    if is_local(report.sink.uri):
        yield "output", report.sink.uri
    yield from (("input", path) for path in report.source.local_paths())
    yield from ((field, path) for field, path in report.question.top_k.listed() if "://" not in path)


def _check_remote(report: Report) -> None:
    """Raise InvalidArgument unless workers elsewhere can read and write all that the report names."""
    key = report.question.release.key
    if key.in_memory:
        raise InvalidArgument(
            "release_key",
            "must be given as gcp-secret:projects/P/secrets/S/versions/V for this runner",
            "a random one stays in the memory of this process",
        )
    if not key.source.startswith("gcp-secret:"):
        rule = f"{verbatim(key.source)} is a place of this machine, which the workers do not see"
        remedy = "keep the key in Secret Manager and give gcp-secret:projects/P/secrets/S/versions/V"
        raise InvalidArgument("release_key", rule, remedy)
    for field, path in _local_places(report):
        rule = f"{verbatim(path)} is a file of this machine, which the workers do not see"
        raise InvalidArgument(field, rule, "copy it to a bucket and give gs://BUCKET/...")


def _check_absolute(report: Report) -> None:
    """Raise InvalidArgument for a path that workers would look for in a working folder of their own."""
    key = report.question.release.key.source
    named = [("release_key", key.removeprefix("file:"))] if key.startswith("file:") else []
    for field, path in (*_local_places(report), *named):
        if not os.path.isabs(path):
            rule = f"{verbatim(path)} is relative, and the workers may run in another folder"
            raise InvalidArgument(field, rule, f"give {verbatim(os.path.abspath(path))}")


def reach_files(words: Sequence[str], options: Options) -> None:
    """Apply Beam's options of file systems, such as credentials and endpoints, before any file is read.

    Raises InvalidArgument if a place is Google's and there are no credentials: Beam would look for them for minutes.
    """
    with _explained():
        beams = PipelineOptions(list(words))
        FileSystems.set_options(beams)
        anonymous = bool(beams.view_as(GoogleCloudOptions).no_auth)
    inputs = [("input", each["input"]) for each in inputs_of(options)]
    for field, uri in (*inputs, *((field, str(options.get(field, ""))) for field in _PLACES)):
        if uri.startswith("gs://") and not (anonymous or os.environ.get(_EMULATOR)):
            from private_topk.runners.dataflow import has_credentials

            if has_credentials():
                continue
            raise InvalidArgument(
                field,
                f"{verbatim(uri)} needs Google credentials, and there are none here",
                "`gcloud auth application-default login`, or --no_auth for a public bucket",
            )


def check_words(runner: str, words: Sequence[str]) -> None:
    """Raise InvalidArgument unless the runner exists, and every word is an option of Beam or of the runner."""
    with _explained():
        check_arguments(runner, words)


def launch_of(runner: str, words: Sequence[str], *, streaming: bool = False) -> Launch:
    """The runner, checked and ready. Raises InvalidArgument with what it lacks."""
    with _explained():
        return prepare(runner, [*words, "--streaming"] if streaming else words)


@contextmanager
def _explained() -> Iterator[None]:
    said = io.StringIO()
    try:
        with redirect_stderr(said):  # Beam's own parser prints all of its options before what is wrong
            yield
    except (InvalidArgument, UnknownArgument):
        raise
    except ValueError as error:
        raise refused(error) from None
    except SystemExit:
        reason = said.getvalue().strip().rpartition("\n")[2].partition("error: ")[2]
        raise InvalidArgument("", f"Beam's options cannot be read: {verbatim(reason)}") from None
