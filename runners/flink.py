"""Flink: a mini cluster inside Beam's job server, or a standalone cluster. docs/flink.md has all steps."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

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
from private_topk.runners.options import BeamOptions
from private_topk.runners.portable import EndsWithUs, LoopbackRunner, check_environment, reachable
from private_topk.transforms.errors import InvalidArgument, Told, Unreachable, reason_in, told_in, verbatim

FLINK_VERSION = "1.19"
"""The mini cluster's default version: the one that the tests run on."""

IN_A_ROW = 12
"""How often a job may fail in a row. The watch ends one that goes on, whoever has set how its cluster restarts it."""
_QUIET = 600_000
"""Milliseconds without a failure after which a row of them is over."""

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
            told = told or _ended(self._job._state, said, self._steps)
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


class JobManager:
    """A Flink job manager by its REST interface.

    Args:
        address: HOST:PORT, with or without a scheme before it.
    """

    def __init__(self, address: str) -> None:
        self.address = (address if "://" in address else f"http://{address}").rstrip("/")

    def get(self, path: str) -> Any:  # noqa: ANN401 - whatever the JSON holds
        """The answer to a request such as `jobs/overview`, or None if there is none."""
        return self._ask(Request(f"{self.address}/{path}"))

    def post(self, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the JSON holds
        """The answer to a command, or None if there is none."""
        words = json.dumps(body).encode()
        return self._ask(Request(f"{self.address}/{path}", words, {"Content-Type": "application/json"}, method="POST"))

    def cancel(self, job: str) -> None:
        self._ask(Request(self._cancelling(job), method="PATCH"))

    def how_to_cancel(self, job: Mapping[str, Any]) -> str:
        return f"`curl -X PATCH '{self._cancelling(job['jid'])}'`"

    def _cancelling(self, job: str) -> str:
        return f"{self.address}/jobs/{job}?mode=cancel"

    def _ask(self, request: Request) -> Any:  # noqa: ANN401
        try:
            with urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except (URLError, HTTPException, OSError, ValueError):  # also of a job manager that is lost while it answers
            return None

    def overview(self) -> dict[str, Any]:
        """Version, task managers and slots; empty if no job manager answers."""
        answer = self.get("overview")
        return answer if isinstance(answer, dict) and "flink-version" in answer else {}

    def setting(self, *names: str) -> str:
        """The first of these settings that the cluster has, or nothing."""
        settings = {each["key"]: each["value"] for each in self.get("jobmanager/config") or ()}
        return next((settings[name] for name in names if settings.get(name)), "")

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs, each with `jid`, `name`, `state` and the number of tasks by their state."""
        return (self.get("jobs/overview") or {}).get("jobs", [])

    def not_over(self) -> list[dict[str, Any]]:
        return [job for job in self.jobs() if job["state"] not in _OVER]

    def has_come_to(self, job: str, moment: int) -> bool:
        """Whether the watermarks of all subtasks after a source have reached a moment, in milliseconds.

        Tasks are asked from the last one on, up to the first that has not reached it: this is called every second.
        """
        tasks = (self.get(f"jobs/{job}") or {}).get("vertices", [])
        tasks = [each for each in tasks if not each["name"].startswith("Source:")]  # a source takes no watermark in
        for task in reversed(tasks):
            clocks = self.get(f"jobs/{job}/vertices/{task['id']}/watermarks") or []
            if len(clocks) != task["parallelism"] or min(int(clock["value"]) for clock in clocks) < moment:
                return False
        return bool(tasks)

    def last_checkpoint(self, job: str) -> int:
        """The number of a job's last checkpoint that is whole, 0 if there is none."""
        latest = (self.get(f"jobs/{job}/checkpoints") or {}).get("latest") or {}
        return int((latest.get("completed") or {}).get("id", 0))

    def failures(self, job: str) -> list[tuple[int, str, Told | None]]:
        """The last failures that a job recovered from, the oldest first: milliseconds since 1970, cause and refusal.

        Flink remembers sixteen of them. Their texts may hold data, so only causes and refusals are taken from them.
        """
        history = (self.get(f"jobs/{job}/exceptions") or {}).get("exceptionHistory", {}).get("entries", [])
        return [
            (
                int(each.get("timestamp", 0)),
                _cause(str(each.get("exceptionName", "")), trace := str(each.get("stacktrace", ""))),
                told_in(trace),
            )
            for each in reversed(history)
        ]


_IN_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:\t?  .*\n)+\t?(\w[\w.]*)")
"""What a worker raised, in the error of Java that has passed it on."""

_LOST = {
    "a task manager was lost": re.compile(
        r"task manager was lost|RecipientUnreachable|TaskManager with id \S+ (timed out|is no longer reachable)"
    ),
    "a job manager started anew does not know the job": re.compile(r"RestClientException(?s:.*)(?i:not ?found)"),
    "a Python worker was lost": re.compile(r"io\.grpc\.StatusRuntimeException"),  # it is asked over gRPC, it alone
}
"""What is gone, and how Flink and Beam put it, whose kind of error does not tell it."""


def _cause(name: str, text: str) -> str:
    """The kind of an error, and the reason in it: the rest of its text may hold data."""
    kind = [name, *_IN_PYTHON.findall(text)][-1].rpartition(".")[2]
    lost = (what for what, said in _LOST.items() if said.search(f"{name} {text}"))
    where = f", nobody listens at {refused[1]}" if (refused := _REFUSED.search(text)) else ""
    return ": ".join(filter(None, [kind, reason_in(text) or f"{next(lost, '')}{where}".removeprefix(", ")]))


_REFUSED = re.compile(r"Connection refused: ([\w.-]*/[\w.:\[\]]+:\d+)")
"""Where nobody listens, such as a pool of workers that is gone."""

_LOOK = "look at the logs of the task managers and the Python workers (of a mini cluster, at this process's stderr)"


def _in_vain(times: int, cause: str) -> InvalidArgument:
    rule = f"the job on Flink failed {times} times in a row and came no further, the last time with {verbatim(cause)}"
    return InvalidArgument("", f"{rule}, so it was cancelled", _LOOK)


def _ended(state: str, messages: Sequence[str], steps: Collection[str]) -> InvalidArgument:
    """How a job has ended early, and the cause and the step of what its job server said last: one of the pipeline's
    steps, since the rest of the text may hold data.
    """
    kind = re.match(r"[\w.$]+", last := next(filter(None, reversed(messages)), ""))
    step = next((each for each in reversed(re.findall(r"\[while running '(.+?)'\]", last)) if each in steps), "")
    cause = f" ({_cause(kind[0], last)}{step and f' while running {verbatim(repr(step))}'})" if kind else ""
    return InvalidArgument("", f"the job on Flink ended as {state}{cause}", _LOOK)


_END_OF_TIME = 9_223_371_950_454_775
"""The last moment of Beam's global window, in milliseconds."""

_SAVEPOINTS = (
    "state.savepoints.dir",
    "execution.checkpointing.savepoint-dir",
    "state.checkpoints.dir",
    "execution.checkpointing.dir",
)

_OVER = ("FINISHED", "FAILED", "CANCELED")

_ENDING, _GONE, _SUBMITTING = 30.0, 5.0, 3.0
"""Seconds for a job to end, likewise where it is told to be gone already, and for one just submitted to be listed."""


class Watch(threading.Thread):
    """Watches a job every second until it ends: reports when it restarts or waits for slots, and stops a stream that is
    over.

    Flink runs a streaming job for ever once its sources have ended. Here it is stopped when nothing more can come:
    every declared window is seen to be published, or the watermark of every task is at the end of time. Neither
    condition alone suffices: not every place of rankings can be read from here, and watermarks are metrics, which stand
    still for `web.timeout`, ten minutes by default, if a task manager is lost while it is asked.

    Args:
        name: the job's name, unique on this cluster.
        answered: of a stream, set when all windows of the job are seen to be published.
        say: takes one line of public facts for the operator.
        most: how many failures in a row end the job: without a checkpoint, a finished task or ten minutes between them.
        facts: takes the name and the id of the job, which then are said too.

    `over` is set where the job is known to have ended: a mini cluster, which goes with its job, does not tell it.
    `patience` is how many seconds pass until missing slots, or a missing job manager, are reported.
    """

    patience = 20.0

    def __init__(
        self,
        manager: JobManager,
        name: str,
        answered: threading.Event | None,
        say: Callable[[str], None] = say_on_stderr,
        most: int = IN_A_ROW,
        facts: dict[str, object] | None = None,
    ) -> None:
        super().__init__(name="flink-watch", daemon=True)
        self._manager, self._name, self._answered = manager, name, answered
        self._say, self._most = say, most
        self._looks = self._restarts = self._last_failure = self._in_a_row = 0
        self._reached = (0, 0)
        self._since: dict[str, float] = {}
        self._stopping, self._facts = "", facts
        self._starved = self._gone = False
        self._said: set[str] = set()
        self.refusal: Told | None = None
        self.over = False

    def run(self) -> None:
        state = ""
        while state not in _OVER:
            time.sleep(1)
            try:
                job = self._job()
                if job is None and self.over:
                    return
                self._gone = self._lasts("gone", job is None and state != "")
                if self._gone:
                    self._say_once(
                        Line(
                            f"Flink: the job manager does not answer, or does not know {self._name} any more, as one "
                            "does not that was started anew without high availability: then end this launcher, unless "
                            "it ends by itself, and type the same command",
                            event="gone",
                            level="warning",
                        )
                    )
                if job is not None:
                    state = job["state"]
                    self._tell_which(job["jid"])
                    self.look(job["jid"], state, job["tasks"])
            except Exception as error:  # an unexpected answer must not end the watch, since then the job would not end
                self._say_once(f"Flink: the job manager said what is not understood ({type(error).__name__})")

    def _tell_which(self, job: str) -> None:
        if self._facts is not None and self._facts.get("job_name") != self._name:
            self._facts |= {"job": job, "job_name": self._name}
            self._say(Line(f"Flink: the job is {self._name} ({job})", event="submitted", **self._facts))

    def _job(self) -> dict[str, Any] | None:
        return next((job for job in self._manager.jobs() if job["name"] == self._name), None)

    def cancelled(self) -> InvalidArgument | None:
        """The error of a job that somebody else has cancelled, on the cluster's page perhaps."""
        if (self._job() or {}).get("state") not in ("CANCELLING", "CANCELED"):
            return None
        return InvalidArgument("", "the job on Flink was cancelled, not by its launcher")

    def cancel(self) -> None:
        """Cancel the job, and wait until the cluster says that it is over. If it does not, the job is named."""
        began, job = time.monotonic(), self._job()
        patience = _GONE if self._gone else _ENDING
        while time.monotonic() - began < patience:
            if job is not None and job["state"] in _OVER:
                return
            if job is not None:
                self._manager.cancel(job["jid"])
            elif time.monotonic() - began > _SUBMITTING and self._manager.overview():
                return
            time.sleep(0.5)
            job = self._job()
        where = f"cancel it there{'' if job else ', if a job manager comes back with it'}"
        told = f"Flink: {self._manager.address} does not say that the job {self._name} is over: {where}"
        self._say(Line(told, level="warning"))

    def look(self, job: str, state: str, tasks: dict[str, int]) -> None:
        if self._looks % 5 == 0 and state != "FAILED":  # rarely: for an answer the job manager serialises the whole job
            self._look_at_failures(job, tasks)
        self._looks += 1
        self._look_at_slots(state, tasks)
        if self._stopping:
            self._look_at_the_end(job)
        elif self._answered is not None and state == "RUNNING" and tasks["running"] == tasks["total"]:
            if self._answered.is_set() or self._manager.has_come_to(job, _END_OF_TIME):
                self._end(job)

    def _look_at_failures(self, job: str, tasks: dict[str, int]) -> None:
        failures = self._manager.failures(job)
        if failures and failures[-1][0] > self._last_failure:
            reached = (self._manager.last_checkpoint(job), tasks.get("finished", 0))
            if reached > self._reached:
                self._in_a_row, self._reached = 0, reached
        for when, cause, refusal in failures:
            if refusal is not None:
                self.refusal = refusal
                self._manager.cancel(job)
            elif when > self._last_failure:
                self._in_a_row = 1 if when - self._last_failure > _QUIET else self._in_a_row + 1
                self._last_failure = when
                self._restarts += 1
                self._say(
                    Line(
                        f"Flink: the job restarted, {self._restarts} in all ({cause})",
                        event="restarted",
                        level="warning",
                        restarts=self._restarts,
                        cause=cause,
                    )
                )
                if self._in_a_row >= self._most and self.refusal is None:
                    self.refusal = _in_vain(self._in_a_row, cause)
                    self._manager.cancel(job)

    def _look_at_slots(self, state: str, tasks: dict[str, int]) -> None:
        """Report missing slots: a job waits for them if none of its tasks runs; if some do, others run after them."""
        busy = tasks["running"] + tasks["initializing"] + tasks["deploying"] + tasks["canceling"]
        cluster = self._manager.overview() if not busy and state in ("CREATED", "RUNNING") else {}
        # Some slots may be free and yet too few: then the job stays created (by the adaptive scheduler) or its tasks
        # scheduled, which otherwise last a moment only.
        waits = state == "CREATED" or tasks.get("scheduled") or not cluster.get("slots-available")
        before, self._starved = self._starved, self._lasts("starved", bool(cluster and waits))
        if self._starved and not before:
            others = [self._shown(job) for job in self._manager.not_over() if job["name"] != self._name]
            free, total = cluster["slots-available"], cluster["slots-total"]
            self._say(
                Line(
                    f"Flink: the job waits for slots: {free} of {total} are free, of {cluster['taskmanagers']} task "
                    f"managers{'; other jobs are ' * bool(others)}{', and '.join(others)}. Start task managers, or end "
                    "a job by its launcher, or this one and give a smaller --parallelism",
                    event="slots",
                    level="warning",
                    free=free,
                    of=total,
                )
            )

    def _shown(self, job: Mapping[str, Any]) -> str:
        """Another job, and how to cancel it if it is of the same release: its launcher may have been killed."""
        ours = job["name"].rpartition("-")[0] == self._name.rpartition("-")[0]
        how = f", of this release: if its launcher was killed, cancel it with {self._manager.how_to_cancel(job)}"
        return f"{job['name']} ({job['jid']}){how * ours}"

    def _lasts(self, what: str, holds: bool) -> bool:
        """Whether a condition has held, at every look, for longer than the watch's patience."""
        if not holds:
            self._since.pop(what, None)
            return False
        return time.monotonic() - self._since.setdefault(what, time.monotonic()) > self.patience

    def _end(self, job: str) -> None:
        place = self._manager.setting(*_SAVEPOINTS)
        if place:
            # With a last checkpoint, before which bundles are finished. Without draining: there is nothing left to
            # flush, and what a source would do next must not keep the job from ending.
            order = self._manager.post(f"jobs/{job}/stop", {"drain": False, "targetDirectory": place})
            self._stopping = (order or {}).get("request-id", "")
        else:
            self._say_once(
                "Flink: the horizon is over, and the cluster has no state.savepoints.dir, which ending a "
                "job needs: cancel it"
            )

    def _look_at_the_end(self, job: str) -> None:
        """Remove the last checkpoint, which is not needed.

        If it failed, or a job manager that has replaced another does not know it, the job is stopped again.
        """
        answer = self._manager.get(f"jobs/{job}/savepoints/{self._stopping}") or {}
        status = answer.get("status", {}).get("id")
        if self._lasts("forgotten", status is None) or status == "COMPLETED":
            self._stopping = ""
            if location := answer.get("operation", {}).get("location"):
                self._manager.post("savepoint-disposal", {"savepoint-path": location})

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)
