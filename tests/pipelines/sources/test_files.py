"""Files that are there: which ones a pattern names, that none of them is changed unseen, and reading ahead."""

from __future__ import annotations

import gzip
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from private_topk.pipelines.files import unpacked_name
from private_topk.pipelines.registry import source_of
from private_topk.pipelines.sources import files as source
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.files import Files, read_ahead
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.sources.contract import KEY, PERIOD, rows_of
from tests.pipelines.sources.contract import ROWS as TIMED
from tests.pipelines.support import (
    avro_schema,
    command,
    options,
    packed,
    read,
    to_avro,
    to_csv,
    to_json_lines,
    to_parquet,
    write,
)

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


@pytest.mark.parametrize("change", ["cut", "grown", "other rows"])
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_the_run_ends_with_a_sentence_and_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, change: str
) -> None:
    """Without a ledger a file is known by its size and its time: each tells alone."""
    path, checked, full = write(tmp_path / f"rows{ending}", FULL[ending]), source.check_files, FULL[ending]
    content = {
        "cut": full[: last_end(ending)],
        "grown": full + full[last_end(ending) :],
        "other rows": full.replace(b"u7", b"w7"),
    }[change]

    def change_behind_the_check(*arguments: object) -> None:
        checked(*arguments)
        written = path.stat().st_mtime_ns
        path.write_bytes(content)
        if len(content) != len(full):
            os.utime(path, ns=(written, written))

    monkeypatch.setattr(source, "check_files", change_behind_the_check)
    items = write(tmp_path / "items.txt", "i0\ni1\ni2\ni3\ni4\n")
    asked = {"input": path, "domain": items, "mechanism": "joint", "k": 2, "epsilon": 1}
    done = command("run", *options(**asked, output=tmp_path / "ranking.csv"))
    assert done.status == 1 and "was changed after the launch" in done.err, done.err
    assert not (tmp_path / "ranking.csv").exists()


ENDINGS = [".avro", ".parquet", ".csv", ".tsv", ".jsonl", ".json", ".csv.gz", ".parquet.zst"]


@pytest.mark.parametrize("watch", [False, True])
def test_an_empty_file_of_any_name_has_no_rows(tmp_path: Path, watch: bool) -> None:
    """As warehouses leave them beside their data: not even its ending counts."""
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "rows.jsonl", TIMED)
    alone = source_of(f"{tmp_path}/in/*.jsonl", COLUMNS, watch)
    found, name = rows_of(alone), alone.identity(KEY, PERIOD)
    for ending in ENDINGS:
        write(tmp_path / "in" / f"part{ending}", b"")
    (tmp_path / "in" / "_SUCCESS").touch()
    source = source_of(f"{tmp_path}/in/*", COLUMNS) if not watch else source_of(f"{tmp_path}/in/*.jsonl", COLUMNS, True)
    source.check(PERIOD)
    assert rows_of(source) == found
    assert watch or source.identity(KEY, PERIOD) == name, "no row more, no other input"


@pytest.mark.parametrize("ending", ENDINGS)
def test_where_all_files_have_no_bytes_no_row_is_there(tmp_path: Path, ending: str) -> None:
    path, items = write(tmp_path / f"rows{ending}", b""), write(tmp_path / "items.txt", "a\nb\n")
    asked = {"input": path, "domain": items, "mechanism": "joint", "k": 1, "epsilon": 1, "quiet": True}
    done = command("run", *options(**asked, output=tmp_path / "out.csv"))
    assert done.status == 0 and (tmp_path / "out.csv").exists(), done.err


@pytest.mark.parametrize("ending", [".json", ".json.gz", ".JSON"])
@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (b'[{"user":"a","item":"x"}]', r"is one array, and must have one object a line: write it anew: jq -c '.\[\]'"),
        (b'\xef\xbb\xbf \r\n[\n{"user":"a"}]', r"is one array, .* jq -c '.\[\]'"),
        (b'{\n "user": "a",\n "item": "x"\n}\n', "is an object of several lines, .*: jq -c .$"),
        (b'{"user":"a","item":"x"}\n[]\n{\n', ""),
    ],
)
def test_json_that_is_not_an_object_a_line_is_told_before_the_charge(
    tmp_path: Path, ending: str, content: bytes, remedy: str
) -> None:
    path = write(tmp_path / f"rows{ending}", packed(content, ending))
    if remedy:
        with pytest.raises(InvalidArgument, match=remedy):
            source_of(str(path), Columns()).check(None)
    else:
        assert read(path) == ([("a", "x")], 2)
    lines = write(tmp_path / "rows.jsonl", content)
    source_of(str(lines), Columns()).check(None)  # which says of itself what its lines are


COLUMNS = Columns(time="time")


class TestPatterns:
    """Which files a pattern names."""

    @pytest.mark.parametrize(
        ("files", "pattern", "found"),
        [
            (["a.jsonl", "b.jsonl", "c.csv"], "*.jsonl", ["a.jsonl", "b.jsonl"]),
            (["a.jsonl"], "a.jsonl", ["a.jsonl"]),
            (["in/a.jsonl", "b.jsonl"], "*/*.jsonl", ["in/a.jsonl"]),
            (["in/deep/a.jsonl", "in/b.jsonl"], "in/**/*.jsonl", ["in/b.jsonl", "in/deep/a.jsonl"]),
            (["in/deep/a.jsonl", "b.jsonl"], "**/*.jsonl", ["b.jsonl", "in/deep/a.jsonl"]),
            (["data [1]/a.jsonl", "data 1/b.jsonl"], "data [1]/*.jsonl", ["data [1]/a.jsonl"]),
            (["data 1/b.jsonl", "data 2/b.jsonl"], "data [1]/*.jsonl", ["data 1/b.jsonl"]),
            (["what?/a*b.jsonl", "whats/acb.jsonl"], "what?/a*b.jsonl", ["what?/a*b.jsonl"]),
            (["a [x].jsonl", "a x.jsonl"], "a [x].jsonl", ["a [x].jsonl"]),
            (["100%/a%20b.jsonl", "100%/a b.jsonl"], "100%/a%20b.jsonl", ["100%/a%20b.jsonl"]),
            (["a1.jsonl", "a2.jsonl", "a3.jsonl"], "a[!2].jsonl", ["a1.jsonl", "a3.jsonl"]),
            (["{user}/a.jsonl"], "{user}/*.jsonl", ["{user}/a.jsonl"]),
        ],
    )
    def test_patterns_match_as_in_a_shell(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], pattern: str, found: list[str]
    ) -> None:
        for name in [*files, "elsewhere/z.txt"]:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            write(tmp_path / name, TIMED[:3]) if not name.endswith(".txt") else (tmp_path / name).touch()
        monkeypatch.chdir(tmp_path)
        for start in ("", "./", f"{tmp_path}/"):
            source = source_of(start + pattern, COLUMNS)
            assert isinstance(source, Files)
            assert [file.path.removeprefix(start) for file in source.files] == found
        assert sum(rows_of(source).values()) == 3 * len(found)

    @pytest.mark.parametrize(("name", "share"), [("r.csv", 4), ("r.jsonl", 4), ("r.csv.gz", 1), ("r.parquet", 1)])
    def test_plain_text_is_as_much_as_it_would_be_packed(self, tmp_path: Path, name: str, share: int) -> None:
        path = write(tmp_path / name, TIMED)
        assert source_of(str(path), COLUMNS).stored_bytes() == path.stat().st_size // share

    @pytest.mark.parametrize("watch", [False, True])
    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("in/*.jsonl", ["a"]),
            ("in/**/*.jsonl", ["_day=1/c", "a"]),
            ("in/?*.jsonl", ["a"]),
            ("in/[!b]*.jsonl", ["a"]),
            ("in/_*.jsonl", ["_b"]),
            ("in/.b.jsonl", [".b"]),
            ("in/_b.jsonl", ["_b"]),
            ("in/_temporary/*.jsonl", ["_temporary/b"]),
        ],
    )
    def test_a_wildcard_matches_no_name_that_starts_with_a_dot_or_an_underscore(
        self, tmp_path: Path, watch: bool, pattern: str, found: list[str]
    ) -> None:
        """As writers name what is no data; what is named is read. A key of a folder is no such name."""
        for name in ("a", ".b", "_b", "_temporary/b", ".staging/b", "_day=1/c"):
            (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
            file = write(tmp_path / "in" / f"{name}.jsonl", [{"user": name, "item": "i", "time": "2026-01-01"}])
            os.utime(file, (PERIOD.start.timestamp(),) * 2)
        source = source_of(f"{tmp_path}/{pattern}", COLUMNS, watch)
        source.check(PERIOD)
        assert rows_of(source) == Counter((name, "i") for name in found)

    @pytest.mark.parametrize("watch", [False, True])
    @pytest.mark.parametrize(
        ("kind", "mark", "data"),
        [
            ("Delta", "_delta_log/00000000000000000000.json", "part-0.parquet"),
            ("Delta", "_delta_log/00000000000000000000.json", "dt=2026-01-01/country=DE/part-0.parquet"),
            ("Iceberg", "metadata/v1.metadata.json", "data/00000-0.parquet"),
            ("Iceberg", "metadata/00001-ab.gz.metadata.json", "data/dt=2026-01-01/00000-0.parquet"),
            ("Hudi", ".hoodie/hoodie.properties", "2026/01/01/a_0-1-0.parquet"),
            ("Paimon", "snapshot/snapshot-1", "bucket-0/data-1.parquet"),
        ],
    )
    def test_the_folder_of_a_table_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: bool, kind: str, mark: str, data: str
    ) -> None:
        """It keeps the files of deleted rows, and a user who was deleted would count; whatever names its files."""
        for path in (tmp_path / "lake" / "sales" / mark, tmp_path / "lake" / "sales" / data):
            path.parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / "lake" / "sales" / data, TIMED[:3])
        every = f"{tmp_path}/lake/**/*.parquet"
        source_of(every, COLUMNS, watch).check(PERIOD)
        (tmp_path / "lake" / "sales" / mark).write_text("{}")
        (tmp_path / "link").symlink_to((tmp_path / "lake" / "sales" / data).parent)
        monkeypatch.chdir((tmp_path / "lake" / "sales" / data).parent)
        for pattern in (every, f"{tmp_path}/lake/sales/{data}", f"{tmp_path}/link/*.parquet", "*.parquet"):
            with pytest.raises(
                InvalidArgument, match=f"sales is the folder of a {kind} table, .* in another folder$"
            ) as refusal:
                source_of(pattern, COLUMNS, watch).check(PERIOD)
            assert refusal.value.field == "input"

    def test_file_urls_are_read_as_local_paths(self, tmp_path: Path) -> None:
        (tmp_path / "a b%").mkdir()
        write(tmp_path / "a b%" / "r.jsonl", TIMED)
        for host in ("", "localhost"):
            source = source_of(f"file://{host}{tmp_path}/a%20b%25/*.jsonl", COLUMNS)
            assert source.uri == f"{tmp_path}/a b%/*.jsonl" and source.stored_bytes() > 0
        for place in ("file://elsewhere/x.avro", "file://x.avro"):
            with pytest.raises(InvalidArgument, match="must be a path or file:///PATH") as refusal:
                source_of(place, COLUMNS)
            assert refusal.value.field == "input"

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "rows.jsonl").mkdir()
        for name in ("_SUCCESS", "part-0.parquet"):
            (tmp_path / "rows.jsonl" / name).touch()
        with pytest.raises(
            InvalidArgument, match="is a folder: name its files, as in '.*/rows.jsonl/\\*.parquet'"
        ) as refusal:
            source_of(f"{tmp_path}/rows.jsonl", COLUMNS).check(None)
        assert refusal.value.field == "input"

    def test_a_refused_path_is_shown_as_it_was_given(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgument) as refusal:
            source_of(f"{tmp_path}/{{user}}/*.avro", COLUMNS).check(None)
        assert refusal.value.shown(lambda field: f"--{field}").startswith(f"--input {tmp_path}/{{user}}/*.avro matches")


class TestKeys:
    """Columns that folders hold, as warehouses write them: dt=2026-01-05/country=DE/part-0.parquet."""

    KEYED = Columns(item="country", time="dt", value="n", group="city")

    @pytest.mark.parametrize("ending", [".csv", ".tsv.gz", ".jsonl.zst", ".parquet", ".avro"])
    def test_a_key_is_the_same_in_every_row_of_its_file(self, tmp_path: Path, ending: str) -> None:
        plain = [{"user": "u", "n": "3"}, {"user": "v", "n": "4"}]
        content = {
            ".csv": to_csv(plain),
            ".tsv": to_csv(plain).replace(b",", b"\t"),
            ".jsonl": to_json_lines(plain),
            ".parquet": to_parquet(plain),
            ".avro": to_avro(plain, avro_schema(user="string", n="string")),
        }[unpacked_name(ending)]

        def rows(path: str) -> list[tuple[Any, ...]]:
            folder = tmp_path / path
            folder.mkdir(parents=True)
            file = write(folder / f"part-0{ending}", packed(content, ending))
            found = read(file, self.KEYED)
            assert read(file, self.KEYED, size=1) == found
            return found.rows

        micros = 1_767_571_200_000_000
        assert rows("dt=2026-01-05/country=DE/city=Bonn") == [
            ("u", "DE", micros, 3.0, "Bonn"),
            ("v", "DE", micros, 4.0, "Bonn"),
        ]
        assert rows("city=S%C3%A3o+P%3Daulo/x=1/country=007/dt=2026-01-05 01%3A00")[0] == (
            "u",
            "007",
            micros + 3_600_000_000,
            3.0,
            "São+P=aulo",
        )
        of_no_group = rows("country=a/dt=5/city=__DEFAULT_PARTITION__")
        assert of_no_group == [("u", "a", 5_000_000, 3.0, ""), ("v", "a", 5_000_000, 4.0, "")]
        for null in (
            "country=__HIVE_DEFAULT_PARTITION__/dt=5/city=a",
            "country=a/dt=/city=a",
            "country=a/dt=b/city=a",
        ):
            assert rows(null) == [], "left out: a missing value, or no time"

    def test_the_path_counts_and_not_a_column_of_the_file_but_for_users(self, tmp_path: Path) -> None:
        rows = [{"user": "u", "item": "its own"}]
        for ending in (".csv", ".jsonl", ".parquet", ".avro"):
            folder = tmp_path / "user=w/item=x"
            folder.mkdir(parents=True, exist_ok=True)
            assert read(write(folder / f"part{ending}", rows)) == ([("u", "x")], 0), ending

    def test_items_of_a_path_are_texts(self, tmp_path: Path) -> None:
        (tmp_path / "item=5").mkdir()
        path = write(tmp_path / "item=5" / "a.parquet", [{"user": 7}])
        assert read(path) == ([("7", "5")], 0)
        assert not source_of(str(path), Columns()).integer_items

    @pytest.mark.parametrize("path", ["item=a/item=b", "item=%FF", "%E4=1/item=b"])
    def test_a_path_that_says_no_one_thing_is_refused(self, tmp_path: Path, path: str) -> None:
        (tmp_path / path).mkdir(parents=True)
        write(tmp_path / path / "a.jsonl", [{"user": "u"}])
        with pytest.raises(
            InvalidArgument, match="twice: a column has one value|a key that is not UTF-8: rename"
        ) as refusal:
            source_of(f"{tmp_path}/**/*.jsonl", Columns()).check(None)
        assert refusal.value.field == "input"

    def test_the_keys_that_are_read_are_part_of_the_input(self, tmp_path: Path) -> None:
        names = []
        for path in ("country=DE", "country=FR", "elsewhere/country=DE/x=1", "country=DE/dt=2026-01-05"):
            (tmp_path / path).mkdir(parents=True, exist_ok=True)
            file = write(tmp_path / path / "a.jsonl", [{"user": "u", "item": "x"}])
            names.append([Files(str(file), Columns(item=item)).identity(KEY, None) for item in ("country", "item")])
        keyed, plain = zip(*names, strict=True)
        assert keyed[0] == keyed[2] == keyed[3] != keyed[1] and len(set(plain)) == 1

    @pytest.mark.parametrize("watch", [False, True])
    def test_a_run_and_a_stream_read_them(self, tmp_path: Path, watch: bool) -> None:
        expected = Counter[tuple[str, str]]()
        for day, land in product((1, 2), ("DE", "FR")):
            folder = tmp_path / f"dt=2026-01-0{day}" / f"country={land}"
            folder.mkdir(parents=True)
            file = write(folder / "part-0.jsonl", [{"user": f"u{day}"}] * day)
            os.utime(file, (PERIOD.start.timestamp(),) * 2)
            expected[(f"u{day}", land)] += day
        source = source_of(f"{tmp_path}/dt=*/*/*.jsonl", Columns(item="country", time="dt"), watch)
        source.check(PERIOD)
        assert rows_of(source) == expected


def counting(made: list[int], n: int) -> Iterator[int]:
    for number in range(n):
        made.append(number)
        yield number


def test_reading_ahead_keeps_elements_and_order() -> None:
    assert list(read_ahead(iter(range(1000)))) == list(range(1000))
    assert list(read_ahead(iter([]))) == []


def test_reading_ahead_is_bounded_by_its_depth() -> None:
    made: list[int] = []
    elements = read_ahead(counting(made, 100), depth=2)
    assert next(elements) == 0
    until = time.monotonic() + 120
    while len(made) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.1)  # time to run too far
    assert len(made) <= 5
    elements.close()


def test_reading_ahead_raises_an_error_after_earlier_elements() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise KeyError("broken")

    elements = read_ahead(broken())
    assert next(elements) == 1
    with pytest.raises(KeyError, match="broken"):
        next(elements)


def test_an_early_stop_ends_the_thread() -> None:
    before = threading.active_count()
    elements = read_ahead(counting([], 10**9))
    next(elements)
    assert threading.active_count() == before + 1
    elements.close()
    assert threading.active_count() == before
