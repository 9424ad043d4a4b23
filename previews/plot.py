"""Previews as pictures: what is found, and how far off it is, against k, epsilon or the number of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from private_topk.previews.comparing import Preview
from private_topk.previews.estimates import Estimate
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["check_plot", "plot"]

_KINDS = (".png", ".svg", ".pdf")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
_MARKS = "os^Dv<>pP*X"
_AXES = {"k": "k: how many items are asked for", "epsilon": "epsilon", "items": "how many items there are",
         "rank": "rank"}  # fmt: skip


def check_plot(path: str) -> None:
    """Raise Refusal for a file of no kind of picture, or where nothing is there to draw with."""
    if not path.lower().endswith(_KINDS):
        raise Refusal("plot", f"{verbatim(path)} must end with one of {', '.join(_KINDS)}")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise Refusal("plot", "needs matplotlib: pip install 'private-topk[plot]'") from None


def plot(previews: Sequence[Preview], path: str) -> None:
    """Draw recall and l_1 of every mechanism against what differs between the previews; of one, against the ranks.

    Args:
        previews: in the order in which they were asked for; they may differ in k, epsilon, or the number of items.

    Raises:
        Refusal: the file has no known ending or cannot be written, or several things differ.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    if len(previews) == 1:
        _ranks(left, previews[0])
        _bars(right, previews[0])
    else:
        _courses(left, right, previews)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=5)
    if len({preview.expected for preview in previews}) == 1:
        figure.suptitle(previews[0].expected, fontsize="medium")
    try:
        figure.savefig(path, metadata={"Date": None} if path.lower().endswith(".svg") else None)
    except (OSError, ValueError) as error:
        raise Refusal("plot", verbatim(f"{path} cannot be written: {error}")) from None


def _ranks(axes: Any, preview: Preview) -> None:  # noqa: ANN401 - matplotlib has no types here
    """Every rank's chance to be found, of the best few."""
    ranks = range(1, preview.setting.k + 1)
    for number, outlook in enumerate(preview.outlooks[: len(_COLOURS)]):
        _line(axes, list(ranks), list(outlook.found), number, outlook.name)
    axes.set(xlabel=_AXES["rank"], ylabel="chance that its item is published", ylim=(0, 1.03))
    axes.set_xlim(0.5, preview.setting.k + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)


def _bars(axes: Any, preview: Preview) -> None:  # noqa: ANN401
    shown = preview.outlooks[: len(_COLOURS)]
    for number, outlook in enumerate(shown):
        low, high = _reach(outlook.l_1)
        axes.barh(number, outlook.l_1.value, color=_COLOURS[number], xerr=[[low], [high]])
    axes.set_yticks(range(len(shown)), [outlook.name for outlook in shown])
    axes.invert_yaxis()
    axes.set_xlabel(f"l_1 error, in {_counted(preview)}")


def _counted(preview: Preview) -> str:
    return "users" if preview.setting.amounts is None else "amounts"


def _courses(left: Any, right: Any, previews: Sequence[Preview]) -> None:  # noqa: ANN401
    what = _differs(previews)
    at = [_value(preview, what) for preview in previews]
    names = list(dict.fromkeys(outlook.name for preview in previews for outlook in preview.outlooks))
    best = {name: max(o.recall.value for p in previews for o in p.outlooks if o.name == name) for name in names}
    for number, name in enumerate(sorted(names, key=lambda name: -best[name])[: len(_COLOURS)]):
        known = [(x, preview[name]) for x, preview in zip(at, previews, strict=True) if name in _names(preview)]
        places = [x for x, _ in known]
        _line(left, places, [outlook.recall for _, outlook in known], number, name)
        _line(right, places, [outlook.l_1 for _, outlook in known], number, name)
    left.set(ylabel="recall of the top k", ylim=(0, 1.03))
    right.set(ylabel=f"l_1 error, in {_counted(previews[0])}", yscale="symlog")
    for axes in (left, right):
        axes.set(xlabel=_AXES[what], xscale="log" if min(at) > 0 and max(at) >= 8 * min(at) else "linear")
        axes.set_xticks(at, [f"{x:g}" for x in at])
        axes.minorticks_off()
        axes.grid(alpha=0.3)


def _line(axes: Any, at: list[float] | list[int], estimates: list[Estimate], number: int, name: str) -> None:  # noqa: ANN401
    colour = _COLOURS[number]
    axes.plot(at, [one.value for one in estimates], color=colour, marker=_MARKS[number], markersize=4, label=name)
    reach = [_reach(one) for one in estimates]
    low = [one.value - off for one, (off, _) in zip(estimates, reach, strict=True)]
    high = [one.value + off for one, (_, off) in zip(estimates, reach, strict=True)]
    axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)


def _reach(estimate: Estimate) -> tuple[float, float]:
    """How far it may be off, down and up; nothing for an error that never came, whose size nobody knows."""
    if not estimate.value:
        return 0.0, 0.0
    return estimate.value - estimate.low, estimate.high - estimate.value


def _names(preview: Preview) -> set[str]:
    return {outlook.name for outlook in preview.outlooks}


def _value(preview: Preview, what: str) -> float:
    return float(preview.items if what == "items" else getattr(preview.setting, what))


def _differs(previews: Sequence[Preview]) -> str:
    differing = [what for what in ("k", "epsilon", "items") if len({_value(p, what) for p in previews}) > 1]
    if len(differing) != 1:
        raise Refusal("plot", "takes several values of one of k, epsilon and items, to draw the others against")
    return differing[0]
