"""Rows from a BigQuery table and rankings into one, by way of files on a bucket.

    python -m private_topk.pipelines.bigquery export --table P.D.PLAYS --folder gs://B/plays/2026-01-12 \\
        --time-column time --from 2026-01-05 --to 2026-01-12
    python -m private_topk.pipelines.bigquery load --ranking gs://B/rankings/2026-01-12.avro --table P.D.RANKINGS

The files are a snapshot: a report that is repeated reads the same rows, whatever has become of the table.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import exists, open_file
from private_topk.pipelines.sinks.rows import FIELDS
from private_topk.pipelines.texts import moment as local_moment

if TYPE_CHECKING:
    from google.cloud.bigquery import Client, SchemaField

__all__ = ["export", "export_query", "load", "main", "table_schema"]

_FORMATS = {".avro": "AVRO", ".parquet": "PARQUET"}
_KINDS = {pa.string(): "STRING", pa.int64(): "INTEGER"}


def export_query(table: str, folder: str, columns: Sequence[str], within: tuple[str, datetime, datetime] | None) -> str:
    """The statement that writes columns of a table as Parquet files into a folder of a bucket.

    Args:
        within: a TIMESTAMP column and the period [from, to) that is exported; None for all rows.

    Raises InputError for a name that is no plain name: nothing given is ever read as SQL.
    """
    names = ", ".join(f"`{_column(name)}`" for name in columns)
    where = ""
    if within is not None:
        column, start, end = within
        where = (f"\nWHERE `{_column(column)}` >= TIMESTAMP '{start.isoformat()}'"
                 f" AND `{_column(column)}` < TIMESTAMP '{end.isoformat()}'")  # fmt: skip
    place = f"{_folder(folder)}/rows-*.parquet"
    return (
        f"EXPORT DATA OPTIONS (uri = '{place}', format = 'PARQUET') AS\nSELECT {names}\nFROM `{_table(table)}`{where}"
    )


def export(client: Client, statement: str, folder: str) -> str:
    """Run an export and give the glob of its files. Files that are there already are kept: they are the snapshot."""
    found = f"{_folder(folder)}/rows-*.parquet"
    if not FileSystems.match([found])[0].metadata_list:
        client.query(statement).result()
    return found


def load(client: Client, ranking: str, table: str) -> str:
    """Append a published ranking file on a bucket to a table, made if need be; once, however often it is called.

    The job's id comes from the content and the table, and BigQuery refuses an id that it has seen. An id whose job
    failed is followed by the next.
    """
    from google.api_core.exceptions import Conflict
    from google.cloud.bigquery import LoadJobConfig

    kind = next((kind for ending, kind in _FORMATS.items() if ranking.endswith(ending)), None)
    if kind is None or not ranking.startswith("gs://"):
        raise InputError(f"--ranking must be an .avro or .parquet file on a bucket, gs://BUCKET/..., got {ranking}")
    if not exists(ranking):
        raise InputError(f"--ranking {ranking} does not exist: publish it first")
    with open_file(ranking) as content:
        digest = hashlib.sha256(_table(table).encode() + b"\0" + content.read())
    config = LoadJobConfig(source_format=kind, schema=table_schema(), write_disposition="WRITE_APPEND",
                           create_disposition="CREATE_IF_NEEDED", use_avro_logical_types=True)  # fmt: skip
    for attempt in count(1):
        job = f"private_topk_{digest.hexdigest()[:40]}_{attempt}"
        try:
            client.load_table_from_uri(ranking, _table(table), job_id=job, job_config=config).result()
            return job
        except Conflict:
            earlier = client.get_job(job)
            if earlier.state != "DONE":
                earlier.result()
            if not earlier.error_result:
                return job
    raise AssertionError("there is always a next attempt")


def table_schema() -> list[SchemaField]:
    """The columns of a table of rankings."""
    from google.cloud.bigquery import SchemaField

    # Nothing is required: a Parquet file does not say that a column has no nulls.
    return [SchemaField(name, _KINDS.get(kind, "TIMESTAMP"), description=text) for name, (kind, text) in FIELDS.items()]


def main(argv: Sequence[str] | None = None) -> None:
    """Export or load, as the arguments say. Raises InputError where they are wrong or Google's libraries missing."""
    parser = argparse.ArgumentParser(
        prog="python -m private_topk.pipelines.bigquery", description=__doc__, allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True)
    rows = commands.add_parser("export", help="a table's rows into files, which --input then reads")
    rows.add_argument("--table", required=True, metavar="PROJECT.DATASET.TABLE")
    rows.add_argument("--folder", required=True, metavar="gs://BUCKET/FOLDER")
    rows.add_argument("--user-column", default="user", metavar="NAME")
    rows.add_argument("--item-column", default="item", metavar="NAME")
    rows.add_argument("--time-column", metavar="NAME", help="of type TIMESTAMP; with --from and --to")
    rows.add_argument("--from", type=moment, dest="start", metavar="TIME")
    rows.add_argument("--to", type=moment, dest="end", metavar="TIME")
    ranking = commands.add_parser("load", help="a published ranking into a table")
    ranking.add_argument("--ranking", required=True, metavar="gs://BUCKET/FILE")
    ranking.add_argument("--table", required=True, metavar="PROJECT.DATASET.TABLE")
    arguments = parser.parse_args(argv)
    client = _client(_table(arguments.table).partition(".")[0])
    if arguments.command == "load":
        load(client, arguments.ranking, arguments.table)
    else:
        print(export(client, _statement(arguments), arguments.folder))


def moment(text: str) -> datetime:
    """A point in time, in UTC where no time zone is given."""
    value = local_moment(text)
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)


def _statement(arguments: argparse.Namespace) -> str:
    limits = (arguments.time_column, arguments.start, arguments.end)
    if any(limits) and not all(limits):
        raise InputError("--time-column, --from and --to go together: give all three or none")
    names = [arguments.user_column, arguments.item_column, arguments.time_column]
    columns = list(dict.fromkeys(name for name in names if name))
    return export_query(arguments.table, arguments.folder, columns, limits if all(limits) else None)


def _client(project: str) -> Client:
    try:
        from google.cloud.bigquery import Client
    except ImportError:
        raise InputError("BigQuery needs Google's libraries: `pip install 'private-topk[gcp]'`") from None
    return Client(project=project)


def _checked(pattern: str, text: str, what: str) -> str:
    if not re.fullmatch(pattern, text):
        raise InputError(f"{what}, got {text!r}")
    return text


def _table(name: str) -> str:
    return _checked(r"[a-z][-a-z0-9:.]*\.\w+\.[-\w]+", name, "--table must be PROJECT.DATASET.TABLE")


def _column(name: str) -> str:
    return _checked(r"[A-Za-z_]\w*", name, "a column must be a plain name of letters, digits and underscores")


def _folder(name: str) -> str:
    return _checked(r"gs://[-\w.]+(/[-\w.=]+)*", name.rstrip("/"), "--folder must be gs://BUCKET/FOLDER")


if __name__ == "__main__":
    from private_topk.pipelines.commands.status import guarded

    sys.exit(guarded(main))
