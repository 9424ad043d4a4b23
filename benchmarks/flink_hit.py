"""A job that takes kills, for `flink_kills`: when it may be hit, whether it was, and what came of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.flink_jobs import PARTITIONS, WINDOWS, Report, Versions, end, start
from benchmarks.flink_servers import FAIL_A_JOB, OVER, Servers

_PARALLELISM = {"stream": 3, "batch": 2}
"""One task manager has four slots: where only one is left, a stream or a batch goes on with fewer."""


@dataclass
class Kill:
    """One kill, as one job has seen it.

    Args:
        at: when it came, in milliseconds since 1970; None where the job was not at work.
        hit: whether the job has seen it.
        killed: how many processes were there and died.
    """

    kind: str
    at: float | None
    hit: bool = False
    killed: int = 0


@dataclass
class Job:
    """One command of `private-topk`, and the job that it has handed over."""

    servers: Servers
    report: Report
    name: str
    kills: list[Kill] = field(default_factory=list)
    mark: tuple[int, int] = (-1, 0)

    form = ""

    def __post_init__(self) -> None:
        self.output, self.log = self.servers.folder / self.name, self.servers.folder / f"{self.name}.log"
        self.process = start(self.words(), self.log)
        self.versions = Versions(self.output)
        self._done = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)
        self._looking.start()

    def words(self) -> list[str]:
        raise NotImplementedError

    def alive(self) -> bool:
        """Whether its tasks run at this moment."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether it runs, and has come further since the last kill."""
        return self.alive()

    def over(self) -> bool:
        return not self.process.is_alive()

    def place(self) -> list[str]:
        return self.servers.words(self.name, _PARALLELISM[self.form])

    def about_to(self, kind: str) -> None:
        """Note how it is doing at the moment before a kill."""
        self.mark = self.progress()
        at_work = self.alive() and not self.has_published_all()
        self.kills.append(Kill(kind, time.time() * 1000 if at_work else None))

    def look_at_hit(self) -> bool:
        """Whether the last kill is seen to have hit it: Flink tells of a failure since, where there must be one."""
        kill, job = self.kills[-1], self.servers.job(self.name)
        if kill.at is not None and kill.killed:
            failures = self.servers.rest.failures(job["jid"]) if job else []
            kill.hit |= kill.kind not in FAIL_A_JOB or any(at >= kill.at for at, *_ in failures)
        return kill.hit

    def progress(self) -> tuple[int, int]:
        """Its last checkpoint, and how many windows are published."""
        job = self.servers.job(self.name)
        return (self.servers.checkpoint(job["jid"]) if job else -1), len(list(self.output.glob("*.jsonl")))

    def has_published_all(self) -> bool:
        return len(list(self.output.glob("*.jsonl"))) == WINDOWS

    def verdict(self) -> str:
        """What came of it, the command being over: `equal`, or what is wrong. One that is not over is ended."""
        hung = self.process.is_alive()
        if hung:
            os.kill(self.process.pid or 0, signal.SIGUSR1)  # where its threads are, to its log
            time.sleep(1)
        end(self.process)
        self._done.set()
        self._looking.join()
        if hung:
            return f"hung: see {self.log}"
        forgotten = any(kill.kind == "job-manager-forgets" for kill in self.kills)
        if forgotten and self.process.exitcode == 1 and "published" in self.log.read_text():
            right = all(path.read_bytes() in self.report.expected for path in self.output.glob("*.jsonl"))
            return "told" if right else "SOMETHING WRONG IS PUBLISHED"
        return self.compared() if self.process.exitcode == 0 else f"status {self.process.exitcode}: see {self.log}"

    def compared(self) -> str:
        """What is published beside the batch of the direct runner."""
        raise NotImplementedError

    def _look(self) -> None:
        """Five times a second, so that no version of a window is missed."""
        while not self._done.wait(0.2):
            self.versions.look()


class Stream(Job):
    """It is sent its rows piece by piece, so that it lasts as long as there are kills."""

    form = "stream"
    _sent = 0

    def words(self) -> list[str]:
        self.topic = f"topic-{self.name}"
        admin = AdminClient({"bootstrap.servers": self.servers.broker.address})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(30)
        source = f"kafka://{self.servers.broker.address}/{self.topic}"
        return self.report.stream_words(self.output, "--checkpointing_interval", "2000", *self.place(), source=source)

    def alive(self) -> bool:
        job = self.servers.job(self.name)
        return job is not None and job["state"] == "RUNNING" and 0 < job["tasks"]["total"] <= job["tasks"]["running"]

    def ready(self) -> bool:
        """With all of its tasks, and a checkpoint or a window that is new since the last kill."""
        checkpoint, windows = self.progress()
        return self.alive() and (checkpoint > self.mark[0] or windows > self.mark[1])

    def send(self, share: float, seconds: float) -> None:
        """Send more rows, up to a share of them all, over some seconds."""
        rows = range(self._sent, round(share * len(self.report.rows)))
        self._sent = rows.stop
        self.report.send(self.servers.broker.address, self.topic, rows, seconds)

    def compared(self) -> str:
        return self.versions.verdict(self.report.expected)


class Batch(Job):
    """Its stages take turns, so that at times no task runs: it is alive from its first task on until it is over."""

    form = "batch"

    def words(self) -> list[str]:
        self.output.mkdir()
        return self.report.batch_words(self.output / "all.jsonl", *self.place())

    def alive(self) -> bool:
        job = self.servers.job(self.name)
        return job is not None and job["state"] not in OVER and job["tasks"]["running"] + job["tasks"]["finished"] > 0

    def has_published_all(self) -> bool:
        return (self.output / "all.jsonl").exists()

    def compared(self) -> str:
        same = (self.output / "all.jsonl").read_bytes() == self.report.expected
        return "equal" if same else "other rankings"
