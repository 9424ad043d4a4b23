"""Items on a terminal."""

from __future__ import annotations

__all__ = ["printable"]


def printable(item: str) -> str:
    """An item on one line: line ends, tabs and what else steers a terminal are written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in item)
