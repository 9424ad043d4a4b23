"""`private-topk expansion-service`: `RankRows` for pipelines in Java and other languages."""

from __future__ import annotations

import signal
from argparse import Namespace

from private_topk.pipelines.cli.arguments import Command

_EXPANSION = """Offer RankRows to Beam pipelines in other languages, such as Java, until it is ended. It listens on this
machine only, expands nothing else, and runs the stages in its own process. docs/java.md has a whole pipeline."""

_EXPANSION_EXAMPLES = """examples:
  private-topk expansion-service --port 8097
  private-topk expansion-service --port 8097 --log-format json

Exit status: 2 bad arguments or a port that is taken; 130 or 143 when it is ended by SIGINT or SIGTERM."""


def _expansion_service(arguments: Namespace, others: list[str]) -> None:
    from private_topk.runners.expansion import RANK_ROWS, expansion_service

    with expansion_service(arguments.port) as address:
        print(f"{RANK_ROWS} is expanded at {address}", flush=True)
        signal.pause()


COMMANDS = {
    "expansion-service": Command(_expansion_service, _EXPANSION, _EXPANSION_EXAMPLES, needs=("port",)),
}
