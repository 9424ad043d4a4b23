"""Where the commands of a page are typed: a folder with what the page takes for granted, and programs on its path."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from private_topk.pipelines.sample import write_sample
from tests.documents.reading import ROOT, Command
from tests.pipelines.support import avro_schema, to_avro, write

BIN = Path(sys.executable).parent
_MARK = re.compile(r"\n\x1e(\d+)\x1e\n")

STUBS = {
    "gcloud": "Google's own client: no machine of the tests reaches Google",
    "docker": "no container engine where the tests run",
    "kubectl": "no cluster of Kubernetes where the tests run",
    "pip": "would change the environment that the tests run in: what it is asked for is held instead",
}
"""Programs that are not run. What they are called with is kept, and held by the page's test."""


class World:
    """A folder in which commands are run as a shell runs them."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        stubs = folder.parent / f"{folder.name}-stubs"
        stubs.mkdir()
        self._calls = stubs / "calls"
        for name in STUBS:
            (stubs / name).write_text(
                f'#!/bin/sh\n{{ printf "%s\\037" {name} "$@"; printf "\\036"; }} >> {self._calls}\n'
            )
            (stubs / name).chmod(0o755)
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAKE"))}
        path = os.pathsep.join([str(stubs), str(BIN), os.environ["PATH"]])
        self.environment = {**plain, "PATH": path, **(environment or {})}

    def type(self, commands: list[Command], timeout: float = 600) -> list[tuple[int, str]]:
        """Type commands one after the other into one shell; the exit status of each, and what it printed."""
        script = "".join(f"{{ {command.typed}\n}} 2>&1\nprintf '\\n\\036%d\\036\\n' $?\n" for command in commands)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        assert not done.stderr, f"bash itself: {done.stderr}"
        parts = _MARK.split(done.stdout)
        assert len(parts) == 2 * len(commands) + 1, done.stdout
        return [(int(status), printed) for printed, status in zip(parts[:-1:2], parts[1::2], strict=True)]

    def calls(self) -> list[list[str]]:
        """The calls of the programs that are not run."""
        if not self._calls.exists():
            return []
        return [call.split("\x1f")[:-1] for call in self._calls.read_text().split("\x1e")[:-1]]

    def sample(self) -> None:
        """The sample data that `make rank` makes, in this folder."""
        write_sample(str(self.folder))


def differences(shown: list[str], printed: str, moments: Mapping[str, str]) -> str:
    """How what was printed differs from what a page shows, empty if it does not.

    A line `...` of the page stands for any lines. What depends on the moment is replaced in both by a name.
    """

    def plain(text: str) -> str:
        for pattern, name in moments.items():
            text = re.sub(pattern, name, text)
        return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())

    page, real = plain("\n".join(shown)) + "\n", plain(printed) + "\n"
    parts = re.split(r"(?m)^\.\.\.\n", page)
    if re.fullmatch("(?s:.*)".join(map(re.escape, parts)), real):
        return ""
    return "\n".join(difflib.unified_diff(page.splitlines(), real.splitlines(), "the page", "printed", lineterm=""))


def clone(folder: Path) -> None:
    """A clone in which `make rank` has been called before: its environment is the one that runs the tests."""
    for name in ("Makefile", "setup.py", "pyproject.toml", "deploy", "benchmarks", "src"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(BIN)
    for name in ("installed", "tested"):
        (folder / ".venv" / name).touch()


def plays_of_a_shop(folder: Path) -> None:
    """`plays-*.avro` with the columns listener, track and played_at; `catalogue.txt`."""
    start = datetime(2026, 1, 5, tzinfo=UTC)
    tracks = [f"Track {n}" for n in range(30)]
    write(folder / "catalogue.txt", "\n".join(tracks) + "\n")
    kind = {"type": "long", "logicalType": "timestamp-millis"}
    schema = avro_schema(listener="string", track="string", played_at=kind)
    for week in range(4):
        begin = start + timedelta(days=7 * week)
        rows = [
            {"listener": f"l{n}", "track": tracks[n * n % 30], "played_at": begin + timedelta(hours=n)}
            for n in range(150)
        ]
        (folder / f"plays-{week}.avro").write_bytes(to_avro(rows, schema))


def small_plays(folder: Path, name: str = "plays.avro", start: str = "2026-01-05") -> None:
    """Plays in the columns that are the defaults."""
    begin = datetime.fromisoformat(start).replace(tzinfo=UTC)
    schema = avro_schema(
        user="string", item="string", country="string", time={"type": "long", "logicalType": "timestamp-millis"}
    )
    rows = [
        {"user": f"u{n}", "item": f"Track {n * n % 30}", "country": "DE", "time": begin + timedelta(hours=n)}
        for n in range(150)
    ]
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(to_avro(rows, schema))
