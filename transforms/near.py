"""Which known name was probably meant by one that is not known. Nothing is better than a wrong guess."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest"]

_LEAST = 3


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean NAME?` where one name stands out, or another remedy."""
    found = nearest(word, known)
    return otherwise if found is None else f"did you mean {found}?"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one name that a word is spelt like, is the beginning or the end of, or misses by a slip or two; or None.

    Words of one or two letters are near everything, and so mean nothing.
    """
    names = {_plain(name): name for name in known}
    word = _plain(word)
    if word in names:
        return names[word]
    if len(word) < _LEAST:
        return None
    beginnings = [name for name in names if name.replace("-", "").startswith(word.replace("-", ""))]
    parts = beginnings or [name for name in names if name.endswith(f"-{word}")]
    if parts:
        shortest = min(parts, key=len)
        return names[shortest] if all(name.startswith(shortest) for name in parts) else None
    slips = sorted((_distance(word, name), name) for name in names if len(name) >= _LEAST)
    if not slips or slips[0][0] > _allowed(word, slips[0][1]) or (len(slips) > 1 and slips[1][0] == slips[0][0]):
        return None
    return names[slips[0][1]]


def _plain(name: str) -> str:
    return name.lower().lstrip("-").replace("_", "-")


def _allowed(word: str, name: str) -> int:
    """One slip in names of up to five letters, two in those of up to ten, three in longer ones."""
    return min(1 + (min(len(word), len(name)) - 1) // 5, 3)


def _distance(left: str, right: str) -> int:
    """How many letters are missing, added, changed or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, row, above = row, [i], before
        for j, b in enumerate(right, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                best = min(best, above[j - 2] + 1)
            row.append(best)
    return row[-1]
