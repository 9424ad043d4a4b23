"""Options of Flink's job server. Beam's Python knows them only once that server is up, so it is the server that is
asked."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

__all__ = ["DEFAULTS", "KEEPS_WORKERS", "ON_A_CLUSTER", "job_options", "take_options"]

DEFAULTS: Mapping[str, Any] = {
    "checkpointing_interval": 10_000,
    # What a bundle puts out while a checkpoint is taken, the runner keeps aside; the watermark that follows it, it
    # does not: the rows come late and are dropped without a word. Bundles are therefore finished first.
    "finish_bundle_before_checkpointing": True,
    # How long a stage of a stream holds on to what it has put out, and a reader that has had its turn waits for the
    # next one. Flink's own second makes a ranking later by up to a second for every stage behind the close of a
    # window, and has a reader read less than half of the time.
    "max_bundle_time_mills": 200,
}
"""What every job asks for, unless said otherwise."""

ON_A_CLUSTER: Mapping[str, Any] = {
    # Stages that follow one another need no slots at the same time, so a batch that has lost a task manager goes on
    # with the slots that are left; and it is the only mode that a cluster with the adaptive scheduler takes.
    "execution_mode_for_batch": "BATCH_FORCED",
}
"""What a job asks for besides where task managers may be lost."""

KEEPS_WORKERS = 700
"""Milliseconds that a batch on a cluster keeps its Python workers from one stage to the next, which else starts its
own. Less than the pause before a job is tried again, because a worker that was killed is kept too, and fails every try
that comes before its time is over. A stream has all of its stages at once. Without effect where each job brings Beam's
classes with it."""

_TYPES = beam_job_api_pb2.PipelineOptionType


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}: an option of Flink's job server")


def take_options(words: Sequence[str], known: Mapping[str, int]) -> dict[str, Any]:
    """The values of options by their names.

    Args:
        words: from a command line, only what nobody else knows.
        known: each option's type, as `job_options` gives them.

    Raises:
        ValueError: an option that is not known, or a value that does not fit.
    """
    parser = _Parser(allow_abbrev=False, add_help=False, argument_default=argparse.SUPPRESS)
    for name, kind in known.items():
        if kind == _TYPES.BOOLEAN:
            parser.add_argument(f"--{name}", nargs="?", const=True, type=_truth)
        elif kind == _TYPES.ARRAY:
            parser.add_argument(f"--{name}", action="append")
        else:
            number = int if kind == _TYPES.INTEGER else float if kind == _TYPES.NUMBER else str
            parser.add_argument(f"--{name}", type=number)
    found, unknown = parser.parse_known_args(list(words))
    if unknown:
        raise ValueError(f"{unknown[0].partition('=')[0]} is no argument of private-topk, of Beam or of Flink's job "
                         "server: see `private-topk run --help`")  # fmt: skip
    options = vars(found)
    if options.get("finish_bundle_before_checkpointing") is False:
        raise ValueError("--finish_bundle_before_checkpointing must stay true: without it Flink drops rows silently")
    return options


def _truth(word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false, got {word}")
    return word.lower() == "true"


def job_options(service: beam_job_api_pb2_grpc.JobServiceStub) -> dict[str, int]:
    """What a running job server can be told: the type of each option by its name."""
    answer = service.DescribePipelineOptions(beam_job_api_pb2.DescribePipelineOptionsRequest(), timeout=60)
    return {option.name: option.type for option in answer.options}
