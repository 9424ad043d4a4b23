"""Workers inside this process, for a job server on this machine: heard by nobody else.

Beam's own LOOPBACK listens on every interface, and who reaches it may let it start a worker that takes its work, any
code, from them. And it knows workers by a number that every task manager of Flink counts from 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.portability import python_urns
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.transforms.environments import (
    Environment,
    ExternalEnvironment,
    PythonLoopbackEnvironment,
    python_sdk_capabilities,
)
from apache_beam.transforms.resources import resource_hints_from_options

from private_topk.runners.worker_pool import ThreadWorkers, serve

__all__ = ["LoopbackRunner"]


class LoopbackRunner(PortableRunner):
    """A portable runner whose LOOPBACK is on loopback. Stands before Beam's own runner among the bases of a class."""

    def default_environment(self, options: PipelineOptions) -> Environment:
        """Workers in this process have what it has: Beam would put it together for them, in a folder that it leaves."""
        if options.view_as(PortableOptions).environment_type != "LOOPBACK":
            return super().default_environment(options)
        return PythonLoopbackEnvironment(python_sdk_capabilities(), (), resource_hints_from_options(options))

    @staticmethod
    def start_and_replace_loopback_environments(pipeline: Any, options: PipelineOptions) -> list[Callable[[], object]]:  # noqa: ANN401
        """Let workers run in this process, each by the caller that started it."""
        stops: list[Callable[[], object]] = []
        for environment in pipeline.components.environments.values():
            if environment.urn == python_urns.EMBEDDED_PYTHON_LOOPBACK:
                server, port = serve(ThreadWorkers(), "127.0.0.1:0")
                here = ExternalEnvironment(f"127.0.0.1:{port}").to_runner_api(PipelineContext())
                environment.urn, environment.payload = here.urn, here.payload
                stops.append(partial(server.stop, 1))
        return stops
