"""A warning before the charge: what is publicly known tells of a ranking close to noise.

Public knowledge is what the operator declares (`like`), or the noisy counts of a ranking that was published before.
The rows of the run are never looked at: what a warning says of them would be a release.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from private_topk.pipelines.expecting import earlier_ranking, expected_of
from private_topk.pipelines.preview import look
from private_topk.pipelines.preview.outlook import NOISE
from private_topk.pipelines.preview.reasons import short
from private_topk.pipelines.preview.shapes import Expected
from private_topk.pipelines.report_spec import ReportSpec
from private_topk.transforms.errors import Refusal

__all__ = ["forewarned"]

_DRAWS = 100
_PLACES = 4


def forewarned(spec: ReportSpec, like: str | None = None, earlier: Iterable[str] = ()) -> str | None:
    """One line where less than half of the top k can be expected, surely; None where more can, or nobody knows.

    Of amounts and rises nothing is known: what is expected are numbers of users.

    Args:
        question: settled: its mechanism has the budget of one window.
        like: what was declared, as `expected_of` reads it.
        earlier: rankings that may stand where an earlier release was written, the likeliest first; those that do not,
            or tell nothing, are passed over.

    Raises:
        Refusal: what was declared is no shape and no ranking, or does not apply.

    Cost: 100 draws over a histogram, a tenth of a second for most mechanisms; nothing where nothing is known.
    """
    top_k = spec.top_k
    if top_k.risers is not None:
        if like is not None:
            raise Refusal("like", "is of the counts of a window, and {against} ranks by how they rise", "leave it out")
        return None
    if top_k.amounts is not None:
        if like is not None:
            raise Refusal("like", "is of numbers of users, and {value_column} adds up amounts", "leave it out")
        return None
    if top_k.mechanism.weighting is not None:
        return None  # it looks at weights of users, which numbers of users do not tell
    unknown, items = not top_k.domain.is_public, top_k.domain.size or None
    expected = expected_of(like, items, spec.period) if like is not None else _first(earlier, items)
    if expected is None:
        return None
    histogram = expected.histogram(top_k.max_items_per_user, unknown)
    if not unknown and histogram.items < top_k.k:
        return None
    outlook = look(top_k.mechanism, histogram, top_k.k, _DRAWS)
    if outlook.recall.high >= NOISE:
        return None
    return (f"close to noise: judging by {expected.words()}, {short(outlook)}. `private-topk preview` compares "
            "mechanisms and budgets, and spends nothing")  # fmt: skip


def _first(places: Iterable[str], items: int | None) -> Expected | None:
    for place in islice(places, _PLACES):
        try:
            return earlier_ranking(place, items)
        except Refusal:
            continue
    return None
