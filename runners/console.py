"""Lines for the operator about servers and parts: public facts only."""

from __future__ import annotations

import sys

__all__ = ["Line", "say"]


class Line(str):
    """A line that knows what it tells of, for logs that programs read.

    Args:
        text: as it is printed.
        facts: the same as fields: public, and of the types of JSON.
    """

    facts: dict[str, object]

    def __new__(cls, text: str, **facts: object) -> Line:
        line = super().__new__(cls, text)
        line.facts = facts
        return line


def say(line: str) -> None:
    """Print to the process's own stderr: sys.stderr is turned off where Beam would print what a worker raises.

    A stream that takes facts beside the text, by a method `say`, is given those of a `Line`.
    """
    put = getattr(sys.__stderr__, "say", None)
    if put is not None:
        put(line)
    else:
        print(line, file=sys.__stderr__, flush=True)
