"""A preview as a picture: each rank's chance to be found, and the error of every mechanism."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from private_topk.pipelines.pictures import Picture, figure_in
from private_topk.pipelines.preview.outlook import Estimate, Outlook

__all__ = ["plot"]

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
_MARKS = "os^Dv<>pP*X"


def plot(outlooks: Sequence[Outlook], path: str | os.PathLike[str] | None, title: str, unit: str) -> Picture:
    """Draw each rank's chance to be found, and the l_1 error, of every mechanism.

    Args:
        outlooks: the best first; more than there are colours for are left out.
        path: where to write it too, or None.
        unit: what counts are of.

    Raises:
        Refusal: the file has no known ending or cannot be written.
    """
    with figure_in(path, 9, 4.2) as figure:
        left, right = figure.subplots(1, 2)
        _ranks(left, outlooks[: len(_COLOURS)])
        _bars(right, outlooks[: len(_COLOURS)], unit)
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=5)
        figure.suptitle(title, fontsize="medium")
    return Picture.of(figure)


def _ranks(axes: Any, outlooks: Sequence[Outlook]) -> None:  # noqa: ANN401 - matplotlib has no types here
    """Every rank's chance to be found."""
    k = outlooks[0].k
    ranks = range(1, k + 1)
    for number, outlook in enumerate(outlooks):
        _line(axes, list(ranks), list(outlook.found), number, outlook.name)
    axes.set(xlabel="rank", ylabel="chance that its item is published", ylim=(0, 1.03))
    axes.set_xlim(0.5, k + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)


def _bars(axes: Any, outlooks: Sequence[Outlook], unit: str) -> None:  # noqa: ANN401
    for number, outlook in enumerate(outlooks):
        low, high = _reach(outlook.l_1)
        axes.barh(number, outlook.l_1.value, color=_COLOURS[number], xerr=[[low], [high]])
    axes.set_yticks(range(len(outlooks)), [outlook.name for outlook in outlooks])
    axes.invert_yaxis()
    axes.set_xlabel(f"l_1 error, in {unit}")


def _line(axes: Any, at: list[int], estimates: list[Estimate], number: int, name: str) -> None:  # noqa: ANN401
    colour = _COLOURS[number]
    axes.plot(at, [one.value for one in estimates], color=colour, marker=_MARKS[number], markersize=4, label=name)
    reach = [_reach(one) for one in estimates]
    low = [one.value - off for one, (off, _) in zip(estimates, reach, strict=True)]
    high = [one.value + off for one, (_, off) in zip(estimates, reach, strict=True)]
    axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)


def _reach(estimate: Estimate) -> tuple[float, float]:
    """The distances to the ends of the interval, down and up; 0 for an error that never occurred."""
    if not estimate.value:
        return 0.0, 0.0
    return estimate.value - estimate.low, estimate.high - estimate.value
