"""A list that is read in blocks is the list that is read whole, and what is no list is refused in the same words."""

from __future__ import annotations

import gzip
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from private_topk.pipelines.sources import domain_blocks
from private_topk.pipelines.sources.domain import read_domain
from private_topk.pipelines.sources.domain_blocks import LineBlocks, read_split_domain
from private_topk.transforms.domain import Domain, SplitDomain
from private_topk.transforms.refusal import Refusal
from tests.pipelines.sources.test_domain import LETTERS
from tests.pipelines.support import command, options, to_avro, write

SPACES = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(domain_blocks, "_BYTES", 5)
    yield


def outcome(read: Any, path: Path) -> object:  # noqa: ANN401
    """What a list holds, or why it is none."""
    try:
        domain: Domain = read(str(path), "item")
    except Refusal as refusal:
        return str(refusal)
    return domain.describe(), domain.labels(np.arange(domain.size)).to_pylist()  # type: ignore[union-attr]


@pytest.mark.usefixtures("small_blocks")
def test_lines_are_those_of_the_whole_file(tmp_path: Path) -> None:
    """Random texts of few characters, all that is white space among them, and ends of blocks everywhere."""
    rng, lists, blocks = np.random.default_rng(2), 0, 0
    texts = ["".join(rng.choice([*LETTERS, *SPACES], rng.integers(0, 40))) for _ in range(300)]
    texts += [f"{first}{a}{end}{b}{end}{space}{end}" for a, b in ("ab", "aa", ("aa ", "b ")) for end in ("\n", "\r\n")
              for first in ("", "\ufeff") for space in ("", SPACES[0], SPACES[-1])]  # fmt: skip
    texts += ["\n".join(map(str, range(40))), "\n" * 20, "a" * 30 + "\n" + "b", "\ufeff\n", "a\n" + "\n" * 20]
    for text in texts:
        path = write(tmp_path / "d.txt", text.encode())
        found = outcome(read_split_domain, path)
        assert found == outcome(read_domain, path), repr(text)
        lists += isinstance(found, tuple)
        blocks += len(LineBlocks.of(str(path)).edges) > 3
    assert lists > 40 and blocks > 100


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["d.avro", "d.parquet"])
@pytest.mark.parametrize("items", [list(map(str, range(500))), ["a"], ["a", "b", "a"], ["a", None], []])
def test_tables_are_those_of_the_whole_file(tmp_path: Path, name: str, items: list[str | None]) -> None:
    path, rows = tmp_path / name, [{"item": item, "user": "other"} for item in items]
    if name == "d.avro":
        write(path, to_avro(rows, sync_interval=100))
    else:
        table = pa.table({"item": pa.array(items, pa.string()), "user": ["other"] * len(items)})
        pq.write_table(table, path, row_group_size=100)
    found = outcome(read_split_domain, path)
    assert found == outcome(read_domain, path)
    if len(items) == 500:
        domain = read_split_domain(str(path), "item")
        assert len(domain.digests) >= 5 and max(np.diff(domain.edges)) <= 100
        assert pickle.loads(pickle.dumps(domain)).block(1).equals(domain.block(1))


@pytest.mark.parametrize("name", ["d.txt.gz", "d.csv", "d.jsonl", "d.avro.gz", "d.parquet.gz"])
def test_what_can_only_be_read_whole_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, gzip.compress(b"a\nb\n") if "txt" in name else [{"user": "u", "item": "a"}])
    rule = f"domain_split needs a list that can be read in parts, and {path} cannot be: give one item per line, not zip"
    assert str(outcome(read_split_domain, path)).startswith(rule)


@pytest.mark.usefixtures("small_blocks")
def test_an_item_is_named_from_its_block_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = read_split_domain(str(write(tmp_path / "d.txt", "\n".join(map(str, range(10, 100))))), "item")
    assert len(domain.digests) == 45
    read, block = list[int](), SplitDomain.block
    monkeypatch.setattr(SplitDomain, "block", lambda domain, number: read.append(number) or block(domain, number))
    assert domain.labels(np.array([89, 0, 1, 7])).to_pylist() == ["99", "10", "11", "17"]
    assert sorted(read) == [0, 3, 44]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("now", ["1\n2\n3\n4\n5\n6\n8\n", "1\n2\n3\n", "1\n2\n3\n4\n7\n", ""])
def test_a_file_that_changed_since_the_launch_is_noticed(tmp_path: Path, now: str) -> None:
    """Beside the end of a list, which no block reads: what comes to stand there is no item of it."""
    path = write(tmp_path / "d.txt", "1\n2\n3\n4\n5\n6\n7\n")
    domain = read_split_domain(str(path), "item")
    path.write_text("1\n2\n3\n4\n5\n6\n7\nmore\n")
    assert [item for number in range(len(domain.digests)) for item in domain.block(number).to_pylist()] == [*"1234567"]
    path.write_text(now)
    with pytest.raises(Refusal, match="changed since the launch"):
        for number in range(len(domain.digests)):
            domain.block(number)


ROWS = [{"user": f"u{n % 70}", "item": f"i{n * n % 41}", "time": 1_767_225_600 + 977 * n} for n in range(900)]


@pytest.mark.parametrize("name", ["items.txt", "items.parquet"])
def test_a_run_ranks_as_with_the_whole_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """In windows, with counts; rows of items outside the list among them. Only the manifest tells."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(domain_blocks, "_BYTES", 30)
    items = [f"i{n}" for n in range(5, 60)]
    write(tmp_path / name, "\n".join(items) if name == "items.txt" else [{"item": item} for item in items])
    write(tmp_path / "rows.csv", ROWS)
    write(tmp_path / "key", "a key of enough bytes")
    asked = {
        "input": "rows.csv", "domain": name, "mechanism": "canonical", "k": 4, "epsilon": 1, "publish_counts": 1,
        "from_": "2026-01-01", "to": "2026-01-15", "window": "7d", "release_key": "file:key", "release_id": "r",
    }  # fmt: skip
    whole = command("run", "--json", *options(**asked, output="whole.csv"))
    split = command(
        "run", "--json", *options(**asked, output="split.csv"), "--domain-split", "--show-left-out", "--exact-counters"
    )
    assert (whole.status, split.status) == (0, 0), (whole.err, split.err)
    assert (tmp_path / "whole.csv").read_bytes() == (tmp_path / "split.csv").read_bytes()
    manifests = [(tmp_path / f"{name}.manifest.json").read_text() for name in ("whole", "split")]
    assert manifests[1].replace(',\n    "split": true', "").replace("split.csv", "whole.csv") == manifests[0]
    outside = {(row["item"], (row["time"] - 1_767_225_600) // (7 * 86400)) for row in ROWS if row["item"] not in items}
    found = int(re.findall(r"not in domain after counting (\d+)", split.err)[0])
    assert len(outside) <= found <= 16 * len(outside)


def test_a_check_and_a_look_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.txt", "\n".join(f"I{n}" for n in range(41)))
    write(tmp_path / "rows.csv", ROWS)
    words = options(input="rows.csv", domain="items.txt", mechanism="joint", k=4, epsilon=1, output="out.csv")
    checked = command("run", *words, "--domain-split", "--check", "--show-left-out")
    assert checked.status == 0 and "41 public items, split over the workers, SHA-256 " in checked.out
    assert "most items outside the domain are in it but for capital letters" in checked.out + checked.err
