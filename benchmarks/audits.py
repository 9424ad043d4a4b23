"""The audit of every mechanism, one after the other: each is written down when it is done, and not done again.

    python -m benchmarks.audits --folder audited              # goes on where it was ended; then prints the table

The confidence holds for all of them together: each is run at its share of the risk. With the seed,
`private-topk audit --mechanism NAME --seed SEED --confidence SHARE` repeats its lines.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from private_topk.pipelines.audit import Audit, audit
from private_topk.transforms.mechanisms import MECHANISMS

SHARE = 1 - (1 - 0.999) / len(MECHANISMS)
_COLUMNS = [("users", False), ("users", True), ("amounts", False), ("amounts", True), ("groups", False)]
_OF_CELL = [("add-remove", 1), ("replace-one", 1), ("add-remove", 2)]
"""In the order of a cell: the bound through the plain functions and, behind a stroke, that through Beam."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", default="release 7")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    checks, started = {}, time.process_time()
    for name in MECHANISMS:
        path = asked.folder / f"{name}.json"
        if not path.exists():
            done = [check.as_json() for check in audit(Audit((name,), confidence=SHARE, seed=asked.seed))]
            path.write_text(json.dumps(done, indent=1))
            print(f"{name}: {len(done)} checks, {time.process_time() - started:.0f} s of CPU so far", flush=True)
        checks[name] = json.loads(path.read_text())
    print(table(checks))


def table(checks: dict[str, list[dict[str, Any]]]) -> str:
    """The bounds of every mechanism, and how many checks do not hold."""
    heads = [
        f"{of}{', counts' if counts else ''}: add-remove, replace-one{', two' if of == 'users' else ''}"
        for of, counts in _COLUMNS
    ]
    lines = [f"| mechanism | {' | '.join(heads)} | noise of counts |", "|---" * (len(heads) + 2) + "|"]
    for name, found in checks.items():
        bounds = {
            (one["of"], one["counts"], one["neighbours"], one["releases"]): _bounds(one) for one in found if "of" in one
        }
        cells = [", ".join(bounds[column + of] for of in _OF_CELL if column + of in bounds) for column in _COLUMNS]
        cells.append(", ".join(_bounds(one) for one in found if one["where"] == "noise of counts"))
        lines.append(f"| {' | '.join([name, *(cell or '-' for cell in cells)])} |")
    everything = [one for found in checks.values() for one in found]
    return "\n".join(
        [*lines, "", f"{len(everything)} checks, {sum(not one['holds'] for one in everything)} that do not hold"]
    )


def _bounds(check: dict[str, Any]) -> str:
    return " / ".join(f"{check[name]:.2f}" for name in ("bound", "bound_through_beam") if check[name] is not None)


if __name__ == "__main__":
    main()
