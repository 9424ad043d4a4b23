from __future__ import annotations

import gzip
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.sources.domain import DomainFile, load_lists, read_domain
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.support import avro_schema, to_avro, write
from tests.refusals import refused

ITEMS = ["b", "é🎵", "7", " spaced "]


@pytest.mark.parametrize("name", ["d.txt", "d", "d.txt.gz", "d.csv", "d.jsonl.gz", "d.parquet", "d.avro"])
def test_one_item_a_line_or_a_column(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if "txt" in name or name == "d":
        content = ("\ufeff" + "\r\n".join(ITEMS) + "\r\n\n").encode()
        write(path, gzip.compress(content) if name.endswith("gz") else content)
    else:
        write(path, [{"user": "other", "item": item} for item in ITEMS])
    domain = read_domain(str(path), ("item",))
    assert domain == PublicDomain.of(ITEMS) and domain.index().labels.to_pylist() == ITEMS
    assert pickle.loads(pickle.dumps(domain)).load().to_pylist() == ITEMS


LETTERS = "ab\u00e9\u2713\u3042\U0001f3b5\x00\ufeff" + "\n" * 6 + "\r"


def listed(text: str) -> list[str | None]:
    """A line at a time, as a reader would."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return [line if line.strip() else None for line in lines]


def test_lines_are_told_apart_as_by_python(tmp_path: Path) -> None:
    """Random texts of few characters, all that is white space to Python among them."""
    rng, spaces = np.random.default_rng(1), "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
    texts = ["".join(rng.choice([*LETTERS, *spaces], rng.integers(0, 40))) for _ in range(400)]
    texts += [f"a{space}\n{space}{space}\nb\n{space}" for space in spaces]
    assert sum(None in listed(text) for text in texts) > 50
    for text in texts:
        read = DomainFile(str(write(tmp_path / "d.txt", text.encode())), ("item",))
        assert read().to_pylist() == listed(text), repr(text)


def test_whole_numbers_are_their_digits(tmp_path: Path) -> None:
    path = write(tmp_path / "d.avro", to_avro([{"id": 7}, {"id": 5}], avro_schema(id="long")))
    assert read_domain(str(path), ("id",)) == PublicDomain.of(["7", "5"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.txt", "\n \n", "at least one value"),
        (
            "d.txt",
            "item\na\n",
            "d.txt begins with item, as .* remove that line; if it is no header, put it further",
        ),
        ("d.txt", "a\n\nb\n", "must not hold empty values, got 1: remove them"),
        ("d.txt", "a\nb\na\n", "every value once, got 1 repeated: give a public list"),
        ("d.txt", b"tea\ncaf\xe9\n", "not UTF-8 text in line 2: give one item per line"),
        ("d.csv", b"item\ntea\ncaf\xe9\n", "has rows that cannot be read: every one must hold an item, in UTF-8"),
        ("d.csv", "nr;item\n1;tea\n", "with semicolons in it: save it with commas .*: csv_delimiter is for the input"),
        ("d.txt.gz", b"abc", "not a whole gzip file"),
        ("d.csv", "name\na\n", "domain_column 'item' is no column of .*: it has name: give domain_column from these"),
        ("d.csv", '"item, name",x\na,1\n', 'it has "item, name", x: did you mean item, name[?]'),
        ("d.csv", "item\n", "at least one value"),
        ("d.csv", "item,x\na,1\n,2\n", "must not hold empty values, got 1"),
        (
            "d.avro",
            to_avro([], avro_schema(item="double")),
            "column 'item' cannot be used: users, items and groups must be",
        ),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,  # a sync marker is another in every process
)
def test_an_invalid_domain_file_is_refused(tmp_path: Path, name: str, content: bytes | str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        read_domain(str(write(tmp_path / name, content)), ("item",))
    assert name in str(caught.value)


LANDS = "DE\nFR\nParis\n"


@pytest.mark.parametrize(
    ("groups", "items", "told"),
    [
        (
            LANDS,
            "DE,tea\nFR,tea\nFR,cake\n",
            "items.txt has a group and more in every line.* give domain_group",
        ),
        (LANDS, "DE\ttea\n", "domain .*items.txt has a group and more in every line, and a line is one item"),
        (
            "FR\nDE\nDE,overall\n",
            "tea\n",
            "groups.txt has the line 'DE,overall', which is one group: .*overall",
        ),
        (LANDS, "DE,tea\nPoland,tea\n", ""),
        (LANDS, "Paris, Texas\n", ""),
        (LANDS + "Paris, Texas\n", "tea\n", ""),
    ],
)
def test_a_table_by_the_name_of_a_text_is_no_list_of_lines(tmp_path: Path, groups: str, items: str, told: str) -> None:
    asked = {"group_column": "land", "groups": str(write(tmp_path / "groups.txt", groups))}
    asked["domain"] = str(write(tmp_path / "items.txt", items))
    if not told:
        assert load_lists(asked).groups is not None
        return
    with pytest.raises(InvalidArgument, match=told):
        load_lists(asked)


def test_an_item_may_be_called_as_its_column_is(tmp_path: Path) -> None:
    for name, content in (("d.txt", "a\nitem\n"), ("d.csv", "item\nitem\na\n"), ("d.txt", "Item\na\n")):
        assert read_domain(str(write(tmp_path / name, content)), ("item",)).size == 2


def test_a_domain_pattern_must_match_exactly_one_file(tmp_path: Path) -> None:
    with refused("domain", "none.txt does not exist"):
        read_domain(str(tmp_path / "none.txt"), ("item",))
    write(tmp_path / "a.txt", "a\n"), write(tmp_path / "b.txt", "b\n")
    with refused("domain", "must be one file"):
        read_domain(str(tmp_path / "*.txt"), ("item",))
