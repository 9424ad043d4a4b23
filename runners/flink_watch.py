"""Watches a job while it runs on Flink: says when it restarts or waits for slots, ends a stream that is over, and a
batch that stands still.

Flink keeps a streaming job for ever once its sources have ended, because a job whose sources are shut down takes no
more checkpoints. Here the job is stopped when nothing can come any more: every declared window is seen to be published,
or the clock of every task stands at the end of time. Two ways to know, for neither is always open. Not every place of
rankings can be seen from here; and clocks are metrics, for which Flink waits up to its `web.timeout`, ten minutes by
default, when a task manager is lost that was just being asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from private_topk.runners.console import Line
from private_topk.runners.console import say as say_on_stderr
from private_topk.runners.flink_rest import Rest
from private_topk.runners.flink_standstill import stands_still

__all__ = ["Watch"]

_END_OF_TIME = 9_223_371_950_454_775
"""In milliseconds: the last moment of Beam's global window."""

_SAVEPOINTS = ("state.savepoints.dir", "execution.checkpointing.savepoint-dir", "state.checkpoints.dir",
               "execution.checkpointing.dir")  # fmt: skip

_OVER = ("FINISHED", "FAILED", "CANCELED")

_FORGOTTEN = 10
"""So many times in a row nobody knows of the order to end a job: it is forgotten."""


class Watch(threading.Thread):
    """A thread that looks at one job every second until the job has ended.

    Args:
        name: of the job, and of no other on this cluster.
        answered: set when all that the job has to publish is seen to be published.
        say: takes one line of public facts for the operator.
        patience: seconds without slots before it is said, or of a standstill before the job is ended.
        looks: so many looks to one at the job's failures, for which the job manager writes down all of the job.

    `had` is set when a batch that stood still was told to end: to as many slots as it had.
    """

    def __init__(
        self,
        rest: Rest,
        name: str,
        streaming: bool,
        answered: threading.Event,
        say: Callable[[str], None] = say_on_stderr,
        patience: float = 20,
        looks: int = 5,
    ) -> None:
        super().__init__(name="flink-watch", daemon=True)
        self._rest, self._name, self._streaming, self._answered = rest, name, streaming, answered
        self._say, self._patience, self._looks, self._looked = say, patience, looks, 0
        self._restarts = self._failed = 0
        self._awaits_cause = False
        self._starved: float | None = None
        self._still: float | None = None
        self._tasks: dict[str, int] = {}
        self.had = 0
        self._stopping = ""
        self._gone: float | None = None
        self._unanswered = 0
        self._told: set[str] = set()

    def run(self) -> None:
        state = ""
        while state not in _OVER:
            time.sleep(1)
            try:
                job = next((job for job in self._rest.jobs() if job["name"] == self._name), None)
                if job is not None:
                    state, self._gone = job["state"], None
                    self._look(job["jid"], state, job["tasks"])
                elif state:
                    self._look_for_the_job_manager()
            except Exception as error:  # an answer in another form must not end the watch: then the job would not end
                self._say_once(f"Flink: the job manager said what is not understood ({type(error).__name__})")

    def _look(self, job: str, state: str, tasks: dict[str, int]) -> None:
        if self._looked % self._looks == 0 or state in _OVER:
            self._look_at_restarts(job)
        self._looked += 1
        self._look_at_slots(job, state, tasks)
        if not self._streaming:
            self._end_what_stands_still(job, tasks)
        elif self._stopping:
            self._look_at_the_end(job)
        elif state == "RUNNING" and tasks["running"] == tasks["total"]:
            self._end_when_over(job)

    def _look_at_restarts(self, job: str) -> None:
        """Flink counts as a restart also a change of the slots that a job runs in, which is no failure."""
        failures = self._rest.failures(job)
        # A batch has its failures only. To be asked for a number has Flink collect all that every task manager counts.
        restarts = max(self._rest.metric(job, "numRestarts") if self._streaming or failures else 0, len(failures))
        if restarts <= self._restarts:
            return
        newest, cause = failures[0] if failures else (0, "")
        failed = newest > self._failed  # not by their number: of a long life only the last ones are remembered
        if not failed and not self._awaits_cause:
            self._awaits_cause = True  # its failure may be told a moment after the restart
            return
        self._restarts, self._failed, self._awaits_cause = restarts, max(newest, self._failed), False
        why = cause if failed else "no failure is told: its slots may have changed"
        self._say(Line(f"Flink: the job restarted, {restarts} in all ({why})",
                       event="restarted", restarts=restarts, cause=why))  # fmt: skip

    def _look_for_the_job_manager(self) -> None:
        """A job that was there is not to be found."""
        now = time.monotonic()
        self._gone = self._gone or now
        if now - self._gone > self._patience:
            self._gone = now + 60 - self._patience  # again in a minute
            self._say("Flink: the job manager does not know the job any more, as one does not that was started anew "
                      "without high availability" if self._rest.overview() else
                      "Flink: the job manager does not answer")  # fmt: skip

    def _look_at_slots(self, job: str, state: str, tasks: dict[str, int]) -> None:
        """A job waits for slots if none of its tasks runs: where some do, those behind them come when they are done."""
        busy = tasks["running"] + tasks["initializing"] + tasks["deploying"] + tasks["canceling"]
        starved = not busy and state in ("CREATED", "RUNNING", "RESTARTING")
        cluster = self._rest.overview() if starved else {}
        # Some may be free and yet too few: then tasks stay scheduled, which they else are for a moment.
        if not cluster or (cluster["slots-available"] and not tasks.get("scheduled")):
            self._starved = None
            return
        now = time.monotonic()
        self._starved = self._starved or now
        if now - self._starved > self._patience:
            self._starved = now + 60 - self._patience  # again in a minute
            if self._holds_them_itself(job, cluster):
                return
            slots, free, managers = cluster["slots-total"], cluster["slots-available"], cluster["taskmanagers"]
            taken = f"only {free} of the {slots} of {managers} task managers are free" if free else (
                    f"all {slots} of the {managers} task managers are taken")  # fmt: skip
            self._say(f"Flink: the job waits for slots: {taken}. Start task managers, or cancel the job and give "
                      f"--parallelism {max(free or slots, 1)}")  # fmt: skip

    def _holds_them_itself(self, job: str, cluster: dict[str, Any]) -> bool:
        """The slots that are taken are enough, and the job's own: it keeps them while it waits to be restarted."""
        others = [each for each in self._rest.jobs() if each["jid"] != job and each["state"] not in _OVER]
        enough = 0 < self._rest.widest(job) <= cluster["slots-total"]
        return enough and not others and not cluster["slots-available"]

    def _end_what_stands_still(self, job: str, tasks: dict[str, int]) -> None:
        """A batch does not get over a standstill by itself. Whoever has handed it over may do so again."""
        before, self._tasks = self._tasks, tasks  # where tasks come and go there is no need to ask
        waits = tasks == before and tasks["running"] and tasks.get("scheduled")
        if self.had or not waits or not stands_still(self._rest, job):
            self._still = None
            return
        now = time.monotonic()
        self._still = self._still or now
        if now - self._still > self._patience:
            self.had = tasks["running"]
            self._say(Line(f"Flink: the job stands still: the tasks in all {self.had} slots that it has wait for "
                           "others that are to be repeated and get none. It is ended, and begins anew with "
                           f"--parallelism {self.had}", event="stood still", slots=self.had))  # fmt: skip
            self._rest.cancel(job)

    def _end_when_over(self, job: str) -> None:
        if not (self._answered.is_set() or self._rest.has_come_to(job, _END_OF_TIME)):
            return
        place = self._rest.setting(*_SAVEPOINTS)
        if place:
            # With a last checkpoint, before which bundles are finished. Not draining: there is nothing left to flush,
            # and what a source would do next must not keep the job from ending.
            order = self._rest.post(f"jobs/{job}/stop", {"drain": False, "targetDirectory": place})
            self._stopping = (order or {}).get("request-id", "")
        else:
            self._say_once("Flink: the horizon is over, and the cluster has no state.savepoints.dir, which ending a "
                           "job needs: cancel it")  # fmt: skip

    def _look_at_the_end(self, job: str) -> None:
        """Take away the last checkpoint, of which nobody has any use.

        Where it failed the end is tried again, and so where nobody knows of it any more, as a job manager does not that
        has taken the place of another.
        """
        found = self._rest.get(f"jobs/{job}/savepoints/{self._stopping}") or {}
        status = found.get("status", {}).get("id")
        self._unanswered = 0 if status else self._unanswered + 1
        if status == "COMPLETED" or self._unanswered > _FORGOTTEN:
            self._stopping, self._unanswered = "", 0
            location = found.get("operation", {}).get("location")
            if location:
                self._rest.post("savepoint-disposal", {"savepoint-path": location})

    def _say_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._say(line)
