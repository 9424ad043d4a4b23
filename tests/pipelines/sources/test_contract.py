"""The sources that need no service, held to the contract of all. Kafka's is among the streams, BigQuery's beside it."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from private_topk.pipelines.registry import source_of
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.files import Files
from private_topk.pipelines.sources.folder import Folder
from private_topk.pipelines.sources.payloads import AvroPayload
from private_topk.pipelines.sources.pubsub import PubSub
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.sources.contract import KEY, PERIOD, ROWS, SourceContract, tree
from tests.pipelines.support import write

COLUMNS = Columns(time="time")
OTHERS = Columns("item", "user", "time")


class TestFiles(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> Files:
        self.folder = tmp_path
        write(tmp_path / "a.jsonl", ROWS[:150])
        write(tmp_path / "b.csv.gz", ROWS[150:])
        write(tmp_path / "other.jsonl", ROWS[:10])
        return Files(f"{tmp_path}/[ab].*", COLUMNS)

    @pytest.fixture
    def missing(self, tmp_path: Path) -> Files:
        return Files(f"{tmp_path}/none*.avro", COLUMNS)

    def changes(self) -> dict[str, Any]:
        return {"uri": f"{self.folder}/other.jsonl", "columns": OTHERS}

    def state(self) -> object:
        return tree(self.folder)

    def test_read_as_another_format_the_same_bytes_are_another_input(self, tmp_path: Path) -> None:
        names = []
        for ending in (".jsonl", ".json", ".csv", ".jsonl.gz", ".json.gz", ".csv.gz"):
            content = b"user,item\n"
            write(tmp_path / f"rows{ending}", gzip.compress(content, mtime=0) if ending.endswith(".gz") else content)
            names.append(Files(f"{tmp_path}/rows{ending}", COLUMNS).identity(KEY, None))
        assert len(set(names)) == 4 and names[0] == names[1] and names[3] == names[4], "json lines by two names"

    def test_the_time_column_counts_where_there_are_windows(self, source: Files) -> None:
        other = replace(source, columns=Columns(time="when"))
        assert other.identity(KEY, None) == source.identity(KEY, None)
        assert other.identity(KEY, PERIOD) != source.identity(KEY, PERIOD)


class TestFolder(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> Folder:
        self.folder = tmp_path
        write(tmp_path / "a.jsonl", ROWS[:150])
        write(tmp_path / "b.jsonl", ROWS[150:])
        for name in ("a.jsonl", "b.jsonl"):
            os.utime(tmp_path / name, (PERIOD.start.timestamp(),) * 2)
        return Folder(f"{tmp_path}/*.jsonl", COLUMNS)

    @pytest.fixture
    def missing(self) -> None:
        """What is to come may come to a folder that is not there yet."""

    def changes(self) -> dict[str, Any]:
        return {"uri": f"{self.folder}/b*.jsonl", "columns": OTHERS, "clock": "event"}

    def state(self) -> object:
        return tree(self.folder)


class TestPubSub(SourceContract):
    reads = False

    @pytest.fixture
    def source(self) -> PubSub:
        return PubSub("pubsub://projects/project-1/subscriptions/rows-1", COLUMNS, since="2026-01-01")

    @pytest.fixture
    def missing(self) -> PubSub:
        return PubSub("pubsub://projects/p/subscriptions/s", COLUMNS)

    def changes(self) -> dict[str, Any]:
        schema = AvroPayload('{"type": "record", "name": "Row", "fields": []}')
        return {
            "uri": "pubsub://projects/project-1/subscriptions/rows-2",
            "columns": OTHERS,
            "payload": schema,
            "since": "2026-01-02",
        }

    def state(self) -> object:
        return None

    def test_every_launch_is_another_input(self) -> None:
        """A subscription hands every message out once: what is repeated would be read by nobody."""
        import time

        names = []
        for _ in range(2):
            names.append(source_of("pubsub://projects/p-1/subscriptions/rows", COLUMNS, True).identity(KEY, PERIOD))
            time.sleep(0.002)
        assert names[0] != names[1]


@pytest.mark.parametrize(
    ("uri", "watch", "options", "field"),
    [
        ("rows.avro", False, {"clock": "log"}, "clock"),
        ("rows.avro", False, {"payload": AvroPayload("{}")}, "payload"),
        ("rows.avro", False, {"snapshot": "gs://b/f"}, "snapshot"),
        ("in/*.avro", True, {"kafka_readers": 2}, "kafka_readers"),
        ("in/*.avro", True, {"clock": "sun"}, "clock"),
        ("kafka://h:1/t", False, {}, "input"),
        ("kafka://h/t", True, {}, "input"),
        ("kafka://h:1/t", True, {"poll": timedelta(1)}, "poll"),
        ("kafka://h:1/t", True, {"kafka_readers": 0}, "kafka_readers"),
        ("kafka://h:1/t", True, {"kafka_start": "noon"}, "kafka_start"),
        ("kafka://h:1/t", True, {"kafka_config": [("isolation.level", "read_uncommitted")]}, "kafka_config"),
        ("kafka://h:1/t", True, {"kafka_config": [("bootstrap.servers", "other:1")]}, "kafka_config"),
        ("pubsub://projects/p/topics/t", True, {}, "input"),
        ("pubsub://projects/p/subscriptions/s", True, {"clock": "event"}, "clock"),
        ("bigquery://p:d.t", False, {}, "snapshot"),
        ("bigquery://p:d.t", True, {"snapshot": "gs://b/f"}, "input"),
    ],
)
def test_an_option_that_does_not_fit_the_source_is_refused(
    uri: str, watch: bool, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        source_of(uri, COLUMNS, watch, **options)
    assert refusal.value.field == field
