"""A file that is cut short between two rows, after the launch has looked at it, is not read as a shorter one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from private_topk.pipelines.files import match
from private_topk.pipelines.sources import files as source
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.formats import cut_into_pieces, read_pieces
from private_topk.transforms.errors import Refusal
from tests.pipelines.support import command, to_avro, to_csv, to_json_lines, write

ROWS = [{"user": f"u{number}", "item": f"i{number % 5}"} for number in range(200)]
FULL = {
    ".csv": to_csv(ROWS),
    ".jsonl": to_json_lines(ROWS),
    ".csv.gz": gzip.compress(to_csv(ROWS)) + gzip.compress(b"last,i1\n"),
    ".avro": to_avro(ROWS, sync_interval=500),
}


def last_end(ending: str) -> int:
    """Where the last row, member of a zip file or block begins."""
    full = FULL[ending]
    if ending == ".avro":
        return full.rstrip().rfind(full[-16:], 0, -16) + 16
    return full.rfind(b"\x1f\x8b") if ending.endswith(".gz") else full.rfind(b"\n", 0, -1) + 1


@pytest.mark.parametrize("ending", FULL)
def test_it_is_refused_whenever_it_was_cut(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"rows{ending}", FULL[ending])
    pieces = cut_into_pieces(match(str(path)))
    whole = sum(len(found.block or ()) for found in read_pieces(pieces, Columns()))
    reads = read_pieces(pieces, Columns())
    next(reads)  # the rest is read by then, or is cut off before
    path.write_bytes(FULL[ending][: last_end(ending)])
    with pytest.raises(Refusal, match="was cut short after the launch"):
        list(reads)
    with pytest.raises(Refusal, match="was cut short after the launch|is truncated or damaged"):
        list(read_pieces(pieces, Columns()))
    shorter = read_pieces(cut_into_pieces(match(str(path))), Columns())  # which no look at the rows would tell
    assert 0 < sum(len(found.block or ()) for found in shorter) < whole


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_the_run_ends_with_a_sentence_and_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    path, checked = write(tmp_path / f"rows{ending}", FULL[ending]), source.check_files

    def cut_behind_the_check(*arguments: object) -> None:
        checked(*arguments)  # type: ignore[arg-type]
        path.write_bytes(FULL[ending][: last_end(ending)])

    monkeypatch.setattr(source, "check_files", cut_behind_the_check)
    words = ["--input", path, "--domain", write(tmp_path / "items.txt", "i0\ni1\ni2\ni3\ni4\n"), "--mechanism", "joint",
             "--k", 2, "--epsilon", 1, "--output", tmp_path / "ranking.csv"]  # fmt: skip
    done = command("run", *words)
    assert done.status == 2 and "was cut short after the launch" in done.err, done.err
    assert not (tmp_path / "ranking.csv").exists()


def test_one_that_is_gone_was_read(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", FULL[".csv"])
    reads = read_pieces(cut_into_pieces(match(str(path))), Columns())
    first = next(reads)
    path.unlink()
    assert len(first.block or ()) == 200 and [found.block for found in reads] == [None]
