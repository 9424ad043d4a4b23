"""Prism, Beam's portable runner in Go: one binary, no Java. Workers run inside this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, PrismRunnerOptions
from apache_beam.runners.portability.prism_runner import PrismJobServer, PrismRunner
from apache_beam.utils import shared
from apache_beam.version import __version__ as beam_version

from private_topk.runners import Launch, cache_folder
from private_topk.runners.options import BeamOptions
from private_topk.runners.portable import EndsWithUs, LoopbackRunner, check_environment

MODULE = "github.com/apache/beam/sdks/v2/go/cmd/prism"


class _JobServer(EndsWithUs, PrismJobServer):
    """Prism's process."""


class PrismJobRunner(LoopbackRunner, PrismRunner):
    """Beam's runner, whose workers only this machine can reach, with one server for a process and a binary.

    Beam's own would use that of the process's first job, though it be of its default runner, which downloads one.
    """

    _server: ClassVar[shared.Shared] = shared.Shared()

    def default_job_server(self, options: PipelineOptions) -> _JobServer:
        location = options.view_as(PrismRunnerOptions).prism_location
        return self._server.acquire(lambda: _JobServer(options), tag=location)


def prepare(arguments: Sequence[str]) -> Launch:
    """Prepare a job on the binary given by --prism_location, or on the built one; never on one that Beam downloads."""
    options = BeamOptions(list(arguments))
    prism = options.view_as(PrismRunnerOptions)
    binary = Path(prism.prism_location or built_binary())
    if not (binary.is_file() and os.access(binary, os.X_OK)):
        fault = f"--prism_location {binary} is no program" if prism.prism_location else "Prism is not built yet"
        raise ValueError(
            f"{fault}: build it with `GOBIN={built_binary().parent} go install {MODULE}@v{beam_version}`, "
            "which needs Go, or give --prism_location PATH"
        )
    prism.prism_location = str(binary)
    if not any(word.startswith("--prism_log_level") for word in arguments):
        prism.prism_log_level = "error"
    # Prism splits any slow bundle, also one of a stage with state: it hands out a key that is still being worked on,
    # or a timer that fires all the same, and counts come twice (apache/beam#35771).
    options.view_as(DebugOptions).add_experiment("prism_disable_sdf_split")
    check_environment(options, default="LOOPBACK")
    return Launch("prism", PrismJobRunner(), options, follows_slowest_reader=False)


def built_binary() -> Path:
    """The path of the binary of the installed Beam version, built or not."""
    return cache_folder() / f"prism-{beam_version}" / "prism"
