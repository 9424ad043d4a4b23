"""What a preview says to somebody who has to choose, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from private_topk.pipelines.preview.estimates import Estimate, pooled
from private_topk.pipelines.preview.outlook import NOISE, Outlook

__all__ = ["percent", "ranges", "reasons", "short", "verdict"]

_SURE = 0.9


def reasons(outlooks: Sequence[Outlook], windows: int) -> list[str]:
    """Sentences: what to take, what it will give, which places are noise, and what else was close or better.

    Args:
        outlooks: the one to take first.
        windows: over how many the budget is shared.
    """
    best = outlooks[0]
    return [
        f"Take {best.name}: it finds {_of_top(best)}.",
        *_order(best),
        *_noise(best),
        *_rivals(outlooks),
        *([verdict(windows)] if best.recall.value < NOISE else []),
    ]


def short(best: Outlook) -> str:
    """What is expected of one mechanism, in one line."""
    first = _first(best) if best.ordered else ""
    return f"{best.name} finds {_of_top(best)}" + (f"; {first[0].lower()}{first[1:]}" if first else "")


def verdict(windows: int) -> str:
    """That it is close to noise, and what may help."""
    fewer = ", fewer windows that one user can be in" if windows > 1 else ""
    return ("This is close to noise: most of what is published would be wrong. A larger epsilon, a smaller k"
            f"{fewer} or more users in a window make it better.")  # fmt: skip


def _of_top(outlook: Outlook) -> str:
    k, recall = outlook.k, outlook.recall
    return f"{recall.value * k:.3g} of the top {k} on average ({percent(recall)})"


def percent(estimate: Estimate) -> str:
    """A chance with its interval."""
    return f"{100 * estimate.value:.1f}%, {100 * estimate.low:.1f} to {100 * estimate.high:.1f}"


def _order(best: Outlook) -> Iterator[str]:
    if not best.ordered:
        yield "It is a set: nothing is said of the order."
    else:
        yield f"{_first(best)}."


def _first(best: Outlook) -> str:
    """How far down the order can be relied on."""
    for least in (_SURE, 0.5):
        sure = [place for place, chance in enumerate(best.so_far, 1) if chance.value >= least]
        if sure:
            chance = best.so_far[sure[-1] - 1]
            which = f"The top {sure[-1]} are in their right places" if sure[-1] > 1 else "The first place is right"
            return f"{which} in {100 * chance.value:.0f}% of draws"
    return f"The first place is right in {100 * best.right[0].value:.0f}% of draws" if best.right else ""


def _noise(best: Outlook) -> Iterator[str]:
    # These chances hardly ever rise from one rank to the next; where they seem to, it is that of the draws.
    sure = sum(size for chance, size in pooled(one.value for one in best.belongs) if chance >= NOISE)
    noisy = list(range(sure + 1, best.k + 1)) if best.ordered else []
    if noisy and len(noisy) < best.k:
        yield (f"{ranges(noisy)} {'are' if len(noisy) > 1 else 'is'} noise: what stands there is mostly none of the "
               f"top {best.k}.")  # fmt: skip


def _rivals(outlooks: Sequence[Outlook]) -> Iterator[str]:
    best, others = outlooks[0], [outlook for outlook in outlooks[1:] if outlook.ordered]
    for rival in others[:1]:
        if rival.recall.high >= best.recall.low:
            yield f"{rival.name} finds as many, as far as can be told ({percent(rival.recall)}){_why(best, rival)}."
        else:
            yield f"It beats {rival.name}, the next one, which finds {_of_top(rival)}."
    pure = next((o for o in others if o.pure), None)
    if pure is not None and not best.pure and pure is not others[0]:
        yield f"{pure.name}, the best one without a delta, finds {_of_top(pure)}."
    many = next((outlook for outlook in outlooks[1:] if not outlook.ordered), None)
    if many is not None and best.ordered and many.recall.low > best.recall.high:
        yield f"As a set, without an order, {many.name} finds more: {_of_top(many)}."


def _why(best: Outlook, rival: Outlook) -> str:
    if best.order.low > rival.order.high:
        return f", but has only {100 * rival.order.value:.0f}% of the places right, not {100 * best.order.value:.0f}%"
    if best.pure and not rival.pure:
        return ", but needs a delta"
    return ""


def ranges(places: list[int]) -> str:
    """Places in words: ranks 3 and 8 to 10."""
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][1] == place - 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    parts = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    said = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{'Ranks' if len(places) > 1 else 'Rank'} {said}"
