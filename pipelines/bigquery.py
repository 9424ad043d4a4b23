"""BigQuery's side of a report: rows out of a table, as files that are exported once; rankings into one, loaded once.

A job's id comes from what it does, and BigQuery takes an id once: so whatever repeats a job finds the one there was.
"""

from __future__ import annotations

import hashlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.files import exists, match_any, open_file
from private_topk.transforms.errors import Refusal, verbatim

if TYPE_CHECKING:
    from google.cloud.bigquery import Client

__all__ = ["client_of", "export_query", "exported", "load", "table_of"]

_PLACE = re.compile(r"bigquery://([a-z][-a-z0-9.:]*)[:.](\w+)\.([-\w]+)")
_FOLDER = re.compile(r"gs://[-\w.]+(/[-\w.=]+)*")
_COLUMN = re.compile(r"[A-Za-z_]\w*")
_COMPLETE = "complete"


def table_of(place: str, field: str) -> str:
    """PROJECT.DATASET.TABLE of an address. Raises Refusal of the field."""
    found = _PLACE.fullmatch(place)
    if not found:
        raise Refusal(field, f"must be like bigquery://PROJECT:DATASET.TABLE, got {verbatim(place)}")
    return ".".join(found.groups())


def client_of(table: str, field: str) -> Client:
    """A client that works for the table's project. Raises Refusal of the field without libraries or credentials."""
    try:
        from google.auth.exceptions import DefaultCredentialsError
        from google.cloud.bigquery import Client
    except ImportError:
        raise Refusal(field, "bigquery:// needs Google's clients: pip install 'private-topk[gcp]'") from None
    try:
        return Client(project=table.rpartition(".")[0].rpartition(".")[0])
    except DefaultCredentialsError:
        raise Refusal(field, "needs Google credentials: `gcloud auth application-default login`, or run as a service "
                      "account") from None  # fmt: skip


def export_query(table: str, folder: str, columns: Sequence[str], within: tuple[str, datetime, datetime] | None) -> str:
    """The statement that writes columns of a table as Parquet files into a folder of a bucket.

    Args:
        within: a TIMESTAMP column and the period [from, to) that is exported; None for all rows.

    Raises Refusal for a name that is no plain name: nothing given is ever read as SQL.
    """
    for column in columns:
        if not _COLUMN.fullmatch(column):
            rule = f"columns must be plain names of letters, digits and underscores, got {verbatim(repr(column))}"
            raise Refusal("input", rule)
    if not _FOLDER.fullmatch(folder):
        raise Refusal("snapshot", f"must be gs://BUCKET/FOLDER, got {verbatim(folder)}")
    names, where = ", ".join(f"`{column}`" for column in columns), ""
    if within is not None:
        column, start, end = within
        where = (f"\nWHERE `{column}` >= TIMESTAMP '{start.isoformat()}'"
                 f" AND `{column}` < TIMESTAMP '{end.isoformat()}'")  # fmt: skip
    place = f"{folder}/rows-*.parquet"
    return f"EXPORT DATA OPTIONS (uri = '{place}', format = 'PARQUET') AS\nSELECT {names}\nFROM `{table}`{where}"


def exported(table: str, snapshot: str, columns: Sequence[str], within: tuple[str, datetime, datetime] | None) -> str:
    """The glob of the files that hold a table's rows, exported unless they are there.

    Each question to a table has a folder of its own below the snapshot's, and each attempt one below that, so what an
    export that failed has left is never read.
    """
    root = snapshot.rstrip("/")
    folder = f"{root}/{hashlib.sha256(export_query(table, root, columns, within).encode()).hexdigest()[:24]}"
    if exists(f"{folder}/{_COMPLETE}"):
        with open_file(f"{folder}/{_COMPLETE}") as source:
            return f"{folder}/{source.read().decode().strip()}/rows-*.parquet"
    client = client_of(table, "input")

    def start(job: str, attempt: int) -> Any:  # noqa: ANN401 - a job
        return client.query(export_query(table, f"{folder}/{attempt}", columns, within), job_id=job, job_retry=None)

    digest = hashlib.sha256(folder.encode()).hexdigest()
    attempt = _once(client, digest, start, lambda found: bool(match_any(f"{folder}/{found}/rows-*.parquet")))
    _note(f"{folder}/{_COMPLETE}", b"%d\n" % attempt)
    return f"{folder}/{attempt}/rows-*.parquet"


def load(table: str, rows: bytes, schema: Sequence[dict[str, Any]]) -> None:
    """Append an Avro file to a table, made if need be; once, however often it is called."""
    from google.cloud.bigquery import LoadJobConfig, SchemaField

    client = client_of(table, "output")
    # Nothing is required: a Parquet or Avro file need not say that a column has no nulls.
    fields = [SchemaField(found["name"], found["type"], description=found["description"]) for found in schema]
    config = LoadJobConfig(source_format="AVRO", schema=fields, write_disposition="WRITE_APPEND",
                           create_disposition="CREATE_IF_NEEDED", use_avro_logical_types=True)  # fmt: skip

    def start(job: str, attempt: int) -> Any:  # noqa: ANN401
        return client.load_table_from_file(io.BytesIO(rows), table, size=len(rows), job_id=job, job_config=config)

    _once(client, hashlib.sha256(table.encode() + b"\0" + rows).hexdigest(), start, lambda attempt: True)


def _once(client: Client, digest: str, start: Callable[[str, int], Any], is_there: Callable[[int], bool]) -> int:
    """Run a job unless it has run, and give the number of the attempt that did it.

    An id whose job failed is followed by the next, and so is one whose work is no longer there.
    """
    from google.api_core.exceptions import Conflict

    for attempt in count(1):
        job = f"private_topk_{digest[:40]}_{attempt}"
        try:
            start(job, attempt).result()
            return attempt
        except Conflict:
            earlier = client.get_job(job)
            if earlier.state != "DONE":
                earlier.result()
            if not earlier.error_result and is_there(attempt):
                return attempt
    raise AssertionError("there is always a next attempt")


def _note(place: str, content: bytes) -> None:
    from apache_beam.io.filesystems import FileSystems

    with FileSystems.create(place) as sink:
        sink.write(content)


if __name__ == "__main__":
    sys.exit("private-topk: tables are read and written by `private-topk run` now: --input bigquery://P:D.T --snapshot "
             "gs://BUCKET/FOLDER, and --output bigquery://P:D.T")  # fmt: skip
