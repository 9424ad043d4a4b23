"""The whole job on real files: what the covering array does not show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from apache_beam.metrics.metric import MetricsFilter

from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli.arguments import options_of
from private_topk.pipelines.release.formats import format_of
from private_topk.pipelines.report import report_of
from private_topk.pipelines.run import run as run_report
from private_topk.runners import prepare
from tests.pipelines.support import SHARED, Done, command, options, to_avro, write

ITEMS = [f"item {n:03d}" for n in range(150)]
SECRET = "a secret of more than sixteen bytes"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVATE_TOPK_TEST_KEY", SECRET)
    write(tmp_path / "items.txt", "\n".join(ITEMS) + "\n")
    return tmp_path


def flat_rows() -> list[dict[str, Any]]:
    """Every item held by the same six users of very different names: two draws of 10 never agree by chance."""
    return [{"user": "u" * (5 * user) + str(user), "item": item} for user in range(6) for item in ITEMS]


def run(folder: Path, source: str, *more: str, **changes: object) -> Done:
    settings = {
        "input": folder / source,
        "domain": folder / "items.txt",
        "mechanism": "joint",
        "k": 10,
        "epsilon": 1,
        "output": folder / "out" / "ranking.avro",
        "release_key": "env:PRIVATE_TOPK_TEST_KEY",
        "release_id": "r 1",
        "overwrite": True,
        "quiet": True,
    }
    return command("run", *options(**{**settings, **changes}), *more)


def published(folder: Path, source: str, *more: str, **changes: object) -> tuple[bytes, bytes]:
    """The bytes of the ranking and of its manifest."""
    done = run(folder, source, *more, **changes)
    assert done == Done(0, "", "")
    return (folder / "out" / "ranking.avro").read_bytes(), (folder / "out" / "ranking.manifest.json").read_bytes()


def items_of(ranking: bytes) -> list[str]:
    return [row["item"] for row in format_of("x.avro").decode(ranking)]


def test_a_bundle_that_is_run_again_changes_nothing(folder: Path) -> None:
    write(folder / "rows.avro", to_avro(flat_rows(), sync_interval=500))
    assert published(folder, "rows.avro", "--direct_runner_bundle_repeat=2") == published(folder, "rows.avro")


def test_without_a_period_times_are_not_even_read(folder: Path) -> None:
    write(folder / "rows.csv", "user,item,time\na,item 001,never\n")
    rows = format_of("x.avro").decode(published(folder, "rows.csv")[0])
    assert {(row["window_start"], row["window_end"]) for row in rows} == {(None, None)}


def test_counts_of_a_real_data_set(folder: Path) -> None:
    source, counted = (SHARED / "data" / name for name in ("games.pairs.csv.gz", "games.npy"))
    if not source.exists():
        pytest.skip("needs a real data set, which is not part of the project")
    counts = np.load(counted)
    write(folder / "games.txt", "".join(f"{n}\n" for n in range(len(counts))))
    exactly = {"mechanism": "laplace", "epsilon": 1e6, "publish_counts": 1e6}
    done = run(folder, str(source), domain=folder / "games.txt", k=len(counts), **exactly)
    assert done.status == 0, done.err
    rows = format_of("x.avro").decode((folder / "out" / "ranking.avro").read_bytes())
    assert [row["noisy_count"] for row in sorted(rows, key=lambda row: int(row["item"]))] == counts.tolist()


def test_of_an_unknown_domain_nothing_may_be_released(folder: Path) -> None:
    settings = {
        "mechanism": "limit-domain",
        "delta": 1e-6,
        "domain": None,
        "unknown_domain": True,
        "max_items_per_user": 30,
    }
    write(folder / "few.csv", "user,item\nalone,a rare thing\n")
    assert items_of(published(folder, "few.csv", **settings)[0]) == []
    assert json.loads((folder / "out" / "ranking.manifest.json").read_text())["windows"][0]["returned"] == 0
    assert "no item was released" in run(folder, "few.csv", **{**settings, "quiet": None}).out


def test_a_set_is_published_in_the_order_of_the_domain_without_ranks(folder: Path) -> None:
    write(folder / "rows.avro", [row for row in flat_rows() if row["item"] > "item 100"])
    rows = format_of("x.avro").decode(published(folder, "rows.avro", mechanism="joint-set")[0])
    assert [row["item"] for row in rows] == sorted(row["item"] for row in rows) and len(rows) == 10
    assert {row["rank"] for row in rows} == {None}


@pytest.mark.parametrize("exact", [False, True])
def test_dropped_rows_are_counted_for_the_operator_exactly_only_if_asked(folder: Path, exact: bool) -> None:
    rows = [{"user": "a", "item": ITEMS[0]}, {"user": None, "item": ITEMS[0]}, {"user": "a", "item": None}]
    write(folder / "rows.avro", [*rows, {"user": "a", "item": "elsewhere"}, {"user": "b", "item": ITEMS[1]}])
    places = {"input": folder / "rows.avro", "domain": folder / "items.txt", "output": folder / "ranking.csv"}
    words = options(**places, mechanism="joint", k=2, epsilon=1)
    report = report_of(options_of(parser_of("run").read(words)[0]))
    done = run_report(report, prepare("direct", []), show_exact_counters=exact)
    shown = done.job.metrics().query(MetricsFilter().with_namespace("private_topk"))
    counters = {entry.key.metric.name: entry.committed for entry in shown["counters"]}
    assert {counters.pop(f"operator_only_workers_{what}") for what in ("that_drew", "with_rows_left")} == {1}
    of_rows = {"dropped_rows_null": 2, "dropped_rows_not_in_domain": 1, "rows_left": 2}
    assert (
        counters == ({f"operator_only_{what}": rows for what, rows in of_rows.items()} if exact else {})
        and not shown["string_sets"]
    )
