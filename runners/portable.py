"""A runner for any Beam job service that is already running, by its address; and what portable runners share."""

from __future__ import annotations

import atexit
import json
import shutil
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import grpc
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.runners.portability.job_server import SubprocessJobServer
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.transforms.environments import (
    Environment,
    ExternalEnvironment,
    PythonLoopbackEnvironment,
    python_sdk_capabilities,
)
from apache_beam.transforms.resources import resource_hints_from_options
from apache_beam.utils import thread_pool_executor

from private_topk.runners import Launch
from private_topk.runners.child import ending_with_us
from private_topk.runners.options import BeamOptions
from private_topk.transforms.errors import InvalidArgument, Unreachable, verbatim

_ENVIRONMENTS = ("LOOPBACK", "EXTERNAL", "PROCESS", "DOCKER")


def prepare(arguments: Sequence[str]) -> Launch:
    """Prepare a job. Workers run inside this process (LOOPBACK) unless --environment_type says otherwise."""
    options = BeamOptions(list(arguments))
    portable = options.view_as(PortableOptions)
    if not portable.job_endpoint:
        raise InvalidArgument("runner", "portable needs --job_endpoint HOST:PORT, the address of a Beam job service")
    if portable.job_endpoint != "embed" and not reachable(portable.job_endpoint):
        rule = f"--job_endpoint {verbatim(portable.job_endpoint)}: nothing answers there"
        raise Unreachable("", rule, "start the job service, or give its address as HOST:PORT")
    check_environment(options, default="LOOPBACK")
    at = "here" if portable.job_endpoint == "embed" else f"at {portable.job_endpoint}, which answers"
    return Launch("portable", LoopbackRunner(), options, at=at)


def check_environment(options: PipelineOptions, default: str | None, here: bool = True) -> None:
    """Set where the workers run. Raises ValueError if they cannot run there, with what is missing.

    Beam's own default is DOCKER, which hangs for minutes if there is no container engine.

    Args:
        here: the job service or cluster is on this machine, so its access to the workers can be tested from here.
    """
    portable = options.view_as(PortableOptions)
    kind = portable.environment_type = (portable.environment_type or default or "").upper()
    if kind not in _ENVIRONMENTS:
        raise ValueError(
            f"--environment_type must be one of {', '.join(_ENVIRONMENTS)}, got "
            f"{kind or 'none'}: say where the Python workers of a cluster run"
        )
    if kind == "EXTERNAL":
        pool = portable.environment_config or portable.lookup_environment_option("external_service_address")
        if not pool or (here and not reachable(pool)):
            rule = f"--environment_config {verbatim(pool or 'is missing')}: EXTERNAL workers need the address of a "
            start = "start one beside every task manager with `python -m private_topk.runners.worker_pool --port 50000`"
            raise (Unreachable if pool else InvalidArgument)("", f"{rule}worker pool that is up", start)
    elif kind == "PROCESS":
        _check_process(portable)
    elif kind == "DOCKER" and here and shutil.which("docker") is None:
        raise ValueError(
            "--environment_type DOCKER needs Docker where the tasks run: install it, or use EXTERNAL with a worker pool"
        )


def _check_process(portable: PortableOptions) -> None:
    command = portable.lookup_environment_option("process_command")
    if command is None and portable.environment_config:
        try:
            command = json.loads(portable.environment_config).get("command")
        except (AttributeError, ValueError):
            command = None
    if not command:
        raise ValueError(
            "--environment_type PROCESS needs --environment_option process_command=PATH, the program "
            "that starts a Beam worker on a task manager"
        )


def reachable(address: str, patience: float = 3.0) -> bool:
    """Whether something listens at HOST:PORT, with or without a scheme before it."""
    host, _, port = address.rpartition("//")[2].rstrip("/").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), patience).close()
    except (OSError, ValueError):
        return False
    return True


class EndsWithUs(SubprocessJobServer):
    """A job server that ends with this process, though it be killed. It must precede Beam's among base classes.

    It is not for Beam's `StopOnExitJobServer`, which stops a server inside a handler of SIGINT under a lock: a second
    Ctrl-C meanwhile waits for that lock, in the thread that holds it.
    """

    def __init__(self, *args: Any) -> None:  # noqa: ANN401 - Beam's
        super().__init__(*args)
        self._starting = threading.Lock()
        self._endpoint: Any = None

    def subprocess_cmd_and_endpoint(self) -> tuple[list[str], str]:
        command, endpoint = super().subprocess_cmd_and_endpoint()
        return ending_with_us(command), endpoint

    def start(self) -> Any:  # noqa: ANN401 - Beam's
        """Start the server, once, and end it with this process, also if a signal comes before it answers."""
        with self._starting:
            if self._endpoint is None:
                atexit.register(self.stop)
                self._endpoint = super().start()
            return self._endpoint

    def stop(self) -> None:
        """End the server. Beam's own leaves it where its temporary folder was cleared away."""
        self._endpoint = None
        if self._local_temp_root:
            shutil.rmtree(self._local_temp_root, ignore_errors=True)
            self._local_temp_root = None
        server, self._server = self._server, None  # one that is started anew has a folder of its own
        if server is not None:
            server.stop()


class LoopbackRunner(PortableRunner):
    """A portable runner whose LOOPBACK workers only this machine can reach. It must precede Beam's among base classes.

    Beam's LOOPBACK listens on every interface, and whoever reaches it can make it start a worker that runs any code.
    And it identifies workers by a number that every task manager of Flink counts from 1.
    """

    def default_environment(self, options: PipelineOptions) -> Environment:
        """The environment of the workers. In this process they need no packages, which Beam would stage in a folder."""
        if options.view_as(PortableOptions).environment_type != "LOOPBACK":
            return super().default_environment(options)
        return PythonLoopbackEnvironment(python_sdk_capabilities(), (), resource_hints_from_options(options))

    @staticmethod
    def start_and_replace_loopback_environments(pipeline: Any, options: PipelineOptions) -> list[Callable[[], object]]:  # noqa: ANN401
        """Start a pool of workers in this process for each LOOPBACK environment; returns functions that stop them."""
        stops: list[Callable[[], object]] = []
        for environment in pipeline.components.environments.values():
            if environment.urn == python_urns.EMBEDDED_PYTHON_LOOPBACK:
                server, port = serve(ThreadWorkers(), "127.0.0.1:0")
                here = ExternalEnvironment(f"127.0.0.1:{port}").to_runner_api(PipelineContext())
                environment.urn, environment.payload = here.urn, here.payload
                stops.append(partial(server.stop, 1))
        return stops


class ThreadWorkers(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Workers on threads of this process, as in Beam's LOOPBACK: one of Beam's pools for each caller."""

    def __init__(self) -> None:
        self._pools: defaultdict[str, BeamFnExternalWorkerPoolServicer] = defaultdict(BeamFnExternalWorkerPoolServicer)
        self._lock = threading.Lock()

    def StartWorker(  # noqa: N802 - the name in the protocol
        self, request: beam_fn_api_pb2.StartWorkerRequest, context: grpc.ServicerContext
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        return self._pool(context).StartWorker(request, context)

    def StopWorker(  # noqa: N802 - the name in the protocol
        self, request: beam_fn_api_pb2.StopWorkerRequest, context: grpc.ServicerContext
    ) -> beam_fn_api_pb2.StopWorkerResponse:
        return self._pool(context).StopWorker(request, context)

    def _pool(self, context: grpc.ServicerContext) -> BeamFnExternalWorkerPoolServicer:
        with self._lock:
            return self._pools[context.peer()]


def serve(workers: beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer, address: str) -> tuple[grpc.Server, int]:
    """A running server of a pool, and its port. Arguments and errors as those of `server_at`."""
    server, port = server_at(address)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(workers, server)
    server.start()
    return server, port


def server_at(address: str) -> tuple[grpc.Server, int]:
    """A server that is not started yet, and its port. Raises RuntimeError if HOST:PORT is taken.

    Args:
        address: HOST:PORT; port 0 picks a free one.
    """
    # By default gRPC shares a port with a process that listens there already, and each gets some of the callers.
    server = grpc.server(thread_pool_executor.shared_unbounded_instance(), options=[("grpc.so_reuseport", 0)])
    port = server.add_insecure_port(address)  # raises RuntimeError, or in older versions gives 0
    if not port:
        raise RuntimeError(f"{address} is taken")
    return server, port
