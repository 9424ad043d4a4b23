"""Files and folders held to the contract of all sinks; which sink an address names. Kafka's is among the streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from private_topk.pipelines.registry import sink_of
from private_topk.pipelines.release.formats import RANKING_FORMATS
from private_topk.pipelines.sinks.bigquery import ToBigQuery
from private_topk.pipelines.sinks.files import ToFile, ToFolder
from private_topk.pipelines.sinks.messages import ToKafka, ToPubSub
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.sinks.contract import PERIOD, RELEASE, SinkContract, written
from tests.pipelines.sources.contract import tree
from tests.pipelines.support import command, options, write


class TestFile(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> ToFile:
        self.folder = tmp_path
        return ToFile(f"{tmp_path}/out [1] 100%/r.jsonl")

    def state(self) -> object:
        return {name: content for name, (content, _) in tree(self.folder).items()}

    def test_rows_of_a_file_sink_are_read_back(self, sink: ToFile) -> None:
        written(sink)
        assert [row["item"] for row in sink.published() or []] == ["tea", "cake"]

    def test_a_place_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "a file").touch()
        (tmp_path / "r.avro").mkdir()
        for uri in (f"{tmp_path}/a file/r.avro", f"{tmp_path}/r.avro", f"{tmp_path}/{'x' * 250}.avro"):
            with pytest.raises(InvalidArgument) as refusal:
                ToFile(uri).check(PERIOD, [], RELEASE)
            assert refusal.value.field == "output"


class TestFolder(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> ToFolder:
        self.folder = tmp_path
        return ToFolder(f"{tmp_path}/out [1] 100%/", "jsonl")

    def state(self) -> object:
        return {name: content for name, (content, _) in tree(self.folder).items()}

    def test_every_window_is_a_file_with_its_manifest(self, sink: ToFolder) -> None:
        written(sink)
        names = sorted(Path(name).name for name in tree(self.folder))
        stems = [PERIOD.window(number).label() for number in range(2)]
        assert names == sorted(f"{stem}{ending}" for stem in stems for ending in (".jsonl", ".manifest.json"))
        manifest = json.loads(Path(f"{sink.uri}/{stems[1]}.manifest.json").read_text())
        assert [window["returned"] for window in manifest["windows"]] == [0]


class TestPubSub(SinkContract):
    writes = False

    @pytest.fixture
    def sink(self) -> ToPubSub:
        return ToPubSub("pubsub://projects/p-1/topics/rankings")

    def state(self) -> object:
        return None


@pytest.mark.parametrize(
    ("uri", "batch", "kind"),
    [
        ("r.avro", True, ToFile),
        ("R.CSV", True, ToFile),
        ("out/", True, ToFolder),
        ("gs://b/out/", True, ToFolder),
        ("gs://b/r.parquet", True, ToFile),
        ("out", False, ToFolder),
        ("r.avro", False, ToFolder),
        ("kafka://h:1/t", True, ToKafka),
        ("pubsub://projects/p/topics/t", True, ToPubSub),
        ("bigquery://p:d.t", True, ToBigQuery),
        ("kafka://h:1/t", False, ToKafka),
    ],
)
def test_an_address_names_a_sink(uri: str, batch: bool, kind: type) -> None:
    assert type(sink_of(uri, batch=batch)) is kind


@pytest.mark.parametrize(
    ("uri", "format", "batch", "field"),
    [
        ("out", None, True, "output"),
        ("r.xlsx", None, True, "output"),
        ("r.avro", "csv", True, "output_format"),
        ("out/", "xlsx", True, "output_format"),
        ("kafka://h:1/t", "avro", False, "output_format"),
        ("kafka://h/t", None, False, "output"),
        ("pubsub://projects/p/subscriptions/s", None, False, "output"),
        ("bigquery://p.d", None, True, "output"),
        ("file://elsewhere/r.avro", None, True, "output"),
    ],
)
def test_an_option_that_does_not_fit_the_sink_is_refused(
    uri: str, format: str | None, batch: bool, field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a folder of that name that is there already is a place
    with pytest.raises(InvalidArgument) as refusal:
        sink_of(uri, format, batch=batch)
    assert refusal.value.field == field


@pytest.fixture
def report(tmp_path: Path) -> list[str]:
    rows = [{"user": f"u{n}", "item": f"i{n % 7}", "time": f"2026-01-0{1 + n % 2}"} for n in range(80)]
    write(tmp_path / "rows.jsonl", rows)
    write(tmp_path / "items.txt", "\n".join(f"i{n}" for n in range(7)))
    write(tmp_path / "key", "a key of the tests, which is no secret")
    return options(
        input=tmp_path / "rows.jsonl",
        domain=tmp_path / "items.txt",
        mechanism="joint",
        k=3,
        epsilon=1,
        window="1d",
        from_="2026-01-01",
        to="2026-01-03",
        release_key=f"file:{tmp_path}/key",
        release_id="r",
    )


@pytest.mark.parametrize("form", ["avro", "csv", "jsonl", "parquet"])
def test_a_folder_of_a_run_and_of_a_stream_holds_what_a_file_holds_in_every_format(
    report: list[str], tmp_path: Path, form: str
) -> None:
    ending = f".{form}"
    whole, decode = tmp_path / f"r{ending}", RANKING_FORMATS[ending].decode
    assert command("run", "--quiet", *report, f"--output={whole}").status == 0
    write(tmp_path / "end.jsonl", [{"user": "nobody", "item": "nothing", "time": "2026-01-09"}])
    watched = [word for word in report if not word.startswith("--input")] + [f"--input={tmp_path}/*.jsonl"]
    for folder, words in (
        ("by window", ["run", *report, f"--output=file://{tmp_path}/by%20window/"]),
        ("out", ["stream", *watched, "--clock=event", f"--output={tmp_path}/out"]),
    ):
        done = command(*words, f"--output-format={form}")
        assert done.status == 0, done.err
        parts = sorted(path for path in (tmp_path / folder).iterdir() if path.suffix == ending)
        assert len(parts) == 2
        assert [row for part in parts for row in decode(part.read_bytes())] == decode(whole.read_bytes())
