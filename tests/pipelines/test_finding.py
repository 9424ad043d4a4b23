"""Private partition selection, and rankings over what it has found: from the command line, in Python, in Beam YAML."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from private_topk import UnknownDomain, rank
from private_topk.pipelines.beam_yaml import RankRows
from private_topk.transforms.domain import RangeDomain
from tests.pipelines.support import Done, command, options, write
from tests.refusals import refused

FIND = {"unknown_domain": True, "mechanism": "weighted-gaussian", "max_items_per_user": 20, "epsilon": 1, "delta": 1e-6}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Items 0 to 9, of which each is held by 60 users fewer than the one before; time and group do not matter."""
    rows = [
        {"user": f"user {n}", "item": f"item {i}", "time": "2026-01-05", "group": "ab"[n % 2]}
        for i in range(10)
        for n in range(600 - 60 * i)
    ]
    write(tmp_path / "rows.csv", rows)
    write(tmp_path / "key", "a key of enough bytes")
    return tmp_path


def run(folder: Path, output: str, **changes: object) -> Done:
    words = {
        "input": folder / "rows.csv",
        "output": folder / output,
        "release_key": f"file:{folder}/key",
        "release_id": "r",
        **changes,
    }
    return command("run", *options(**words))


def facts(folder: Path, name: str) -> dict[str, object]:
    return json.loads((folder / f"{name}.manifest.json").read_text())


def test_without_a_k_all_above_the_threshold_are_published(folder: Path) -> None:
    done = run(folder, "found.csv", **FIND)
    assert done.status == 0, done.err
    found = pl.read_csv(folder / "found.csv")
    assert 5 <= len(found) < 10 and found["item"].to_list() == [f"item {n}" for n in range(len(found))]
    assert set(found["k"]) == {len(found)} and facts(folder, "found")["k"] is None
    assert (
        "all above a threshold"
        in command("show", folder / "found.csv", "--html", folder / "page.html").out
        + (folder / "page.html").read_text()
    )
    assert "all items above its threshold" in run(folder, "f.csv", **FIND, dry_run=True).out
    shared = command("preview", *options(**FIND, privacy_unit="user", horizon=4))
    assert shared.out.startswith("weighted-gaussian, all above its threshold: epsilon 1"), shared


def test_python_and_beam_yaml_take_no_k(folder: Path) -> None:
    found = rank(
        pl.read_csv(folder / "rows.csv"),
        None,
        "weighted-gaussian",
        UnknownDomain(),
        epsilon=1,
        delta=1e-6,
        max_items_per_user=20,
    )
    assert 5 <= len(found.items) < 10 and "all above a threshold" in found.html()
    assert "<h1>Drinks, " in found.html(title="Drinks")
    with refused("title", "must be a text, got int"):
        found.html(title=7)
    with refused("k", "must be given for joint"):
        rank(pl.read_csv(folder / "rows.csv"), None, "joint", ["a"], epsilon=1)
    RankRows(mechanism="weighted-gaussian", epsilon=1.0, parameters={"delta": 1e-6, "max_items_per_user": 20})
    with pytest.raises(ValueError, match="k must be given for joint"):
        RankRows(mechanism="joint", epsilon=1.0, domain=["a"])


JOINT = {"mechanism": "joint", "k": 3, "epsilon": 2}


def test_found_items_are_ranked_together_with_a_catalogue(folder: Path) -> None:
    """Each item once, in the order of the lists, whatever the windows and groups that it was found in."""
    groups = {
        "group_column": "group",
        "groups": write(folder / "groups.txt", "a\nb\n"),
        "window": "1d",
        "period_from": "2026-01-05",
        "period_to": "2026-01-06",
    }
    assert run(folder, "found.avro", **FIND).status == 0
    assert run(folder, "by_group.jsonl", **{**FIND, "release_id": "g", **window_options(groups)}).status == 0
    write(folder / "catalogue.txt", "new\nitem 1\n")
    asked = {**JOINT, "domain": folder / "catalogue.txt", "found": folder / "found.avro"}
    done = run(folder, "top.csv", **asked, release_id="t")
    assert done.status == 0, done.err
    assert pl.read_csv(folder / "top.csv")["item"].to_list() == ["item 0", "item 1", "item 2"]
    found = len(pl.read_avro(folder / "found.avro"))
    named = facts(folder, "top")
    assert named["domain"]["size"] == 1 + found and named["found"] == ["found.avro"]
    again = run(folder, "both.csv", **asked, release_id="t")
    assert again.status == 0 and (folder / "both.csv").read_bytes() == (folder / "top.csv").read_bytes()
    alone = run(folder, "groups.csv", **JOINT, found=folder / "by_group.jsonl", **window_options(groups))
    assert alone.status == 0, alone.err
    ranked = pl.read_csv(folder / "groups.csv")
    assert ranked["group"].to_list() == ["a"] * 3 + ["b"] * 3 and set(ranked["item"]) >= {"item 0"}


def test_listed_items_are_ranked_together_with_unknown_ones(folder: Path) -> None:
    """By the same draw in any layout; what is not listed comes out as without a list, but for a border of one item."""
    write(folder / "catalogue.txt", "item 9\na thing that nobody has\n")
    find = {**FIND, "unknown_domain": True, "domain": folder / "catalogue.txt"}
    assert run(folder, "found.csv", **FIND).status == 0
    done = run(folder, "all.csv", **find, release_id="t")
    assert done.status == 0, done.err
    ranked = pl.read_csv(folder / "all.csv")
    found, listed = len(pl.read_csv(folder / "found.csv")), {"item 9", "a thing that nobody has"}
    assert len({*ranked["item"]} - listed) in range(found - 1, found + 2)
    assert {*ranked["item"]} == {f"item {n}" for n in range(len(ranked) - len(listed))} | listed
    known = facts(folder, "all")["domain"]
    assert known["kind"] == "unknown" and known["catalogue"]["size"] == 2
    ways = {
        "shards": {"shards": 8},
        "windows": {"window": "1d", "from_": "2026-01-05", "to": "2026-01-07"},
        "groups": {"group_column": "group", "groups": write(folder / "groups.txt", "a\nb\nc\n")},
    }
    for name, changes in ways.items():
        assert (done := run(folder, f"{name}.csv", **find, release_id="t", **changes)).status == 0, done.err
    assert (folder / "shards.csv").read_bytes() == (folder / "all.csv").read_bytes()
    days = pl.read_csv(folder / "windows.csv")
    assert {*days.filter(pl.col("window_start") == "2026-01-06T00:00:00Z")["item"]} == listed, "a day without rows"
    groups = pl.read_csv(folder / "groups.csv")
    assert all(listed < {*groups.filter(pl.col("group") == group)["item"]} for group in "ab")
    assert {*groups.filter(pl.col("group") == "c")["item"]} == listed
    top = run(folder, "top.csv", **{**find, "domain": None, "found": folder / "found.csv", "k": 3}, release_id="t")
    assert top.status == 0 and facts(folder, "top")["found"] == ["found.csv"]
    assert pl.read_csv(folder / "top.csv")["item"].to_list() == ["item 0", "item 1", "item 2"]
    rows = pl.read_csv(folder / "rows.csv")
    for catalogue in (["item 9", "a thing that nobody has"], folder / "catalogue.txt"):
        domain = UnknownDomain(catalogue)
        in_python = rank(rows, None, "weighted-gaussian", domain, epsilon=1, delta=1e-6, max_items_per_user=20)
        assert listed < {*in_python.items}
    with refused("domain", "must have a list of items as its catalogue"):
        UnknownDomain(RangeDomain(0, 5))
    with refused("domain", "one for all groups"):
        UnknownDomain({"a": ["item 9"], "b": ["item 8"]})


def test_a_path_beside_an_unknown_domain_is_read_without_further_imports(folder: Path) -> None:
    said = f"from private_topk import UnknownDomain; print(UnknownDomain({str(folder / 'rows.csv')!r}))"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=False)
    assert "every value once" in done.stderr, "it is read"


def window_options(words: dict[str, object]) -> dict[str, object]:
    return {{"period_from": "from_", "period_to": "to"}.get(name, name): value for name, value in words.items()}


def test_invalid_found_lists_are_refused(folder: Path) -> None:
    assert run(folder, "found.csv", **FIND).status == 0
    found = folder / "found.csv"
    for changes, message in [
        ({"found": folder / "rows.csv"}, "--found .*rows.csv is no ranking that was published"),
        ({"found": folder / "none.csv"}, "--found .*none.csv does not exist"),
        ({"found": found, "unknown_domain": True}, "--mechanism joint needs a public domain"),
        (
            {"found": found, "unknown_domain": True, "mechanism": "limit-domain", "delta": 1e-6},
            "--mechanism limit-domain takes no list of items beside an unknown domain",
        ),
        (
            {"domain": found, "unknown_domain": True, "domain_group_column": "group", **FIND},
            "does not go with --unknown",
        ),
        ({"found": found, "domain_range": "0:9"}, "say which items can be ranked"),
        ({"found": found, "k": 30}, "--k must be at most the number of items"),
        ({"found": found, "output": "found.csv", "overwrite": True}, "found.csv, which is read"),
        ({"found": found, "domain": found, "domain_group_column": "group"}, "--found does not go with"),
    ]:
        done = run(folder, **{"output": "f.csv", **JOINT, **changes})
        assert done.status == 2 and re.search(message, done.err), (changes, done.err)
    assert run(folder, "empty.csv", **{**FIND, "epsilon": 0.01}).status == 0
    done = run(folder, "f.csv", **JOINT, found=folder / "empty.csv")
    assert done.status == 2 and re.search(
        "--found .*empty.csv must hold at least one item.*give --domain too", done.err
    )
    listed = run(folder, "g.csv", **FIND | {"found": folder / "empty.csv"}, release_id="g")
    assert listed.status == 0 and "catalogue" not in facts(folder, "g")["domain"]
    found.write_text(found.read_text() + found.read_text().splitlines()[-1].replace("item ", "secret ") + "\n")
    assert "is no ranking that was published" in run(folder, "f.csv", **JOINT, found=found).err
