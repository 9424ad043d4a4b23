"""A word to the operator: how many rows a run dropped, roughly, and where none was left. The only place that decides
whether it is told.

It is told to those who may read the rows, as whoever starts a run in a terminal may. None of it is private: no file, no
manifest and no exit status holds it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from private_topk.pipelines.process import is_read_along
from private_topk.runners import Line, say
from private_topk.transforms.counters import read_dropped_rows, read_empty_rankings, read_whether_rows_are_left
from private_topk.transforms.errors import printable

if TYPE_CHECKING:
    from private_topk.pipelines.run import Done


_MAX_NAMED = 10
NONE_LEFT = "no row is left: this is pure noise"


def tell_dropped_rows(done: Done, asked: bool | None, exact: bool = False) -> None:
    """Tell on stderr, in one line, what became of the rows of a run. It never fails: the ranking is published.

    Args:
        asked: True to tell, False not to, None to tell where a person reads along: stderr is a terminal, or the process
            a notebook's. A JSON log is neither.
        exact: the run counted exactly.
    """
    if done.deferred or not (is_read_along() if asked is None else asked):
        return
    try:
        metrics = done.job.metrics()
        lost, left = read_dropped_rows(metrics), read_whether_rows_are_left(metrics)
        empty = read_empty_rankings(metrics)
    except Exception:  # whatever a runner raises that keeps no metrics, or whose server has gone
        say("dropped rows: not known, as the runner does not tell", sys.stderr)
        return
    told = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in sorted(lost.items()))
    if left is False:
        told = f"all of them{': ' if told else ''}{told}; {NONE_LEFT}"
    told = told or ("none" if exact else "none, or too few to tell")
    if left is not False and empty:
        more = " and more" if len(empty) > _MAX_NAMED else ""
        told = f"{told}; pure noise, as nothing was counted there: {', '.join(empty[:_MAX_NAMED])}{more}"
    facts = {"dropped": lost, "any_left": left, "nothing_counted": empty}
    say(Line(f"dropped rows {heading(exact)}: {printable(told)}", event="dropped_rows", **facts), sys.stderr)


def heading(exact: bool) -> str:
    """The line above the numbers of dropped rows: whom they are for, and what they mean."""
    return f"(operator only, never publish; {'exact' if exact else 'fewer than 100 are not told'})"
