"""The jar of Beam's job server for Flink: given, in the cache, or made with Maven, fetched or packaged from its parts.

A released job server of the installed Beam is preferred. Where Maven's repository has none, `flink_job_server/pom.xml`
packages one of an older Beam from its parts: the job API between Python and Java is stable over versions. Either is
mended before it is kept: `flink_mend`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from apache_beam.version import __version__ as beam_version

from private_topk.runners.cache import cache_folder, made_once
from private_topk.runners.console import say
from private_topk.runners.flink_mend import mend

__all__ = ["FLINK_VERSION", "HAS_JOB_SERVER", "JobServer", "job_server"]

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_MENDED = "mended-4"  # a new word for every new form: jars of the old one may be in caches
HAS_JOB_SERVER = "private-topk.job-server"
"""The setting in which a cluster says which job server, by the name of the jar, is in the class path of all its
processes: then jobs do not send it. Nothing else tells: of task managers the class path cannot be asked."""

_PROJECT = Path(__file__).with_name("flink_job_server") / "pom.xml"


class JobServer(NamedTuple):
    """A job server by its jar, with the versions of Beam and Flink in it."""

    jar: str
    beam: str
    flink: str

    def __str__(self) -> str:
        return f"job server of Beam {self.beam} for Flink {self.flink}"


@cache
def _pair() -> tuple[str, str]:
    """The versions of Beam and Flink whose parts the project packages."""
    text = _PROJECT.read_text("utf-8")
    beam, flink = (re.search(f"<{name}.version>(.+)</", text) for name in ("beam", "flink"))
    assert beam and flink
    return beam[1], flink[1]


FLINK_VERSION = _pair()[1]
"""The Flink that is used where nothing says which, the one that everything is tested on."""


def job_server(flink_version: str, given: str | None = None) -> JobServer:
    """The job server for a Flink version such as 1.19, made ready.

    Fetching takes half a minute, packaging a few minutes, once. Two processes may ask at the same time.

    Raises ValueError if it is neither there nor to be had, with what to do.
    """
    if given:
        if "://" not in given and not Path(given).is_file():
            raise ValueError(f"--flink_job_server_jar {given} does not exist: leave it out to have it fetched")
        return JobServer(given, "unknown version", flink_version)
    released = _jar(beam_version, flink_version)
    packaged = _jar(_pair()[0], flink_version)
    for jar, beam in ((released, beam_version), (packaged, _pair()[0])):
        if jar.exists():
            return JobServer(str(jar), beam, flink_version)
    if shutil.which("mvn") is None:
        raise ValueError(f"the job server for Flink {flink_version} is not here and Maven, which fetches it, is not "
                         "installed: install Maven, or give --flink_job_server_jar PATH")  # fmt: skip
    try:
        return JobServer(str(made_once(released, partial(_fetch, flink_version))), beam_version, flink_version)
    except ValueError:
        if flink_version != FLINK_VERSION:
            raise
    return JobServer(str(made_once(packaged, _package)), _pair()[0], flink_version)


def _jar(beam: str, flink: str) -> Path:
    return cache_folder() / "jars" / f"{_artifact(flink)}-{beam}-{_MENDED}.jar"


def _artifact(flink_version: str) -> str:
    return f"beam-runners-flink-{flink_version}-job-server"


def _fetch(flink_version: str, folder: Path) -> Path:
    name = f"org.apache.beam:{_artifact(flink_version)}:{beam_version}"
    say(f"fetching {name} (once)")
    jar = folder / f"{_artifact(flink_version)}-{beam_version}.jar"
    if _maven(folder, _COPY, f"-Dartifact={name}", f"-DoutputDirectory={folder}") or not jar.exists():
        raise ValueError(f"Maven could not fetch {name}, and parts to package one of are known for Flink "
                         f"{FLINK_VERSION} only: use that, or give --flink_job_server_jar PATH")  # fmt: skip
    return _mended(jar)


def _package(folder: Path) -> Path:
    beam, flink = _pair()
    say(f"Maven has no such job server: packaging that of Beam {beam} for Flink {flink} from its parts (160 MB, once)")
    jar = folder / "job-server.jar"
    message = _maven(folder, "package", f"--file={_PROJECT}", f"-Dmade.in={folder}")
    if message or not jar.exists():
        raise ValueError(f"Maven could not package the job server of Beam {beam} for Flink {flink}: "
                         f"{message or 'no jar'}: try again, or give --flink_job_server_jar PATH")  # fmt: skip
    return _mended(jar)


def _mended(jar: Path) -> Path:
    if not mend(jar):
        say("this job server has another form than the one that is known to let checkpoints of streams grow without "
            "end, to run out of memory where workers are slow or send much, and to wait for good for a worker that is "
            "killed: watch for all three (docs/flink.md)")  # fmt: skip
    return jar


def _maven(folder: Path, *words: str) -> str:
    """Run Maven in a folder; its first complaint, or nothing."""
    done = subprocess.run(["mvn", "--quiet", "--batch-mode", *words], capture_output=True, text=True, cwd=folder)
    if done.returncode == 0:
        return ""
    found = re.search(r"\[ERROR\] *(.+)", done.stdout + done.stderr)
    return found[1][:300] if found else f"exit status {done.returncode}"
