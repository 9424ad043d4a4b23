"""What a person sees on the terminal of what was published."""

from __future__ import annotations

import os
import sys
from itertools import groupby
from typing import Any

from private_topk.pipelines.printable import printable
from private_topk.pipelines.sinks.manifest import manifest_path
from private_topk.pipelines.sinks.sink import Sink

__all__ = ["show_left_out", "show_rows"]


def show_rows(sink: Sink) -> None:
    """Print what was published, one table per window; where it cannot be read back, where it went."""
    rows = sink.published()
    if rows is None:
        print(f"published to {sink.place}")
        return
    if hasattr(sys.stdout, "reconfigure"):  # a terminal without the letters of a title still shows the rest
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _show(rows, sink)
        sys.stdout.flush()
    except BrokenPipeError:  # as in `private-topk run ... | head`: the ranking is published all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_left_out(counts: dict[str, str], exact: bool) -> None:
    """Tell the operator, on stderr, how many rows were left out. Never to be published."""
    told = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in sorted(counts.items()))
    how = "exact" if exact else "fewer than 100 are not told"
    print(f"rows left out (operator only, never publish; {how}): {told or 'none'}", file=sys.stderr)


def _show(rows: list[dict[str, Any]], sink: Sink) -> None:
    for window, members in groupby(rows, key=lambda row: (row["window_start"], row["window_end"])):
        print("\n".join(_table(window, list(members))))
        print()
    if not rows:
        print("No item was released: in the unknown domain that is a possible answer.\n")
    print(f"ranking:  {sink.place}\nmanifest: {manifest_path(sink.place)}")


def _table(window: tuple[Any, Any], rows: list[dict[str, Any]]) -> list[str]:
    title = "All rows" if window[0] is None else f"{window[0]:%Y-%m-%d %H:%M} to {window[1]:%Y-%m-%d %H:%M} UTC"
    first = rows[0]
    if first["returned"] < first["k"]:
        title += f": {first['returned']} of {first['k']}, as the guarantee allows"
    if first["rank"] is None:
        title += ": a set, in no order of rank"
    width = len(str(first["k"]))
    lines = [f"  {'-' if row['rank'] is None else row['rank']:>{width}}  {printable(row['item'])}" for row in rows]
    if first["noisy_count"] is not None:
        widest = max(len(line) for line in lines)
        lines = [f"{line:<{widest}}  {_count(row)}" for line, row in zip(lines, rows, strict=True)]
        lines.append(
            f"  +-: at least 95% of the time; the standard deviation of the noise is {first['noise_stddev']:g}"
        )
    return [title, *lines]


def _count(row: dict[str, Any]) -> str:
    return f"{row['noisy_count']:,} +- {row['noise_95']:,}"
