"""A BigQuery table as a bounded source, by way of files on a bucket; and jobs of BigQuery that run once.

A job's id is derived from what it does, and BigQuery accepts an id once: so a repeated job meets the earlier one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from private_topk.pipelines.files import exists, match_any, open_file, write_file
from private_topk.pipelines.release.identity import not_in_fingerprint
from private_topk.pipelines.sources.columns import Columns, Types
from private_topk.pipelines.sources.files import Files
from private_topk.pipelines.sources.names import check_names, keys_of
from private_topk.pipelines.sources.source import BlockReader, Source
from private_topk.transforms.errors import InvalidArgument, install_extra, verbatim
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period

_TYPES = {"INTEGER": pa.int64(), "INT64": pa.int64(), "TIMESTAMP": pa.timestamp("us", "UTC")}
_TYPES |= dict.fromkeys(("FLOAT", "FLOAT64"), pa.float64())
_TYPES |= dict.fromkeys(("NUMERIC", "BIGNUMERIC"), pa.decimal128(38, 9))


@dataclass(frozen=True)
class BigQuery(Source):
    """The rows of a table within a period, exported once as Parquet: the snapshot.

    A repeated report reads the same files, whatever has happened to the table, and a ledger identifies the input by
    their contents. The first call of `identity` or `read` exports. The files are as private as the table.

    Args:
        uri: bigquery://PROJECT:DATASET.TABLE.
        snapshot: a folder on a bucket, gs://BUCKET/FOLDER, for the files of any number of tables and periods.
    """

    uri: str
    snapshot: str = field(metadata=not_in_fingerprint("where the rows are kept; they are named by what the files hold"))
    columns: Columns = Columns()

    bounded = True

    def __post_init__(self) -> None:
        export_query(self._table, self.snapshot.rstrip("/"), self.columns.within(None).names(), None)
        if keys := keys_of(f"{self.snapshot}/", self.columns):
            rule = f"must not have {verbatim(', '.join(keys))} as a key of its path"
            raise InvalidArgument("snapshot", rule, "it would be read in place of the table's column")

    @property
    def _table(self) -> str:
        return table_of(self.uri, "input")

    @cached_property
    def _facts(self) -> Any:  # noqa: ANN401 - the client's own
        """What BigQuery tells of the table, asked once. Raises InvalidArgument."""
        client = client_of(self._table, "input")
        from google.api_core.exceptions import Forbidden, NotFound

        try:
            return client.get_table(self._table)
        except (Forbidden, NotFound) as error:
            said = "is not there" if isinstance(error, NotFound) else "may not be read by this account"
            raise InvalidArgument("input", f"{verbatim(self.uri)} {said}") from None

    @property
    def _kinds(self) -> dict[str, str]:
        return {field.name: field.field_type for field in self._facts.schema}

    @property
    def types(self) -> Sequence[Types]:
        return ({name: _TYPES[kind] for name, kind in self._kinds.items() if kind in _TYPES},)

    def check(self, period: Period | None) -> None:
        kinds = self._kinds
        check_names(self.uri, self.columns.within(period), kinds)
        time = self.columns.within(period).time
        if time is not None and kinds[time] != "TIMESTAMP":
            raise InvalidArgument("time_column", f"must be of BigQuery's type TIMESTAMP, got {kinds[time]}")

    def read(self, period: Period | None) -> BlockReader:
        return self._files(period).read(period)

    def stored_bytes(self) -> int:
        return self._facts.num_bytes or 0

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        return self._files(period).identity(key, period)

    def _files(self, period: Period | None) -> Files:
        """The snapshot, looked up once, so that what is read is held against what was identified."""
        if period not in self._snapshots:
            within = None
            if period is not None and self.columns.time is not None:
                within = self.columns.time, period.start, period.end
            uri = exported(self._table, self.snapshot, self.columns.within(period).names(), within)
            self._snapshots[period] = Files(uri, self.columns)
        return self._snapshots[period]

    @cached_property
    def _snapshots(self) -> dict[Period | None, Files]:
        return {}


if TYPE_CHECKING:
    from google.cloud.bigquery import Client


_PLACE = re.compile(r"bigquery://([a-z][-a-z0-9.:]*)[:.](\w+)\.([-\w]+)")
_FOLDER = re.compile(r"gs://[-\w.]+(/[-\w.=]+)*")
_COLUMN = re.compile(r"[A-Za-z_]\w*")
_COMPLETE = "complete"


def table_of(uri: str, field: str) -> str:
    """PROJECT.DATASET.TABLE of an address. Raises InvalidArgument of the field."""
    match = _PLACE.fullmatch(uri)
    if not match:
        raise InvalidArgument(field, f"must be like bigquery://PROJECT:DATASET.TABLE, got {verbatim(uri)}")
    return ".".join(match.groups())


def client_of(table: str, field: str) -> Client:
    """A client that works for the table's project.

    Raises InvalidArgument of the field without libraries or credentials.
    """
    try:
        from google.auth.exceptions import DefaultCredentialsError
        from google.cloud.bigquery import Client
    except ImportError:
        raise InvalidArgument(field, "bigquery:// needs Google's clients", install_extra("gcp")) from None
    try:
        return Client(project=table.rpartition(".")[0].rpartition(".")[0])
    except DefaultCredentialsError:
        raise InvalidArgument(
            field, "needs Google credentials: `gcloud auth application-default login`, or run as a service account"
        ) from None


def export_query(table: str, folder: str, columns: Sequence[str], within: tuple[str, datetime, datetime] | None) -> str:
    """The statement that writes columns of a table as Parquet files into a folder of a bucket.

    Args:
        within: a TIMESTAMP column and the period [from, to) that is exported; None for all rows.

    Raises InvalidArgument for a name that is no plain name: nothing given is ever read as SQL.
    """
    for column in columns:
        if not _COLUMN.fullmatch(column):
            rule = f"columns must be plain names of letters, digits and underscores, got {verbatim(repr(column))}"
            raise InvalidArgument("input", rule)
    if not _FOLDER.fullmatch(folder):
        raise InvalidArgument("snapshot", f"must be gs://BUCKET/FOLDER, got {verbatim(folder)}")
    names, where = ", ".join(f"`{column}`" for column in columns), ""
    if within is not None:
        column, start, end = within
        where = f"\nWHERE `{column}` >= TIMESTAMP '{start.isoformat()}' AND `{column}` < TIMESTAMP '{end.isoformat()}'"
    uri = f"{folder}/rows-*.parquet"
    return f"EXPORT DATA OPTIONS (uri = '{uri}', format = 'PARQUET') AS\nSELECT {names}\nFROM `{table}`{where}"


def exported(table: str, snapshot: str, columns: Sequence[str], within: tuple[str, datetime, datetime] | None) -> str:
    """The glob of the files that hold a table's rows, exported unless they are there.

    Each query has a folder of its own in the snapshot's, and each attempt one inside that, so the remains of a failed
    export are never read.
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
    attempt = run_once(client, digest, start, lambda number: bool(match_any(f"{folder}/{number}/rows-*.parquet")))
    write_file(f"{folder}/{_COMPLETE}", b"%d\n" % attempt)
    return f"{folder}/{attempt}/rows-*.parquet"


def run_once(client: Client, digest: str, start: Callable[[str, int], Any], is_there: Callable[[int], bool]) -> int:
    """Run a job unless it has run, and return the number of the attempt that succeeded.

    If the job of an id failed, or its result is no longer there, the next id is tried.
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
