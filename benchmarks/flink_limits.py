"""How much one task of a batch may put out on Flink: a task that puts out so many megabytes, in elements of so many.

    python -m benchmarks.flink_limits --megabytes 400,700,1600
    python -m benchmarks.flink_limits --megabytes 600 --element 20

A new cluster each time, of a task manager of 4 GiB with a slot. Beam's runner keeps what a Python worker puts out until
its bundle is over, in a queue of a hundred messages of up to ten megabytes: where that is full the job waits for good.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

from benchmarks.processes import end_well_by_signal
from benchmarks.servers.flink import Cluster
from private_topk.runners import prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", default="400,700,1600")
    parser.add_argument("--element", type=int, default=1, help="megabytes of each element")
    parser.add_argument("--memory", default="4g", help="of the task manager")
    parser.add_argument("--patience", type=float, default=150, help="seconds until it counts as stalled")
    parser.add_argument("--port", type=int, default=27381)
    arguments = parser.parse_args()
    end_well_by_signal()
    for megabytes in map(int, arguments.megabytes.split(",")):
        print(f"{megabytes:>6} MB, elements of {arguments.element}: {ends(megabytes, arguments)}", flush=True)
    os._exit(0)  # Beam would wait for the job that stalls


def ends(megabytes: int, arguments: argparse.Namespace) -> str:
    element, number = arguments.element << 20, megabytes // arguments.element
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder), arguments.port, task_memory=arguments.memory)
        try:
            cluster.start(1)
            cluster.start_worker_pool(arguments.port + 2)
            launch = prepare("flink", [*cluster.words(), "--parallelism=1"])
        except BaseException:
            cluster.stop()
            raise
        try:
            pipeline = beam.Pipeline(runner=launch.runner, options=launch.options)
            sizes = (
                pipeline
                | beam.Create([0])
                | beam.Reshuffle()
                | beam.FlatMap(lambda _: ((key, bytes(element)) for key in range(number)))
                | beam.GroupByKey()
                | beam.MapTuple(lambda _, values: sum(map(len, values)))
                | beam.CombineGlobally(sum)
            )
            assert_that(sizes, equal_to([element * number]))
            began = time.perf_counter()
            state = pipeline.run().wait_until_finish(int(arguments.patience * 1000))
            return f"{state} after {time.perf_counter() - began:.0f} s"
        except RuntimeError as error:
            return f"failed: {str(error)[-200:]}"
        finally:
            launch.runner.default_job_server(launch.options).stop()  # type: ignore[attr-defined]  # of Flink
            cluster.stop()


if __name__ == "__main__":
    main()
