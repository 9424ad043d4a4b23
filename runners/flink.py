"""Flink: a mini cluster inside the job server, or a standalone cluster. docs/flink.md has the whole way."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.portability.job_server import ExternalJobServer

from private_topk.runners import Launch, unknown_words
from private_topk.runners.console import say
from private_topk.runners.flink_jar import FLINK_VERSION, HAS_JOB_SERVER, job_server
from private_topk.runners.flink_mend import STAYS
from private_topk.runners.flink_options import DEFAULTS, KEEPS_WORKERS, ON_A_CLUSTER, job_options, take_options
from private_topk.runners.flink_rest import Rest
from private_topk.runners.flink_runner import FlinkJobRunner, write_settings
from private_topk.runners.network import reachable
from private_topk.runners.portable import check_environment
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["HANDS_ON", "PATIENCE", "RESTARTS", "prepare"]

_LEAST_JAVA = 11
_EMBEDDED = ("[local]", "[auto]")

RESTARTS = {
    "restart-strategy.type": "exponential-delay",
    "restart-strategy.exponential-delay.initial-backoff": "100 ms",
    "restart-strategy.exponential-delay.backoff-multiplier": "2.0",
    "restart-strategy.exponential-delay.max-backoff": "30 s",
    "restart-strategy.exponential-delay.attempts-before-reset-backoff": "12",
    "restart-strategy.exponential-delay.reset-backoff-threshold": "10 min",
}
"""A job may fail twelve times in a row, over two minutes, and again after ten minutes of peace. A fixed number of
restarts would run out in any stream that is long enough. The first pauses are short, since what fails in a pause is
restarted on its own: where a batch has fewer slots than tasks, and a task manager is known to be lost only after a task
has met it, tasks then wait in all slots for others that are to be repeated and get none."""

PATIENCE = {"rest.retry.max-attempts": 200}
"""How often the job server asks a job manager that does not answer, every three seconds, before it takes the job for
failed. Flink's own 20 are a minute, and one that takes the place of another may need longer on a busy machine."""

HANDS_ON = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a Java that hands a job over, or on what Python works out: its best compiler would cost more than it saves, a
third of all CPU of 10,000,000 rows on a new cluster, half of that of 1,000,000 on a mini cluster."""

ASKS_ITS_SERVER = True
"""Which options Flink's job server knows, it says when it is up."""


def prepare(arguments: Sequence[str]) -> Launch:
    """Without --flink_master a mini cluster in the job server, workers in this process. With it, a standalone cluster
    whose version picks the job server and whose Python workers must be named by --environment_type.
    """
    more = unknown_words(arguments)
    options = PipelineOptions(list(arguments))
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
        rest, settings = flink.flink_master, {**RESTARTS, **PATIENCE}
        _keep_workers(options)
        here = _is_here(flink.flink_master)
        check_environment(options, default=None, here=here)
        if portable.environment_type == "LOOPBACK" and not here:
            raise ValueError("--environment_type LOOPBACK runs the workers in this process, which the task managers "
                             "of another machine cannot reach: use EXTERNAL, PROCESS or DOCKER")  # fmt: skip
    return _with_a_job_server(options, more, rest, settings)


def _with_a_job_server(options: PipelineOptions, more: list[str], rest: str, settings: dict[str, Any]) -> Launch:
    """Start the job server only if it must be asked what the words mean: it takes seconds."""
    server = options.view_as(JobServerOptions)
    _check_java(server.job_server_java_launcher)
    flink = options.view_as(FlinkRunnerOptions)
    found = job_server(flink.flink_version, flink.flink_job_server_jar)
    flink.flink_job_server_jar = found.jar
    embedded = flink.flink_master in _EMBEDDED
    if not server.job_server_jvm_properties:
        server.job_server_jvm_properties = list(HANDS_ON)
    if not embedded and Rest(rest).setting(HAS_JOB_SERVER) == Path(found.jar).name:
        server.job_server_jvm_properties = [*server.job_server_jvm_properties, f"-D{STAYS}=true"]
    folder = write_settings(settings, keeps_state=embedded)
    chosen = {**DEFAULTS, **({} if embedded else ON_A_CLUSTER), "flink_conf_dir": str(folder)}
    if flink.flink_submit_uber_jar:  # then the cluster itself translates the job, and sees no folder of this machine
        del chosen["flink_conf_dir"]
    runner = FlinkJobRunner(chosen, rest, folder)
    if more:
        runner.job_options = {**chosen, **take_options(more, job_options(runner.job_server(options).start()))}
    say(f"Flink: {found}")
    return Launch("flink", runner, options, answered=runner.answered)


def _on_a_running_job_server(options: PipelineOptions, portable: PortableOptions, more: list[str]) -> Launch:
    if not reachable(portable.job_endpoint):
        raise ValueError(f"--job_endpoint {portable.job_endpoint}: nothing answers there: start Flink's job server")
    check_environment(options, default=None, here=_is_here(f"//{portable.job_endpoint}"))
    _keep_workers(options)
    chosen = {**DEFAULTS, **ON_A_CLUSTER}
    if more:
        chosen |= take_options(more, job_options(ExternalJobServer(portable.job_endpoint, 60).start()))
    master = options.view_as(FlinkRunnerOptions).flink_master
    rest = "" if master in _EMBEDDED else FlinkRunner.add_http_scheme(master)
    runner = FlinkJobRunner(chosen, rest)
    return Launch("flink", runner, options, answered=runner.answered)


def _mini_cluster(options: PipelineOptions) -> tuple[str, dict[str, Any]]:
    """The address and the settings of a mini cluster."""
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
    """Take version and parallelism from the cluster itself."""
    master = FlinkRunner.add_http_scheme(flink.flink_master).rstrip("/")
    overview = Rest(master).overview()
    if not overview:
        raise ValueError(f"--flink_master {master}: no Flink job manager answers there: give HOST:PORT of its REST "
                         "interface, or start one with `make flink-up`")  # fmt: skip
    version = ".".join(str(overview["flink-version"]).split(".")[:2])
    if version not in flink.PUBLISHED_FLINK_VERSIONS:
        raise ValueError(f"--flink_master {flink.flink_master} runs Flink {version}, and the installed Beam runs on "
                         f"{', '.join(flink.PUBLISHED_FLINK_VERSIONS)}: change the one or the other")  # fmt: skip
    if chosen and flink.flink_version != version:
        raise ValueError(f"--flink_version {flink.flink_version} is not what the cluster runs, which is {version}: "
                         "leave it out")  # fmt: skip
    if not overview.get("slots-total"):
        raise ValueError(f"--flink_master {flink.flink_master} has no task manager: start one, see docs/flink.md")
    flink.flink_master, flink.flink_version = master, version
    if flink.parallelism < 1:
        flink.parallelism = overview["slots-total"]


def _keep_workers(options: PipelineOptions) -> None:
    portable = options.view_as(PortableOptions)
    if not options.view_as(StandardOptions).streaming and not portable.environment_cache_millis:
        portable.environment_cache_millis = KEEPS_WORKERS


def _check_java(launcher: str) -> None:
    found = None
    try:
        said = subprocess.run([launcher, "-version"], capture_output=True, text=True, timeout=60)
        found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    except OSError:
        pass
    if found is None or int(found[1]) < _LEAST_JAVA:
        has = f"{launcher} is Java {found[1]}" if found else f"there is no {launcher}"
        raise Refusal("runner", f"flink needs Java {_LEAST_JAVA} or later and {verbatim(has)}: install one (on Debian "
                      "`apt install default-jre-headless`), or give --job_server_java_launcher PATH")  # fmt: skip


def _is_here(master: str) -> bool:
    return re.search(r"//(localhost|127\.|\[::1\])", master) is not None
