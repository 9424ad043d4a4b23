"""The audit of every mechanism, one after the other: each is written down when it is done, and not done again.

    python -m benchmarks.audits --folder audited              # goes on where it was ended; then prints the table
    python -m benchmarks.audits --folder audited --mechanism laplace --draws 5000

The confidence holds for all of them together: each is run at its share of the risk. With the seed that is printed,
`private-topk audit --mechanism NAME --seed SEED --confidence SHARE` repeats its lines.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from private_topk.pipelines.auditing import Audit, Line, audit
from private_topk.transforms.mechanisms import MECHANISMS

__all__ = ["audited", "table"]

CONFIDENCE = 0.999
SEED = "release 3"
_KINDS = [("users", False), ("users", True), ("amounts", False), ("amounts", True), ("groups", False)]
_WAYS = ("add-remove", "swap", "two")
"""In the order of a cell: the bound through the plain functions and, behind a stroke, that through Beam."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--mechanism", action="append", choices=list(MECHANISMS))
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--beam-draws", type=int, default=300)
    parser.add_argument("--seed", default=SEED)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in asked.mechanism or MECHANISMS:
        path = asked.folder / f"{name}.json"
        if not path.exists():
            started = time.process_time()
            lines = audited(name, asked.draws, asked.beam_draws, asked.seed)
            path.write_text(json.dumps({"lines": lines, "cpu": round(time.process_time() - started)}, indent=1))
            print(f"{name}: {len(lines)} checks in {time.process_time() - started:.0f} s of CPU", flush=True)
        found[name] = json.loads(path.read_text())
    print(table({name: its["lines"] for name, its in found.items()}))
    checks = [line for its in found.values() for line in its["lines"]]
    print(f"\n{len(checks)} checks, {sum(not line['holds'] for line in checks)} that do not hold, "
          f"{sum(its['cpu'] for its in found.values())} s of CPU")  # fmt: skip


def audited(name: str, draws: int, beam_draws: int, seed: str) -> list[dict[str, Any]]:
    """All checks of one mechanism, as JSON."""
    share = 1 - (1 - CONFIDENCE) / len(MECHANISMS)
    return [_told(line) for line in audit(Audit((name,), draws, beam_draws, share, seed))]


def _told(line: Line) -> dict[str, Any]:
    if line.fault:
        return {"fault": line.fault, "holds": False}
    if line.apart is not None:
        return {"apart": line.apart.bound, "holds": line.holds}
    assert line.met is not None
    case, beam = line.met.case, line.through_beam
    return {"of": case.of, "counts": case.selection.publish_counts is not None, "releases": case.releases,
            "neighbours": case.neighbours, "epsilon": case.epsilon, "delta": case.delta, "plain": line.met.bound,
            "beam": None if beam is None else beam.bound, "where": f"{line.met.scene.name}: {line.met.guess.feature}",
            "holds": line.holds}  # fmt: skip


def table(audits: dict[str, list[dict[str, Any]]]) -> str:
    """The bounds of every mechanism as a table."""
    rows = [f"| mechanism | {' | '.join(map(_heading, _KINDS))} | noise of counts |", "|---" * (len(_KINDS) + 2) + "|"]
    for name, lines in audits.items():
        found = [line for line in lines if "of" in line]
        cells = [_bounds([line for line in found if (line["of"], line["counts"]) == kind]) for kind in _KINDS]
        apart = ", ".join(f"{line['apart']:.2f}" for line in lines if "apart" in line)
        rows.append(f"| {name} | {' | '.join(cells)} | {apart or '-'} |")
    return "\n".join(rows)


def _heading(kind: tuple[str, bool]) -> str:
    of, counts = kind
    return f"{of}{', counts' if counts else ''}: {', '.join(_WAYS if of == 'users' else _WAYS[:2])}"


def _bounds(lines: list[dict[str, Any]]) -> str:
    by_way = {"two" if line["releases"] == 2 else line["neighbours"]: line for line in lines}
    bounds = [by_way[way] for way in _WAYS if way in by_way]
    return ", ".join(
        f"{line['plain']:.2f}" + ("" if line["beam"] is None else f" / {line['beam']:.2f}") for line in bounds
    ) or "-"  # fmt: skip


if __name__ == "__main__":
    main()
