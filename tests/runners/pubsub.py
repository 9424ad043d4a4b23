"""Pub/Sub for the tests: Google's own server in memory, a program in Go, built once and served on loopback."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.servers.parts import made_once
from private_topk.runners import cache_folder
from tests.runners.servers import free_port, missing, serving

_SOURCE = Path(__file__).parent / "pubsub_server"


@contextmanager
def serving_pubsub(folder: Path) -> Iterator[str]:
    """A server without topics; gives its address, for PUBSUB_EMULATOR_HOST."""
    address = f"127.0.0.1:{free_port()}"
    with serving([str(_built()), address], address, folder / "pubsub.log"):
        yield address


def _built() -> Path:
    version = hashlib.sha256(b"".join((_SOURCE / name).read_bytes() for name in ("main.go", "go.mod"))).hexdigest()
    try:
        return made_once(cache_folder() / f"pubsub-server-{version[:12]}", _build)
    except OSError:
        missing("the tests' Pub/Sub is built with Go's client: install Go")
        raise


def _build(folder: Path) -> Path:
    program = folder / "server"
    subprocess.run(["go", "build", "-o", program, "."], cwd=_SOURCE, check=True)
    return program
