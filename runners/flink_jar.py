"""The jar of Beam's Flink job server: given, fetched before, or fetched now with Maven's client."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from apache_beam.version import __version__ as beam_version

from private_topk.runners import cache_folder

__all__ = ["cached_jar", "job_server_jar"]

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def job_server_jar(flink_version: str, given: str | None = None) -> str:
    """Where the jar for a Flink version such as 1.20 and the installed Beam stands.

    Raises ValueError if it is neither there nor to be had, with what to do.
    """
    if given:
        if "://" not in given and not Path(given).is_file():
            raise ValueError(f"--flink_job_server_jar {given} does not exist: leave it out to have it fetched")
        return given
    jar = cached_jar(flink_version)
    if not jar.exists():
        _fetch(flink_version, jar.parent)
    return str(jar)


def cached_jar(flink_version: str) -> Path:
    return cache_folder() / "jars" / f"{_artifact(flink_version)}-{beam_version}.jar"


def _fetch(flink_version: str, folder: Path) -> None:
    name = f"org.apache.beam:{_artifact(flink_version)}:{beam_version}"
    if shutil.which("mvn") is None:
        raise ValueError(f"the job server {name} is not here and Maven, which fetches it, is not installed: install "
                         "Maven, or give --flink_job_server_jar PATH")  # fmt: skip
    print(f"fetching {name} (once)", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mvn", "--quiet", "--batch-mode", _COPY, f"-Dartifact={name}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode or not cached_jar(flink_version).exists():
        raise ValueError(f"Maven could not fetch {name}: give --flink_job_server_jar PATH, or put the jar at "
                         f"{cached_jar(flink_version)}")  # fmt: skip


def _artifact(flink_version: str) -> str:
    return f"beam-runners-flink-{flink_version}-job-server"
