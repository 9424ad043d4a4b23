"""What a preview says of three shapes, and what 200 draws of a run then give.

    python -m benchmarks.previews

Each run has 200 windows with the very same rows, so that its windows are 200 draws of the whole path; a preview has the
same question, its shape, and 400 draws or the law.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from private_topk.pipelines.cli import main as private_topk
from private_topk.pipelines.preview import PublicCounts, preview
from tests.pipelines.shapes import zipf

SHAPES = {"flat": zipf(0.6, 300, 1000, 5), "Zipf": zipf(1.0, 300, 1000, 5), "steep": zipf(1.5, 300, 1000, 5)}
MECHANISMS = ("joint", "pnf-peeling", "cdp-peeling")
WINDOWS, K, EPSILON, DELTA = 200, 10, 0.5, 1e-6
START = datetime(2026, 1, 1, tzinfo=UTC)


def write_rows(counts: np.ndarray, path: Path) -> None:
    """The first c users hold an item of count c, in every window."""
    items = np.repeat(np.arange(len(counts)), counts)
    users = np.concatenate([np.arange(count) for count in counts])
    days = np.repeat(np.arange(WINDOWS), len(items))
    times = (int(START.timestamp()) + days * 86400).astype("datetime64[s]")
    pq.write_table(
        pa.table(
            {
                "user": np.tile(users, WINDOWS),
                "item": np.tile(items, WINDOWS),
                "time": pa.array(times, pa.timestamp("s", "UTC")),
            }
        ),
        path,
    )


def drawn(folder: Path, counts: np.ndarray, mechanism: str) -> tuple[float, float]:
    """Recall and the share of right places of the 200 rankings of a run."""
    end, output = START + timedelta(days=WINDOWS), folder / f"{mechanism}.parquet"
    place = [f"--input={folder}/rows.parquet", f"--domain={folder}/items.txt", f"--output={output}"]
    asked = f"--mechanism {mechanism} --k {K} --epsilon {EPSILON} --window 1d --overwrite --quiet".split()
    asked += [f"--from={START:%Y-%m-%d}", f"--to={end:%Y-%m-%d}"]
    status = private_topk(["run", *place, *asked, *([f"--delta={DELTA}"] if mechanism == "cdp-peeling" else [])])
    assert status == 0
    got = counts[np.array(pq.read_table(output)["item"].to_pylist(), dtype=np.int64)].reshape(WINDOWS, K)
    top = np.sort(counts)[::-1][:K]
    return float((got >= top[-1]).mean()), float((got == top).mean())


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(f"top {K}, epsilon {EPSILON}: recall and right places, as previewed and of {WINDOWS} windows of a run")
    for name, shape in SHAPES.items():
        counts = shape.histogram(None, False).counts()
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write_rows(counts, folder / "rows.parquet")
            (folder / "items.txt").write_text("\n".join(map(str, range(len(counts)))) + "\n")
            for mechanism in MECHANISMS:
                recall, order = drawn(folder, counts, mechanism)
                found = preview(PublicCounts(counts), K, EPSILON, DELTA, mechanism=mechanism).best
                print(
                    f"{name:<6} {mechanism:<12} {found.recall.value:7.1%} {recall:7.1%}   {found.order.value:7.1%} "
                    f"{order:7.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
