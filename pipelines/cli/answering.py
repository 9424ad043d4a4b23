"""Answers on stdout: lines for people, or one JSON document. What each document holds: docs/command-line.md."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction
from typing import Any

from private_topk.transforms.stated import stated

__all__ = ["print_json", "print_lines"]


def print_lines(lines: Iterable[str]) -> None:
    """Print lines; whoever reads them may stop before the end."""
    if hasattr(sys.stdout, "reconfigure"):  # a terminal without the letters of a title still shows the rest
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:  # as in `private-topk run ... | head`: the ranking is published all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(document: object) -> None:
    """Print a document: times as ISO 8601 in UTC, exact numbers as doubles, rounded up."""
    print_lines([json.dumps(document, default=_plain, ensure_ascii=False, indent=2)])


def _plain(value: object) -> Any:  # noqa: ANN401 - what JSON has
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Fraction):
        return stated(value)
    raise TypeError(f"{type(value).__name__} has no place in a JSON document")
