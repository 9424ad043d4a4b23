"""Kills at random moments: what a report publishes must stay the same, every window once and in one version.

    python -m benchmarks.flink_kills --times 20 --results kills.jsonl
    python -m benchmarks.flink_kills --job batch --kind task-manager,worker --times 20 --results kills.jsonl

A standalone cluster with high availability (job manager, ZooKeeper, two task managers with four slots each, a pool of
Python workers), one job server and a Kafka broker, all on loopback. A stream and a batch run beside each other, and
every kill, with SIGKILL, hits both. A stream takes some kills (--kills) before it is sent its last rows. Between two it
is sent more rows, and the next kill comes only when the job runs again with all of its tasks and has completed a new
checkpoint or published a window; then at a random moment within the eight seconds in which the next rows come. A batch
takes as many as come while it runs, and is followed by another one. What was killed is replaced a second later, or
where the kind says so once the jobs have gone on without it. In the end all that a job has published is compared with
the batch of the direct runner, byte by byte, and every version that was ever seen of a file.

A kill counts only where it hit: a process was there and died; all tasks of the stream ran at that moment, or a task of
the batch had; not all was published; and afterwards Flink told of one failure more. Of the job manager and the broker,
whose loss is no failure of a job, the first two must do. Each kill has the verdict of its job. A job that does not go
on, or does not end in time, counts as hung. The kinds take turns. With --results every job that is done is kept, a line
for each kill, and the same command goes on from there.

kinds: task-manager (one of them, replaced), task-manager-lost (replaced only when the jobs have gone on without it),
worker-pool (with its workers, replaced), worker (half of the Python workers that have something to do; nobody replaces
them but Flink), job-manager (replaced), broker (replaced; streams only). And job-manager-forgets, which needs a cluster
without high availability: the job is lost, which must be told.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.flink_hit import Batch, Job, Stream
from benchmarks.flink_jobs import Report, await_, end
from benchmarks.flink_servers import KINDS, Servers
from benchmarks.processes import end_well_by_signal
from benchmarks.results import Results

PATIENCE = 400.0
"""Seconds until a job that does not go on, or does not end, counts as hung."""
_WITHIN = 8.0


class Kills:
    """Kills one after another, until there were enough of each kind."""

    def __init__(
        self, servers: Servers, reports: dict[str, Report], arguments: argparse.Namespace, results: Results
    ) -> None:
        self.servers, self.reports, self.results = servers, reports, results
        self.times, self.most = arguments.times, arguments.kills
        self.random = np.random.default_rng()
        self._jobs: dict[str, Job] = {}
        self._number = 0

    def run(self, kinds: Sequence[str]) -> None:
        """Job after job, each with some kills, till each kind has hit often enough or was tried twice as often."""
        try:
            while self._left(kinds):
                self._some(kinds)
            for name in list(self._jobs):
                self._end(name)
        finally:
            for job in self._jobs.values():  # where the bench itself has failed
                end(job.process)

    def _left(self, kinds: Sequence[str]) -> list[str]:
        return [kind for kind in kinds if any(self._wanted(form, kind) for form in self.reports)]

    def _wanted(self, form: str, kind: str) -> bool:
        if (form, kind) == ("batch", "broker"):
            return False
        hits, tries = self._count(form, kind, True), self._count(form, kind, True) + self._count(form, kind, False)
        return hits < self.times and tries < 2 * self.times

    def _count(self, form: str, kind: str, hit: bool) -> int:
        done = self.results.count(job=form, kind=kind, hit=hit)
        running = self._jobs.get(form)
        return done + sum(kill.kind == kind and kill.hit == hit for kill in (running.kills if running else ()))

    def _some(self, kinds: Sequence[str]) -> None:
        """As many kills as one stream takes; of a forgetful job manager one."""
        single = "job-manager-forgets" in kinds
        for each in range(1 if single else self.most):
            left = self._left(kinds)
            if not left:
                break
            kind = min(left, key=lambda kind: sum(self._count(form, kind, True) for form in self.reports))
            began = time.monotonic()
            if not self._one(kind, (each + 1) / (self.most + 1)):
                break
            said = ", ".join(
                f"{form} {'hit' if job.kills[-1].hit else 'not hit'}"
                for form, job in self._jobs.items()
                if job.kills and job.kills[-1].kind == kind
            )
            print(f"{kind}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
        stream = self._jobs.get("stream")
        if isinstance(stream, Stream) and not single and not stream.over():
            stream.send(1, 1)
        for name in list(self._jobs):
            if name == "stream" or single or not self._left(kinds):
                self._end(name)
        self.servers.replace(PATIENCE)

    def _one(self, kind: str, share: float) -> bool:
        """One kill of whatever runs, while the rows up to a share of them come; whether the jobs went on."""
        for form in self.reports:
            self._begin(form)
        jobs = list(self._jobs.values())
        try:
            await_(lambda: all(job.ready() or job.over() for job in jobs), PATIENCE, "the jobs do not go on")
            if any(job.over() for job in jobs):
                return not self._has_lost_a_stream() and self._one(kind, share)
            sender = self._sending(share)
            time.sleep(self.random.random() * _WITHIN)
            hit = [job for job in jobs if (job.form, kind) != ("batch", "broker")]
            for job in hit:
                job.about_to(kind)
            killed = self.servers.kill(kind)
            for job in hit:
                job.kills[-1].killed = killed
            sender.join()
            self._see(hit, kind)
        except TimeoutError as error:
            print(f"{kind}: {error}", flush=True)
            for form in list(self._jobs):
                self._judge(form)
            self.servers.replace(PATIENCE)
            self.servers.clear()
            return False
        return True

    def _has_lost_a_stream(self) -> bool:
        """Judge what is over. A stream that is over has ended too early: nobody told it the end of its rows."""
        over = [form for form, job in self._jobs.items() if job.over()]
        for form in over:
            self._judge(form)
        return "stream" in over

    def _sending(self, share: float) -> threading.Thread:
        stream = self._jobs.get("stream")
        thread = threading.Thread(
            target=stream.send if isinstance(stream, Stream) else time.sleep, args=(share, 4) if stream else (0,)
        )
        thread.start()
        return thread

    def _see(self, jobs: Sequence[Job], kind: str) -> None:
        """Wait until the jobs have gone on, or for a while where they may not have noticed; then replace."""
        looked = time.monotonic() + 20
        # Of all of them: one that was not hit must not keep the others from being looked at.
        await_(lambda: all([job.look_at_hit() or job.over() for job in jobs]) or time.monotonic() > looked, 60, "")
        if kind == "task-manager-lost":
            await_(
                lambda: all(job.ready() or job.over() for job in jobs),
                PATIENCE,
                "the jobs do not go on without what they have lost",
            )
            self.servers.replace(PATIENCE)

    def _begin(self, form: str) -> None:
        if form not in self._jobs:
            self._number += 1
            name = f"{form}-{time.strftime('%H%M%S')}-{self._number}"
            self._jobs[form] = (Stream if form == "stream" else Batch)(self.servers, self.reports[form], name)

    def _end(self, form: str) -> None:
        """Wait until a job has ended by itself."""
        process = self._jobs[form].process
        process.join(PATIENCE)
        self._judge(form)

    def _judge(self, form: str) -> None:
        job = self._jobs.pop(form)
        verdict = job.verdict()
        for kill in job.kills:
            self.results.add(job=form, kind=kill.kind, hit=kill.hit, killed=kill.killed, verdict=verdict, of=job.name)
        print(f"{job.name} after {sum(kill.hit for kill in job.kills)} hits: {verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--job", default="stream,batch")
    parser.add_argument("--times", type=int, default=20, help="hits of each kind, with those in --results")
    parser.add_argument("--kills", type=int, default=8, help="how many one stream takes")
    parser.add_argument("--rows", default="12000,400000", help="of a stream, of a batch")
    parser.add_argument("--port", type=int, default=28081)
    parser.add_argument("--results", type=Path, help="where finished jobs are kept, and counted from")
    parser.add_argument("--folder", type=Path, help="keep logs here")
    arguments = parser.parse_args()
    end_well_by_signal()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="flink-kills-"))
    results = Results(arguments.results)
    rows = dict(zip(("stream", "batch"), map(int, arguments.rows.split(",")), strict=True))
    reports = {job: Report(folder / f"report-{job}", rows[job]) for job in arguments.job.split(",")}
    chosen = arguments.kind.split(",")
    forgets = [kind for kind in chosen if kind == "job-manager-forgets"]
    for kinds in filter(None, ([kind for kind in chosen if kind not in forgets], forgets)):
        place = folder / ("forgetful" if kinds == forgets else "available")
        with Servers(place, kinds != forgets, arguments.port + 20 * (kinds == forgets)) as servers:
            Kills(servers, reports, arguments, results).run(kinds)
    print(results.table("job", "kind", "hit", "verdict"), flush=True)


if __name__ == "__main__":
    main()
