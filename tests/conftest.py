"""Marks, by what a test is made of: `server` where it starts a server of its own, or a portable runner.

A test that takes seconds of the processor by its nature carries the mark `long` itself: docs/contributing.md.
"""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import examples
from tests.databases import postgres, url  # noqa: F401 - fixtures of all tests
from tests.runners.servers import free_port, missing

if TYPE_CHECKING:
    from benchmarks.servers.flink import Cluster


SERVERS = {
    "cluster": "flink",
    "flink_cluster": "flink",
    "flink_home": "flink",
    "workers": "flink",
    "broker": "kafka",
    "postgres": "postgres",
    "cloud": "",
    "running": "",
    "job_service": "",
    "prism_binary": "",
    "prism_runner": "",
}
"""Fixtures that start a server, or fetch or build one, and a name for the tests of several files that share it."""


@pytest.hookimpl(tryfirst=True)  # before xdist writes the groups into the names of the tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts a server, and keep together what shares one or a fixture of its file, which is then made once:
    `--dist loadgroup` gives a group to one worker.
    """
    for item in items:
        names = getattr(item, "fixturenames", ())
        parameters = set(map(str, getattr(getattr(item, "callspec", None), "params", {}).values()))
        found = [SERVERS[name] for name in SERVERS if name in names]
        found += [name for name in ("flink", "postgres") if parameters & {name, f"{name}ql"}]
        if found or "prism" in parameters:
            item.add_marker(pytest.mark.server)
        made = (fixture for name in names for fixture in item.session._fixturemanager.getfixturedefs(name, item) or ())
        shared = item.path.as_posix() if any(fixture.scope in ("module", "class") for fixture in made) else ""
        if group := next(filter(None, [*found, shared]), ""):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: _server(item) or "~")  # one after the other without xdist too


def _server(item: pytest.Item | None) -> str | None:
    """The server that a test shares with tests of other files."""
    marker = item and item.get_closest_marker("xdist_group")
    return marker.args[0] if marker and marker.args[0] in SERVERS.values() else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End a server after the last test that asks for it: those of Java take a fiftieth of a processor to wait."""
    if _server(item) not in (None, _server(nextitem)):
        for name in SERVERS:
            for fixture in item.session._fixturemanager.getfixturedefs(name, item) or ():
                fixture.finish(item._request)


@pytest.fixture(scope="session", autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test or a process of it leaves in the folder for temporary files goes with pytest's own folders."""
    folder = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session")
def prism_binary() -> Path:
    """Prism, built once for the machine."""
    from benchmarks.servers.prism import build
    from private_topk.runners import prism

    if not prism.built_binary().exists() and shutil.which("go") is None:
        missing("Prism is built with Go's client: install Go")
    return build()


_MARK = "PRIVATE_TOPK_TESTS"
"""A variable in the environment of every process that a test run starts, by which those that are left are found."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers of xdist inherit it
        os.environ[_MARK] = secrets.token_hex(8)
    # As the command itself does (`cli.console`): what Beam makes when it is loaded, and for each pipeline, stays.
    gc.set_threshold(100_000, 50, 100)
    # Beam makes hundreds of argument parsers for each pipeline, each of which would look for translations of its texts
    # and ask for the size of a terminal.
    os.environ.update(LANGUAGE="C", COLUMNS="80", LINES="24")
    examples.PART = 3 if "not nightly" in config.getoption("markexpr") else 1


def pytest_collection_finish() -> None:
    """What was imported stays until the end, and need not be looked through again and again for garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after all fixtures, and xdist's workers, have ended
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """A test run leaves nothing running: what is left fails it, and is ended."""
    yield
    _stop_servers()
    if hasattr(session.config, "workerinput"):
        return
    deadline = time.monotonic() + 10
    while (left := _left_running()) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid, command in left.items():
        print(f"\nstill running after the tests: {pid} {command}", file=sys.stderr)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _stop_servers() -> None:
    """End what this process keeps for its next job or test: job servers, and what Python copies processes from."""
    forkserver._forkserver._stop()  # as Python's own tests do
    resource_tracker._resource_tracker._stop()
    module = sys.modules.get("apache_beam.utils.subprocess_server")
    if module is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # Beam leaves the pipe from a server open
            for server in gc.get_objects():  # by their own `stop`: Beam will call it once more, which then does nothing
                if issubclass(type(server), module.SubprocessServer):
                    server.stop()


def _left_running() -> dict[int, str]:
    """The processes that this test run has started, whoever is their parent by now: their command lines by id."""
    mark, found = f"{_MARK}={os.environ[_MARK]}".encode(), {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile, or is none of ours
            if int(path.name) != os.getpid() and mark in (path / "environ").read_bytes().split(b"\0"):
                found[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ")[:200]
    return found


@pytest.fixture(scope="session")
def flink_home() -> Path:
    """Flink's distribution, with a job server beside it in the cache."""
    from benchmarks.servers.flink import distribution, job_server

    if shutil.which("java") is None:
        missing("Flink needs Java 11 or later: install it")
    try:
        job_server()
        return distribution()
    except ValueError as error:
        missing(str(error))
        raise


@pytest.fixture(scope="session")
def flink_cluster(flink_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A job manager, two task managers with two slots each and a pool of Python workers, for all tests."""
    from benchmarks.servers.flink import Cluster

    folder = tmp_path_factory.mktemp("cluster")
    running = Cluster(folder, free_port(neighbours=1), slots=2, task_memory="1536m")
    try:
        running.start(task_managers=2)
        running.start_worker_pool(free_port())
        yield running
    finally:
        running.stop()


@pytest.fixture
def cluster(flink_cluster: Cluster) -> Iterator[Cluster]:
    """The same cluster, whole and idle again after each test: what was killed is replaced, what was left is ended."""
    yield flink_cluster
    for job in flink_cluster.rest.jobs():
        if job["state"] not in ("FINISHED", "FAILED", "CANCELED"):
            flink_cluster.rest.get(f"jobs/{job['jid']}/yarn-cancel")
    for number in (1, 2):
        if flink_cluster.processes[f"task-manager-{number}"].poll() is not None:
            flink_cluster.start_task_manager(number)
    deadline = time.monotonic() + 180
    while flink_cluster.overview().get("slots-available") != 4:
        assert time.monotonic() < deadline, "the cluster is not whole again"
        time.sleep(0.2)


@pytest.fixture
def workers(cluster: Cluster) -> list[str]:
    """The words that send a job to the cluster."""
    return cluster.words()
