"""The runner of a report and Beam's own options, made ready; what is wrong with them is one sentence."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from private_topk.runners import RUNNERS, Launch, UnknownArgument, check_arguments, prepare, short_name
from private_topk.transforms.errors import Refusal, did_you_mean, refused, verbatim
from private_topk.transforms.options import Options

__all__ = ["check_words", "launch_of", "reach_files"]

_PLACES = ("input", "domain", "output", "snapshot")
_EMULATOR = "STORAGE_EMULATOR_HOST"


def reach_files(words: Sequence[str], options: Options) -> None:
    """Let Beam's options of file systems, such as credentials and endpoints, hold from the first look at a file on.

    Raises Refusal where a place is Google's and there are no credentials: Beam would look for them for minutes.
    """
    with _explained():
        beams = PipelineOptions(list(words))
        FileSystems.set_options(beams)
        anonymous = bool(beams.view_as(GoogleCloudOptions).no_auth)
    for field in _PLACES:
        place = str(options.get(field, ""))
        if place.startswith("gs://") and not (anonymous or os.environ.get(_EMULATOR) or _credentials()):
            raise Refusal(field, f"{verbatim(place)} needs Google credentials, and there are none here", "`gcloud auth "
                          "application-default login`, or --no_auth for a public bucket")  # fmt: skip


def _credentials() -> bool:
    """Whether there are any, or no library that would look for them."""
    try:
        import google.auth
        from google.auth.exceptions import DefaultCredentialsError
    except ImportError:  # Beam says what to install
        return True
    try:
        google.auth.default()
    except DefaultCredentialsError:
        return False
    return True


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
        raise refused(error) from None
    except SystemExit:
        reason = said.getvalue().strip().rpartition("\n")[2].partition("error: ")[2]
        raise Refusal("", f"Beam's options cannot be read: {verbatim(reason)}") from None
