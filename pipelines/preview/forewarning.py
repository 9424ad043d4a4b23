"""A warning before a ranking that would be close to noise, from what is publicly known of the counts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from private_topk.pipelines.options import Options, names_a_file
from private_topk.pipelines.preview.compare import counted, forecast, noise_in
from private_topk.pipelines.preview.expected import (
    ByGroup,
    Released,
    earlier_rankings,
    expected_of,
    falling,
)
from private_topk.pipelines.preview.outlook import NOISE, Outlook
from private_topk.pipelines.preview.words import named, short
from private_topk.pipelines.process import level
from private_topk.pipelines.question import Question
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.metric import Amounts

_DRAWS, _PLACES = 100, 4


def forewarned(question: Question, like: str | None = None, earlier: Iterable[str] = ()) -> tuple[bool, str]:
    """Whether surely less than half of the top k is expected to be found, in any group; and in one line what is known.

    Of groups, by the counts that each had; a declared shape that names none is that of every group.

    Args:
        like: the declared counts, as `expected_of` reads them.
        earlier: paths where earlier rankings may exist, the likeliest first; those that do not exist, or have no noisy
            counts, are skipped.

    Raises:
        InvalidArgument: `like` is no shape and no ranking, or does not apply.

    Cost: 100 draws over a histogram, a tenth of a second for most mechanisms, for each group, and for some of more than
    100; nothing where nothing is known.
    """
    top_k = question.top_k
    if top_k.k is None:
        return False, "not known: without a k there is no top k to find"
    unknown, items = not top_k.domain.is_public, top_k.domain.size or None
    groups = 1 if top_k.groups is None else top_k.groups.size
    amounts = top_k.amounts
    by_group: ByGroup
    if top_k.risers is not None:
        if like is not None:
            raise InvalidArgument(
                "like", "does not go with {against}: nothing public tells how items rise", "leave it out"
            )
        return False, "not known: no ranking that was published tells how items rise"
    if like is not None:
        by_group = expected_of(like, items, question.period, amounts, None, groups)
        if len(by_group) > 1 and len(by_group) != groups and not names_a_file(like):
            raise InvalidArgument("like", f"has {len(by_group):,} groups, and {groups:,} are ranked")
    elif top_k.mechanism.weighting is not None:
        return False, f"not known: {top_k.mechanism.about.name} publishes no counts, and no shape is declared"
    else:
        by_group = _published_before(earlier, items, groups, amounts)

    looked: dict[str, Outlook] = {}

    def noise(group: str) -> bool:
        some = counted(by_group[group], top_k)
        if not unknown and some[0][1].items < top_k.max_items:
            return False
        looked[group] = forecast(top_k, some, _DRAWS)
        return looked[group].recall.high < NOISE

    noisy = noise_in(list(by_group), noise)
    if not looked:
        return False, "not known: there is no earlier ranking with noisy counts, and no shape is declared"
    worst = min(looked, key=lambda group: looked[group].recall.value)
    judging = f"judging by {by_group[worst].summary()}, {short(looked[worst])}"
    if len(by_group) > 1:
        judging = f"{len(noisy)} of {len(by_group)} groups ({named(noisy)}); " * bool(noisy) + f"the worst, {judging}"
    if not noisy:
        return False, judging
    return True, (
        f"close to noise: {judging}. `private-topk preview` compares mechanisms and budgets, and spends nothing"
    )


def forewarn(question: Question, options: Options, earlier: Iterable[str], who: str = "private-topk") -> str:
    """In one line what is known of a ranking's quality; said on stderr where it would be close to noise. Raises
    InvalidArgument where that was asked for.
    """
    noisy, text = forewarned(question, options.get("like"), earlier)
    if noisy and options.get("on_noise") == "refuse":
        raise InvalidArgument(
            "on_noise", verbatim(f"refuses what is {text}"), "ask for less, or let it {on_noise} warn"
        )
    if noisy:
        with level("warning"):
            print(f"{who}: {text}", file=sys.stderr, flush=True)
    return text


def _published_before(places: Iterable[str], items: int | None, groups: int, amounts: Amounts | None) -> ByGroup:
    """What the first of some rankings tell, until there is one for every group."""
    rankings: dict[str, Released] = {}
    for place in islice(places, _PLACES * groups):
        with suppress(InvalidArgument):
            rankings = {**earlier_rankings(place, items, amounts), **rankings}
        if len(rankings) >= groups:
            break
    return {**falling(rankings)}
