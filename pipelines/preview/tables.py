"""Previews as tables of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from private_topk.pipelines.preview.estimates import Estimate
from private_topk.pipelines.preview.outlook import Outlook

__all__ = ["comparison", "ranks_table", "table"]

_HEAD = ("mechanism", "answer", "recall", "places right", "l_inf", "l_1", "score ratio", "returned")
_ALL_RANKS = 12
_SOME_RANKS = (1, 2, 3, 5, 10, 20, 30, 50, 70, 100, 200, 300, 500, 700)


def table(outlooks: Sequence[Outlook]) -> list[str]:
    """One line for each mechanism: every number with how far it may be off."""
    rows = [_HEAD] + [
        (
            o.name,
            "set" if not o.ordered else "sequence",
            _percent(o.recall),
            _percent(o.order) if o.ordered else "-",
            _number(o.l_inf),
            _number(o.l_1),
            _percent(o.ratio),
            _number(o.returned),
        )
        for o in outlooks
    ]
    return aligned(rows)


def ranks_table(outlook: Outlook) -> list[str]:
    """The chances of every rank, or of some where there are many."""
    ranks = range(1, outlook.k + 1)
    shown = ranks if outlook.k <= _ALL_RANKS else sorted({r for r in _SOME_RANKS if r < outlook.k} | {outlook.k})
    top = f"one of the top {outlook.k} there"
    if not outlook.ordered:
        rows = [(f"{outlook.name}: rank", "among those returned")]
        rows += [(str(rank), _percent(outlook.found[rank - 1])) for rank in shown]
        return aligned(rows)
    whole = [(f"{outlook.name}: rank", "right", "right down to here", top, "its item returned")]
    for rank in shown:
        chances = (getattr(outlook, name)[rank - 1] for name in ("right", "so_far", "belongs", "found"))
        whole.append((str(rank), *map(_percent, chances)))  # type: ignore[arg-type]
    return aligned(whole)


def comparison(columns: Mapping[str, Sequence[Outlook]]) -> list[str]:
    """The recall of every mechanism under several settings; * marks the one to take.

    Args:
        columns: the outlooks of each setting, the one to take first, by what its column is called.
    """
    names = list(dict.fromkeys(outlook.name for outlooks in columns.values() for outlook in outlooks))
    names.sort(key=lambda name: -max(_recall(outlooks, name) for outlooks in columns.values()))
    rows: list[Sequence[str]] = [("recall", *columns)]
    for name in names:
        cells = []
        for outlooks in columns.values():
            found = next((outlook for outlook in outlooks if outlook.name == name), None)
            mark = "*" if found is outlooks[0] else ""
            cells.append("-" if found is None else f"{_percent(found.recall)}{mark or ' '}")
        rows.append((name, *cells))
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns two spaces apart, the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        lines.append(f"  {first:<{widths[0]}}  {'  '.join(cells)}".rstrip())
    return lines


def _recall(outlooks: Sequence[Outlook], name: str) -> float:
    return next((outlook.recall.value for outlook in outlooks if outlook.name == name), -1.0)


def _percent(estimate: Estimate) -> str:
    off = max(estimate.high - estimate.value, estimate.value - estimate.low)
    return f"{100 * estimate.value:.1f} ±{100 * off:.1f}%"


def _number(estimate: Estimate) -> str:
    digits = 1 if estimate.value < 100 else 0
    if estimate.low == estimate.high:
        return f"{estimate.value:,.{digits}f}"
    off = max(estimate.high - estimate.value, estimate.value - estimate.low)
    return f"{estimate.value:,.{digits}f} ±{off:,.{digits}f}"
