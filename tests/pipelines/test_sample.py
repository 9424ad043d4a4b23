from __future__ import annotations

import hashlib
from collections import Counter
from datetime import timedelta
from pathlib import Path

import fastavro
import pytest

from private_topk.pipelines.sample import EVENTS, START, WEEKS
from tests.pipelines.support import command


@pytest.mark.long
def test_the_same_plausible_sample_on_every_machine(tmp_path: Path) -> None:
    for folder in ("one", "two/deep"):
        done = command("sample", "--folder", tmp_path / folder)
        assert done.status == 0 and "200,000 plays from 2026-01-05 on, 4 weeks" in done.out and done.err == ""
    plays, catalogue = (tmp_path / "one" / name for name in ("plays.avro", "catalogue.txt"))
    for path in (plays, catalogue):
        assert path.read_bytes() == (tmp_path / "two/deep" / path.name).read_bytes()
    titles = catalogue.read_text("utf-8").splitlines()
    assert len(titles) == len(set(titles)) == 900 and all(" - " in title for title in titles)
    with plays.open("rb") as source:
        rows = list(fastavro.reader(source))
    assert len(rows) == EVENTS == 200_000 and {row["item"] for row in rows} <= set(titles)
    assert all(START <= row["time"] < START + WEEKS * timedelta(days=7) for row in rows)
    fans = Counter(item for _, item in {(row["user"], row["item"]) for row in rows})
    assert len({row["user"] for row in rows}) > 5000 and fans.most_common(1)[0][1] > 10 * min(fans.values())
    digest = hashlib.sha256("\n".join(f"{row['user']} {row['item']} {row['time']}" for row in rows).encode())
    assert digest.hexdigest()[:16] == DIGEST


DIGEST = "c3e9d1276ffc81b5"
"""Integers alone make the plays, so this holds on every machine; a change of the generator changes it."""


def test_files_of_ones_own_are_kept(tmp_path: Path) -> None:
    """A list of the same name would be ranked, and charged, without a word. The same sample again is fine."""
    assert [command("sample", "--folder", tmp_path).status for _ in range(2)] == [0, 0]
    (tmp_path / "plays.avro").unlink()
    (tmp_path / "countries.txt").write_text("DE\n")
    done = command("sample", "--folder", tmp_path)
    assert done.status == 2 and "countries.txt is there and is no such sample" in done.err
    assert (tmp_path / "countries.txt").read_text() == "DE\n" and not (tmp_path / "plays.avro").exists()


def test_a_sample_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = command("sample", "--folder", tmp_path / "file")
    assert done.status == 2 and "cannot be written" in done.err
