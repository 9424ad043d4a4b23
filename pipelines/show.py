"""What a person sees on the terminal: published rankings and the table of mechanisms."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from dataclasses import MISSING, fields
from itertools import groupby
from typing import Any

from private_topk.pipelines.printable import printable
from private_topk.pipelines.sinks.manifest import manifest_path
from private_topk.pipelines.sinks.sink import Sink
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism

__all__ = ["show_left_out", "show_mechanisms", "show_output"]


def show_output(sink: Sink) -> None:
    """Print what was published, one table per window, or where it is."""
    rows = sink.published()
    if rows is None:
        print(f"published to {sink.place}")
        return
    if hasattr(sys.stdout, "reconfigure"):  # a terminal without the letters of a title still shows the rest
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _show(rows, sink.place)
        sys.stdout.flush()
    except BrokenPipeError:  # as in `private-topk run ... | head`: the ranking is published all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(rows: list[dict[str, Any]], output: str) -> None:
    for window, members in groupby(rows, key=lambda row: (row["window_start"], row["window_end"])):
        print("\n".join(_table(window, list(members))))
        print()
    if not rows:
        print("No item was released: in the unknown domain that is a possible answer.\n")
    print(f"ranking:  {output}\nmanifest: {manifest_path(output)}")


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
        lines = [f"{line:<{widest}}  about {row['noisy_count']:,}" for line, row in zip(lines, rows, strict=True)]
    return [title, *lines]


def _options(mechanism: type[Mechanism]) -> str:
    own = [field for field in fields(mechanism) if field.name not in ("epsilon", "neighbours")]
    names = {field.name: f"--{field.name.replace('_', '-')}" for field in own}
    needed = [names[field.name] for field in own if field.default is MISSING]
    taken = [name for name in names.values() if name not in needed]
    words = [f"{verb} {', '.join(found)}" for verb, found in (("needs", needed), ("takes", taken)) if found]
    return "; ".join(words) or "no parameters but epsilon and neighbours"


def show_left_out(counts: dict[str, int]) -> None:
    """Tell the operator, on stderr, how many rows were left out. Exact, so never to be published."""
    told = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in sorted(counts.items())) or "none"
    print(f"rows left out (operator only: exact, never publish): {told}", file=sys.stderr)


def show_mechanisms() -> None:
    """Print every mechanism with its guarantee, domain, answer, cost, parameters, source and when to choose it."""
    width = min(shutil.get_terminal_size((110, 24)).columns, 130)
    for mechanism in MECHANISMS.values():
        about = mechanism.about
        print(f"{about.name}")
        print(f"    {about.guarantee}; {about.domain} domain; answers with a {about.answer}; cost {about.cost}")
        for text in (_options(mechanism), about.source, about.when):
            print(textwrap.fill(text, width, initial_indent="    ", subsequent_indent="    "))
