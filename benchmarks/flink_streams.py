"""The same stream again and again on Flink while the machine is busy: each must publish what the batch publishes.

    python -m benchmarks.flink_streams --times 100 --results streams.jsonl
    python -m benchmarks.flink_streams --times 10 --cluster mini --unfinished-bundles --results unfinished.jsonl
    python -m benchmarks.flink_streams --times 6 --cluster loopback --results loopback.jsonl
    python -m benchmarks.flink_streams --times 6 --again --results again.jsonl

24 windows of a time-ordered file in a watched folder, a checkpoint every half second, and processes that keep cores
busy beside it. Every stream is a `private-topk stream` of its own, with a mini cluster of its own or on one standalone
cluster; the kinds take turns. One that has not ended by itself in time counts as hung, and is ended.

With --results every stream that is done is kept as a line, and the same command goes on where it was ended.

The cluster `loopback` is the standalone one with workers in the command's own process. With --again every window stands
at its place already, so that a stream can end by its clocks only.

With --unfinished-bundles Flink is told not to finish bundles before a checkpoint, which the command refuses. Then it
loses rows, and what is to be seen is whether that is told, or other rankings are published.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from benchmarks.flink_jobs import Report, Versions, busy, end, served, start
from benchmarks.processes import end_well_by_signal
from benchmarks.results import Results
from benchmarks.servers.flink import Cluster, job_server

TOLD = ("counts were lost or doubled", " published in", "nothing is published", "lost windows of it")


@dataclass
class Stream:
    """One command that runs."""

    kind: tuple[str, int]
    process: ForkServerProcess
    versions: Versions
    log: Path
    began: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="streams in all, with those in --results")
    parser.add_argument("--parallelism", default="1,2,4")
    parser.add_argument("--cluster", default="mini,standalone")
    parser.add_argument("--interval", type=int, default=500, help="milliseconds between checkpoints")
    parser.add_argument("--load", type=int, default=1, help="cores kept busy meanwhile")
    parser.add_argument("--rows", type=int, default=2_400)
    parser.add_argument("--unfinished-bundles", action="store_true", help="see whether a loss is told")
    parser.add_argument("--again", action="store_true", help="let every window be published before")
    parser.add_argument("--together", type=int, default=2, help="how many streams run side by side")
    parser.add_argument("--patience", type=float, default=900, help="seconds until a stream counts as hung")
    parser.add_argument("--port", type=int, default=28181)
    parser.add_argument("--results", type=Path, help="where finished streams are kept, and counted from")
    parser.add_argument("--folder", type=Path, help="keep what unequal streams have left here")
    arguments, extra = parser.parse_known_args()
    end_well_by_signal()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="flink-streams-"))
    results = Results(arguments.results)
    with ExitStack() as servers:
        places: dict[str, list[str]] = {}
        if {"standalone", "loopback"} & set(arguments.cluster.split(",")):
            cluster = Cluster(folder / "cluster", arguments.port, slots=4, task_memory="1536m")
            servers.callback(cluster.stop)
            cluster.start(2)
            cluster.start_worker_pool(arguments.port + 2)
            server = servers.enter_context(served(cluster, folder))
            here = ["--flink_master", cluster.address, "--job_endpoint", server, "--environment_type", "LOOPBACK"]
            places = {"standalone": cluster.words(server), "loopback": here}
        servers.enter_context(busy(arguments.load))
        Streams(folder, arguments, [*extra, *_extra(arguments)], places, results).run()
    print(results.table("cluster", "parallelism", "verdict"), flush=True)


def _extra(arguments: argparse.Namespace) -> list[str]:
    retries = ["--number_of_execution_retries", "0"] if arguments.unfinished_bundles else []
    jar = [] if "mini" not in arguments.cluster else ["--flink_job_server_jar", str(job_server())]
    return ["--runner", "flink", *jar, "--checkpointing_interval", str(arguments.interval), *retries]


class Streams:
    """Keeps some streams running until there were enough."""

    def __init__(
        self,
        folder: Path,
        arguments: argparse.Namespace,
        words: list[str],
        places: dict[str, list[str]],
        results: Results,
    ) -> None:
        self._folder, self._arguments, self._words, self._places = folder, arguments, words, places
        self._results, self._running = results, list[Stream]()
        self._report = Report(folder / "report", rows=arguments.rows)
        numbers = map(int, arguments.parallelism.split(","))
        self._kinds = [(kind, number) for number, kind in itertools.product(numbers, arguments.cluster.split(","))]
        self._number, self._published = 0, folder / "published"

    def run(self) -> None:
        try:
            self._run()
        finally:
            for stream in self._running:
                end(stream.process)

    def _run(self) -> None:
        while (left := self._arguments.times - len(self._results.lines)) > 0:
            while len(self._running) < min(left, self._arguments.together):
                self._running.append(self._begin())
            time.sleep(0.5)
            for stream in self._running:
                stream.versions.look()
                if not stream.process.is_alive() or time.monotonic() - stream.began > self._arguments.patience:
                    self._finish(stream)
            self._running = [stream for stream in self._running if stream.process.is_alive()]

    def _begin(self) -> Stream:
        """Start a stream of the kind that there are fewest of."""
        kind = min(self._kinds, key=self._seen)
        self._number += 1
        folder = self._folder / f"{kind[0]}-{kind[1]}-{time.strftime('%H%M%S')}-{self._number}"
        folder.mkdir(parents=True)
        place = self._places.get(kind[0], [])
        if self._arguments.again:
            self._publish(folder / "out")
        words = self._report.stream_words(
            folder / "out", "--parallelism", str(kind[1]), "--job_name", folder.name, *place, *self._words
        )
        process = start(words, folder / "log", self._arguments.unfinished_bundles)
        return Stream(kind, process, Versions(folder / "out"), folder / "log", time.monotonic())

    def _publish(self, folder: Path) -> None:
        """What a stream publishes, before it begins."""
        if not self._published.exists():
            done = start(self._report.stream_words(self._published, "--runner", "direct"), self._folder / "direct.log")
            done.join()
        shutil.copytree(self._published, folder)

    def _seen(self, kind: tuple[str, int]) -> int:
        done = self._results.count(cluster=kind[0], parallelism=kind[1])
        return done + sum(stream.kind == kind for stream in self._running)

    def _finish(self, stream: Stream) -> None:
        hung = stream.process.is_alive()
        end(stream.process)
        verdict = "hung" if hung else self._verdict(stream)
        took = round(time.monotonic() - stream.began)
        self._results.add(cluster=stream.kind[0], parallelism=stream.kind[1], verdict=verdict, seconds=took)
        print(
            f"{len(self._results.lines)}: {stream.kind[0]}, parallelism {stream.kind[1]}: {verdict}, {took} s",
            flush=True,
        )
        if verdict == "equal":
            shutil.rmtree(stream.log.parent)
        else:
            print(f"see {stream.log.parent}", flush=True)

    def _verdict(self, stream: Stream) -> str:
        said, status = stream.log.read_text(), stream.process.exitcode
        if status == 0:
            return stream.versions.verdict(self._report.expected)
        right = all(path.read_bytes() in self._report.expected for path in stream.versions.folder.glob("*.jsonl"))
        if not right:
            return "SOMETHING WRONG IS PUBLISHED"
        return "told, nothing wrong is published" if any(each in said for each in TOLD) else f"status {status}"


if __name__ == "__main__":
    main()
