"""A cloud on loopback: an emulator of Google's object store, and an endpoint that records the jobs it is given.

The endpoint speaks as much of Dataflow and BigQuery as their clients ask for; it runs nothing.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from urllib.request import Request, urlopen

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.runners.servers import free_port, missing, serving

BUCKET = "reports"


class Bucket:
    """The objects of one bucket of the emulator, over plain HTTP."""

    def __init__(self, url: str, bucket: str = BUCKET) -> None:
        self.url, self.bucket = url, bucket

    def put(self, name: str, content: bytes) -> str:
        where = f"{self.url}/upload/storage/v1/b/{self.bucket}/o?uploadType=media&name={quote(name, safe='')}"
        headers = {"Content-Type": "application/octet-stream"}
        urlopen(Request(where, data=content, headers=headers, method="POST"), timeout=10).close()
        return f"gs://{self.bucket}/{name}"

    def names(self) -> list[str]:
        with urlopen(f"{self.url}/storage/v1/b/{self.bucket}/o", timeout=10) as answer:
            return sorted(entry["name"] for entry in json.load(answer).get("items", []))

    def get(self, name: str) -> bytes:
        where = f"{self.url}/download/storage/v1/b/{self.bucket}/o/{quote(name, safe='')}?alt=media"
        with urlopen(where, timeout=10) as answer:
            return answer.read()


class Service(ThreadingHTTPServer):
    """Takes jobs, keeps what it was sent, and says at once that they are done."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.jobs: list[dict[str, Any]] = []
        self.outcome: dict[str, Any] = {}
        self.tables: dict[str, dict[str, Any]] = {}
        self.loaded: list[bytes] = []
        self.on_query: Callable[[str], None] = lambda statement: None
        self.on_job: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/token":
            return self._answer({"access_token": "of-the-tests", "expires_in": 3600, "token_type": "Bearer"})
        if self.path.startswith("/upload/bigquery/"):
            return self._take_upload(sent)
        job = json.loads(gzip.decompress(sent) if self.headers.get("Content-Encoding") == "gzip" else sent)
        if self.path.startswith("/bigquery/"):
            return self._take_bigquery(job)
        self.server.jobs.append(job)
        self.server.on_job()
        return self._answer({"name": job["name"], "clientRequestId": job.get("clientRequestId", "")})

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        if self.path.startswith("/bigquery/") and "/queries/" in self.path:
            self._answer(
                {"jobComplete": True, "jobReference": {"jobId": name}, "schema": {"fields": []}, "totalRows": "0"}
            )
        elif self.path.startswith("/bigquery/") and "/tables/" in self.path:
            found = self.server.tables.get(name)
            self._answer(found or {"error": {"code": 404, "message": "Not found"}}, 200 if found else 404)
        elif self.path.startswith("/bigquery/"):
            self._answer(next(job for job in self.server.jobs if job["jobReference"]["jobId"] == name))
        else:
            self._answer({})

    def _take_bigquery(self, job: dict[str, Any], rows: bytes | None = None) -> None:
        """As BigQuery does: an id that was taken before is refused."""
        taken = [found["jobReference"]["jobId"] for found in self.server.jobs if "jobReference" in found]
        if job["jobReference"]["jobId"] in taken:
            return self._answer({"error": {"code": 409, "message": "Already Exists"}}, 409)
        if "query" in job["configuration"] and not self.server.outcome:
            self.server.on_query(job["configuration"]["query"]["query"])
        if rows is not None and not self.server.outcome:
            self.server.loaded.append(rows)
        done = {**job, "status": {"state": "DONE", **self.server.outcome}}
        self.server.jobs.append(done)
        return self._answer(done)

    def _take_upload(self, sent: bytes) -> None:
        """What a job loads, in the second of two parts."""
        boundary = b"--" + self.headers["Content-Type"].partition("boundary=")[2].strip('"').encode()
        job, rows = (part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for part in sent.split(boundary)[1:3])
        self._take_bigquery(json.loads(job), rows)

    def _answer(self, content: dict[str, Any], status: int = 200) -> None:
        body = json.dumps({"id": "a-job", "currentState": "JOB_STATE_DONE", **content}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def write_credentials(path: Path, service: Service) -> str:
    """A service account made up on the spot, whose tokens come from the local endpoint."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_text(
        json.dumps(
            {
                "type": "service_account",
                "project_id": "a-project",
                "private_key": key.private_bytes(*form).decode(),
                "client_email": "reports@a-project.test",
                "token_uri": f"{service.url}/token",
            }
        )
    )
    return str(path)


class Cloud(NamedTuple):
    """Both, and what a process needs in its environment to find them."""

    bucket: Bucket
    service: Service
    environment: dict[str, str]


@contextmanager
def cloud_serving(folder: Path) -> Iterator[Cloud]:
    with bucket_serving(folder) as bucket, service_serving() as service:
        found = {
            "STORAGE_EMULATOR_HOST": bucket.url,
            "BIGQUERY_EMULATOR_HOST": service.url,
            "GOOGLE_APPLICATION_CREDENTIALS": write_credentials(folder / "credentials.json", service),
            "NO_GCE_CHECK": "true",
            "GCE_METADATA_HOST": "127.0.0.1:1",
        }
        yield Cloud(bucket, service, {**os.environ, **found})


@contextmanager
def bucket_serving(folder: Path) -> Iterator[Bucket]:
    program = shutil.which("gcp-storage-emulator", path=str(Path(sys.executable).parent))
    if program is None:
        missing("the emulator of Google's object store is missing: pip install gcp-storage-emulator")
    port = free_port()
    command = [program, "start", "--host=127.0.0.1", f"--port={port}", "--in-memory", f"--default-bucket={BUCKET}"]
    with serving(command, f"localhost:{port}", folder / "emulator.log") as address:
        yield Bucket(f"http://{address}")


@contextmanager
def service_serving() -> Iterator[Service]:
    with Service() as service:
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()
