"""Runners of reports. The module of a runner prepares options and checks its requirements; it does no arithmetic."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from private_topk.transforms.errors import InvalidArgument, by_signature, did_you_mean, verbatim
from private_topk.transforms.loading import load

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineRunner

__all__ = [
    "RUNNERS",
    "Launch",
    "Line",
    "UnknownArgument",
    "as_object",
    "cache_folder",
    "check_arguments",
    "name_of",
    "prepare",
    "say",
    "unknown_words",
]

RUNNERS = {
    "direct": "private_topk.runners.direct",
    "flink": "private_topk.runners.flink",
    "prism": "private_topk.runners.prism",
    "portable": "private_topk.runners.portable",
    "dataflow": "private_topk.runners.dataflow",
}
"""Every runner by its name on the command line, and its module."""


_STORED_PER_TASK = 1 << 28
"""The most stored bytes of a task's input: well compressed, they make two to three times as many bytes of output."""

_YEARS = 10 * 365 * 86_400
"""Ten years in seconds: longer than any job."""


@dataclass(frozen=True)
class Launch:
    """A runner and its options, checked and ready.

    Args:
        remote: the workers are machines that see no local file and no environment variable of this one.
        deferred: running only writes the job down, and the launcher of a flex template submits it at once.
        waits_for_timers: the watermark waits for timers that a transform has set.
        follows_slowest_reader: of several readers of one source, the watermark follows the one farthest behind.
        at: where the job runs, in words: a dry run tells it.
        cores: how many of its machine's cores a worker may fill by itself.
        by_reference: all workers are threads of this process, and no bundle is retried.
        listener: the runner for a source that must be listened to, if that is another one.
        holding_tasks: how many tasks of a batch share its input, if each holds all of its output to its end; otherwise
            0.
        answered: set when every declared window is seen to be published: a runner whose jobs do not end by themselves
            then ends this one.
        name_after: takes the id of the release that is about to be checked or run.
        job: what is told of the job in the health file, while it runs.
    """

    name: str
    runner: PipelineRunner
    options: PipelineOptions
    remote: bool = False
    deferred: bool = False
    waits_for_timers: bool = True
    follows_slowest_reader: bool = True
    at: str = "here"
    cores: int = 1
    by_reference: bool = False
    listener: PipelineRunner | None = None
    holding_tasks: int = 0
    answered: threading.Event = field(default_factory=threading.Event, compare=False)
    name_after: Callable[[str], object] = field(default=lambda release: None, compare=False)
    job: Mapping[str, object] = field(default_factory=dict, compare=False)

    def check_size(self, stored: int) -> None:
        """Raise InvalidArgument for a batch of so many stored bytes that its tasks could not hold their output."""
        wanted = -(-stored // _STORED_PER_TASK)
        if self.holding_tasks < wanted:
            raise InvalidArgument(
                "input",
                f"has {stored / 1e9:.1f} GB, and {self.name} is given {self.holding_tasks} tasks: a "
                f"task holds what it puts out until its end, and more than a gigabyte stalls it",
                f"give --parallelism {wanted}; tasks take turns where slots are fewer",
            )

    def listening(self) -> Launch:
        """The same launch on a runner that receives what is sent while it runs."""
        if self.listener is None:
            return self
        # In the only such runner, Beam's in-process one, the watermark does not wait for timers.
        return replace(self, runner=self.listener, waits_for_timers=False, by_reference=False, listener=None)


class UnknownArgument(ValueError):
    """A word that is no argument of Beam or of the runner.

    Args:
        word: the word. `known`: the known arguments, each with its dashes.
    """

    def __init__(self, word: str, known: Sequence[str] = ()) -> None:
        super().__init__(f"{word.partition('=')[0]} is no argument of Beam")
        self.word, self.known = word, tuple(known)


def cache_folder() -> Path:
    """Where parts of other projects are kept: job servers, Prism."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "private-topk"


def check_arguments(name: str, arguments: Sequence[str]) -> None:
    """Raise UnknownArgument for a word that no options class of Beam knows, which Beam itself would ignore silently.

    A runner may have further options, which it knows only once its server is up: `ASKS_ITS_SERVER`.
    """
    if getattr(_module(name), "ASKS_ITS_SERVER", False):
        return
    if unknown := unknown_words(arguments):
        raise UnknownArgument(unknown[0], list(_beams_parser()._option_string_actions))


def name_of(name: str) -> str:
    """A runner's name here, from Beam's for it: `DirectRunner` is direct. Raises InvalidArgument for any other."""
    short = name.lower().removesuffix("runner")
    if short not in RUNNERS:
        rule = f"must be one of {', '.join(RUNNERS)}, got {verbatim(name)}"
        raise InvalidArgument("runner", rule, did_you_mean(short, RUNNERS))
    return short


def _module(name: str) -> ModuleType:
    return load(RUNNERS[name_of(name)])


@by_signature
def prepare(name: str, arguments: Sequence[str]) -> Launch:
    """Prepare a runner, by its name (`direct`) or Beam's name for it (`DirectRunner`).

    Args:
        arguments: Beam's own options, passed through.

    Raises:
        ValueError: the runner is unknown or lacks something, with what is missing and how to get it.
        UnknownArgument: neither Beam nor the runner has such an option.
    """
    check_arguments(name, arguments)
    launch = _module(name).prepare(list(arguments))
    if not any(word.startswith(("--job_server_timeout", "--job-server-timeout")) for word in arguments):
        _wait_without_end(launch)
    return launch


def _wait_without_end(launch: Launch) -> None:
    """Let a portable job run as long as it needs: by default Beam fails after five minutes."""
    from apache_beam.options.pipeline_options import PortableOptions
    from apache_beam.runners.portability.portable_runner import PortableRunner

    if isinstance(launch.runner, PortableRunner):
        launch.options.view_as(PortableOptions).job_server_timeout = _YEARS


def unknown_words(arguments: Sequence[str]) -> list[str]:
    """The words of a command line that no Beam options class takes."""
    return _beams_parser().parse_known_args(list(arguments))[1]


def _beams_parser() -> Any:  # noqa: ANN401 - Beam's own
    """The parser of all of Beam's options, which Beam passes to functions that add options."""
    from apache_beam.options.pipeline_options import PipelineOptions

    parsers: list[Any] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    return parsers[0]


class Line(str):
    """A line with its facts as fields, for logs that programs read.

    Args:
        text: the line as it is printed.
        facts: the same as fields: public, and of the types of JSON.
    """

    facts: dict[str, object]

    def __new__(cls, text: str, **facts: object) -> Line:
        line = super().__new__(cls, text)
        line.facts = facts
        return line


def as_object(line: str, level: str = "info") -> str:
    """A line as an object of JSON: `time` (UTC), `level`, `message`, and its facts."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    facts = line.facts if isinstance(line, Line) else {}
    return json.dumps({"time": now, "level": level, "message": f"{line}", **facts}, ensure_ascii=False)


def say(line: str, stream: TextIO | None = None) -> None:
    """Print to a stream. By default that is the process's own stderr, since sys.stderr is redirected while Beam would
    print errors of workers.

    If the stream has a method `say`, it gets the line with its facts.
    """
    stream = stream or sys.__stderr__
    put = getattr(stream, "say", None)
    if put is not None:
        put(line)
    else:
        print(line, file=stream, flush=True)
