"""Files by path and glob, as a shell would match them; streams of gzip, whole or refused; stores that do not answer."""

from __future__ import annotations

import gzip
import os
import random
import threading
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.filesystem import BeamIOError, FileMetadata, MatchResult
from apache_beam.io.filesystems import FileSystems

from private_topk.pipelines import files
from private_topk.pipelines.files import exists, match, match_any, names_in, open_content, why
from private_topk.transforms.errors import InvalidArgument
from tests.refusals import refused


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a.csv", "b.csv", "c[1].csv", "sub/d.csv", "odd [x]/e.csv", ".hidden.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("pattern", ["in/**", "in/**/*", "in/**/*.csv"])
def test_two_stars_follow_links_to_folders_and_none_into_a_circle(folder: Path, pattern: str) -> None:
    for name in ("in/a.csv", "store/b.csv", "store/deep/c.csv"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    for link, target in (("in/store", "../store"), ("in/itself", "."), ("store/back", "../in")):
        (folder / link).symlink_to(target)
    assert [file.path for file in match_any(pattern)] == ["in/a.csv", "in/store/b.csv", "in/store/deep/c.csv"]


def test_a_matched_file_has_its_size_and_time_of_writing(folder: Path) -> None:
    os.utime("a.csv", ns=(0, 1_700_000_000_123_456_789))
    (file,) = match("a.csv")
    assert (file.size, file.written) == (5, 1_700_000_000_123_456)
    assert exists("a.csv") and not exists("z.csv") and names_in("sub") == {"d.csv"} and names_in("none") == set()


def test_the_cause_of_a_storage_error_is_unwrapped() -> None:
    inner = BeamIOError("exists() failed", {"s3://b/x": AssertionError("Missing boto3 requirement.")})
    assert why(BeamIOError("Match failed", {"s3://b/x": inner})) == "Missing boto3 requirement"
    assert "not installed" in why(NameError("name 'BlobServiceClient' is not defined"))
    assert why(OSError("disk is full")) == "disk is full" and why(KeyError()) == "KeyError"


HURTS = {
    "cut short": lambda stream, draw: stream[: draw.randrange(len(stream))],
    "a bit": lambda stream, draw: _bit(stream, draw.randrange(8 * len(stream))),
    "some bytes": lambda stream, draw: _other(stream, draw.randrange(len(stream)), draw.randbytes(20)),
    "two streams": lambda stream, draw: stream + gzip.compress(b"abc"),
    "zeros behind": lambda stream, draw: stream + bytes(draw.randrange(1, 50)),
    "zeros between": lambda stream, draw: stream + bytes(3) + gzip.compress(b"abc"),
    "something behind": lambda stream, draw: stream + draw.randbytes(draw.randrange(1, 50)),
    "half of another behind": lambda stream, draw: stream + gzip.compress(b"abc")[: draw.randrange(1, 20)],
}


def _bit(stream: bytes, place: int) -> bytes:
    return _other(stream, place // 8, bytes([stream[place // 8] ^ 1 << place % 8]))


def _other(stream: bytes, place: int, instead: bytes) -> bytes:
    return stream[:place] + instead + stream[place + len(instead) :]


def read(step: int) -> bytes | None:
    try:
        with open_content("rows.csv.gz") as content:
            return b"".join(iter(lambda: content.read(step), b""))
    except InvalidArgument as error:
        assert str(error) == "rows.csv.gz is not a whole gzip file: write or copy it again, or rename it if it is none"
        return None


@pytest.mark.parametrize("hurt", HURTS)
def test_a_stream_is_read_whole_or_refused(hurt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw = random.Random(hurt)
    for number in range(30):
        size = draw.choice((0, 1, 50, 70_000))
        whole = draw.randbytes(size) + b"abc,def\n" * size
        stream = HURTS[hurt](gzip.compress(whole, draw.choice((0, 1, 6, 9))), draw)
        Path("rows.csv.gz").write_bytes(stream)
        found = read(draw.choice((100, 65_536, 1 << 22)))
        if hurt in ("two streams", "zeros behind", "zeros between"):
            assert found == whole + (b"" if hurt == "zeros behind" else b"abc"), number
        elif hurt in ("a bit", "some bytes"):
            assert found in (None, whole), number
        else:
            assert found is None, number


def test_an_empty_file_is_not_an_empty_gzip_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was begun and not written; a stream of nothing has 20 bytes."""
    monkeypatch.chdir(tmp_path)
    Path("rows.csv.gz").write_bytes(b"")
    assert read(100) is None
    Path("rows.csv.gz").write_bytes(gzip.compress(b""))
    assert read(100) == b""


@pytest.mark.parametrize(
    ("ask", "method"),
    [(files.match_any, "match"), (files.names_in, "match"), (files.exists, "exists"), (files.open_file, "open")],
)
def test_a_storage_service_that_does_not_answer_is_reported(
    ask: Any,  # noqa: ANN401
    method: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def silent(*given: Any, **options: Any) -> Any:  # noqa: ANN401
        until = time.monotonic() + 20
        while not (said := capsys.readouterr().err) and time.monotonic() < until:  # however busy the machine is
            time.sleep(0.02)
        heard.append(said)
        raise OSError("no route")

    monkeypatch.setattr(files, "PATIENCE", 0.05)
    heard: list[str] = []
    monkeypatch.setattr(FileSystems, method, silent)
    with pytest.raises((OSError, ValueError)):
        ask("gs://a-bucket/secret/rows.csv")
    said = "".join(heard) + capsys.readouterr().err
    assert said.count("gs://a-bucket has not answered") == 1 and "secret" not in said and said.count("\n") == 1


def test_a_store_that_answers_is_not_mentioned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "PATIENCE", 60.0)
    monkeypatch.setattr(FileSystems, "exists", lambda path: True)
    assert files.exists("gs://a-bucket/rows.csv")
    until = time.monotonic() + 20
    while any(isinstance(thread, threading.Timer) for thread in threading.enumerate()):
        assert time.monotonic() < until, "nobody waits for what was answered"
        time.sleep(0.02)
    assert capsys.readouterr().err == ""


def test_a_store_hides_the_same_names_and_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one short request for each folder above and each kind of table; one that is denied is no table's."""
    held = ["data/a.csv", "data/_b.csv", "data/.c/d.csv", "sales/a.csv", "sales/_delta_log/0.json", "metadata/x.csv"]

    def listed(patterns: list[str], limits: list[int] | None = None) -> list[MatchResult]:
        if patterns[0].startswith("gs://b/_delta_log"):
            raise BeamIOError("denied")
        paths = [f"gs://b/{path}" for path in held if fnmatchcase(f"gs://b/{path}", patterns[0])]
        return [MatchResult(patterns[0], [FileMetadata(path, 1) for path in paths[: limits and limits[0]]])]

    monkeypatch.setattr(FileSystems, "match", listed)
    found = match_any("gs://b/data/*")
    assert [file.path for file in found] == ["gs://b/data/a.csv"]
    files.refuse_tables(found)
    with refused("", "gs://b/sales is the folder of a Delta table"):
        files.refuse_tables(match_any("gs://b/**.csv"))
