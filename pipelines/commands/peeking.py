"""A look at the words of `run` before they are read: large files are decoded while the command itself is being loaded.

Reading the words takes the mechanisms, which have parameters of their own, and loading those takes some tenths of a
second.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import cast

from private_topk.pipelines.commands.garbage import kept
from private_topk.pipelines.commands.parser import flag
from private_topk.pipelines.fields import Asked
from private_topk.runners import short_name

__all__ = ["peeked"]

_VALUES = ("input", "user_column", "item_column", "time_column", "time_unit", "value_column", "group_column",
           "complete_when", "period_from", "period_to", "runner", "config")  # fmt: skip
_SWITCHES = ("csv_quoted_newlines", "check")

_MUCH = 8 << 20
"""Bytes; what is less is decoded in less time than the look takes."""


def peeked(words: Sequence[str]) -> AbstractContextManager[None]:
    """Begin to decode what the words seem to ask for: large local files, for a pipeline in this process.

    Nothing depends on it. A reader that wants other columns, or files that are others by then, decodes for itself;
    words that turn out to be wrong are refused a moment later, as they would have been.
    """
    asked = _asked(words)
    here = short_name(str(asked.get("runner", "direct"))) == "direct" and not any(map(_is_for_beam, words))
    if "apache_beam" in sys.modules or not here or "input" not in asked or {"config", "check"} & set(asked):
        return nullcontext()
    from private_topk.pipelines.files import is_local, match_any

    with suppress(Exception):  # what cannot be listed is for the report's own look to say
        if is_local(asked["input"]) and sum(file.size for file in match_any(asked["input"])) >= _MUCH:
            with kept():
                from private_topk.pipelines.beginning import begun
            return begun(asked)
    return nullcontext()


def _asked(words: Sequence[str]) -> Asked:
    """Those of the fields above that are given, as they are written."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in _VALUES:
        parser.add_argument(flag(name), dest=name, default=argparse.SUPPRESS)
    for name in _SWITCHES:
        parser.add_argument(flag(name), dest=name, action="store_true", default=argparse.SUPPRESS)
    try:
        return cast(Asked, vars(parser.parse_known_args(list(words))[0]))
    except argparse.ArgumentError:
        return {}


def _is_for_beam(word: str) -> bool:
    """Beam spells its arguments with underscores, and may be told by them to have other processes read."""
    return word.startswith("--") and "_" in word.partition("=")[0]
