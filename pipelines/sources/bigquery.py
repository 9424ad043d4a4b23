"""The rows of a BigQuery table, by way of files on a bucket: a source that ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from private_topk.pipelines.bigquery import client_of, export_query, exported, table_of
from private_topk.pipelines.identity import unasked
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.files import Files
from private_topk.pipelines.sources.source import BlockReader
from private_topk.runners import Launch
from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period

__all__ = ["BigQuery"]


@dataclass(frozen=True)
class BigQuery:
    """The rows of a table that a period holds, exported once as Parquet: the snapshot.

    A report that is repeated reads the same files, whatever has become of the table; and a ledger knows the input by
    what they hold. The first of `identity` and `read` exports. The files are as private as the table.

    Args:
        place: bigquery://PROJECT:DATASET.TABLE.
        snapshot: a folder on a bucket, gs://BUCKET/FOLDER, for the files of any number of tables and periods.
    """

    place: str
    snapshot: str = field(metadata=unasked("where the rows are kept; they are named by what the files hold"))
    columns: Columns = Columns()

    bounded, live = True, False

    def __post_init__(self) -> None:
        export_query(table_of(self.place, "input"), self.snapshot.rstrip("/"), self._names(None), None)

    def check(self, period: Period | None) -> None:
        from google.api_core.exceptions import Forbidden, NotFound

        table = table_of(self.place, "input")
        try:
            kinds = {field.name: field.field_type for field in client_of(table, "input").get_table(table).schema}
        except (Forbidden, NotFound) as error:
            said = "is not there" if isinstance(error, NotFound) else "may not be read by this account"
            raise Refusal("input", f"{verbatim(self.place)} {said}") from None
        for meant, name in self._fields(period).items():
            if name not in kinds:
                known = ", ".join(sorted(kinds))
                raise Refusal(meant, f"must be a column of {verbatim(self.place)}, {verbatim(known)}; got "
                              f"{verbatim(name)}")  # fmt: skip
        time = self._fields(period).get("time_column")
        if time is not None and kinds[time] != "TIMESTAMP":
            raise Refusal("time_column", f"must be of BigQuery's type TIMESTAMP, got {kinds[time]}")

    def check_runner(self, launch: Launch) -> None:
        """Every runner reads files."""

    def read(self, period: Period | None) -> BlockReader:
        return self._files(period).read(period)

    def rows(self, period: Period | None) -> None:
        return None

    def stored_bytes(self) -> int:
        table = table_of(self.place, "input")
        return client_of(table, "input").get_table(table).num_bytes or 0

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        return self._files(period).identity(key, period)

    def local_places(self) -> tuple[str, ...]:
        return ()

    def _fields(self, period: Period | None) -> dict[str, str]:
        """The columns that are read, by the field that names each."""
        found = {"user_column": self.columns.user, "item_column": self.columns.item}
        if period is not None and self.columns.time is not None:
            found["time_column"] = self.columns.time
        if self.columns.value is not None:
            found["value_column"] = self.columns.value
        if self.columns.group is not None:
            found["group_column"] = self.columns.group
        return found

    def _names(self, period: Period | None) -> list[str]:
        return list(dict.fromkeys(self._fields(period).values()))

    def _files(self, period: Period | None) -> Files:
        within = None
        if period is not None and self.columns.time is not None:
            within = self.columns.time, period.start, period.end
        found = exported(table_of(self.place, "input"), self.snapshot, self._names(period), within)
        return Files(found, self.columns)
