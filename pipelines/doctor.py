"""Checks of whether this machine has what a run needs. They change nothing, and report nothing private."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distribution
from urllib.request import Request, urlopen
from zoneinfo import ZoneInfo

from private_topk.transforms.errors import InvalidArgument

_OURS = "private-topk"
_MIN_SPACE, _USUAL_SPACE = 1 << 28, 1 << 31
_MIN_JAVA = 11
_PROGRAMS = {
    "flink": ("java",),
    "prism": ("go",),
    "portable": ("docker",),
    "direct": (),
    "dataflow": (),
}
"""The programs that each runner may start: Java for Flink's job server, Go to build Prism, Docker for workers."""


@dataclass(frozen=True)
class Diagnosis:
    """The result of one check.

    Args:
        name: what was checked.
        state: `well`; `missing`, where only some runs need it; or `wrong`, where a run would fail.
        says: the result, and the remedy.
    """

    name: str
    state: str
    says: str


def examine(runner: str = "direct", ledger: str | None = None, key: str | None = None) -> Iterator[Diagnosis]:
    """Make all checks, one after the other.

    Args:
        runner: what it needs must be there; what only others need may be missing.
        ledger: a database's URL, which must be there, and take charges.
        key: a reference to a release key, which must be readable, and best by its owner alone.

    Cost: half a second, most of it for asking Java which version it is.
    """
    yield _python()
    for program in ("java", "go", "docker"):
        yield _program(program, runner)
    if runner == "flink":
        yield _job_server()
    yield _space()
    yield from _clock()
    if key is not None:
        yield _key(key)
    if ledger is not None:
        yield _ledger(ledger)


def _python() -> Diagnosis:
    from packaging.specifiers import SpecifierSet

    installed = platform.python_version()
    wanted = str(distribution(_OURS).metadata["Requires-Python"])
    if SpecifierSet(wanted).contains(installed, prereleases=True):
        return Diagnosis("python", "ok", f"{installed}, at {sys.executable}")
    return Diagnosis("python", "wrong", f"{installed} is not {wanted}: make a virtual environment with another one")


def _program(program: str, runner: str) -> Diagnosis:
    """Whether a program is on the path, which a runner that may start it needs."""
    owners = [name for name, programs in _PROGRAMS.items() if program in programs]
    place, for_whom = shutil.which(program), f"for --runner {' and '.join(owners)}"
    if place is None:
        state = "wrong" if runner in owners else "missing"
        return Diagnosis(program, state, f"is not on the path: {for_whom} it may be needed")
    if program != "java":
        return Diagnosis(program, "ok", f"{place}, {for_whom}")
    java = _java()
    if java is None or java < _MIN_JAVA:
        problem = "does not say its version" if java is None else f"is version {java}"
        return Diagnosis(
            program, "wrong" if runner in owners else "missing", f"{place} {problem}: {_MIN_JAVA} or later"
        )
    return Diagnosis(program, "ok", f"version {java}, {for_whom}")


def _java() -> int | None:
    """The major version of Java: 8 for 1.8.0, 17 for 17.0.1."""
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    parts = done.stderr.partition('"')[2].partition('"')[0].removeprefix("1.").split(".")
    return int(parts[0]) if parts[0].isdigit() else None


def _job_server() -> Diagnosis:
    """Whether Beam's job server for Flink is kept here, or can be downloaded."""
    from private_topk.runners.flink import released_job_server

    url, kept = released_job_server()
    if kept.exists():
        return Diagnosis("job server", "ok", str(kept))
    try:
        urlopen(Request(url, method="HEAD"), timeout=10).close()
    except OSError:
        return Diagnosis(
            "job server",
            "wrong",
            f"{url} cannot be downloaded from here: fetch it in another way and give "
            "--flink_job_server_jar PATH to `run`",
        )
    return Diagnosis("job server", "ok", f"a run downloads {url}")


def _space() -> Diagnosis:
    """The space in the folder for temporary files of sorting and shuffling."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):.1f} GiB free in {folder}"
    if free < _MIN_SPACE:
        return Diagnosis("temporary files", "wrong", f"{text}: point TMPDIR at a folder with more")
    if free < _USUAL_SPACE:
        return Diagnosis("temporary files", "ok", f"{text}: little for large inputs; TMPDIR names another folder")
    return Diagnosis("temporary files", "ok", text)


def _clock() -> Iterator[Diagnosis]:
    """The clock, since a wrong one closes windows at the wrong time; the clock of files must agree with it."""
    with tempfile.NamedTemporaryFile() as file:
        off = abs(os.stat(file.name).st_mtime - time.time())
    built = max(os.stat(__file__).st_mtime - 86_400, 0)
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if time.time() < built:
        yield Diagnosis("clock", "wrong", f"{now} is before these files were written: set the clock")
    elif off > 60:
        yield Diagnosis("clock", "wrong", f"{now}, and files are {off:.0f} s away from it: set both machines' clocks")
    else:
        yield Diagnosis("clock", "ok", now)
    summer, winter = (datetime(2026, month, 1, tzinfo=ZoneInfo("Europe/Berlin")).utcoffset() for month in (7, 1))
    state = "ok" if summer != winter else "wrong"
    yield Diagnosis("time zones", state, "the database of time zones " + ("is there" if state == "ok" else "is broken"))


def _key(reference: str) -> Diagnosis:
    from private_topk.transforms.release import ReleaseKey

    try:
        key = ReleaseKey.parse(reference)
        if key.is_remote:
            return Diagnosis("release key", "ok", "is kept by a secret manager: only workers read it, so a run has to")
        named = f"can be read; its id is {key.key_id()}"
    except InvalidArgument as error:
        return Diagnosis("release key", "wrong", error.shown(lambda _: "the release key"))
    kind, _, path = reference.partition(":")
    others = stat.S_IMODE(os.stat(path).st_mode) & 0o077 if kind == "file" else 0
    if others:
        return Diagnosis(
            "release key", "wrong", f"{named}, but others may read {path} or write to it: chmod 600 {path}"
        )
    return Diagnosis("release key", "ok", named)


def _ledger(url: str) -> Diagnosis:
    """Whether the ledger can be charged: reading takes the same lock, so it fails without permission to write."""
    from private_topk.pipelines.budget.ledger import Ledger

    try:
        books = Ledger(url).read()
    except InvalidArgument as error:
        return Diagnosis("ledger", "wrong", error.shown(lambda _: "the ledger"))
    return Diagnosis("ledger", "ok", f"can be charged: {len(books.budgets)} budgets, {len(books.charges)} charges")
