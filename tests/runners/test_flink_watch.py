"""When a stream on Flink is over, by what a job manager says: its answers are given here, none of it runs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from private_topk.runners.flink_rest import Rest
from private_topk.runners.flink_watch import Watch

END = 9_223_372_036_854_775_807
VERTICES = [{"id": "s", "name": "Source: Impulse", "parallelism": 1}, {"id": "a", "name": "Rank", "parallelism": 2}]


class JobManager:
    """One job of three tasks, whose clocks are set by a test. It stops when it is told to."""

    def __init__(self) -> None:
        self.clocks = [0, 0]
        self.orders: list[tuple[str, dict[str, Any]]] = []
        self.state, self.running, self.free = "RUNNING", 3, 0
        self.failures: list[str] = []
        self.place = "file:///checkpoints"

    def answer(self, path: str) -> Any:  # noqa: ANN401 - JSON
        tasks = {"running": self.running, "total": 3, "initializing": 0, "deploying": 0, "canceling": 0}
        return {
            "overview": {"flink-version": "1.19.3", "slots-available": self.free, "slots-total": 4, "taskmanagers": 2},
            "jobs/overview": {"jobs": [{"jid": "j", "name": "job", "state": self.state, "tasks": tasks}]},
            "jobs/j": {"vertices": VERTICES},
            "jobs/j/vertices/a/watermarks": [{"id": str(n), "value": str(at)} for n, at in enumerate(self.clocks)],
            "jobs/j/exceptions": {"exceptionHistory": {"entries": [{"exceptionName": f"org.{name}"}
                                                                   for name in self.failures]}},
            "jobmanager/config": [{"key": "state.checkpoints.dir", "value": self.place}],
            "jobs/j/savepoints/r": {"status": {"id": "COMPLETED"}, "operation": {"location": "file:///last"}},
        }.get(path)  # fmt: skip

    def order(self, path: str, body: dict[str, Any]) -> dict[str, str]:
        self.orders.append((path, body))
        if path == "jobs/j/stop":
            self.state = "FINISHED"
        return {"request-id": "r"}


@pytest.fixture
def manager() -> JobManager:
    return JobManager()


@pytest.fixture
def address(manager: JobManager) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802 - the name that is called
            self.send(manager.answer(self.path.strip("/").partition("?")[0]))

        def do_POST(self) -> None:  # noqa: N802
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send(manager.order(self.path.strip("/"), body))

        def send(self, answer: object) -> None:
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def watch(address: str) -> Callable[..., list[str]]:
    """Watch the job until it is over, or for some looks; what was said."""

    def watched(answered: bool, looks: int = 0, streaming: bool = True, patience: float = 20) -> list[str]:
        said: list[str] = []
        event = threading.Event()
        if answered:
            event.set()
        watching = Watch(Rest(address), "job", streaming, event, said.append, patience)
        if looks:
            for _ in range(looks):
                job = Rest(address).jobs()[0]
                watching._look("j", job["state"], job["tasks"])
        else:
            watching.start()
            watching.join(30)
            assert not watching.is_alive()
        return said

    return watched


STOPPED = [("jobs/j/stop", {"drain": False, "targetDirectory": "file:///checkpoints"}),
           ("savepoint-disposal", {"savepoint-path": "file:///last"})]  # fmt: skip


def test_a_job_is_over_when_every_clock_is_at_the_end_of_time(manager: JobManager, watch: Callable) -> None:
    manager.clocks = [END, END]
    assert watch(answered=False) == [] and manager.orders == STOPPED


def test_a_job_is_over_when_all_is_published_though_its_clocks_stand_still(
    manager: JobManager, watch: Callable
) -> None:
    """As they do where a task manager was lost that was just being asked for its metrics."""
    assert watch(answered=True) == [] and manager.orders == STOPPED


def test_no_job_is_stopped_before(manager: JobManager, watch: Callable) -> None:
    for clocks in ([END, 1_768_251_600_000], [END], [0, 0]):
        manager.clocks = clocks  # one behind; one unknown
        watch(answered=False, looks=2)
    manager.running = 2  # a task is not back yet
    watch(answered=True, looks=2)
    manager.running, manager.state = 3, "RESTARTING"
    watch(answered=True, looks=2)
    manager.state = "RUNNING"
    watch(answered=True, looks=2, streaming=False)
    assert manager.orders == []


def test_where_a_job_cannot_be_ended_it_is_said_once(manager: JobManager, watch: Callable) -> None:
    manager.place = ""
    assert ["state.savepoints.dir" in line for line in watch(answered=True, looks=3)] == [True]


def test_restarts_and_missing_slots_are_said(manager: JobManager, watch: Callable) -> None:
    manager.failures = ["RemoteTransportException", "Earlier"]
    assert watch(answered=False, looks=2) == ["Flink: the job restarted, 2 in all (RemoteTransportException)"]
    manager.failures, manager.running, manager.state = [], 0, "CREATED"
    said = watch(answered=False, looks=3, patience=0)
    assert len(said) == 1 and "waits for slots: all 4 of the 2 task managers are taken" in said[0]
    manager.free = 1
    assert watch(answered=False, looks=3, patience=0) == []
