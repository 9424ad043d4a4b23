"""Amounts through every door: columns of every format, whole commands, report files, and what is refused."""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from private_topk.pipelines.sources.columns import Columns
from private_topk.transforms import user_shards
from private_topk.transforms.metric import Amounts
from tests.pipelines.support import avro_schema, command, options, read, to_avro, write

COLUMNS = Columns(value="n")


def test_a_column_that_holds_no_numbers_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "rows.parquet", [{"user": "u", "item": "i", "n": True}])
    with pytest.raises(ValueError, match="column 'n' cannot be used: amounts must be numbers, got bool"):
        read(tmp_path / "rows.parquet", COLUMNS)
    schema = avro_schema(user="string", item="string", n="boolean")
    (tmp_path / "rows.avro").write_bytes(to_avro([{"user": "u", "item": "i", "n": True}], schema))
    with pytest.raises(ValueError, match="column 'n' must be one of double, float, int, long, string, got boolean"):
        read(tmp_path / "rows.avro", COLUMNS)


ITEMS = "abcde"
QUESTION = {
    "domain": "items.txt", "mechanism": "laplace", "k": 5, "epsilon": 1e6, "publish_counts": 1e6,
    "value_column": "n", "max_value": 60, "value_resolution": 0.5, "release_key": "file:key", "release_id": "r",
    "window": "1d", "from_": "2026-01-05", "to": "2026-01-08",
}  # fmt: skip


def plays() -> list[dict[str, Any]]:
    """Three days of amounts of 40 users, and one who has everything that is odd."""
    draw = np.random.default_rng(4)
    rows = [
        {
            "user": f"u{draw.integers(40)}",
            "item": ITEMS[min(draw.integers(5), draw.integers(5))],
            "time": f"2026-01-0{5 + draw.integers(3)}T{draw.integers(24):02}:00:00",
            "n": float(draw.integers(1, 80)) / 2,
        }
        for _ in range(800)
    ]
    odd = ["4611686018427387904", "-0.0", "-7", "nan", "", "1e999", "60.24", "0.25", "0.75", "much"]
    more = [{"user": "odd", "item": ITEMS[n % 5], "time": f"2026-01-0{5 + n % 3}T00:00:00", "n": text}
            for n, text in enumerate(odd * 3)]  # fmt: skip
    return [*rows, *more]


def expected(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Score by day and item, by dictionaries and rational rules."""
    of_users: dict[tuple[str, str, str], float] = defaultdict(float)
    for row in rows:
        number = {"": math.nan, "much": math.nan}.get(row["n"], None)
        number = float(row["n"]) if number is None else number
        if not math.isnan(number):
            units = 120 if number >= 60 else max(round(number * 2), 0)
            of_users[row["time"][:10], row["item"], row["user"]] += units / 2
    found: dict[tuple[str, str], float] = defaultdict(float)
    for (day, item, _), amount in of_users.items():
        found[day, item] += min(amount, 60)
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.txt").write_text("\n".join(ITEMS) + "\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    return tmp_path


def published(folder: Path, **others: object) -> list[dict[str, Any]]:
    asked = {**QUESTION, "input": "rows.csv", "output": "out.jsonl", "overwrite": True, "quiet": True, **others}
    done = command("run", *options(**asked))
    assert done.status == 0, done.err
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


def scores(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    return {(row["window_start"][:10], row["item"]): row["noisy_count"] for row in rows}


def most_moved(here: dict[tuple[str, str], float], there: dict[tuple[str, str], float]) -> float:
    return max(abs(here.get(place, 0) - there.get(place, 0)) for place in {*here, *there})


def test_from_rows_to_files_and_with_one_user_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise to speak of: the sums of dictionaries; one user moves none by more than the cap, whatever they do.

    The same look at a pipeline with a defect planted, that caps nothing, sees it.
    """
    rows = plays()
    flood = [
        {"user": "one more", "item": item, "time": "2026-01-06T01:00:00", "n": n} for item in ITEMS for n in (59, 2**62)
    ]
    write(folder / "rows.csv", rows)
    write(folder / "more.csv", [*rows, *flood])
    here, there = scores(published(folder)), scores(published(folder, input="more.csv"))
    assert {place: amount for place, amount in here.items() if amount} == pytest.approx(dict(expected(rows)))
    assert most_moved(here, there) == 60
    manifest = json.loads((folder / "out.manifest.json").read_text())
    assert manifest["amounts"] == {"max_value": 60.0, "value_resolution": 0.5} and manifest["parameters"]["cap"] == 120
    sound = user_shards.sorted_sums
    monkeypatch.setattr(user_shards, "sorted_sums", lambda *columns: sound(*columns[:3], 2**60))
    assert most_moved(here, scores(published(folder, input="more.csv"))) > 60


@pytest.mark.parametrize("ending", [".avro", ".csv", ".parquet"])
def test_noisy_sums_with_fractions_in_every_format(folder: Path, ending: str) -> None:
    write(folder / "rows.csv", [{"user": f"u{n}", "item": "ab"[n % 2], "n": 0.25 * n} for n in range(9)])
    asked = {**QUESTION, "domain": "items.txt", "k": 2, "value_resolution": 0.25, "input": "rows.csv"}
    asked |= {"window": None, "from_": None, "to": None, "output": f"out{ending}"}
    done = command("run", *options(**asked))
    assert done.status == 0 and "1  a  about 5" in done.out and "2  b  about 4" in done.out, done
    asked |= {"value_resolution": 1, "publish_counts": None, "output": f"whole{ending}"}
    assert command("run", *options(**asked)).status == 0


def test_a_stream_of_amounts_is_its_batch(folder: Path) -> None:
    write(folder / "rows.csv", plays())
    asked = {**QUESTION, "epsilon": 1, "publish_counts": 1, "max_items_per_user": 3}
    batch = published(folder, **{name: asked[name] for name in ("epsilon", "publish_counts", "max_items_per_user")})
    written = datetime(2026, 1, 5, tzinfo=timezone.utc).timestamp()
    os.utime(folder / "rows.csv", (written, written))  # on time for every window
    done = command("stream", *options(**asked, input="./rows*.csv", output="out", output_format="jsonl"))
    assert done.status == 0, done.err
    files = sorted((folder / "out").glob("*.jsonl"))
    assert [json.loads(line) for path in files for line in path.read_text().splitlines()] == batch


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_value": None}, "--value-column needs --max-value: the most that one user adds to an item"),
        ({"value_column": None}, "--max-value needs --value-column: the column of the amounts"),
        ({"value_column": None, "max_value": None}, "--value-resolution needs --value-column"),
        ({"max_value": 0}, "--max-value must be a positive number, got 0"),
        ({"max_value": "inf"}, "--max-value must be a positive number, got inf"),
        ({"value_resolution": 7}, "--max-value must be a whole multiple of --value-resolution, got 60 and 7"),
        ({"value_column": "user"}, "--value-column must be another column than --user-column"),
        ({"value_column": "time"}, "--value-column must be another column than --user-column"),
        ({"value_column": "m"}, "name one column 'm'"),
    ],
)
def test_what_is_refused(folder: Path, change: dict[str, Any], message: str) -> None:
    write(folder / "rows.csv", plays()[:3])
    done = command("run", *options(**{**QUESTION, **change}, input="rows.csv", output="out.csv"))
    assert done.status == 2 and message in done.err and not (folder / "out.csv").exists(), done.err


REPORT = """\
report: minutes
source:
  input: rows.csv
amounts:
  column: n
  max_value: 60
  resolution: 0.5
domain:
  file: items.txt
window:
  every: day
  first: 2026-01-05
mechanism:
  name: laplace
  k: 5
budget:
  epsilon: 1000000
  publish_counts: 1000000
release_key: file:key
sink:
  output: out/{report}-{start}.jsonl
"""


def test_a_report_file_asks_for_amounts(folder: Path) -> None:
    write(folder / "rows.csv", plays())
    write(folder / "minutes.yaml", REPORT)
    assert command("report", "minutes.yaml", "--window-end", "2026-01-06").status == 0
    (path,) = (folder / "out").glob("*.jsonl")
    found = scores([json.loads(line) for line in path.read_text().splitlines()])
    assert found == {place: amount for place, amount in expected(plays()).items() if place[0] == "2026-01-05"}
    write(folder / "minutes.yaml", REPORT.replace("  max_value: 60\n", ""))
    done = command("report", "minutes.yaml", "--check")
    assert done.status == 2 and "minutes.yaml:5: amounts.column needs amounts.max_value" in done.err, done.err


@pytest.mark.long
def test_a_ledger_tells_caps_apart(folder: Path) -> None:
    """The same release with another cap is another question, and is not answered for nothing."""
    write(folder / "rows.csv", plays())
    ledger = {"ledger": "sqlite:///b.db", "dataset": "d"}
    assert command("budget", "create", *options(**ledger, epsilon=3)).status == 0
    asked = {**QUESTION, "epsilon": 1, "publish_counts": None, "input": "rows.csv", "output": "out.csv", **ledger}
    for change, used in (({}, "33.3%"), ({}, "repeating it costs nothing"), ({"max_value": 120}, "66.7%")):
        done = command("run", *options(**{**asked, **change}, overwrite=True))
        assert done.status == 0 and used in done.err, done.err


def test_amounts_are_named_in_ledgers_only_where_they_are() -> None:
    """Rankings by users keep the name that they had before there were amounts."""
    from private_topk.pipelines.identity import identity_of

    assert "value" not in identity_of(Columns()) and identity_of(COLUMNS)["value"] == "n"
    assert identity_of(Amounts.of(60)) == {"kind": "amounts", "max_value": "60", "value_resolution": "1"}
