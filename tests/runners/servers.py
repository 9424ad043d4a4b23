"""Servers for the tests: on loopback, ended by the process that was started, or with the test run if that is killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from benchmarks.servers import flink
from benchmarks.servers.flink import taken
from private_topk.runners.child import ending_with_us
from private_topk.runners.portable import reachable
from private_topk.transforms.release import DRAWS
from tests.house import FRONT

MODULES = {
    "job service": "apache_beam.runners.portability.local_job_service_main",
    "worker pool": "private_topk.runners.worker_pool",
}


def free_port(neighbours: int = 0) -> int:
    """A port at which nobody listens, nor at so many that follow it.

    Below those that the system gives to connections: one of these may be taken before the server is up.
    """
    for _ in range(1000):
        port = random.SystemRandom().randrange(10_000, 32_000)
        if not taken(range(port, port + 1 + neighbours)):
            return port
    raise RuntimeError(f"no {1 + neighbours} ports in a row are free below 32000")


@contextmanager
def serving(
    command: Sequence[str], address: str, log: Path, environment: dict[str, str] | None = None, patience: float = 60
) -> Iterator[str]:
    """Start a process and wait until its address answers; end it, and only it and its children, at the end."""
    with running(command, log, environment) as process:
        deadline = time.monotonic() + patience
        while not reachable(address, 1):
            assert process.poll() is None, f"{command[0]} ended at once:\n{log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"{address} does not answer:\n{log.read_text()[-2000:]}"
            time.sleep(0.1)
        yield address
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)


@contextmanager
def running(command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen]:
    """A process in a session of its own, which is ended with all its children if it has not ended by itself. It ends
    with this process, too: a test run that is killed leaves nothing behind.
    """
    with open(log, "wb") as output:
        process = subprocess.Popen(
            ending_with_us(command), stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=environment
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen) -> None:
    """End a process and its children without letting them say goodbye: a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)


def listening_at(port: int) -> set[str]:
    """The addresses at which something listens on a port, as the system has them: of IPv4 also in IPv6's spelling."""
    found = set()
    for family, path in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in Path(f"/proc/net/{path}").read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            host, _, number = local.partition(":")
            if state == "0A" and int(number, 16) == port:
                words = [bytes.fromhex(host[n : n + 8])[::-1] for n in range(0, len(host), 8)]
                found.add(socket.inet_ntop(family, b"".join(words)).removeprefix("::ffff:"))
    return found


@contextmanager
def module_serving(name: str, folder: Path, environment: dict[str, str] | None = None) -> Iterator[str]:
    """A server of `MODULES` at a free port of this machine; gives its address."""
    port = free_port()
    command = [sys.executable, "-m", MODULES[name], "--port", str(port)]
    with serving(command, f"localhost:{port}", folder / f"{name}.log", environment) as address:
        yield address


def drawing_differently(folder: Path) -> Path:
    """The same folder, with a copy of this package that draws as no release does: for the PYTHONPATH of a pool."""
    shutil.copytree(FRONT, folder / FRONT.name, ignore=shutil.ignore_patterns("__pycache__"))
    changed = folder / FRONT.name / "transforms" / "release.py"
    changed.write_text(changed.read_text().replace(f'DRAWS = "{DRAWS}"', 'DRAWS = "release 0"'))
    return folder


def flink_job_server() -> str:
    """The path of Beam's job server for Flink."""
    try:
        return str(flink.job_server())
    except ValueError as error:
        missing(str(error))
        raise


def missing(reason: str) -> None:
    """A component is not there: a failure in CI, elsewhere a skip that says so."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
