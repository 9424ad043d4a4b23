"""The whole job on real files: one draw for one release, in every format; windows; real data."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.metrics.metric import MetricsFilter

from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli.arguments import options_of
from private_topk.pipelines.report import report_of
from private_topk.pipelines.run import run as run_report
from private_topk.pipelines.sinks.formats import format_of
from private_topk.pipelines.sources import Columns, cut_into_pieces
from private_topk.pipelines.sources.files import ReadBlocks
from private_topk.runners import prepare
from private_topk.transforms import Period, PublicDomain, ReleaseKey
from private_topk.transforms.mechanisms import MECHANISMS, Joint, RandomBits
from private_topk.transforms.windows.assign import AssignWindows
from tests.pipelines.support import SHARED, Done, avro_schema, command, options, to_avro, write
from tests.transforms.pipelines import count_by_window, outcome

ITEMS = [f"item {n:03d}" for n in range(150)]
SECRET = "a secret of more than sixteen bytes"
UTC = timezone.utc


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
        "input": folder / source, "domain": folder / "items.txt", "mechanism": "joint", "k": 10, "epsilon": 1,
        "output": folder / "out" / "ranking.avro", "release_key": "env:PRIVATE_TOPK_TEST_KEY", "release_id": "r 1",
        "overwrite": True, "quiet": True,
    }  # fmt: skip
    return command("run", *options(**{**settings, **changes}), *more)


def published(folder: Path, source: str, *more: str, **changes: object) -> tuple[bytes, bytes]:
    """The bytes of the ranking and of its manifest."""
    done = run(folder, source, *more, **changes)
    assert done == Done(0, "", "")
    return (folder / "out" / "ranking.avro").read_bytes(), (folder / "out" / "ranking.manifest.json").read_bytes()


def items_of(ranking: bytes) -> list[str]:
    return [row["item"] for row in format_of("x.avro").decode(ranking)]


class TestOneDraw:
    def test_the_same_bytes_however_the_rows_arrive(self, folder: Path) -> None:
        rows = flat_rows()
        write(folder / "whole.avro", rows)
        first = published(folder, "whole.avro")
        again = rows[::-1] + rows[:200]
        random.Random(1).shuffle(again)
        for name in ("rows.csv.gz", "rows.csv", "rows.jsonl", "rows.parquet", "rows.avro.gz"):
            write(folder / name, again)
            assert published(folder, name) == first, name
        for part, name in enumerate(["c.avro", "b.csv", "a.parquet"]):
            (folder / "parts").mkdir(exist_ok=True)
            write(folder / "parts" / name, again[part::3])
        assert published(folder, "parts/*") == first
        write(folder / "fine.avro", to_avro(rows, sync_interval=50, codec="deflate"))
        assert published(folder, "fine.avro", shards=1024) == first
        bounded = published(folder, "whole.avro", max_items_per_user=40)
        assert bounded != first and bounded == published(folder, "parts/*", max_items_per_user=40, shards=2)

    @pytest.mark.parametrize(
        "more",
        [
            ["--direct_runner_bundle_repeat=2"],
            ["--shards=2"],
        ],
    )
    def test_the_same_bytes_however_the_job_runs(self, folder: Path, more: list[str]) -> None:
        write(folder / "rows.avro", to_avro(flat_rows(), sync_interval=500))
        assert published(folder, "rows.avro", *more) == published(folder, "rows.avro")


class TestWindows:
    START = datetime(2026, 1, 1, tzinfo=UTC)

    def rows(self) -> list[dict[str, Any]]:
        """Each hour has an item of its own, held by 200 users, from an hour before the period to long after it."""
        return [
            {"user": user, "item": f"hour {hour}", "time": (self.START + timedelta(hours=hour)).isoformat()}
            for hour in (-1, 0, 1, 5, 6, 7, 11, 13, 14, 30)
            for user in range(200)
        ]

    def ranked(self, folder: Path, **changes: object) -> dict[tuple[str, str], set[str]]:
        """Bounds by their hours to the items that are ranked first, which hold every row of the window."""
        write(folder / "rows.jsonl", self.rows())
        write(folder / "hours.txt", "\n".join(f"hour {n}" for n in range(-1, 31)))
        settings = {"domain": folder / "hours.txt", "k": 4, "epsilon": 10, **changes}
        ranking, manifest = published(folder, "rows.jsonl", **settings)
        found: dict[tuple[str, str], list[str]] = {}
        for row in format_of("x.avro").decode(ranking):
            hours = tuple((row[bound] - self.START) / timedelta(hours=1) for bound in ("window_start", "window_end"))
            found.setdefault(hours, []).append(row["item"])
            assert row["rank"] == len(found[hours])
        assert len(json.loads(manifest)["windows"]) == len(found)
        return found

    def test_cut_at_the_period_and_empty_ones_published(self, folder: Path) -> None:
        found = self.ranked(folder, window="4h", from_="2026-01-01", to="2026-01-01T14:00")
        assert list(found) == [(0, 4), (4, 8), (8, 12), (12, 14)]
        true = [{"hour 0", "hour 1"}, {"hour 5", "hour 6", "hour 7"}, {"hour 11"}, {"hour 13"}]
        for items, held in zip(found.values(), true, strict=True):
            assert set(items[: len(held)]) == held and len(items) == 4
        empty = self.ranked(folder, window="2h", from_="2026-01-01T02:00", to="2026-01-01T04:00:00Z")
        assert list(empty) == [(2, 4)] and len(next(iter(empty.values()))) == 4

    def test_a_period_without_a_window_is_one(self, folder: Path) -> None:
        found = self.ranked(folder, from_="2026-01-01T05:00:00", to="2026-01-01T09:00+02:00")
        assert list(found) == [(5, 7)] and set(found[5, 7][:2]) == {"hour 5", "hour 6"}

    def test_bounds_below_a_second(self, folder: Path) -> None:
        found = self.ranked(folder, window="6h", from_="2026-01-01T00:00:00.001", to="2026-01-01T12:00:00.001")
        assert [set(items[:n]) for items, n in zip(found.values(), (3, 2), strict=True)] == [
            {"hour 1", "hour 5", "hour 6"}, {"hour 7", "hour 11"},
        ]  # fmt: skip

    def test_without_a_period_times_are_not_even_read(self, folder: Path) -> None:
        write(folder / "rows.csv", "user,item,time\na,item 001,never\n")
        rows = format_of("x.avro").decode(published(folder, "rows.csv")[0])
        assert {(row["window_start"], row["window_end"]) for row in rows} == {(None, None)}


def read_counts(path: Path, domain: PublicDomain, columns: Columns, period: Period | None = None) -> Counter:
    """(window start in microseconds or None, item) to the count inside the pipeline, from the files on."""
    from private_topk.pipelines.files import match

    def pipeline(p: beam.Pipeline) -> beam.PCollection:
        blocks = p | ReadBlocks(cut_into_pieces(match(str(path))), columns)
        blocks = blocks | AssignWindows(period) if period else blocks
        return count_by_window(domain, blocks, ReleaseKey.fresh(), period)

    counted = outcome(pipeline)
    starts = period.starts.tolist() if period else [None]
    return Counter({(starts[window], item): count for _, (window, item, count) in counted})


def shared(name: str) -> Path:
    path = SHARED / "data" / name
    if not path.exists():
        pytest.skip(f"needs the real data set {name}, which is not part of the project")
    return path


class TestRealData:
    def test_games_counts_and_top_ten(self) -> None:
        counts = np.load(shared("games.npy"))
        items = [str(n) for n in range(len(counts))]
        found = read_counts(shared("games.pairs.csv.gz"), PublicDomain.of(items), Columns())
        assert [found[None, item] for item in items] == counts.tolist() and len(items) == 5155
        best = np.sort(counts)[::-1][:10]
        errors = []
        for seed in range(50):
            answer = Joint(epsilon=1.0)(counts, 10, RandomBits.keyed(b"games %d" % seed))
            errors.append(int(np.abs(counts[answer] - best).max()))
        assert np.median(errors) == 0


@pytest.mark.parametrize(
    ("ending", "windowed"), [(".avro", True), (".csv", False), (".jsonl", True), (".parquet", False)]
)
def test_a_file_without_rows_still_publishes(folder: Path, ending: str, windowed: bool) -> None:
    empty = {".avro": to_avro([], avro_schema(user="string", item="string", time="long")), ".csv": b"user,item,time\n"}
    if ending == ".parquet":
        nothing = pa.table({name: pa.array([], pa.string()) for name in ("user", "item", "time")})
        pq.write_table(nothing, folder / "rows.parquet")
    else:
        write(folder / f"rows{ending}", empty.get(ending, b""))
    bounds = {"window": "1d", "from_": "2026-01-01", "to": "2026-01-03"} if windowed else {}
    assert len(items_of(published(folder, f"rows{ending}", **bounds)[0])) == (20 if windowed else 10)


UNKNOWN = [name for name, mechanism in MECHANISMS.items() if mechanism.guarantee.domain == "unknown"]
SETS = [name for name, mechanism in MECHANISMS.items() if mechanism.guarantee.answer == "set"]


@pytest.mark.skipif(not UNKNOWN, reason="no mechanism for an unknown domain is listed")
def test_an_unknown_domain_draws_once_too(folder: Path) -> None:
    rows = [{"user": str(user), "item": item} for user in range(300) for item in ITEMS[: 1 + user % 30]]
    write(folder / "rows.avro", rows)
    write(folder / "turned.parquet", rows[::-1] + rows[:500])
    settings = {
        "mechanism": UNKNOWN[0],
        "delta": 1e-6,
        "domain": None,
        "unknown_domain": True,
        "max_items_per_user": 30,
    }
    first = published(folder, "rows.avro", **settings)
    assert 1 <= len(items_of(first[0])) <= 10 and set(items_of(first[0])) <= set(ITEMS[:30])
    assert published(folder, "turned.parquet", "--shards=2", **settings) == first
    write(folder / "few.csv", "user,item\nalone,a rare thing\n")
    assert items_of(published(folder, "few.csv", **settings)[0]) == []
    assert json.loads((folder / "out" / "ranking.manifest.json").read_text())["windows"][0]["returned"] == 0
    assert "No item was released" in run(folder, "few.csv", **{**settings, "quiet": None}).out


@pytest.mark.skipif(not SETS, reason="no mechanism that answers with a set is listed")
def test_a_set_is_published_in_the_order_of_the_domain_without_ranks(folder: Path) -> None:
    write(folder / "rows.avro", [row for row in flat_rows() if row["item"] > "item 100"])
    name = next(name for name in SETS if MECHANISMS[name].guarantee.domain == "public")
    rows = format_of("x.avro").decode(published(folder, "rows.avro", mechanism=name)[0])
    assert [row["item"] for row in rows] == sorted(row["item"] for row in rows) and len(rows) == 10
    assert {row["rank"] for row in rows} == {None}


@pytest.mark.parametrize("exact", [False, True])
def test_rows_left_out_are_counted_for_the_operator_exactly_only_if_asked(folder: Path, exact: bool) -> None:
    rows = [{"user": "a", "item": ITEMS[0]}, {"user": None, "item": ITEMS[0]}, {"user": "a", "item": None}]
    write(folder / "rows.avro", [*rows, {"user": "a", "item": "elsewhere"}, {"user": "b", "item": ITEMS[1]}])
    words = options(input=folder / "rows.avro", domain=folder / "items.txt", mechanism="joint", k=2, epsilon=1,
                    output=folder / "ranking.csv")  # fmt: skip
    report = report_of(options_of(parser_of("run").read(words)[0]))
    done = run_report(report, prepare("direct", []), show_exact_counters=exact)
    shown = done.job.metrics().query(MetricsFilter().with_namespace("private_topk"))
    counters = {entry.key.metric.name: entry.committed for entry in shown["counters"]}
    left_out = {"operator_only_rows_left_out_null": 2, "operator_only_rows_left_out_not_in_domain": 1}
    assert counters == (left_out if exact else {}) and not shown["string_sets"]


def test_avro_output_is_plain_avro(folder: Path) -> None:
    write(folder / "rows.avro", flat_rows())
    published(folder, "rows.avro")
    with (folder / "out" / "ranking.avro").open("rb") as source:
        rows = list(fastavro.reader(source))
    assert [row["rank"] for row in rows] == list(range(1, 11))
    assert all(left["release_id"] == right["release_id"] == "r 1" for left, right in itertools.pairwise(rows))
