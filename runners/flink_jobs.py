"""The jobs of a Flink cluster, as its job manager tells of them: what they do, why they fail, when they are over."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from private_topk.runners import Line
from private_topk.runners import say as say_on_stderr
from private_topk.transforms.errors import InvalidArgument, Told, reason_in, told_in, verbatim

IN_A_ROW = 12
"""How often a job may fail in a row. The watch ends one that goes on, whoever has set how its cluster restarts it."""
_QUIET = 600_000
"""Milliseconds without a failure after which a row of them is over."""


class JobManager:
    """A Flink job manager by its REST interface.

    Args:
        address: HOST:PORT, with or without a scheme before it.
    """

    def __init__(self, address: str) -> None:
        self.address = (address if "://" in address else f"http://{address}").rstrip("/")

    def get(self, path: str) -> Any:  # noqa: ANN401 - whatever the JSON holds
        """The answer to a request such as `jobs/overview`, or None if there is none."""
        return self._ask(Request(f"{self.address}/{path}"))

    def post(self, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the JSON holds
        """The answer to a command, or None if there is none."""
        words = json.dumps(body).encode()
        return self._ask(Request(f"{self.address}/{path}", words, {"Content-Type": "application/json"}, method="POST"))

    def cancel(self, job: str) -> None:
        self._ask(Request(self._cancelling(job), method="PATCH"))

    def how_to_cancel(self, job: Mapping[str, Any]) -> str:
        return f"`curl -X PATCH '{self._cancelling(job['jid'])}'`"

    def _cancelling(self, job: str) -> str:
        return f"{self.address}/jobs/{job}?mode=cancel"

    def _ask(self, request: Request) -> Any:  # noqa: ANN401
        try:
            with urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except (URLError, HTTPException, OSError, ValueError):  # also of a job manager that is lost while it answers
            return None

    def overview(self) -> dict[str, Any]:
        """Version, task managers and slots; empty if no job manager answers."""
        answer = self.get("overview")
        return answer if isinstance(answer, dict) and "flink-version" in answer else {}

    def setting(self, *names: str) -> str:
        """The first of these settings that the cluster has, or nothing."""
        settings = {each["key"]: each["value"] for each in self.get("jobmanager/config") or ()}
        return next((settings[name] for name in names if settings.get(name)), "")

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs, each with `jid`, `name`, `state` and the number of tasks by their state."""
        return (self.get("jobs/overview") or {}).get("jobs", [])

    def not_over(self) -> list[dict[str, Any]]:
        return [job for job in self.jobs() if job["state"] not in _OVER]

    def has_come_to(self, job: str, moment: int) -> bool:
        """Whether the watermarks of all subtasks after a source have reached a moment, in milliseconds.

        Tasks are asked from the last one on, up to the first that has not reached it: this is called every second.
        """
        tasks = (self.get(f"jobs/{job}") or {}).get("vertices", [])
        tasks = [each for each in tasks if not each["name"].startswith("Source:")]  # a source takes no watermark in
        for task in reversed(tasks):
            clocks = self.get(f"jobs/{job}/vertices/{task['id']}/watermarks") or []
            if len(clocks) != task["parallelism"] or min(int(clock["value"]) for clock in clocks) < moment:
                return False
        return bool(tasks)

    def last_checkpoint(self, job: str) -> int:
        """The number of a job's last checkpoint that is whole, 0 if there is none."""
        latest = (self.get(f"jobs/{job}/checkpoints") or {}).get("latest") or {}
        return int((latest.get("completed") or {}).get("id", 0))

    def failures(self, job: str) -> list[tuple[int, str, Told | None]]:
        """The last failures that a job recovered from, the oldest first: milliseconds since 1970, cause and refusal.

        Flink remembers sixteen of them. Their texts may hold data, so only causes and refusals are taken from them.
        """
        history = (self.get(f"jobs/{job}/exceptions") or {}).get("exceptionHistory", {}).get("entries", [])
        return [
            (
                int(each.get("timestamp", 0)),
                _cause(str(each.get("exceptionName", "")), trace := str(each.get("stacktrace", ""))),
                told_in(trace),
            )
            for each in reversed(history)
        ]


_IN_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:\t?  .*\n)+\t?(\w[\w.]*)")
"""What a worker raised, in the error of Java that has passed it on."""

_LOST = {
    "a task manager was lost": re.compile(
        r"task manager was lost|RecipientUnreachable|TaskManager with id \S+ (timed out|is no longer reachable)"
    ),
    "a job manager started anew does not know the job": re.compile(r"RestClientException(?s:.*)(?i:not ?found)"),
    "a Python worker was lost": re.compile(r"io\.grpc\.StatusRuntimeException"),  # it is asked over gRPC, it alone
}
"""What is gone, and how Flink and Beam put it, whose kind of error does not tell it."""


def _cause(name: str, text: str) -> str:
    """The kind of an error, and the reason in it: the rest of its text may hold data."""
    kind = [name, *_IN_PYTHON.findall(text)][-1].rpartition(".")[2]
    lost = (what for what, said in _LOST.items() if said.search(f"{name} {text}"))
    where = f", nobody listens at {refused[1]}" if (refused := _REFUSED.search(text)) else ""
    return ": ".join(filter(None, [kind, reason_in(text) or f"{next(lost, '')}{where}".removeprefix(", ")]))


_REFUSED = re.compile(r"Connection refused: ([\w.-]*/[\w.:\[\]]+:\d+)")
"""Where nobody listens, such as a pool of workers that is gone."""

_LOOK = "look at the logs of the task managers and the Python workers (of a mini cluster, at this process's stderr)"


def _in_vain(times: int, cause: str) -> InvalidArgument:
    rule = f"the job on Flink failed {times} times in a row and came no further, the last time with {verbatim(cause)}"
    return InvalidArgument("", f"{rule}, so it was cancelled", _LOOK)


def ended(state: str, messages: Sequence[str], steps: Collection[str]) -> InvalidArgument:
    """How a job has ended early, and the cause and the step of what its job server said last: one of the pipeline's
    steps, since the rest of the text may hold data.
    """
    kind = re.match(r"[\w.$]+", last := next(filter(None, reversed(messages)), ""))
    step = next((each for each in reversed(re.findall(r"\[while running '(.+?)'\]", last)) if each in steps), "")
    cause = f" ({_cause(kind[0], last)}{step and f' while running {verbatim(repr(step))}'})" if kind else ""
    return InvalidArgument("", f"the job on Flink ended as {state}{cause}", _LOOK)


_END_OF_TIME = 9_223_371_950_454_775
"""The last moment of Beam's global window, in milliseconds."""

_SAVEPOINTS = (
    "state.savepoints.dir",
    "execution.checkpointing.savepoint-dir",
    "state.checkpoints.dir",
    "execution.checkpointing.dir",
)

_OVER = ("FINISHED", "FAILED", "CANCELED")

_ENDING, _GONE, _SUBMITTING = 30.0, 5.0, 3.0
"""Seconds for a job to end, likewise where it is told to be gone already, and for one just submitted to be listed."""


class Watch(threading.Thread):
    """Watches a job every second until it ends: reports when it restarts or waits for slots, and stops a stream that is
    over.

    Flink runs a streaming job for ever once its sources have ended. Here it is stopped when nothing more can come:
    every declared window is seen to be published, or the watermark of every task is at the end of time. Neither
    condition alone suffices: not every place of rankings can be read from here, and watermarks are metrics, which stand
    still for `web.timeout`, ten minutes by default, if a task manager is lost while it is asked.

    Args:
        name: the job's name, unique on this cluster.
        answered: of a stream, set when all windows of the job are seen to be published.
        say: takes one line of public facts for the operator.
        most: how many failures in a row end the job: without a checkpoint, a finished task or ten minutes between them.
        facts: takes the name and the id of the job, which then are said too.

    `over` is set where the job is known to have ended: a mini cluster, which goes with its job, does not tell it.
    `patience` is how many seconds pass until missing slots, or a missing job manager, are reported.
    """

    patience = 20.0

    def __init__(
        self,
        manager: JobManager,
        name: str,
        answered: threading.Event | None,
        say: Callable[[str], None] = say_on_stderr,
        most: int = IN_A_ROW,
        facts: dict[str, object] | None = None,
    ) -> None:
        super().__init__(name="flink-watch", daemon=True)
        self._manager, self._name, self._answered = manager, name, answered
        self._say, self._most = say, most
        self._looks = self._restarts = self._last_failure = self._in_a_row = 0
        self._reached = (0, 0)
        self._since: dict[str, float] = {}
        self._stopping, self._facts = "", facts
        self._starved = self._gone = False
        self._said: set[str] = set()
        self.refusal: Told | None = None
        self.over = False

    def run(self) -> None:
        state = ""
        while state not in _OVER:
            time.sleep(1)
            try:
                job = self._job()
                if job is None and self.over:
                    return
                self._gone = self._lasts("gone", job is None and state != "")
                if self._gone:
                    self._say_once(
                        Line(
                            f"Flink: the job manager does not answer, or does not know {self._name} any more, as one "
                            "does not that was started anew without high availability: then end this launcher, unless "
                            "it ends by itself, and type the same command",
                            event="gone",
                            level="warning",
                        )
                    )
                if job is not None:
                    state = job["state"]
                    self._tell_which(job["jid"])
                    self.look(job["jid"], state, job["tasks"])
            except Exception as error:  # an unexpected answer must not end the watch, since then the job would not end
                self._say_once(f"Flink: the job manager said what is not understood ({type(error).__name__})")

    def _tell_which(self, job: str) -> None:
        if self._facts is not None and self._facts.get("job_name") != self._name:
            self._facts |= {"job": job, "job_name": self._name}
            self._say(Line(f"Flink: the job is {self._name} ({job})", event="submitted", **self._facts))

    def _job(self) -> dict[str, Any] | None:
        return next((job for job in self._manager.jobs() if job["name"] == self._name), None)

    def cancelled(self) -> InvalidArgument | None:
        """The error of a job that somebody else has cancelled, on the cluster's page perhaps."""
        if (self._job() or {}).get("state") not in ("CANCELLING", "CANCELED"):
            return None
        return InvalidArgument("", "the job on Flink was cancelled, not by its launcher")

    def cancel(self) -> None:
        """Cancel the job, and wait until the cluster says that it is over. If it does not, the job is named."""
        began, job = time.monotonic(), self._job()
        patience = _GONE if self._gone else _ENDING
        while time.monotonic() - began < patience:
            if job is not None and job["state"] in _OVER:
                return
            if job is not None:
                self._manager.cancel(job["jid"])
            elif time.monotonic() - began > _SUBMITTING and self._manager.overview():
                return
            time.sleep(0.5)
            job = self._job()
        where = f"cancel it there{'' if job else ', if a job manager comes back with it'}"
        told = f"Flink: {self._manager.address} does not say that the job {self._name} is over: {where}"
        self._say(Line(told, level="warning"))

    def look(self, job: str, state: str, tasks: dict[str, int]) -> None:
        if self._looks % 5 == 0 and state != "FAILED":  # rarely: for an answer the job manager serialises the whole job
            self._look_at_failures(job, tasks)
        self._looks += 1
        self._look_at_slots(state, tasks)
        if self._stopping:
            self._look_at_the_end(job)
        elif self._answered is not None and state == "RUNNING" and tasks["running"] == tasks["total"]:
            if self._answered.is_set() or self._manager.has_come_to(job, _END_OF_TIME):
                self._end(job)

    def _look_at_failures(self, job: str, tasks: dict[str, int]) -> None:
        failures = self._manager.failures(job)
        if failures and failures[-1][0] > self._last_failure:
            reached = (self._manager.last_checkpoint(job), tasks.get("finished", 0))
            if reached > self._reached:
                self._in_a_row, self._reached = 0, reached
        for when, cause, refusal in failures:
            if refusal is not None:
                self.refusal = refusal
                self._manager.cancel(job)
            elif when > self._last_failure:
                self._in_a_row = 1 if when - self._last_failure > _QUIET else self._in_a_row + 1
                self._last_failure = when
                self._restarts += 1
                self._say(
                    Line(
                        f"Flink: the job restarted, {self._restarts} in all ({cause})",
                        event="restarted",
                        level="warning",
                        restarts=self._restarts,
                        cause=cause,
                    )
                )
                if self._in_a_row >= self._most and self.refusal is None:
                    self.refusal = _in_vain(self._in_a_row, cause)
                    self._manager.cancel(job)

    def _look_at_slots(self, state: str, tasks: dict[str, int]) -> None:
        """Report missing slots: a job waits for them if none of its tasks runs; if some do, others run after them."""
        busy = tasks["running"] + tasks["initializing"] + tasks["deploying"] + tasks["canceling"]
        cluster = self._manager.overview() if not busy and state in ("CREATED", "RUNNING") else {}
        # Some slots may be free and yet too few: then the job stays created (by the adaptive scheduler) or its tasks
        # scheduled, which otherwise last a moment only.
        waits = state == "CREATED" or tasks.get("scheduled") or not cluster.get("slots-available")
        before, self._starved = self._starved, self._lasts("starved", bool(cluster and waits))
        if self._starved and not before:
            others = [self._shown(job) for job in self._manager.not_over() if job["name"] != self._name]
            free, total = cluster["slots-available"], cluster["slots-total"]
            self._say(
                Line(
                    f"Flink: the job waits for slots: {free} of {total} are free, of {cluster['taskmanagers']} task "
                    f"managers{'; other jobs are ' * bool(others)}{', and '.join(others)}. Start task managers, or end "
                    "a job by its launcher, or this one and give a smaller --parallelism",
                    event="slots",
                    level="warning",
                    free=free,
                    of=total,
                )
            )

    def _shown(self, job: Mapping[str, Any]) -> str:
        """Another job, and how to cancel it if it is of the same release: its launcher may have been killed."""
        ours = job["name"].rpartition("-")[0] == self._name.rpartition("-")[0]
        how = f", of this release: if its launcher was killed, cancel it with {self._manager.how_to_cancel(job)}"
        return f"{job['name']} ({job['jid']}){how * ours}"

    def _lasts(self, what: str, holds: bool) -> bool:
        """Whether a condition has held, at every look, for longer than the watch's patience."""
        if not holds:
            self._since.pop(what, None)
            return False
        return time.monotonic() - self._since.setdefault(what, time.monotonic()) > self.patience

    def _end(self, job: str) -> None:
        place = self._manager.setting(*_SAVEPOINTS)
        if place:
            # With a last checkpoint, before which bundles are finished. Without draining: there is nothing left to
            # flush, and what a source would do next must not keep the job from ending.
            order = self._manager.post(f"jobs/{job}/stop", {"drain": False, "targetDirectory": place})
            self._stopping = (order or {}).get("request-id", "")
        else:
            self._say_once(
                "Flink: the horizon is over, and the cluster has no state.savepoints.dir, which ending a "
                "job needs: cancel it"
            )

    def _look_at_the_end(self, job: str) -> None:
        """Remove the last checkpoint, which is not needed.

        If it failed, or a job manager that has replaced another does not know it, the job is stopped again.
        """
        answer = self._manager.get(f"jobs/{job}/savepoints/{self._stopping}") or {}
        status = answer.get("status", {}).get("id")
        if self._lasts("forgotten", status is None) or status == "COMPLETED":
            self._stopping = ""
            if location := answer.get("operation", {}).get("location"):
                self._manager.post("savepoint-disposal", {"savepoint-path": location})

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)
