"""One column in two roles, and times beyond all windows: the same outcome in every format."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from private_topk.pipelines.rank import rank
from private_topk.transforms.windows import Period
from tests.pipelines.support import avro_schema, command, options, to_avro, write

ROLES = ("user", "item", "time", "group", "value")
PERIOD = {"from_": "2026-01-05", "to": "2026-01-06", "window": "1d"}


def content(ending: str, kind: str) -> Any:  # noqa: ANN401
    rows = [{role: "7" if kind == "string" else 7 for role in ROLES}]
    return to_avro(rows, avro_schema(**dict.fromkeys(ROLES, kind))) if ending == ".avro" else rows


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".avro", ".parquet"])
@pytest.mark.parametrize("check", [True, None])
def test_every_pair_of_roles_is_refused_in_every_format(tmp_path: Path, ending: str, check: bool | None) -> None:
    """Whether the values are texts or numbers, with `--dry-run` and without; nothing is written."""
    write(tmp_path / "list.txt", "7\n")
    for kind in ("string", "long"):
        rows = write(tmp_path / f"rows{ending}", content(ending, kind))
        for one, other in combinations(ROLES, 2):
            more = {"group_column": "group", "groups": tmp_path / "list.txt"} if "group" in (one, other) else {}
            more |= {"value_column": "value", "max_value": 5} if "value" in (one, other) else {}
            asked = (
                dict(
                    input=rows,
                    domain=tmp_path / "list.txt",
                    mechanism="joint",
                    k=1,
                    epsilon=1,
                    output=tmp_path / "out.csv",
                    dry_run=check,
                    **PERIOD,
                )
                | more
            )
            done = command("run", *options(**{**asked, f"{one}_column": "same", f"{other}_column": "same"}))
            assert done.status == 2 and "must be another column than" in done.err, (one, other, done.err)
            assert len(done.err.splitlines()) == 1 and not (tmp_path / "out.csv").exists()


def test_a_column_of_times_that_is_not_read_may_be_of_users(tmp_path: Path) -> None:
    """Without windows no column of times is read, and `time` may be the name of any other."""
    rows = write(tmp_path / "rows.csv", "time,item\nu,7\n")
    asked = options(input=rows, user_column="time", domain_range="7:8", mechanism="joint", k=1, epsilon=1)
    assert command("run", *asked, "--dry-run", "--output", tmp_path / "out.csv").status == 0


WITHIN = np.datetime64("2026-01-05T06", "us")
FAR = [
    *(
        np.datetime64(count, unit)
        for unit, of_unit in (
            ("s", 10**6),
            ("ms", 10**3),
            ("m", 60 * 10**6),
            ("h", 3600 * 10**6),
            ("D", 86_400 * 10**6),
        )
        for wrapped in (2**64, -(2**64), 2**65)
        if abs(count := (wrapped + int(WITHIN.astype(np.int64))) // of_unit) < 2**63
    ),
    *(np.datetime64(count, unit) for unit in ("Y", "M", "W", "10Y") for count in (584_555, 9 * 10**9, 2**61, -(2**61))),
    *(np.datetime64(sign * (2**63 - 1), unit) for unit in ("us", "ns", "ps", "as") for sign in (1, -1)),
    2**63 - 1,
    -(2**63),
    2**64 + 1_767_600_000,
    1e300,
    2.0**63,
    np.datetime64("NaT"),
    pd.NaT,
    pd.Timestamp.min,
]


def test_no_time_of_a_frame_wraps_around_into_a_window() -> None:
    """Numpy's own conversions do, of most of these. Seven of them, of units below a microsecond, are near 1970."""
    far = np.empty(len(FAR), object)
    far[:] = FAR
    users = [f"u{n}" for n in range(len(FAR))]
    near = pd.DataFrame({"user": [f"v{n}" for n in range(3)], "item": "tea", "time": [WITHIN] * 3}, dtype=object)
    frame = pd.concat([pd.DataFrame({"user": users, "item": "cake", "time": far}, dtype=object)] + [near])
    for start, end, every, inside in (
        ("2026-01-05", "2026-01-06", "1d", 0),
        ("1676-01-01", "2921-01-01", "454727d", 7),
    ):
        period = Period.of(start, end, every)
        assert len(period) == 1
        for rows in (frame, _of_polars(frame)):
            found = rank(rows, 2, "joint", ["tea", "cake"], epsilon=100, period=period, publish_counts=100.0)
            counts = {row["item"]: row["noisy_count"] for row in found.to_rows()}
            assert counts == {"tea": 3, "cake": inside}, (start, type(rows))


def _of_polars(frame: pd.DataFrame) -> pl.DataFrame:
    columns = {name: pl.Series(name, frame[name].tolist(), pl.Object) for name in frame.columns}
    return pl.DataFrame(columns)


@pytest.mark.parametrize(
    ("ending", "unit"), [(".csv", "s"), (".jsonl", "ms"), (".avro", "us"), (".parquet", "s"), (".avro", "ms")]
)
def test_no_number_of_a_file_wraps_around_into_a_window(tmp_path: Path, ending: str, unit: str) -> None:
    factor = {"s": 10**6, "ms": 10**3, "us": 1}[unit]
    near = int(WITHIN.astype(np.int64)) // factor
    far = [(near * factor + turn * 2**64) // factor for turn in (-2, -1, 1, 2)] + [2**63 - 1, -(2**63), 2**63 - near]
    rows = [{"user": f"u{n}", "item": "cake", "time": time} for n, time in enumerate(far) if -(2**63) <= time < 2**63]
    rows += [{"user": f"v{n}", "item": "tea", "time": near} for n in range(3)]
    schema = avro_schema(user="string", item="string", time="long")
    path = write(tmp_path / f"rows{ending}", to_avro(rows, schema) if ending == ".avro" else rows)
    write(tmp_path / "list.txt", "tea\ncake\n")
    done = command(
        "run",
        *options(input=path, domain=tmp_path / "list.txt", time_unit=unit, output=tmp_path / "out.csv", **PERIOD),
        *"--mechanism=joint --k=2 --epsilon=100 --publish-counts=100".split(),
    )
    assert done.status == 0, done.err
    found = pd.read_csv(tmp_path / "out.csv")
    assert dict(zip(found["item"], found["noisy_count"], strict=True)) == {"tea": 3, "cake": 0}


def test_timestamps_of_arrow_do_not_wrap_around() -> None:
    period = Period.of("2026-01-05", "2026-01-06", "1d")
    for unit, factor in (("s", 10**6), ("ms", 10**3), ("us", 1)):
        near = int(WITHIN.astype(np.int64))
        far = [(near + turn * 2**64) // factor for turn in (-1, 1)] + [2**63 - 1, -(2**63) + 1]
        values = pa.array([time for time in far if -(2**63) < time < 2**63] + [near // factor], pa.int64())
        times = values.cast(pa.timestamp(unit))
        users = [f"u{n}" for n in range(len(times))]
        table = pa.table({"user": users, "item": ["cake"] * (len(times) - 1) + ["tea"], "time": times})
        found = rank(table, 2, "joint", ["tea", "cake"], epsilon=100, period=period, publish_counts=100.0)
        assert {row["item"]: row["noisy_count"] for row in found.to_rows()} == {"tea": 1, "cake": 0}
