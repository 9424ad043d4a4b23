"""The runner of a report and Beam's own options, made ready; what is wrong with them is one sentence."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from private_topk.runners import RUNNERS, Launch, UnknownArgument, check_arguments, prepare, short_name
from private_topk.transforms.near import did_you_mean
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["check_words", "launch_of", "reach_files"]


def reach_files(words: Sequence[str]) -> None:
    """Let Beam's options of file systems, such as credentials and endpoints, hold from the first look at a file on."""
    with _explained():
        FileSystems.set_options(PipelineOptions(list(words)))


def check_words(runner: str, words: Sequence[str]) -> None:
    """Raise Refusal unless there is such a runner, and every word is an option of Beam or of it."""
    if short_name(runner) not in RUNNERS:
        rule = f"must be one of {', '.join(RUNNERS)}, got {verbatim(runner)}"
        raise Refusal("runner", rule, did_you_mean(short_name(runner), RUNNERS))
    with _explained():
        check_arguments(runner, words)


def launch_of(runner: str, words: Sequence[str], *, streaming: bool = False) -> Launch:
    """The runner, checked and ready. Raises Refusal with what it lacks."""
    check_words(runner, words)
    with _explained():
        return prepare(runner, [*words, "--streaming"] if streaming else words)


@contextmanager
def _explained() -> Iterator[None]:
    said = io.StringIO()
    try:
        with redirect_stderr(said):  # Beam's own parser prints all of its options before what is wrong
            yield
    except (Refusal, UnknownArgument):
        raise
    except ValueError as error:
        raise Refusal("", verbatim(error)) from None
    except SystemExit:
        reason = said.getvalue().strip().rpartition("\n")[2].partition("error: ")[2]
        raise Refusal("", f"Beam's options cannot be read: {reason}") from None
