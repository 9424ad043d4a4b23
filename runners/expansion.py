"""The expansion service: `RankRows` for pipelines of another language, with the workers in this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import (
    beam_artifact_api_pb2_grpc,
    beam_expansion_api_pb2,
    beam_expansion_api_pb2_grpc,
    beam_fn_api_pb2_grpc,
)
from apache_beam.runners.portability.artifact_service import ArtifactRetrievalService, BeamFilesystemHandler
from apache_beam.runners.portability.expansion_service import ExpansionServiceServicer
from apache_beam.runners.worker.channel_factory import GRPCChannelFactory
from apache_beam.transforms.fully_qualified_named_transform import (
    PYTHON_FULLY_QUALIFIED_NAMED_TRANSFORM_URN,
    FullyQualifiedNamedTransform,
)

from private_topk.runners.portable import ThreadWorkers, server_at
from private_topk.transforms.errors import InvalidArgument

RANK_ROWS = "private_topk.pipelines.beam_yaml.RankRows"
"""The one transform that the service expands, by the name that a pipeline of another language gives."""

_WORKERS = tuple(f"beam:option:environment_{option}:v1" for option in ("type", "config", "options"))


class RankRowsExpansion(ExpansionServiceServicer):
    """Beam's expansion service for `RankRows` alone. Its stages run on workers of this process.

    Args:
        address: HOST:PORT, where a runner asks for these workers. No container is offered beside them: a Flink job
            server that is offered both takes the container.
    """

    def __init__(self, address: str) -> None:
        words = ["--environment_type=EXTERNAL", f"--environment_config={address}", "--sdk_location=container"]
        super().__init__(PipelineOptions(words))
        # A random key is in the memory of this process, and so are the workers: what asks the options must know that.
        self._options = PipelineOptions(["--environment_type=LOOPBACK", "--sdk_location=container"])

    def Expand(  # noqa: N802 - the name in the protocol
        self, request: beam_expansion_api_pb2.ExpansionRequest, context: grpc.ServicerContext | None = None
    ) -> beam_expansion_api_pb2.ExpansionResponse:
        """The stages of `RankRows` with the parameters of the request; or an error, which the caller shows."""
        if request.transform.spec.urn != PYTHON_FULLY_QUALIFIED_NAMED_TRANSFORM_URN:
            return beam_expansion_api_pb2.ExpansionResponse(error=f"this service expands {RANK_ROWS} and nothing else")
        for option in _WORKERS:  # where the caller's own workers are
            request.pipeline_options.fields.pop(option, None)
        response = super().Expand(request, context)
        if reason := re.search(r"^([\w.]+): (.*)", response.error, re.M):  # Beam's error is a traceback, as Java's is
            whole = reason[1].endswith(InvalidArgument.__name__)
            response.error = reason[2] if whole else f"{reason[0]}\n{response.error}"
        return response


@contextmanager
def expansion_service(port: int) -> Iterator[str]:
    """A running expansion service; gives its address, which only this machine reaches. Raises InvalidArgument.

    Args:
        port: where it listens; 0 picks a free port.
    """
    try:
        server, port = server_at(f"127.0.0.1:{port}")
    except RuntimeError:
        raise InvalidArgument("port", f"{port} of this machine is taken", "give another one") from None
    address = f"127.0.0.1:{port}"
    # A worker whose runner was killed calls it ever more rarely. By default a worker of a new runner at the same port
    # shares its connection, so it would wait for minutes, and fail.
    own_connections = ("grpc.use_local_subchannel_pool", 1)
    GRPCChannelFactory.DEFAULT_OPTIONS.append(own_connections)
    files: Any = BeamFilesystemHandler(None).file_reader
    beam_expansion_api_pb2_grpc.add_ExpansionServiceServicer_to_server(RankRowsExpansion(address), server)
    beam_artifact_api_pb2_grpc.add_ArtifactRetrievalServiceServicer_to_server(ArtifactRetrievalService(files), server)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(ThreadWorkers(), server)
    with FullyQualifiedNamedTransform.with_filter(RANK_ROWS):  # of all requests: it is the class's own, not a thread's
        server.start()
        try:
            yield address
        finally:
            server.stop(1)
            GRPCChannelFactory.DEFAULT_OPTIONS.remove(own_connections)
