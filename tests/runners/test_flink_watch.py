"""When a stream on Flink is over, by what a job manager says: its answers are given here, none of it runs."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from traceback import format_exception
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.runner import PipelineResult

from private_topk.runners import flink, flink_jobs, prepare
from private_topk.runners.flink import FlinkJobRunner
from private_topk.runners.flink_jobs import JobManager, Watch
from private_topk.transforms.errors import InvalidArgument, Unreachable, WorkerRefusal, crosses, told_by
from tests.pipelines.support import command, options, wait_until, write

END = 9_223_372_036_854_775_807
VERTICES = [
    {"id": "s", "name": "Source: Impulse", "parallelism": 1},
    {"id": "a", "name": "Rank", "parallelism": 2},
    {"id": "b", "name": "Write", "parallelism": 1},
]


class StubJobManager:
    """One job of three tasks, whose clocks are set by a test. It stops when it is told to."""

    def __init__(self) -> None:
        self.clocks, self.last = [0, 0], END
        self.orders: list[tuple[str, dict[str, Any]]] = []
        self.state, self.running, self.free, self.scheduled = "RUNNING", 3, 0, 0
        self.forgets, self.stops, self.lost = False, True, False
        self.cancelled: list[str] = []
        self.trace = ""
        self.tasks: dict[str, int] | None = None
        self.failures: list[str] = []
        self.checkpoint = 0
        self.place = "file:///checkpoints"
        self.name = "job"
        self.others: list[dict[str, str]] = []
        self.slots = 4

    def answer(self, path: str) -> Any:  # noqa: ANN401 - JSON
        tasks = {
            "running": self.running,
            "total": 3,
            "initializing": 0,
            "deploying": 0,
            "canceling": 0,
            "scheduled": self.scheduled,
        }
        job = {"jid": "j", "name": self.name, "state": self.state, "tasks": self.tasks or tasks}
        return {
            "overview": {
                "flink-version": "1.19.3",
                "slots-available": self.free,
                "slots-total": self.slots,
                "taskmanagers": 2,
            },
            "jobs/overview": {"jobs": [*self.others, *([] if self.lost else [job])]},
            "jobs/j": {"vertices": VERTICES},
            "jobs/j/vertices/b/watermarks": [{"id": "0", "value": str(self.last)}],
            "jobs/j/vertices/a/watermarks": [{"id": str(n), "value": str(at)} for n, at in enumerate(self.clocks)],
            "jobs/j/exceptions": {
                "exceptionHistory": {
                    "entries": [
                        {
                            "exceptionName": f"org.{name}",
                            "timestamp": len(self.failures) - number,
                            "stacktrace": self.trace,
                        }
                        for number, name in enumerate(self.failures)
                    ][:16]
                }
            },
            "jobs/j/checkpoints": {"latest": {"completed": {"id": self.checkpoint}}},
            "jobmanager/config": [{"key": "state.checkpoints.dir", "value": self.place}],
            "jobs/j/savepoints/r": None
            if self.forgets
            else {"status": {"id": "COMPLETED"}, "operation": {"location": "file:///last"}},
        }.get(path)

    def order(self, path: str, body: dict[str, Any]) -> dict[str, str]:
        self.orders.append((path, body))
        if path == "jobs/j/stop" and self.stops:
            self.state = "FINISHED"
        return {"request-id": "r"}


@pytest.fixture
def manager() -> StubJobManager:
    return StubJobManager()


@pytest.fixture
def address(manager: StubJobManager) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802 - the name that is called
            self.send(manager.answer(self.path.strip("/").partition("?")[0]))

        def do_POST(self) -> None:  # noqa: N802
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send(manager.order(self.path.strip("/"), body))

        def do_PATCH(self) -> None:  # noqa: N802
            manager.cancelled.append(self.path)
            manager.state = "CANCELED" if manager.stops else manager.state
            self.send({})

        def send(self, answer: object) -> None:
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def watch(address: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Watch the job until it is over, or for some looks; what was said. Before a look something can happen."""

    def watched(
        answered: bool,
        looks: int = 0,
        streaming: bool = True,
        patience: float = 20,
        before: dict[int, Callable[[], object]] | None = None,
        until: int = 0,
    ) -> list[str]:
        said: list[str] = []
        event = threading.Event()
        if answered:
            event.set()
        watching = Watch(JobManager(address), "job", event if streaming else None, said.append)
        watching.patience = patience
        if looks:
            for _ in range(looks):
                job = JobManager(address).jobs()[-1]
                watching.look("j", job["state"], job["tasks"])
        else:
            happens, number = {**(before or {}), until: event.set} if until else before or {}, count(1)

            def wait(_: float) -> None:
                happens.get(next(number), bool)()
                time.sleep(0.01)

            monkeypatch.setattr(flink_jobs, "time", SimpleNamespace(sleep=wait, monotonic=time.monotonic))
            watching.start()
            watching.join(30)
            assert not watching.is_alive()
        return said

    return watched


STOPPED = [
    ("jobs/j/stop", {"drain": False, "targetDirectory": "file:///checkpoints"}),
    ("savepoint-disposal", {"savepoint-path": "file:///last"}),
]


def test_a_job_is_over_when_every_clock_is_at_the_end_of_time(manager: StubJobManager, watch: Callable) -> None:
    manager.clocks = [END, END]
    assert watch(answered=False) == [] and manager.orders == STOPPED


def test_a_job_is_over_when_all_is_published_though_its_clocks_stand_still(
    manager: StubJobManager, watch: Callable
) -> None:
    """As they do where a task manager was lost that was just being asked for its metrics."""
    assert watch(answered=True) == [] and manager.orders == STOPPED


def test_the_job_of_a_killed_launcher_is_named(
    manager: StubJobManager, address: str, tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    """Also by a repeat of what is published, which starts no job: nothing else would ever name it."""
    manager.name = "private-topk-plays-e863b48b-old"
    others = {"private-topk-plays-e863b48b-gone": "CANCELED", "private-topk-plays-old": "RUNNING", "another": "RUNNING"}
    manager.others = [{"jid": "o", "name": name, "state": state} for name, state in others.items()]
    rows = [{"user": "u", "item": "a", "time": f"2026-01-0{day}T12:00:00Z"} for day in (5, 7)]
    asked = {
        "input": write(tmp_path / "a.jsonl", rows).parent / "*.jsonl",
        "clock": "event",
        "domain": write(tmp_path / "items.txt", "a\nb\n"),
        "window": "1d",
        "from_": "2026-01-05",
        "to": "2026-01-06",
        "release_key": f"file:{write(tmp_path / 'key', 'a key of enough bytes')}",
        "release_id": "plays ",
        "output": tmp_path / "out",
    }
    words = ["stream", *options(**asked), "--k=1", "--epsilon=1"]
    assert command(*words).status == 0 and "is on this cluster" not in capfd.readouterr().err
    flink = ["--runner=flink", f"--flink_master={address}", f"--job_endpoint={address}"]
    again = command(*words, *flink, "--environment_type=EXTERNAL", f"--environment_config={address}")
    said = again.err + capfd.readouterr().err
    assert again.status == 0 and "nothing is left to do" in said, said
    assert [line for line in said.splitlines() if line.startswith("Flink:")] == [
        "Flink: private-topk-plays-e863b48b-old (j), of this release, is on this cluster. If its launcher was killed, "
        f"nothing else ends it: cancel it with `curl -X PATCH 'http://{address}/jobs/j?mode=cancel'`"
    ]


def test_no_job_is_stopped_before(manager: StubJobManager, watch: Callable) -> None:
    for clocks in ([END, 1_768_251_600_000], [END], [0, 0]):
        manager.clocks = clocks  # one behind; one unknown
        watch(answered=False, looks=2)
    manager.clocks, manager.last = [END, END], 0
    watch(answered=False, looks=2)
    manager.running = 2  # a task is not back yet
    watch(answered=True, looks=2)
    manager.running, manager.state = 3, "RESTARTING"
    watch(answered=True, looks=2)
    manager.state = "RUNNING"
    watch(answered=True, looks=2, streaming=False)
    assert manager.orders == []


def test_where_a_job_cannot_be_ended_it_is_said_once(manager: StubJobManager, watch: Callable) -> None:
    manager.place = ""
    assert ["state.savepoints.dir" in line for line in watch(answered=True, looks=3)] == [True]


def test_restarts_and_missing_slots_are_said(manager: StubJobManager, watch: Callable) -> None:
    manager.failures, manager.trace = ["RemoteTransportException", "Earlier"], "OSError: [Errno 28] of a private place"
    restarted = "Flink: the job restarted, {} in all ({}: No space left on device)"
    assert watch(answered=False, looks=6) == [
        restarted.format(1, "Earlier"),
        restarted.format(2, "RemoteTransportException"),
    ]
    manager.failures, manager.running, manager.state = [], 0, "RESTARTING"
    assert watch(answered=False, looks=3, patience=0) == [], "it keeps its slots while it waits to be restarted"
    manager.state = "CREATED"
    assert watch(answered=False, looks=3) == [], "for less than twenty seconds"
    said = watch(answered=False, looks=3, patience=0)
    assert len(said) == 1 and "waits for slots: 0 of 4 are free, of 2 task managers. Start" in said[0]
    manager.free, manager.others = 1, [{"jid": "o", "name": "its-holder", "state": "RUNNING"}]
    said = watch(answered=False, looks=3, patience=0)
    assert len(said) == 1 and "1 of 4 are free" in said[0] and "smaller --parallelism" in said[0]
    assert "; other jobs are its-holder (o). Start" in said[0] and "curl" not in said[0], "it may be somebody's"
    manager.state = "RUNNING"
    assert watch(answered=False, looks=3, patience=0) == [], "its next tasks are about to be scheduled"
    manager.scheduled = 3
    assert "1 of 4 are free" in watch(answered=False, looks=3, patience=0)[0]


def test_a_name_that_is_given_stays_before_that_of_the_release(address: str) -> None:
    words = [f"--flink_master={address}", f"--job_endpoint={address}", "--environment_type=EXTERNAL"]
    launch = prepare("flink", [*words, f"--environment_config={address}", "--job_name=mine"])
    assert isinstance(launch.runner, FlinkJobRunner) and launch.runner.named == "mine"
    assert launch.at == f"at {address}, which answers", "as a dry run tells"
    for _ in range(2):  # a launch may be used again
        launch.name_after("plays: 2026")
        assert launch.runner.named == "mine-plays-2026-7e301d11"


def test_a_cluster_without_task_managers_is_tried_again(manager: StubJobManager, address: str) -> None:
    """They may come after the job manager: status 1, so that a service starts again."""
    manager.slots = 0
    with pytest.raises(Unreachable, match="has no task manager: start one") as caught:
        prepare("flink", [f"--flink_master={address}"])
    assert caught.value.status == 1


def test_a_job_is_named_before_it_is_on_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its submission takes up to half a minute."""
    said: list[flink.Line] = []
    monkeypatch.setattr(flink, "say_on_stderr", said.append)
    monkeypatch.setattr(FlinkRunner, "run_portable_pipeline", lambda *_: len(said))
    options = PipelineOptions([])
    assert bool(FlinkJobRunner({}).run_portable_pipeline(None, options))
    name = options.view_as(GoogleCloudOptions).job_name
    assert said == [f"Flink: preparing the job {name}"] and said[0].facts == {"event": "preparing", "job_name": name}


def test_a_job_of_a_cluster_is_told_by_its_id(manager: StubJobManager, address: str) -> None:
    said: list[str] = []
    facts: dict[str, object] = {}
    manager.state = "FINISHED"
    watching = Watch(JobManager(address), "job", threading.Event(), said.append, facts=facts)
    watching.start()
    watching.join(30)
    assert said == ["Flink: the job is job (j)"] and facts == {"job": "j", "job_name": "job"}


def test_a_job_that_has_waited_for_slots_says_so_once_each_time(manager: StubJobManager, address: str) -> None:
    said: list[str] = []
    watching = Watch(JobManager(address), "job", threading.Event(), said.append)
    watching.patience = 0

    def look(running: int, free: int) -> int:
        manager.running, manager.free = running, free
        watching.look("j", "CREATED", manager.answer("jobs/overview")["jobs"][-1]["tasks"])
        return len(said)

    assert [look(0, 0), look(0, 0), look(0, 1), look(3, 0), look(0, 0), look(0, 0)] == [0, 1, 1, 1, 1, 2]


def test_slots_that_a_killed_launcher_has_left_taken_say_how_they_are_freed(
    manager: StubJobManager, address: str
) -> None:
    said: list[str] = []
    watching = Watch(JobManager(address), "plays-1-new", threading.Event(), said.append)
    watching.patience, manager.running = 0, 0
    manager.others = [{"jid": jid, "name": f"plays-{jid}-old", "state": "RUNNING"} for jid in ("1", "2")]
    for _ in range(2):
        watching.look("j", "CREATED", manager.answer("jobs/overview")["jobs"][-1]["tasks"])
    left = "plays-1-old (1), of this release: if its launcher was killed, cancel it with `curl -X PATCH 'http://"
    assert len(said) == 1 and f"; other jobs are {left}" in said[0]
    assert "/jobs/1?mode=cancel'`, and plays-2-old (2), and job (j). Start" in said[0], "which may be somebody's"


def test_the_cause_is_said_however_many_failures_there_were(manager: StubJobManager, address: str) -> None:
    """Flink remembers the last sixteen; of a job that has failed for good there is no restart to tell."""
    said: list[str] = []
    watching = Watch(JobManager(address), "job", threading.Event(), said.append)
    tasks = JobManager(address).jobs()[0]["tasks"]
    for number in range(1, 20):
        manager.failures, manager.checkpoint = [f"Failure{number}", *manager.failures], number
        for _ in range(5):
            watching.look("j", "RUNNING", tasks)
    assert said == [f"Flink: the job restarted, {number} in all (Failure{number})" for number in range(1, 20)]
    manager.failures = ["Last", *manager.failures]
    watching.look("j", "FAILED", tasks)
    assert len(said) == 19


MANAGER, WORKER, NOBODY = "a task manager was lost", "a Python worker was lost", "nobody listens at"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("RemoteTransportException", "This might indicate that the remote task manager was lost.", MANAGER),
        ("RemoteTransportException", "Error at remote task manager 'private'.", ""),
        ("RecipientUnreachableException", "Could not send message [private].", MANAGER),
        ("TimeoutException", "Heartbeat of TaskManager with id private:1 timed out.", MANAGER),
        ("AsynchronousException", "x\nCaused by: v.io.grpc.StatusRuntimeException: CANCELLED: y", WORKER),
        ("E", "io.grpc.StatusRuntimeException: io\nConnection refused: h/1.0.0.1:8", f"{WORKER}, {NOBODY} h/1.0.0.1:8"),
        ("ConnectException", "Connection refused: h/[::1]:8083\n", f"{NOBODY} h/[::1]:8083"),
        (
            "RestClientException",
            "[c.NotFoundException: Job private not found",
            "a job manager started anew does not know the job",
        ),
        ("AsynchronousException", "Caught exception while processing timer.", ""),
    ],
)
def test_a_restart_says_what_was_lost(manager: StubJobManager, address: str, name: str, text: str, said: str) -> None:
    manager.failures, manager.trace = [name], f"org.{name}: {text}\n\tat x\n"
    ((_, cause, refusal),) = JobManager(address).failures("j")
    assert (cause, refusal) == (f"{name}: {said}" if said else name, None)


@pytest.mark.parametrize("further", [False, True])
def test_a_job_that_fails_again_and_again_and_comes_no_further_is_ended(
    manager: StubJobManager, address: str, further: bool
) -> None:
    """As one whose worker was killed and is asked for all the same, on a cluster that starts it again for ever."""
    said: list[str] = []
    watching = Watch(JobManager(address), "job", threading.Event(), said.append)
    tasks = JobManager(address).jobs()[0]["tasks"]
    for number in range(1, 30):
        manager.failures = ["IOException", *manager.failures]
        manager.checkpoint = number // 6 if further else 3
        for _ in range(5):
            watching.look("j", "RUNNING", tasks)
        if manager.cancelled:
            break
    if further:
        assert not manager.cancelled and watching.refusal is None and len(said) == 29
        return
    assert number == len(said) == 12 and manager.cancelled == ["/jobs/j?mode=cancel"]
    told = "the job on Flink failed 12 times in a row and came no further, the last time with IOException"
    assert str(watching.refusal).startswith(told)


def test_an_order_that_a_new_job_manager_does_not_know_is_given_again(manager: StubJobManager, watch: Callable) -> None:
    manager.forgets, manager.stops = True, False
    watch(answered=True, looks=15)
    assert [path for path, _ in manager.orders] == ["jobs/j/stop"], "for a moment anybody may not answer"
    watch(answered=True, looks=15, patience=0)
    assert {path for path, _ in manager.orders} == {"jobs/j/stop"} and len(manager.orders) > 2


@crosses
class RefusesDoFn(beam.DoFn):
    def process(self, element: object) -> None:
        raise InvalidArgument("", "menu.txt cannot be read", "write it again")


NO_SLOTS = "org.flink.NoResourceAvailableException: of alice, KafkaError{code=_TRANSPORT,"
OF_PYTHON = """java.lang.RuntimeException: Error received from SDK harness: Traceback (most recent call last):
  File "job.py", line 4, in write
    sink.write(row)
    ^^^^^^^^^^^^^^^
sinks.SinkIsDown: alice, [while running 'Map(write)']

\tat org.apache.beam.FnApi.of(FnApi.java:4)
"""


@pytest.mark.parametrize(
    ("refused", "last", "cause"),
    [(True, NO_SLOTS, ""), (False, NO_SLOTS, "NoResourceAvailableException: Kafka says _TRANSPORT")]
    + [
        (False, OF_PYTHON, "SinkIsDown while running 'Map(write)'"),
        (False, OF_PYTHON.replace("\n", "\n\t"), "SinkIsDown while running 'Map(write)'"),
        (False, OF_PYTHON.replace("alice,", "[while running 'alice']"), "SinkIsDown while running 'Map(write)'"),
        (False, OF_PYTHON.replace("Map(write)", "alice"), "SinkIsDown"),
    ],
)
def test_the_cause_of_a_failed_job_is_found_in_all_that_its_server_says(
    refused: bool, last: str, cause: str, address: str
) -> None:
    """The text of a refusal, though another failure came after it; otherwise the last one's kind and step, not its
    text, in which a row may look like a step. It is a RuntimeError, as on other runners: an InvalidArgument says that
    nothing was done.
    """
    with pytest.raises(WorkerRefusal) as refusal:
        RefusesDoFn().process(None)
    texts = ["".join(format_exception(refusal.value))] if refused else []
    texts += ["", last, ""]
    messages = [SimpleNamespace(message_response=SimpleNamespace(message_text=text)) for text in texts]

    class Failed(PipelineResult):
        _messages, _state = messages, "FAILED"

        def wait_until_finish(self, duration: int | None = None) -> None:
            raise RuntimeError(f"Pipeline failed in state FAILED: {texts[-2]}")

        metrics = cancel = wait_until_finish

    watching = Watch(JobManager(address), "job", threading.Event())
    job = flink._WatchedJob(Failed("FAILED"), watching, watching.cancel, {"", "Create", "Map(write)"})
    said = "menu.txt cannot be read: write it again"
    if not refused:
        said = f"the job on Flink ended as FAILED ({cause}): {flink_jobs._LOOK}"
    with pytest.raises(RuntimeError) as caught:
        job.wait_until_finish()
    assert str(caught.value) == said and str(told_by(caught.value)) == said


def test_a_job_that_somebody_cancels_is_said_to_be(manager: StubJobManager, address: str) -> None:
    def wait_until_finish(duration: int | None) -> None:
        raise RuntimeError("Pipeline failed in state CANCELLED: org.JobCancellationException: Job was cancelled.")

    watching = Watch(JobManager(address), "job", threading.Event())
    manager.state = "CANCELED"
    job = SimpleNamespace(
        state="CANCELLED", metrics=None, _state="CANCELLED", _messages=[], wait_until_finish=wait_until_finish
    )
    with pytest.raises(RuntimeError, match="^the job on Flink was cancelled, not by its launcher$"):
        flink._WatchedJob(job, watching, watching.cancel).wait_until_finish()


def test_a_refusal_of_a_worker_ends_the_job(manager: StubJobManager, address: str) -> None:
    with pytest.raises(WorkerRefusal) as refused:
        RefusesDoFn().process(None)
    trace = "".join(format_exception(refused.value)).replace("\n", "\n\t")
    manager.failures = ["AsynchronousException"]
    manager.trace = f"org.AsynchronousException: x\n\tat y\nCaused by: java.lang.RuntimeException: {trace}\n\tat z\n"
    said: list[str] = []
    watching = Watch(JobManager(address), "job", threading.Event(), said.append)
    watching.look("j", "RUNNING", JobManager(address).jobs()[0]["tasks"])
    assert manager.cancelled and str(watching.refusal) == "menu.txt cannot be read: write it again" and not said


def test_a_job_is_cancelled_in_its_cluster(
    manager: StubJobManager, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is not listed yet. One that goes on, as it may where no job manager answers, is named."""
    said: list[str] = []
    watching = Watch(JobManager(address), "job", threading.Event(), said.append)
    manager.lost = True
    threading.Timer(0.2, setattr, (manager, "lost", False)).start()
    watching.cancel()
    assert manager.cancelled == ["/jobs/j?mode=cancel"] and manager.state == "CANCELED" and not said
    manager.state, manager.stops = "RUNNING", False
    monkeypatch.setattr(flink_jobs, "_ENDING", 0.2)
    watching.cancel()
    Watch(JobManager("127.0.0.1:1"), "job", threading.Event(), said.append).cancel()
    assert len(said) == 2 and all("the job job is over: cancel it there" in line for line in said)
    assert said[1].endswith(", if a job manager comes back with it") and said[0].endswith("there")


def test_where_the_job_manager_is_told_to_be_gone_a_launcher_ends_soon(
    manager: StubJobManager, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its operator was just told to end it; where it is back by then, it is waited for as ever."""
    monkeypatch.setattr(flink_jobs, "_GONE", 0.2)
    said: list[str] = []
    watching = Watch(JobManager(address), "job", threading.Event(), said.append)
    watching.patience = 0
    watching.start()
    wait_until(lambda: watching._looks)
    manager.lost = True
    wait_until(lambda: said)
    there, watching._manager = watching._manager, JobManager("127.0.0.1:1")
    began = time.monotonic()
    watching.cancel()
    assert time.monotonic() - began < 5 and "if a job manager comes back with it" in said[1]
    manager.lost, manager.stops, watching._manager = False, False, there
    wait_until(lambda: not watching._gone)
    threading.Timer(1, setattr, (manager, "stops", True)).start()
    watching.cancel()
    assert manager.state == "CANCELED" and len(said) == 2


def test_a_job_that_is_not_known_any_more_is_told(manager: StubJobManager, watch: Callable) -> None:
    happens = {2: lambda: setattr(manager, "lost", True), 5: lambda: setattr(manager, "lost", False)}
    said = watch(answered=False, patience=0, before=happens, until=7)
    assert len(said) == 1 and "does not know job any more" in said[0] and said[0].facts["event"] == "gone"


def test_a_mini_cluster_goes_with_its_job(manager: StubJobManager, address: str) -> None:
    """Once the job server has said that the job is done, that nobody knows it any more is no news."""
    said: list[str] = []
    watching = Watch(JobManager(address), "job", threading.Event(), said.append)
    watching.patience = 0
    done = SimpleNamespace(state="RUNNING", metrics=None, _state="DONE", wait_until_finish=lambda duration: "DONE")
    watching.start()
    while not watching._looks:
        time.sleep(0.01)
    job = flink._WatchedJob(done, watching, watching.cancel)
    assert job.wait_until_finish() == job.state == "DONE"
    manager.lost = True
    watching.join(10)
    assert not watching.is_alive() and not said


def test_an_answer_that_makes_no_sense_does_not_end_the_watch(manager: StubJobManager, watch: Callable) -> None:
    manager.tasks = {"odd": 1}
    said = watch(answered=True, before={4: lambda: setattr(manager, "tasks", None)})
    assert said == ["Flink: the job manager said what is not understood (KeyError)"] and manager.orders == STOPPED


def test_a_job_manager_that_is_lost_in_the_middle_of_an_answer_gives_none() -> None:
    """What it has said by then is half of a message, or none."""
    for half in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", b"nonsense\r\n\r\n"):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def answer(server: socket.socket = server, half: bytes = half) -> None:
                connection = server.accept()[0]
                connection.recv(10_000)
                connection.sendall(half)
                connection.close()

            threading.Thread(target=answer, daemon=True).start()
            assert JobManager(f"127.0.0.1:{server.getsockname()[1]}").overview() == {}
