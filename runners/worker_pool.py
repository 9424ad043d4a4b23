"""A pool of Python workers for EXTERNAL environments: `python -m private_topk.runners.worker_pool --port 50000`.

Beam's own pool listens on every interface and starts the first `python` on PATH; this one listens where it is told and
starts the Python that it runs under, with this package in it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer, kill_process_gracefully
from apache_beam.utils import thread_pool_executor

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then end the workers that were started."""
    parser = argparse.ArgumentParser(prog="python -m private_topk.runners.worker_pool", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine only)")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args(argv)
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    pool = BeamFnExternalWorkerPoolServicer(use_process=True)
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    if not server.add_insecure_port(f"{arguments.host}:{arguments.port}"):
        sys.exit(f"port {arguments.port} of {arguments.host} is taken: give another --port")
    server.start()
    stop.wait()
    server.stop(1)
    for worker in pool._worker_processes.values():
        kill_process_gracefully(worker)


if __name__ == "__main__":
    main()
