"""Publishing under attack: two processes at one output at the same moment, and a process that is killed at every step.

`python -m tests.pipelines.faults` is one of the two.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.place import manifest_path
from private_topk.pipelines.release.store import publish
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.support import manifest

_OF_THE_SYSTEM = ("posix", "io", "_io", "fcntl")


def pair(name: str, size: int = 100_000) -> tuple[bytes, Manifest]:
    """A ranking and its manifest. Long enough that writing takes a while."""
    return name.encode() * size, manifest(report=name, key_id="key")


def pair_at(path: Path) -> str:
    """What stands at a path: the name of a whole pair, "" for nothing, or what is wrong."""
    manifest = Path(manifest_path(str(path)))
    if not path.exists():
        return "" if not manifest.exists() else "manifest alone"
    if not manifest.exists():
        return "ranking alone"
    found = json.loads(manifest.read_text())
    whole = found["ranking_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    return found["report"] if whole else "mixed"


def leftovers(path: Path) -> list[str]:
    return [found.name for found in path.parent.iterdir() if found.name.endswith(".incomplete")]


def attempt(path: Path, name: str, overwrite: bool) -> str:
    try:
        publish(str(path), *pair(name), overwrite)
    except InvalidArgument:
        return "refused"
    return "published"


def serve() -> None:
    """Publish what the lines of stdin say, as soon as each has come."""
    for line in sys.stdin:
        path, name, overwrite = line.split("\t")
        print(attempt(Path(path), name, overwrite.strip() == "True"), flush=True)


def race(rounds: int, folder: Path) -> Counter[str]:
    """Pairs of runs to one output, in two processes that are told at the same moment. Raises AssertionError."""
    command = [sys.executable, "-m", "tests.pipelines.faults"]
    runs = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found: Counter[str] = Counter()
    try:
        for number in range(rounds):
            path, overwrite, alike = folder / f"{number}.avro", number % 3 == 0, number % 5 == 0
            names = [f"{number} a", f"{number} a" if alike else f"{number} b"]
            for run, name in zip(runs, names, strict=True):
                assert run.stdin is not None
                run.stdin.write(f"{path}\t{name}\t{overwrite}\n")
            for run in runs:
                run.stdin.flush()
            answers = [run.stdout.readline().strip() for run in runs]
            winner = pair_at(path)
            assert winner in names, (number, winner)
            expected = ["published"] * 2 if overwrite or alike else ["published", "refused"]
            assert sorted(answers) == expected, (number, answers)
            if not (overwrite or alike):
                assert winner == names[answers.index("published")], "the one that was told so has published"
            found["/".join(sorted(answers))] += 1
        assert not leftovers(folder / "x")
    finally:
        for run in runs:
            run.communicate(timeout=600)
    return found


def kill(folder: Path, before: str | None, overwrite: bool, every: int = 1) -> Counter[str]:
    """A process that publishes, killed before its first call of the system, before its second, and so on to the last.

    Every ninth of them is a look in passing. Never is a pair mixed, and never is a ranking without its manifest; the
    same run once more ends in the whole pair.
    """
    states: Counter[str] = Counter()
    for step in range(1, 10_000, every):
        path = folder / f"{step}.avro"
        if before is not None:
            publish(str(path), *pair(before), True)
        survived = _publish_and_die(path, step, overwrite)
        state = pair_at(path)
        assert state in ("", "new", before or "", "manifest alone"), (step, state)
        states[state or "nothing"] += 1
        assert attempt(path, "new", overwrite) == "published" and pair_at(path) == "new"
        assert not leftovers(path), step
        if survived:
            return states
    raise AssertionError("it never came to its end")


def _publish_and_die(path: Path, step: int, overwrite: bool) -> bool:
    child = os.fork()
    if child == 0:
        calls, new = 0, pair("new")

        def count(frame: FrameType, event: str, argument: Any) -> None:  # noqa: ANN401 - the interpreter's own
            nonlocal calls
            owner = getattr(argument, "__self__", None)
            of_the_system = isinstance(owner, io.IOBase) or getattr(owner, "__name__", "") in _OF_THE_SYSTEM
            calls += event.startswith("c_") and of_the_system  # before a call and after it
            if calls == step:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.setprofile(count)
            publish(str(path), *new, overwrite)
            sys.setprofile(None)
        finally:
            os._exit(0 if calls < step else 1)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    serve()
