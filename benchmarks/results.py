"""Finished runs, a line of JSON each, so that a benchmark that was ended goes on where it was."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any


class Results:
    """What has been run so far.

    Args:
        path: made with its folder where it is not there; what stands in it counts. None keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.lines: list[dict[str, Any]] = []
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def add(self, **facts: object) -> None:
        """Keep one finished run, on disk at once."""
        self.lines.append({**facts, "at": time.strftime("%Y-%m-%dT%H:%M:%S")})
        if self._path is not None:
            with open(self._path, "a") as file:
                file.write(json.dumps(self.lines[-1]) + "\n")

    def count(self, **facts: object) -> int:
        """How many runs have these facts."""
        return sum(all(line.get(name) == value for name, value in facts.items()) for line in self.lines)

    def table(self, *names: str) -> str:
        """How often each combination of facts was seen."""
        seen = Counter(tuple(str(line.get(name)) for name in names) for line in self.lines)
        return "\n".join(f"{', '.join(facts)}: {times}" for facts, times in sorted(seen.items()))
