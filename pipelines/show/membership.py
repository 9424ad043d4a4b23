"""How many items of a ranking are truly among the top k, by its noisy counts: post-processing, which costs nothing.

It is what a preview forecasts of a ranking over these counts and others that go on falling like them (`Released`).
`python -m benchmarks.reaches --itself` says how far that is from the truth.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

from private_topk.pipelines.preview.compare import counted, forecast
from private_topk.pipelines.preview.expected import Released
from private_topk.pipelines.preview.outlook import NOISE, Outlook
from private_topk.pipelines.release.manifest import Manifest
from private_topk.transforms.domain import RangeDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS, make_mechanism, parameters_of
from private_topk.transforms.metric import Amounts
from private_topk.transforms.spec import TopK

MAX_GROUPS = 50
"""Of more groups nothing is estimated: each takes a tenth of a second."""
_DRAWS = 60
_MIN_COUNTS, _MAX_COUNTS = 5, 1000
"""Fewer counts say too little of how they fall; of more, draws take long."""


def drawn_with(manifest: Manifest) -> TopK | None:
    """What a window was drawn with, over a list of the same length; None where nothing can be said of such draws."""
    domain, kind, amounts = manifest.domain, MECHANISMS.get(manifest.mechanism), manifest.amounts
    if domain is None or domain.number is None or domain.kind == "unknown" or domain.by_group is not None:
        return None
    if kind is None or manifest.answer != "sequence" or not manifest.private:
        return None
    known = parameters_of(kind)
    given = {name: value for name, value in manifest.parameters.items() if name in known}
    with suppress(InvalidArgument, TypeError, ValueError):  # of another version
        drawn = TopK(
            manifest.k,
            make_mechanism(manifest.mechanism, **given),
            RangeDomain(0, domain.number),
            manifest.max_items_per_user,
            amounts=None if amounts is None else Amounts.of(amounts.max_value, amounts.value_resolution),
        )
        return drawn if drawn.mechanism.weighting is None else None
    return None


@lru_cache(maxsize=1024)
def estimated(counts: tuple[int, ...], drawn: TopK) -> Outlook | None:
    """The estimate for one ranking; None where its counts tell too little.

    Args:
        counts: the noisy ones in order of rank, in units of the resolution where they are amounts.

    Cost: about a tenth of a second; more for hundreds of items.
    """
    if len(counts) != drawn.k or not _MIN_COUNTS <= len(counts) <= _MAX_COUNTS or max(counts) <= 0:
        return None
    return forecast(drawn, counted(Released(counts, drawn.domain.size), drawn), _DRAWS)


def in_words(counts: tuple[int, ...], drawn: TopK) -> str:
    """How many items are truly among the top k, in one sentence; nothing where that cannot be told."""
    told, k = estimated(counts, drawn), len(counts)
    if told is None:
        return ""
    low, high = (round(part * k) for part in told.recall_range)
    about = min(max(round(told.recall.value * k), low), high)
    some = {0: "hardly any", k: "all or nearly all"}.get(about, f"about {about}")
    reach = "" if low == high else f" ({f'at least {low}' if about == k else f'{low} to {high}'}, nine times of ten)"
    bound = drawn.max_items_per_user  # other items of a person are in no count, and might have changed the true top k
    bounded = "" if bound is None else f", where at most {bound} of a person's items count"
    said = f"{some} of these {k} items are truly among the top {k}{reach}{bounded}: an estimate from the noisy counts."
    return f"Most of this is noise: {said}" if told.recall.value < NOISE else said[0].upper() + said[1:]
