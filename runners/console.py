"""Lines for the operator about servers and parts: public facts only."""

from __future__ import annotations

import sys

__all__ = ["say"]


def say(line: str) -> None:
    """Print to the process's own stderr: sys.stderr is turned off where Beam would print what a worker raises."""
    print(line, file=sys.__stderr__, flush=True)
