"""`private-topk expansion-service`: `RankRows` for pipelines in Java and other languages."""

from __future__ import annotations

import sys
import threading
import time
from argparse import Namespace

from private_topk.pipelines.cli.arguments import Command
from private_topk.pipelines.process import speaks

_EXPANSION = """Offer RankRows to Beam pipelines in other languages, such as Java, until it is ended. It listens on this
machine only, expands nothing else, and runs the stages in its own process; a line a minute tells that they work.
docs/java.md has a whole pipeline."""

_EXPANSION_EXAMPLES = """examples:
  private-topk expansion-service --port 8097
  private-topk expansion-service --port 8097 --log-format json

Exit status: 2 bad arguments or a port that is taken; 130 or 143 when it is ended by SIGINT or SIGTERM."""

_EVERY = 60.0
"""Seconds between two looks at whether workers work."""

_WORKER = "run_worker_"
"""How Beam begins the name of a worker's thread, which ends with its job."""


def _expansion_service(arguments: Namespace, others: list[str]) -> None:
    from private_topk.runners.expansion import RANK_ROWS, expansion_service

    with expansion_service(arguments.port) as address:
        print(f"{RANK_ROWS} is expanded at {address}", flush=True)
        while True:
            before = time.process_time()
            time.sleep(_EVERY)
            used = time.process_time() - before  # of the workers too: they are threads
            at_work = any(each.name.startswith(_WORKER) for each in threading.enumerate())  # none where the job is over
            if used >= 1 and at_work and speaks():
                print(f"stages are running: {used:.0f} s of CPU in the last minute", file=sys.stderr, flush=True)


COMMANDS = {
    "expansion-service": Command(_expansion_service, _EXPANSION, _EXPANSION_EXAMPLES, needs=("port",)),
}
