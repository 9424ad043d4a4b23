"""A pool of Python workers for EXTERNAL environments: `python -m private_topk.runners.worker_pool --port 50000`.

Beam's own pool listens on every interface, starts the first `python` on PATH, and knows workers by an id that every
task manager counts from 1: where two share a pool, the one stops the other's workers in the middle of their work. This
one listens where it is told, starts the Python it runs under, with this package in it, and tells the callers apart.
Its workers are copies of a process that has Beam loaded, which saves each the second or two that loading takes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from private_topk.runners import as_object
from private_topk.runners.portable import serve

# Loaded before copying: no polars and no gRPC server, whose threads would not be copied.
_LOADED = ["apache_beam.runners.worker.sdk_worker"]
_GRACE = 5.0
_TRIES, _SOON = 3, 60.0  # seconds within which a worker may not have reached its runner


def work(control: str, worker: str) -> None:
    """Serve one runner until it closes the channel."""
    from apache_beam.runners.worker.sdk_worker import SdkHarness

    # The pool's log is read long afterwards, and has tracebacks of others between: what `say` tells has its time there.
    sys.__stderr__.say = lambda line: print(as_object(line), file=sys.stderr, flush=True)  # type: ignore[union-attr]
    threading.excepthook = end_with_thread
    threading.Thread(target=_end_with_pool, daemon=True).start()
    SdkHarness(control, worker_id=worker).run()


def _end_with_pool() -> None:
    """End this process when the pool has ended, though it was killed and could not end its workers."""
    pool = multiprocessing.parent_process()
    if pool is not None:
        pool.join()
        os._exit(1)


def end_with_thread(failed: threading.ExceptHookArgs) -> None:
    """End this process, since a thread of it has failed: the others would go on as if its work were done.

    Such as the thread of a broken channel: what is sent there afterwards is lost, and its receiver would wait for
    ever. The runner notices if the process is gone.
    """
    threading.__excepthook__(failed)
    sys.stderr.flush()
    os._exit(1)


class Workers(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """The processes of a pool, by caller and id.

    A worker that fails soon is started again, since the runner waits for it for ever unless it had connected. If it
    had, another one does no harm: it is stopped with the first.
    """

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_LOADED)
        self._processes: dict[tuple[str, str], ForkServerProcess] = {}
        self._lock = threading.Lock()

    def StartWorker(  # noqa: N802 - the name in the protocol
        self, request: beam_fn_api_pb2.StartWorkerRequest, context: grpc.ServicerContext
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        key, control = (context.peer(), request.worker_id), request.control_endpoint.url
        try:
            with self._lock:
                worker = self._started(key, control)
        except OSError as error:
            return beam_fn_api_pb2.StartWorkerResponse(error=str(error))
        threading.Thread(target=self._watch, args=(key, control, worker), daemon=True).start()
        return beam_fn_api_pb2.StartWorkerResponse()

    def _started(self, key: tuple[str, str], control: str) -> ForkServerProcess:
        worker = self._context.Process(target=work, args=(control, key[1]))
        worker.start()
        self._processes[key] = worker
        return worker

    def _watch(self, key: tuple[str, str], control: str, worker: ForkServerProcess) -> None:
        """Restart a worker that fails soon, until it has ended otherwise, or failed too often."""
        for attempt in range(1, _TRIES + 1):
            began = time.monotonic()
            worker.join()
            failed = worker.exitcode != 0 and time.monotonic() - began < _SOON
            with self._lock:
                if self._processes.get(key) is not worker:  # it was stopped
                    return
                if not failed or attempt == _TRIES:
                    del self._processes[key]
                    return
                worker = self._started(key, control)

    def StopWorker(  # noqa: N802 - the name in the protocol
        self, request: beam_fn_api_pb2.StopWorkerRequest, context: grpc.ServicerContext
    ) -> beam_fn_api_pb2.StopWorkerResponse:
        """Stop the worker that the same connection started. An unknown worker ends with its task manager."""
        with self._lock:
            worker = self._processes.pop((context.peer(), request.worker_id), None)
        if worker is not None:
            _end(worker)
        return beam_fn_api_pb2.StopWorkerResponse()

    def running(self) -> list[int]:
        """The ids of the processes that were started and not stopped."""
        with self._lock:
            return [worker.pid for worker in self._processes.values() if worker.pid is not None]

    def stop(self) -> None:
        with self._lock:
            workers, self._processes = list(self._processes.values()), {}
        for worker in workers:
            worker.terminate()
        for worker in workers:
            _end(worker)


def _end(worker: ForkServerProcess) -> None:
    worker.terminate()
    worker.join(_GRACE)
    if worker.is_alive():
        worker.kill()
        worker.join()


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then end the workers that were started."""
    parser = argparse.ArgumentParser(prog="python -m private_topk.runners.worker_pool", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine only)")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    workers = Workers()
    try:
        server, _ = serve(workers, f"{arguments.host}:{arguments.port}")
    except RuntimeError:
        sys.exit(f"port {arguments.port} of {arguments.host} is taken: give another --port")
    stop.wait()
    server.stop(1)
    workers.stop()


if __name__ == "__main__":
    main()
