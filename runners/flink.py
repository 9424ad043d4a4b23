"""Flink: a mini cluster inside Beam's job server, or a standalone cluster. docs/flink.md has all steps."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer, FlinkRunner
from apache_beam.runners.portability.job_server import ExternalJobServer
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineResult, PipelineState

from private_topk.runners import Launch, Line, cache_folder, unknown_words
from private_topk.runners import say as say_on_stderr
from private_topk.runners.flink_jobs import IN_A_ROW, JobManager, Watch, ended
from private_topk.runners.options import BeamOptions
from private_topk.runners.portable import EndsWithUs, LoopbackRunner, check_environment, reachable
from private_topk.transforms.errors import InvalidArgument, Unreachable, told_in, verbatim

FLINK_VERSION = "1.19"
"""The mini cluster's default version: the one that the tests run on."""

RESTARTS = {
    "restart-strategy.type": "exponential-delay",
    "restart-strategy.exponential-delay.initial-backoff": "100 ms",
    "restart-strategy.exponential-delay.backoff-multiplier": "2.0",
    "restart-strategy.exponential-delay.max-backoff": "30 s",
    "restart-strategy.exponential-delay.attempts-before-reset-backoff": str(IN_A_ROW),
    "restart-strategy.exponential-delay.reset-backoff-threshold": "10 min",
}
"""A job may fail twelve times in a row, over two minutes, and again after ten quiet minutes. A fixed number of restarts
would run out in any stream that is long enough."""

JVM_PROPERTIES = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java only passes on what Python computes: its best compiler costs more CPU than it saves."""

ASKS_ITS_SERVER = True
"""Flink's job server tells which options it knows once it is up."""

_MIN_JAVA = 11
_EMBEDDED = ("[local]", "[auto]")

# The job server retries every three seconds if the job manager does not answer. Flink's default of 20 tries is one
# minute, and a job manager that replaces another may need longer.
_PATIENCE = {"rest.retry.max-attempts": 200}

JOB_OPTIONS: Mapping[str, Any] = {
    "checkpointing_interval": 10_000,
    # The runner buffers the output of a bundle while a checkpoint is taken, but not the watermark behind it: the rows
    # come late and are dropped silently. So bundles are finished first.
    "finish_bundle_before_checkpointing": True,
    # A stage of a stream holds its output for so long, and a reader waits so long for its next turn. Flink's default of
    # a second delays a ranking by up to a second for every stage after the close of a window.
    "max_bundle_time_mills": 200,
}
_ON_A_CLUSTER: Mapping[str, Any] = {
    # Stages run one after another, so a batch that has lost a task manager goes on with the remaining slots; and it is
    # the only mode that a cluster with the adaptive scheduler accepts.
    "execution_mode_for_batch": "BATCH_FORCED",
}

# A batch on a cluster keeps its Python workers for so many milliseconds between stages; otherwise each stage starts its
# own. Not longer: a killed worker is kept too, and fails retries until its time is over.
_KEEPS_WORKERS = 700


def prepare(arguments: Sequence[str]) -> Launch:
    """Prepare a job: without --flink_master on a mini cluster in the job server, with workers in this process; with it
    on a standalone cluster, whose version decides the job server, and whose workers --environment_type must name.
    """
    more = unknown_words(arguments)
    options = BeamOptions(list(arguments))
    flink = options.view_as(FlinkRunnerOptions)
    portable = options.view_as(PortableOptions)
    if portable.job_endpoint:
        return _on_a_running_job_server(options, portable, more)
    chosen = any(word.startswith("--flink_version") for word in arguments)
    if flink.flink_master in _EMBEDDED:
        flink.flink_master = "[local]"
        flink.flink_version = flink.flink_version if chosen else FLINK_VERSION
        check_environment(options, default="LOOPBACK")
        rest, settings = _mini_cluster(options)
    else:
        _match_cluster(flink, chosen)
        rest, settings = flink.flink_master, {**RESTARTS, **_PATIENCE}
        _keep_workers(options)
        here = _is_here(flink.flink_master)
        check_environment(options, default=None, here=here)
        if portable.environment_type == "LOOPBACK" and not here:
            raise ValueError(
                "--environment_type LOOPBACK runs the workers in this process, which the task managers "
                "of another machine cannot reach: use EXTERNAL, PROCESS or DOCKER"
            )
    return _with_a_job_server(options, more, rest, settings)


def _with_a_job_server(options: PipelineOptions, more: list[str], rest: str, settings: dict[str, Any]) -> Launch:
    """Prepare a job with a job server of its own, started now only if words need its options: it takes seconds."""
    server, flink = options.view_as(JobServerOptions), options.view_as(FlinkRunnerOptions)
    check_java(server.job_server_java_launcher)
    flink.flink_job_server_jar = _job_server_jar(options)
    server.job_server_jvm_properties = server.job_server_jvm_properties or list(JVM_PROPERTIES)
    embedded = flink.flink_master in _EMBEDDED
    folder = _write_settings(settings, keeps_state=embedded)
    chosen = {**JOB_OPTIONS, **({} if embedded else _ON_A_CLUSTER), "flink_conf_dir": str(folder)}
    runner = FlinkJobRunner(chosen, rest, folder)
    if more:
        runner.job_options = {
            **chosen,
            **parse_options(more, _known_options(runner.default_job_server(options).start())),
        }
    say_on_stderr(f"Flink {flink.flink_version}: {Path(flink.flink_job_server_jar).name}")
    return _launch(options, runner)


def _on_a_running_job_server(options: PipelineOptions, portable: PortableOptions, more: list[str]) -> Launch:
    if not reachable(portable.job_endpoint):
        rule = f"--job_endpoint {verbatim(portable.job_endpoint)}: nothing answers there"
        raise Unreachable("", rule, "start Flink's job server")
    check_environment(options, default=None, here=_is_here(f"//{portable.job_endpoint}"))
    _keep_workers(options)
    chosen = {**JOB_OPTIONS, **_ON_A_CLUSTER}
    if more:
        chosen |= parse_options(more, _known_options(ExternalJobServer(portable.job_endpoint, 60).start()))
    master = options.view_as(FlinkRunnerOptions).flink_master
    rest = "" if master in _EMBEDDED else FlinkRunner.add_http_scheme(master)
    return _launch(options, FlinkJobRunner(chosen, rest))


def _launch(options: PipelineOptions, runner: FlinkJobRunner) -> Launch:
    flink, endpoint = options.view_as(FlinkRunnerOptions), options.view_as(PortableOptions).job_endpoint
    tasks, address = flink.parallelism, endpoint or flink.flink_master
    embedded = address in _EMBEDDED
    if tasks < 1 and embedded:
        tasks = os.cpu_count() or 1
    holding = 0 if options.view_as(StandardOptions).streaming else max(tasks, 0)
    runner.named = options.view_as(GoogleCloudOptions).job_name or runner.named
    named = partial(runner.name_after, runner.named)
    return Launch(
        "flink",
        runner,
        options,
        at="here" if embedded else f"at {address}, which answers",
        answered=runner.answered,
        holding_tasks=holding,
        name_after=named,
        job=runner.job,
    )


def _mini_cluster(options: PipelineOptions) -> tuple[str, dict[str, Any]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "rest.address": "localhost",
        "rest.bind-address": "127.0.0.1",
        "rest.port": port,
        "rest.bind-port": port,
        "metrics.fetcher.update-interval": 1000,
    }
    if options.view_as(StandardOptions).streaming:
        settings |= RESTARTS
    return f"http://localhost:{port}", settings


def _match_cluster(flink: FlinkRunnerOptions, chosen: bool) -> None:
    master = FlinkRunner.add_http_scheme(flink.flink_master).rstrip("/")
    overview = JobManager(master).overview()
    if not overview:
        rule = f"--flink_master {verbatim(master)}: no Flink job manager answers there"
        raise Unreachable("", rule, "give HOST:PORT of its REST interface, or start one with `make flink-up`")
    version = ".".join(str(overview["flink-version"]).split(".")[:2])
    if version not in flink.PUBLISHED_FLINK_VERSIONS:
        raise ValueError(
            f"--flink_master {flink.flink_master} runs Flink {version}, and the installed Beam runs on "
            f"{', '.join(flink.PUBLISHED_FLINK_VERSIONS)}: change the one or the other"
        )
    if chosen and flink.flink_version != version:
        raise ValueError(
            f"--flink_version {flink.flink_version} is not what the cluster runs, which is {version}: leave it out"
        )
    if not overview.get("slots-total"):
        rule = f"--flink_master {verbatim(flink.flink_master)} has no task manager"
        raise Unreachable("", rule, "start one, see docs/flink.md")
    flink.flink_master, flink.flink_version = master, version
    if flink.parallelism < 1:
        flink.parallelism = overview["slots-total"]


def _keep_workers(options: PipelineOptions) -> None:
    portable = options.view_as(PortableOptions)
    if not options.view_as(StandardOptions).streaming and not portable.environment_cache_millis:
        portable.environment_cache_millis = _KEEPS_WORKERS


def check_java(launcher: str) -> None:
    """Raise InvalidArgument unless this program is a Java that the job server runs on."""
    match = None
    try:
        answer = subprocess.run([launcher, "-version"], capture_output=True, text=True, timeout=60)
        match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    except OSError:
        pass
    if match is None or int(match[1]) < _MIN_JAVA:
        has = f"{launcher} is Java {match[1]}" if match else f"there is no {launcher}"
        raise InvalidArgument(
            "runner",
            f"flink needs Java {_MIN_JAVA} or later and {verbatim(has)}: install one (on Debian "
            "`apt install default-jre-headless`), or give --job_server_java_launcher PATH",
        )


def _job_server_jar(options: PipelineOptions) -> str:
    """The path of the job server's jar: the given one, one that was packaged here, or the released one, which Beam
    downloads once and keeps.
    """
    flink = options.view_as(FlinkRunnerOptions)
    jar = flink.flink_job_server_jar
    packaged = cache_folder().glob(f"jars/beam-runners-flink-{flink.flink_version}-job-server-*.jar")
    if not jar and (newest := max(packaged, key=os.path.getmtime, default=None)):
        return str(newest)
    if jar and "://" not in jar and not Path(jar).is_file():
        raise ValueError(f"--flink_job_server_jar {jar} does not exist: leave it out to have it downloaded")
    server = FlinkJarJobServer(options)
    url = server.path_to_jar()
    try:
        return server.local_jar(url, options.view_as(JobServerOptions).jar_cache_dir)
    except (OSError, RuntimeError):
        raise InvalidArgument(
            "runner",
            f"flink needs Beam's job server, and {verbatim(url)} cannot be downloaded from here",
            "package it with `python -m benchmarks.servers.flink job-server`, or fetch it in another way and "
            "give --flink_job_server_jar PATH",
        ) from None


def _is_here(master: str) -> bool:
    return re.search(r"//(localhost|127\.|\[::1\])", master) is not None


def _write_settings(settings: Mapping[str, object], keeps_state: bool) -> Path:
    """A folder with Flink's settings for one job, which the job's runner removes.

    Args:
        keeps_state: checkpoints go there too. In memory, a mini cluster's default, they must be small.
    """
    home = Path(tempfile.mkdtemp(prefix="private-topk-flink-"))
    state = {"state.checkpoints.dir": (home / "state").as_uri()} if keeps_state else {}
    (home / "config.yaml").write_text("".join(f'{name}: "{value}"\n' for name, value in {**settings, **state}.items()))
    return home


_TYPES = beam_job_api_pb2.PipelineOptionType
_FORMS: Mapping[int, tuple[str, Callable[[str], Any]]] = {
    _TYPES.BOOLEAN: ("true or false", lambda word: {"true": True, "false": False}[word.lower()]),
    _TYPES.INTEGER: ("a whole number", int),
    _TYPES.NUMBER: ("a number", float),
}
_ALONE: Mapping[int, str] = {_TYPES.BOOLEAN: "true"}


def _known_options(service: beam_job_api_pb2_grpc.JobServiceStub) -> dict[str, int]:
    """The options of a running job server: the type of each by its name."""
    answer = service.DescribePipelineOptions(beam_job_api_pb2.DescribePipelineOptionsRequest(), timeout=60)
    return {option.name: option.type for option in answer.options}


def parse_options(words: Sequence[str], known: Mapping[str, int]) -> dict[str, Any]:
    """The values of the job server's options by their names.

    Args:
        words: the words of a command line that neither this package nor Beam's Python knows.
        known: each option's type.

    Raises:
        ValueError: an unknown option, or a value of the wrong type.
    """
    options: dict[str, Any] = {}
    left = list(words)
    while left:
        option, equals, value = left.pop(0).partition("=")
        name = option.removeprefix("--")
        if not option.startswith("--") or name not in known:
            raise ValueError(
                f"{option} is no argument of private-topk, of Beam or of Flink's job server: see "
                "`private-topk run --help`"
            )
        form, read = _FORMS.get(known[name], ("text", str))
        try:
            if not equals:
                alone = not left or left[0].startswith("--")
                value = _ALONE[known[name]] if alone else left.pop(0)
            fits = read(value)
        except (KeyError, ValueError):
            raise ValueError(f"{option}, an option of Flink's job server, must be {form}, got {value}") from None
        options[name] = [*options.get(name, []), fits] if known[name] == _TYPES.ARRAY else fits
    if options.get("finish_bundle_before_checkpointing") is False:
        raise ValueError("--finish_bundle_before_checkpointing must stay true: without it Flink drops rows silently")
    return options


class _JobServer(EndsWithUs, FlinkJarJobServer):
    """Beam's job server."""


class FlinkJobRunner(LoopbackRunner, FlinkRunner):
    """Beam's Flink runner, with the options that its job server takes, and a watch over the job.

    Args:
        job_options: options of the job server, by their names.
        rest: the job manager's address, or nothing if it is unknown: then the job is not watched.
        settings: a folder that is removed with this object.

    `answered` is set when all windows of a stream are seen to be published. `job` has the job's name and id, once a
    cluster has them; `named` is what its name begins with.
    """

    def __init__(self, job_options: Mapping[str, Any], rest: str = "", settings: Path | None = None) -> None:
        super().__init__()
        self.job_options = job_options
        self.answered = threading.Event()
        self.rest = rest
        self.job: dict[str, object] = {}
        self.named = "private-topk"
        if settings is not None:
            weakref.finalize(self, shutil.rmtree, settings, ignore_errors=True)
        self._server: _JobServer | None = None

    def name_after(self, named: str, release: str) -> None:
        """Name the job after a release, and tell of jobs of that release that are on the cluster already.

        They are told whether or not a job will be started: a repeat of what is published starts none.

        Args:
            named: what the names of all jobs begin with.
            release: the release's id.
        """
        plain = re.sub(r"[^A-Za-z0-9._]+", "-", release)[:60].strip("-")
        self.named = f"{named}-{plain}-{hashlib.sha256(release.encode()).hexdigest()[:8]}"
        manager = JobManager(self.rest)
        for job in manager.not_over() if self.rest else ():
            if job["name"].rpartition("-")[0] == self.named:
                say_on_stderr(
                    Line(
                        f"Flink: {job['name']} ({job['jid']}), of this release, is on this cluster. If its launcher "
                        f"was killed, nothing else ends it: cancel it with {manager.how_to_cancel(job)}",
                        event="left_over",
                        level="warning",
                        job=job["jid"],
                    )
                )

    def default_job_server(self, options: PipelineOptions) -> _JobServer:
        """The job server that this runner starts: the same one for its options and for running."""
        if self._server is None:
            self._server = _JobServer(options)
        return self._server

    def create_job_service_handle(self, job_service: Any, options: PipelineOptions) -> JobServiceHandle:  # noqa: ANN401
        return _Handle(job_service, options, self.job_options)

    def run_portable_pipeline(self, pipeline: Any, options: PipelineOptions) -> PipelineResult:  # noqa: ANN401
        google = options.view_as(GoogleCloudOptions)  # where Beam keeps a job's name, which is made unique
        google.job_name = f"{self.named}-{secrets.token_hex(4)}"
        say_on_stderr(Line(f"Flink: preparing the job {google.job_name}", event="preparing", job_name=google.job_name))
        result = super().run_portable_pipeline(pipeline, options)
        if self.rest:
            streaming = options.view_as(StandardOptions).streaming
            retries = int(self.job_options.get("number_of_execution_retries", -1))  # negative: as by default
            most = retries if retries >= 0 else IN_A_ROW
            embedded = options.view_as(FlinkRunnerOptions).flink_master in _EMBEDDED
            facts = None if embedded else self.job
            answered = self.answered if streaming else None
            watch = Watch(JobManager(self.rest), google.job_name, answered, most=most, facts=facts)
            watch.start()
            steps = {each.unique_name for each in pipeline.components.transforms.values()}
            return _WatchedJob(result, watch, result.cancel if embedded else partial(self._cancel, watch), steps)
        return result

    def _cancel(self, watch: Watch) -> None:
        """Cancel a job in its cluster. Beam's own only ends the job server's wait for it."""
        if self._server is not None:
            self._server.stop()  # so that it submits nothing any more
        watch.cancel()


class _WatchedJob(PipelineResult):
    """A job that a worker's refusal ends, or too many failures in a row, where Flink would start it again and again."""

    def __init__(
        self, job: PipelineResult, watch: Watch, cancel: Callable[[], None], steps: Collection[str] = ()
    ) -> None:
        super().__init__(job.state)
        self.metrics, self.cancel = job.metrics, cancel  # type: ignore[method-assign]
        self._job: Any = job
        self._watch, self._steps = watch, steps

    def wait_until_finish(self, duration: int | None = None) -> Any:  # noqa: ANN401 - a state, as text
        try:
            return self._job.wait_until_finish(duration)
        except RuntimeError as error:
            # What a worker refuses is not always the last message: on a busy machine others fail with it.
            said = [message.message_response.message_text for message in self._job._messages]
            told = self._watch.refusal or told_in("\n".join([str(error), *said])) or self._watch.cancelled()
            told = told or ended(self._job._state, said, self._steps)
        finally:
            self._state = self._job._state
            self._watch.over = PipelineState.is_terminal(self._state)
        raise RuntimeError(str(told)) from told  # by itself a refusal would say that nothing was done


class _Handle(JobServiceHandle):
    """Adds the options of the job server to those that Beam's Python knows."""

    def __init__(self, job_service: Any, options: PipelineOptions, more: Mapping[str, Any]) -> None:  # noqa: ANN401
        super().__init__(job_service, options)
        self._more = more

    def get_pipeline_options(self) -> Any:  # noqa: ANN401 - a message of protobuf
        return self.encode_pipeline_options({**self.options.get_all_options(), **self._more})
