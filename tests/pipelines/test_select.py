from __future__ import annotations

import io
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from private_topk.transforms.mechanisms import MECHANISMS, Joint, RandomBits
from tests.pipelines.support import Done, avro_schema, command, options, to_avro, write

COUNTS = [9, 7, 7, 4, 2, 0, 0, 1]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVATE_TOPK_TEST_KEY", "a secret of more than sixteen bytes")


def npy(values: Any, dtype: Any = None) -> bytes:  # noqa: ANN401
    sink = io.BytesIO()
    np.save(sink, np.array(values, dtype))
    return sink.getvalue()


def select(path: Path, *more: str, **changes: object) -> Done:
    return command("select", *options(**{"counts": path, "mechanism": "joint", "k": 3, "epsilon": 1, **changes}), *more)


def indices(done: Done) -> list[int]:
    assert done.status == 0 and done.err == "" and done.out.startswith("rank\tindex")
    lines = [line.split("\t") for line in done.out.splitlines()[1:]]
    assert [line[0] for line in lines] == [str(n) for n in range(1, len(lines) + 1)]
    return [int(line[1]) for line in lines]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64, np.int64, ">i4"])
def test_arrays_of_any_whole_type(tmp_path: Path, dtype: Any) -> None:  # noqa: ANN401
    repeat = {"release_key": "env:PRIVATE_TOPK_TEST_KEY", "release_id": "r"}
    found = indices(select(write(tmp_path / "counts.npy", npy(COUNTS, dtype)), **repeat))
    assert found == indices(select(write(tmp_path / "wide.npy", npy(COUNTS, np.int64)), **repeat))
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("count\n" + "\n".join(map(str, COUNTS)), None),
        ("\ufeffitem,count\r\n" + "\r\n".join(f'"i, {n}",{c}' for n, c in enumerate(COUNTS)), "i, {}"),
        ("count,x,item\n" + "\n".join(f" {c} ,z,日本{n}" for n, c in enumerate(COUNTS)), "日本{}"),
    ],
)
def test_csv_with_and_without_items(tmp_path: Path, text: str, items: str | None) -> None:
    done = select(write(tmp_path / "counts.csv", text), epsilon=1000, k=4)
    assert set(indices(done)) == {0, 1, 2, 3}
    if items:
        lines = [line.split("\t") for line in done.out.splitlines()[1:]]
        assert [line[2] for line in lines] == [items.format(line[1]) for line in lines]


@pytest.mark.parametrize("name", ["c.parquet", "c.avro", "c.jsonl", "c.csv.gz", "c.tsv"])
def test_counts_are_read_as_rows_are(tmp_path: Path, name: str) -> None:
    """In every format, as the same numbers."""
    rows = [{"item": f"i{n}", "count": count} for n, count in enumerate(COUNTS)]
    if name == "c.avro":
        (tmp_path / name).write_bytes(to_avro(rows, avro_schema(item="string", count="long")))
    elif name == "c.tsv":
        write(tmp_path / name, "item\tcount\n" + "".join(f"i{n}\t{count}\n" for n, count in enumerate(COUNTS)))
    else:
        write(tmp_path / name, rows)
    repeat = {"release_key": "env:PRIVATE_TOPK_TEST_KEY", "release_id": "r"}
    found = select(tmp_path / name, **repeat)
    assert indices(found) == indices(select(write(tmp_path / "plain.npy", npy(COUNTS)), **repeat))
    assert all(line.split("\t")[2] == f"i{line.split()[1]}" for line in found.out.splitlines()[1:])


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_selects_with_its_own_parameters_only(tmp_path: Path, name: str) -> None:
    """With its own parameters only: what it needs is told, what it lacks is refused."""
    path = write(tmp_path / "counts.npy", npy([900, 800, 700, *range(20)]))
    own = {field.name for field in fields(MECHANISMS[name])}
    needs = {"delta": 1e-6, "max_items_per_user": 3}
    done = select(path, mechanism=name, **{n: value for n, value in needs.items() if n in own})
    if MECHANISMS[name].guarantee.metric == "weights":
        assert done.status == 2 and "needs rows: it adds up weights of users" in done.err
        return
    assert done.status == 0 and (done.err == "" or MECHANISMS[name].guarantee.domain == "unknown")
    lines = [line.split("\t") for line in done.out.splitlines()[1:]]
    public = MECHANISMS[name].guarantee.domain == "public"
    assert len({index for _, index in lines}) == len(lines) and (len(lines) == 3 if public else len(lines) <= 3)
    for parameter in {"delta", "skew", "gamma", "noise", "beta", "kbar"} - own:
        value = {"noise": "gumbel", "kbar": 9}.get(parameter, 0.5)
        extra = {n: v for n, v in needs.items() if n in own}
        refused = select(path, mechanism=name, **{**extra, parameter: value})
        assert refused.status == 2 and f"--{parameter} does not apply to {name}" in refused.err


def test_select_takes_a_single_count_and_all_ties(tmp_path: Path) -> None:
    assert indices(select(write(tmp_path / "one.npy", npy([7])), k=1)) == [0]
    assert sorted(indices(select(write(tmp_path / "ties.npy", npy([0, 0, 0])), k=3))) == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.npy", npy([3, -1, 5]), "counts must be at least 0: a negative count was given"),
        ("c.npy", npy([1.0, 2.0]), "counts must be integers, got dtype float64"),
        ("c.npy", npy(["917"]), "counts must be integers"),
        ("c.npy", npy([[1, 2]]), "one-dimensional"),
        ("c.npy", npy([], np.int64), "at least one item"),
        ("c.npy", npy([2**63], np.uint64), r"below 2\*\*63"),
        ("c.npy", npy([917, 2, 3])[:-3], "not a whole .npy file"),
        ("c.npy", b"917,2", "not a whole .npy file"),
        ("c.npy", b"", "not a whole .npy file"),
        ("c.csv", "", "at least one item"),
        ("c.csv", "item,n\na,917\n", "with one column named count"),
        ("c.csv", "apple,917\nbanana,2\n", "with one column named count"),
        ("c.csv", "count,count\n917,2\n", "one column named count"),
        ("c.csv", "count\n917\nmany\n", "a whole number as its count in every row"),
        ("c.csv", "count\n917.0\n", "a whole number as its count in every row"),
        ("c.csv", "count\n--917\n", "a whole number as its count in every row"),
        ("c.csv", "count,item\n917\n", "must be a table that can be read"),
        ("c.csv", "item,count\na,917\nb,2\na,1\n", "must name every item once"),
        ("c.csv", "count\n-917\n2\n3\n4", "a negative count was given"),
        ("c.csv", "count\n" + "9" * 25 + "\n", r"below 2\*\*63"),
        ("c.csv", "count\n", "at least one item"),
        ("c.csv", b"count,item\n917,caf\xe9\n", "a whole number as its count in every row"),
        ("c.csv", "count,item\n917," + "x" * 200_000 + "\n", "a whole number as its count in every row"),
        ("c.txt", "917", "has no known ending"),
    ],
)
@pytest.mark.parametrize("keyed", [False, True])
def test_invalid_counts_are_refused_without_showing_them(
    tmp_path: Path, name: str, content: bytes | str, message: str, keyed: bool
) -> None:
    repeat = {"release_key": "env:PRIVATE_TOPK_TEST_KEY", "release_id": "r"} if keyed else {}
    done = select(write(tmp_path / name, content), k=1, **repeat)
    assert done.status == 2 and done.out == "" and done.err.count("\n") == 1
    assert re.search(message, done.err) and name in done.err
    said = done.err.replace(str(tmp_path), "")  # the folder is named after the case
    assert not any(word in said for word in ("917", "apple")), "a message that shows data"


def test_select_equals_the_plain_call_of_the_mechanism(tmp_path: Path) -> None:
    """At an epsilon where only one answer is left, whatever the bits."""
    path = write(tmp_path / "counts.npy", npy([5, 500, 50, 5000]))
    plain = Joint(epsilon=100.0)(np.array([5, 500, 50, 5000]), 3, RandomBits.fresh())
    assert indices(select(path, epsilon=100)) == plain.tolist() == [3, 1, 2]


def test_an_item_takes_one_line_and_a_short_answer_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "counts.csv", 'item,count\n"a\nb\t\x1b[2J",900000\ncake,1\n')
    done = select(path, mechanism="limit-domain", delta=1e-6, k=2)
    assert done.status == 0 and done.out.splitlines() == ["rank\tindex\titem", "1\t0\ta\\nb\\t\\x1b[2J"]
    assert done.err == "1 of 2, as the guarantee of an unknown domain allows\n"
