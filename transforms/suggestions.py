"""Which known name was probably meant by one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]

_LEAST = 3


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean NAME?` of the name that a word begins, or else is spelt like; or another remedy."""
    names = {_plain(name): name for name in known}
    word = _plain(word)
    begun = [name for name in names if len(word) >= _LEAST and name.startswith(word)]
    found = sorted(begun, key=len)[:1] or get_close_matches(word, names, n=1)
    return f"did you mean {names[found[0]]}?" if found else otherwise


def _plain(name: str) -> str:
    return name.lower().lstrip("-").replace("_", "-")
