"""A preview in words for somebody who has to choose: tables of numbers, and sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from private_topk.pipelines.preview.expected import pooled
from private_topk.pipelines.preview.outlook import NOISE, Estimate, Outlook

_SURE = 0.9
_HEAD = (
    *("mechanism", "answer", "recall", "of one ranking", "places right"),
    *("largest gap", "score ratio", "returned", "draws"),
)
_ALL_RANKS, _NAMED = 12, 4
_SOME_RANKS = (1, 2, 3, 5, 10, 20, 30, 50, 70, 100, 200, 300, 500, 700)


def table(outlooks: Sequence[Outlook]) -> list[str]:
    """One line for each mechanism: every number with its margin of error."""
    rows = [_HEAD] + [
        (
            o.name,
            "set" if not o.ordered else "sequence",
            within(o.recall),
            of_one_ranking(o),
            within(o.order) if o.ordered else "-",
            _number(o.l_inf),
            within(o.ratio),
            _number(o.returned),
            str(o.draws),
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
        rows += [(str(rank), within(outlook.found[rank - 1])) for rank in shown]
        return aligned(rows)
    table_rows = [(f"{outlook.name}: rank", "right", "right down to here", top, "its item returned")]
    for rank in shown:
        chances = (getattr(outlook, name)[rank - 1] for name in ("right", "so_far", "belongs", "found"))
        table_rows.append((str(rank), *map(within, chances)))  # type: ignore[arg-type]
    return aligned(table_rows)


def comparison(
    heads: Sequence[str],
    columns: Sequence[tuple[Sequence[object], Iterable[Outlook]]],
    feet: Iterable[Sequence[str]] = (),
) -> list[str]:
    """The recall of every mechanism in several columns, in hundredths; * marks the recommended one of each.

    Args:
        columns: of each the values under the heads, and its outlooks, the recommended one first.
        feet: lines below, each with its name.
    """
    rows = [(head, *(_plain(values[place]) for values, _ in columns)) for place, head in enumerate(heads)]
    settings = [{outlook.name: outlook.recall for outlook in outlooks} for _, outlooks in columns]
    names = dict.fromkeys(name for recalls in settings for name in recalls)
    for name in sorted(names, key=lambda name: -max(its[name].value for its in settings if name in its)):
        cells = []
        for recalls in settings:
            mark = "*" if name == next(iter(recalls)) else " "
            cells.append(f"{within(recalls[name], 0)}{mark}" if name in recalls else "- ")
        rows.append((name, *cells))
    return aligned([*rows, *feet])


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns two spaces apart, the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        lines.append(f"  {first:<{widths[0]}}  {'  '.join(cells)}".rstrip())
    return lines


def within(estimate: Estimate, digits: int = 1) -> str:
    """A part in hundredths, and how far it may be off."""
    told = _with_margin(100 * estimate.value, 100 * estimate.low, 100 * estimate.high, digits, 100)
    return told + "%" * bool(digits)


def _number(estimate: Estimate) -> str:
    return _with_margin(estimate.value, estimate.low, estimate.high, 1 if estimate.value < 100 else 0)


def _with_margin(value: float, low: float, high: float, digits: int, most: float = math.inf) -> str:
    """A number from 0 to the most there is, with its margin; where that reaches beyond these, the other end of its
    interval.
    """
    said, least, unit = f"{value:,.{digits}f}", f"{0:.{digits}f}", 10**digits
    if low == high:
        return said
    margin = max(high - value, value - low)
    if said == least or margin > value:
        return f"under {math.ceil(high * unit) / unit:,.{digits}f}"
    if said == f"{most:,.{digits}f}" or value + margin > most:
        return f"over {math.floor(low * unit) / unit:,.{digits}f}"
    return f"{said} ±{margin:,.{digits}f}"


def reasons(outlooks: Sequence[Outlook]) -> list[str]:
    """Sentences: which mechanism to take, what it will give, which places are noise, and what else was close or better;
    or that none is worth it.

    Args:
        outlooks: the recommended one first.
    """
    best = outlooks[0]
    if best.recall.value < NOISE:
        said = f"Nothing here is worth publishing: the best, {best.name}, finds {_of_top(best)}."
        return [said, *_order(best), *(f"{one}." for one in _empty(best))]
    empty = [f"{one}." for one in _empty(best)]
    return [f"Take {best.name}: it finds {_of_top(best)}.", *_order(best), *empty, *_noise(best), *_rivals(outlooks)]


def short(best: Outlook) -> str:
    """The outlook of one mechanism in one line."""
    # On a curve that is only expected, neighbours are far apart: what is said of places needs the words around it.
    more = [*([_first(best)] if best.ordered and not best.others else []), *_empty(best)]
    return "; ".join([f"{best.name} finds {_of_top(best)}", *(f"{one[0].lower()}{one[1:]}" for one in more if one)])


def of_one_ranking(outlook: Outlook) -> str:
    """What part of the top k one ranking finds nine times of ten."""
    low, high = (f"{100 * part:.0f}" for part in outlook.recall_range)
    return f"{low}%" if low == high else f"{low} to {high}%"


def named(names: Sequence[str]) -> str:
    """Some names and the last."""
    return ", ".join((*names[:_NAMED], "...", names[-1]) if len(names) > _NAMED + 1 else names)


def _of_top(outlook: Outlook) -> str:
    k, recall, also = outlook.k, outlook.recall.value, " over flatter and steeper ones too" * bool(outlook.others)
    told = within(outlook.recall)
    told = told if told.startswith(("over", "under")) else f"{100 * recall:.1f}%"  # at the ends of what there is
    return (
        f"{recall * k:.3g} of the top {k} on average ({told}){_where(outlook)}, "
        f"{of_one_ranking(outlook)} nine times of ten{also}"
    )


def _order(best: Outlook) -> Iterator[str]:
    if not best.ordered:
        yield "It is a set: nothing is said of the order."
    elif first := _first(best):
        yield f"{first}."


def _first(best: Outlook) -> str:
    """A sentence on how far down the order can be relied on; none where nothing is found."""
    if not best.recall.value:
        return ""
    apart = ", if neighbouring counts are as far apart as on the expected curve" * bool(best.others)
    for least in (_SURE, 0.5):
        sure = [place for place, chance in enumerate(best.so_far, 1) if chance.value >= least]
        if sure:
            chance = best.so_far[sure[-1] - 1]
            which = f"The top {sure[-1]} are in their right places" if sure[-1] > 1 else "The first place is right"
            return f"{which} in {100 * chance.value:.0f}% of draws{apart}"
    return f"The first place is right in {100 * best.right[0].value:.0f}% of draws{apart}" if best.right else ""


def _where(outlook: Outlook) -> str:
    """Of which counts a number is: all but the range of one ranking are of the expected ones."""
    return " on the expected curve" * bool(outlook.others)


def _empty(best: Outlook) -> Iterator[str]:
    """How many places stay empty, where the items are not public."""
    if best.mechanism.guarantee.domain == "unknown":
        yield f"Of its {best.k} places {best.k - best.returned.value:.2g} stay empty on average"


def _noise(best: Outlook) -> Iterator[str]:
    # These probabilities hardly ever rise from one rank to the next; where they seem to, that is random error.
    sure = sum(size for chance, size in pooled(one.value for one in best.belongs) if chance >= NOISE)
    if best.ordered and 0 < sure < best.k:
        which = f"Ranks {sure + 1} to {best.k} are" if sure + 1 < best.k else f"Rank {best.k} is"
        yield f"{which} noise: what stands there is mostly none of the top {best.k}."


def _rivals(outlooks: Sequence[Outlook]) -> Iterator[str]:
    best, others = outlooks[0], [outlook for outlook in outlooks[1:] if outlook.ordered]
    for rival in others[:1]:
        if rival.recall.high >= best.recall.low:
            much = "more" if rival.recall.low > best.recall.high else "as many, as far as can be told"
            yield f"{rival.name} finds {much}{_where(best)} ({within(rival.recall)}){_why(best, rival)}."
        else:
            next_one = f"the next one{' in the mean of all curves' * bool(best.others)}"
            yield f"It beats {rival.name}, {next_one}, which finds {_of_top(rival)}."
    pure = next((o for o in others if o.pure), None)
    if pure is not None and not best.pure and pure is not others[0]:
        yield f"{pure.name}, the best one without a delta, finds {_of_top(pure)}."
    many = next((outlook for outlook in outlooks[1:] if not outlook.ordered), None)
    more = many is not None and many.over_curves("recall") > best.over_curves("recall")
    if many is not None and more and best.ordered and many.recall.low > best.recall.high:
        yield f"As a set, without an order, {many.name} finds more: {_of_top(many)}."


def _why(best: Outlook, rival: Outlook) -> str:
    own, other = (100 * one.over_curves("recall") for one in (best, rival))
    if best.others and own > other + 0.1:
        return f", but {other:.1f}% and not {own:.1f}% in the mean of all curves"
    if best.order.low > rival.order.high:
        return f", but has only {100 * rival.order.value:.0f}% of the places right, not {100 * best.order.value:.0f}%"
    if best.pure and not rival.pure:
        return ", but needs a delta"
    return ""
