"""What every source, and every format of files, must hold to. A new one inherits `SourceContract` or `FormatContract`,
says how it is made, and has these tests.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from private_topk.pipelines.files import PACKINGS
from private_topk.pipelines.release.identity import NOT_IN_FINGERPRINT
from private_topk.pipelines.sources import Columns
from private_topk.pipelines.sources.source import Source
from private_topk.runners import Launch
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.windows import Period
from tests.pipelines.support import Read, Rows, packed, read, write

KEY = ReleaseKey.held(b"a key of the tests, which is no secret")
START = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = Period(START, START + timedelta(days=2), timedelta(days=1))
ROWS = [
    {"user": f"u{n}", "item": f"i{n % 7}", "time": (START + timedelta(hours=n % 48)).isoformat()} for n in range(200)
]


class SourceContract:
    """The fixture `source` gives a source whose place holds `ROWS`; `missing` one whose place is not there."""

    reads = True
    """Whether it can be read here, without a service."""

    @pytest.fixture
    def source(self) -> Source:
        raise NotImplementedError

    @pytest.fixture
    def missing(self) -> Source | None:
        raise NotImplementedError

    def changes(self) -> dict[str, Any]:
        """Another value for every field that is asked for."""
        raise NotImplementedError

    def state(self) -> object:
        """All that the place holds, and when it was last touched."""
        raise NotImplementedError

    def test_a_source_is_an_immutable_value(self, source: Source) -> None:
        assert is_dataclass(type(source)) and pickle.loads(pickle.dumps(source)) == source
        with pytest.raises((FrozenInstanceError, AttributeError)):
            source.uri = "elsewhere"
        assert isinstance(source.uri, str) and isinstance(source.bounded, bool) and isinstance(source.live, bool)
        assert source.stored_bytes() >= 0 and all("://" not in uri for uri in source.local_paths())

    def test_a_check_of_a_source_changes_nothing(self, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
        before = self.state()
        source.check(PERIOD)
        source.check(PERIOD)
        assert self.state() == before

    def test_a_missing_input_is_refused(self, missing: Source | None) -> None:
        if missing is None:
            pytest.skip("nobody can tell whether it is there")
        with pytest.raises(InvalidArgument) as refusal:
            missing.check(PERIOD)
        assert refusal.value.field == "input", refusal.value

    def test_an_unbounded_source_needs_a_period(self, source: Source) -> None:
        if not source.bounded:
            with pytest.raises(InvalidArgument) as refusal:
                source.check(None)
            assert refusal.value.field == "period_from"

    def test_a_ledger_knows_it_by_every_field_but_those_with_a_reason(self, source: Source) -> None:
        name = source.identity(KEY, PERIOD)
        assert len(name) == 64 and int(name, 16) >= 0
        assert source.identity(KEY, PERIOD) == name == pickle.loads(pickle.dumps(source)).identity(KEY, PERIOD)
        assert source.identity(ReleaseKey.held(b"another key, which is no secret"), PERIOD) != name
        others = self.changes()
        names = [name]
        for field in fields(source):
            if NOT_IN_FINGERPRINT in field.metadata:
                assert len(field.metadata[NOT_IN_FINGERPRINT]) > 10, "the reason"
            else:
                assert field.name in others, f"how is another {field.name} told from this one?"
                names.append(replace(source, **{field.name: others[field.name]}).identity(KEY, PERIOD))
        assert len(set(names)) == len(names), "every change of a field is another input"

    def test_runners_that_follow_the_slowest_reader_do(self, source: Source) -> None:
        source.check_runner(Launch("direct", FnApiRunner(), PipelineOptions([])))

    def test_reading_twice_gives_the_same_rows(self, source: Source) -> None:
        if not self.reads:
            pytest.skip("needs a service")
        first, second = rows_of(source), rows_of(source)
        assert first == second == Counter((row["user"], row["item"]) for row in ROWS)


class FormatContract:
    """A subclass names the ending and writes rows; it is held to what a file of them is, in any pieces and zipped."""

    ending = ""

    headed = True
    """Whether a file names its columns before its rows."""

    rows = [{"user": f"user {n}", "item": None if n % 11 == 0 else f"item {n % 50}"} for n in range(3000)]
    expected = Read([(row["user"], row["item"]) for row in rows if row["item"] is not None], 273)

    def content(self, rows: Rows) -> bytes:
        """A file of users and items, of many blocks where the format has any."""
        raise NotImplementedError

    def test_every_row_once_for_every_size_of_the_pieces(self, tmp_path: Path) -> None:
        path = write(tmp_path / f"rows{self.ending}", self.content(self.rows))
        size = path.stat().st_size
        for piece in (1, 17, 100, 999, size // 3, size - 1, size, size + 1):
            assert read(path, size=piece) == self.expected

    @pytest.mark.parametrize("packing", PACKINGS)
    def test_a_zipped_file_gives_the_same_rows_or_is_refused(self, tmp_path: Path, packing: str) -> None:
        content = packed(self.content(self.rows), packing)
        path = write(tmp_path / f"rows{self.ending}{packing}", content)
        assert read(path, size=100) == self.expected
        for broken in (content[:15], content[:-4], content[: len(content) // 2], self.content(self.rows)):
            with pytest.raises(InvalidArgument, match=rf"rows.*{packing} is not a whole {PACKINGS[packing]} file"):
                read(write(path, broken))

    def test_a_file_without_rows_is_read(self, tmp_path: Path) -> None:
        assert read(write(tmp_path / f"rows{self.ending}", self.content([])), size=50) == ([], 0)

    def test_a_column_that_is_not_there(self, tmp_path: Path) -> None:
        path = write(tmp_path / f"rows{self.ending}", self.content(self.rows))
        if not self.headed:
            assert read(path, Columns(item="track")) == ([], 3000)
            return
        with pytest.raises(InvalidArgument, match=r"item_column 'track' is no column of .*rows\.") as refusal:
            read(path, Columns(item="track"))
        assert "item 4" not in str(refusal.value)


def rows_of(source: Source) -> Counter[tuple[str, str]]:
    """The rows of a source, each as (user, item), by a pipeline of its own."""
    Gather.found.clear()
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([] if source.bounded else ["--streaming"]))
    _ = pipeline | source.read(PERIOD) | beam.ParDo(Gather())
    pipeline.run().wait_until_finish()
    return Counter(Gather.found)


class Gather(beam.DoFn):
    found: list[tuple[str, str]] = []

    def process(self, block: Any) -> Iterator[None]:  # noqa: ANN401 - a block
        assert "time" in block.schema.names
        self.found.extend(zip(block["user"].to_pylist(), block["item"].to_pylist(), strict=True))
        return iter(())


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a folder, with its bytes and when it was written."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}
