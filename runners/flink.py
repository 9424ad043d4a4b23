"""Flink: a mini cluster inside the job server, or a standalone cluster. docs/flink.md has the whole way."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
)
from apache_beam.runners.portability.flink_runner import FlinkRunner

from private_topk.runners import Launch, refuse_unknown
from private_topk.runners.flink_jar import job_server_jar
from private_topk.runners.network import reachable
from private_topk.runners.portable import check_environment

__all__ = ["FlinkJobOptions", "prepare"]

_LEAST_JAVA = 11
_EMBEDDED = ("[local]", "[auto]")


class FlinkJobOptions(PipelineOptions):
    """Options of Flink's job server, which Beam's Python knows only once that server is up."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:  # noqa: ANN401 - Beam's own parser
        parser.add_argument("--checkpointing_interval", type=int, help="milliseconds between checkpoints; -1 for none")
        parser.add_argument("--checkpointing_mode", choices=("EXACTLY_ONCE", "AT_LEAST_ONCE"))
        parser.add_argument("--number_of_execution_retries", type=int, help="restarts before a job fails")
        parser.add_argument("--execution_retry_delay", type=int, help="milliseconds before a restart")
        parser.add_argument("--state_backend", help="where state is kept, such as rocksdb")
        parser.add_argument("--state_backend_storage_path", help="where checkpoints are written")
        parser.add_argument("--savepoint_path", help="savepoint to start from")
        parser.add_argument("--execution_mode_for_batch", choices=("PIPELINED", "BATCH_FORCED"))


def prepare(arguments: Sequence[str]) -> Launch:
    """Without --flink_master a mini cluster in the job server, workers in this process. With it, a standalone cluster
    whose version picks the job server and whose Python workers must be named by --environment_type.

    The job is handed over by the job server, so the release key of a fresh release passes through the cluster.
    """
    refuse_unknown(arguments)
    options = PipelineOptions(list(arguments))
    flink = options.view_as(FlinkRunnerOptions)
    portable = options.view_as(PortableOptions)
    if portable.job_endpoint:
        return _on_a_running_job_server(options, portable)
    if flink.flink_master in _EMBEDDED:
        flink.flink_master = "[local]"
        check_environment(options, default="LOOPBACK")
    else:
        _match_cluster(flink, chosen=any(word.startswith("--flink_version") for word in arguments))
        here = _is_here(flink.flink_master)
        check_environment(options, default=None, here=here)
        if portable.environment_type == "LOOPBACK" and not here:
            raise ValueError("--environment_type LOOPBACK runs the workers in this process, which the task managers "
                             "of another machine cannot reach: use EXTERNAL, PROCESS or DOCKER")  # fmt: skip
    _check_java(options.view_as(JobServerOptions).job_server_java_launcher)
    flink.flink_job_server_jar = job_server_jar(flink.flink_version, flink.flink_job_server_jar)
    _keep_checkpoints(options.view_as(FlinkJobOptions))
    return Launch("flink", FlinkRunner(), options)


def _on_a_running_job_server(options: PipelineOptions, portable: PortableOptions) -> Launch:
    if not reachable(portable.job_endpoint):
        raise ValueError(f"--job_endpoint {portable.job_endpoint}: nothing answers there: start Flink's job server")
    check_environment(options, default=None, here=_is_here(f"//{portable.job_endpoint}"))
    _keep_checkpoints(options.view_as(FlinkJobOptions))
    return Launch("flink", FlinkRunner(), options)


def _match_cluster(flink: FlinkRunnerOptions, chosen: bool) -> None:
    """Take version and parallelism from the cluster itself."""
    master = FlinkRunner.add_http_scheme(flink.flink_master).rstrip("/")
    overview = _overview(master)
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


def _overview(master: str) -> dict[str, Any]:
    try:
        with urlopen(f"{master}/overview", timeout=10) as answer:
            found = json.load(answer)
    except (URLError, OSError, ValueError):
        found = None
    if not isinstance(found, dict) or "flink-version" not in found:
        raise ValueError(f"--flink_master {master}: no Flink job manager answers there: give HOST:PORT of its REST "
                         "interface, or start one with `make flink-up`")  # fmt: skip
    return found


def _check_java(launcher: str) -> None:
    found = None
    try:
        said = subprocess.run([launcher, "-version"], capture_output=True, text=True, timeout=60)
        found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    except OSError:
        pass
    if found is None or int(found[1]) < _LEAST_JAVA:
        has = f"{launcher} is Java {found[1]}" if found else f"there is no {launcher}"
        raise ValueError(f"--runner flink needs Java {_LEAST_JAVA} or later and {has}: install one (on Debian "
                         "`apt install default-jre-headless`), or give --job_server_java_launcher PATH")  # fmt: skip


def _keep_checkpoints(job: FlinkJobOptions) -> None:
    """Checkpoints every ten seconds and a few restarts, unless said otherwise: a lost task manager costs time only."""
    if job.checkpointing_interval is None:
        job.checkpointing_interval = 10_000
    if job.number_of_execution_retries is None:
        job.number_of_execution_retries, job.execution_retry_delay = 5, 1_000


def _is_here(master: str) -> bool:
    return re.search(r"//(localhost|127\.|\[::1\])", master) is not None
