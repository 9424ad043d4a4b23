"""Files by path and glob, as a shell would match them; what a store says is told without what is wrapped around it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from apache_beam.io.filesystem import BeamIOError

from private_topk.pipelines.files import as_path, exists, match, match_any, names_in, open_content, why
from private_topk.transforms.errors import Refusal


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a.csv", "b.csv", "c[1].csv", "sub/d.csv", "odd [x]/e.csv", ".hidden.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a.csv", ["a.csv"]),
        ("[ab].csv", ["a.csv", "b.csv"]),
        ("c[1].csv", ["c[1].csv"]),
        ("*/d.csv", ["sub/d.csv"]),
        ("**/d.csv", ["sub/d.csv"]),
        ("odd [x]/*.csv", ["odd [x]/e.csv"]),
        ("./a.*", ["./a.csv"]),
        ("sub", []),
        ("none*.csv", []),
        ("none/a.csv", []),
    ],
)
def test_patterns(folder: Path, pattern: str, found: list[str]) -> None:
    assert [file.path for file in match_any(pattern)] == found
    if not found:
        said = (
            "is a folder: name its files" if pattern == "sub" else "matches no file: check the path, and quote a glob"
        )
        with pytest.raises(Refusal, match=said):
            match(pattern)


def test_what_is_known_of_a_file(folder: Path) -> None:
    os.utime("a.csv", ns=(0, 1_700_000_000_123_456_789))
    (file,) = match("a.csv")
    assert (file.size, file.written) == (5, 1_700_000_000_123_456)
    assert exists("a.csv") and not exists("z.csv") and names_in("sub") == {"d.csv"} and names_in("none") == set()


def test_places_as_addresses() -> None:
    assert as_path("file:///a%20b/c.csv", "input") == "/a b/c.csv" and as_path("x.csv", "input") == "x.csv"
    for place in ("file://host/x", "file:///"):
        with pytest.raises(Refusal, match="^output must be a path or file:///PATH"):
            as_path(place, "output")


def test_a_broken_gzip_is_said_to_be_one(folder: Path) -> None:
    (folder / "rows.csv.gz").write_bytes(b"\x1f\x8b broken")
    with (
        pytest.raises(Refusal, match=r"rows\.csv\.gz is not a whole gzip file"),
        open_content("rows.csv.gz") as content,
    ):
        content.read()


def test_what_a_store_says_is_found_inside() -> None:
    inner = BeamIOError("exists() failed", {"s3://b/x": AssertionError("Missing boto3 requirement.")})
    assert why(BeamIOError("Match failed", {"s3://b/x": inner})) == "Missing boto3 requirement"
    assert "not installed" in why(NameError("name 'BlobServiceClient' is not defined"))
    assert why(OSError("disk is full")) == "disk is full" and why(KeyError()) == "KeyError"
