"""A warning before a ranking that would be close to noise, from what is publicly known of the counts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice

from private_topk.pipelines.files import exists
from private_topk.pipelines.options import Options, names_a_file
from private_topk.pipelines.preview.compare import alternatives
from private_topk.pipelines.preview.expected import (
    EACH,
    ByGroup,
    Expected,
    Released,
    counts_of,
    earlier_rankings,
    expected_of,
    falling,
    scored,
)
from private_topk.pipelines.preview.outlook import NOISE, Outlook, forecast
from private_topk.pipelines.preview.solving import name_of_asked, noise_in
from private_topk.pipelines.preview.words import named, of_one_ranking, short
from private_topk.pipelines.process import level
from private_topk.pipelines.question import Question
from private_topk.transforms.composite import parts_of
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms.choice import choose, compared, enough_told, noise_told, reach_of
from private_topk.transforms.spec import TopK

_DRAWS, _PLACES = 100, 4
_DELTA = "1e-6"
_SUSPECT = (
    "By the declared counts it would be no noise, so the input of that last period, or the declaration, may be wrong: "
    "if it was the input, correct that period first, with `--correction`"
)
_ESTIMATES = "--like {}rank1=4%,rank20=0.5%{} (preview.like in a report) estimates it"


def forewarned(
    question: Question, like: str | None = None, earlier: Iterable[str] = (), *, series: bool = False
) -> tuple[bool, str]:
    """Whether surely less than half of the top k is expected to be found, in any group; and in one line what is known.

    Of groups, by the counts that each had; a declared shape of each (`EACH`) is that of every group, or of those that
    were not published before.

    Args:
        like: the declared counts, as `expected_of` reads them.
        earlier: paths where earlier rankings may exist, the likeliest first; those that do not exist, or have no noisy
            counts, are skipped.
        series: the earlier rankings are of the same series. They are then taken in place of `like`, with a word on what
            that had forecast.

    Raises:
        InvalidArgument: `like` is no shape and no ranking, or does not apply.

    Cost: 100 draws over a histogram, a tenth of a second for most mechanisms, for each group, and for some of more than
    100; a tenth of a second where nothing is known, for what a delta would do.
    """
    top_k, mechanism = question.top_k, question.top_k.mechanism
    groups = 1 if top_k.groups is None else top_k.groups.size
    declared = {} if like is None else _declared(question, like)
    counts = mechanism.guarantee.metric != "weights"
    published = _published_before(earlier, top_k, groups) if counts and (series or not declared) else {}
    names = _names(top_k.groups) if published else []
    published = {name: one for name, one in published.items() if name in names}
    # Of a list of sizes nothing tells whose each is.
    fitting = declared if "" in declared or names_a_file(like or "") else {}
    new = {name: fitting.get(name, fitting.get("")) for name in names if name not in published}
    rest = {name: one for name, one in new.items() if one is not None} if published else declared
    by_group = {**rest, **published}
    looked: dict[str, Outlook] = {}

    def noise(group: str) -> bool:
        outlook = _outlook(top_k, by_group[group])
        if outlook is not None:
            looked[group] = outlook
        return outlook is not None and outlook.recall.high < NOISE

    parts = [list(part) for part in (rest, published) if part and top_k.k is not None]
    noisy = [group for part in parts for group in noise_in(part, noise)]
    items = "" if top_k.domain.size else "items=1e5,"
    ends = (f"{items}users=1e5,", "") if top_k.groups is None else (f"'{items}users=2500{EACH},", "'")
    estimates = _ESTIMATES.format(*ends)
    not_known = {
        "without a k there is no top k to find": top_k.k is None,
        f"{mechanism.about.name} publishes no counts; {estimates}": not (counts or declared),
        f"no earlier ranking has noisy counts; {_enough(question)}{estimates}": not looked,
    }
    for why, applies in not_known.items():
        if applies:
            return False, f"unknown: {why}{_of_a_named(question)}"
    worst = _worst({group: looked[group] for group in noisy or by_group if group in looked})
    judging = f"judging by {by_group[worst].summary()}, {short(looked[worst])}"
    told = _outlook(top_k, declared[""]) if list(declared) == list(published) == [""] else None
    if told is not None:
        fit = f"{100 * looked[''].recall.value:.0f}%"
        judging += f". From the declared counts {of_one_ranking(told)} was forecast, from the published counts {fit}"
    if len(by_group) > 1:
        judging = f"{len(noisy)} of {len(by_group)} groups ({named(noisy)}); " * bool(noisy) + f"the worst, {judging}"
    listed = 1 if top_k.groups is None else top_k.groups.labels.size  # overall may be declared too
    if {*noisy} & {*published} and ("" in declared or len(declared) >= listed):
        poor = noise_in(list(declared), lambda group: not _finds_enough(_outlook(top_k, declared[group])))
        judging += "" if poor else f". {_SUSPECT}"
    advice = "`private-topk preview` compares mechanisms and budgets, and spends nothing"
    return (True, f"close to noise: {judging}{_of_a_named(question)}. {advice}") if noisy else (False, judging)


def _names(groups: Groups | None) -> list[str]:
    """The groups as published rankings name them; "" where there are none."""
    from private_topk.pipelines.release.formats import as_text  # loads Beam

    names = [""] if groups is None else [str(groups.name(number)) for number in range(groups.size)]
    for place, name in enumerate(names):
        if name.startswith('["'):
            with suppress(ValueError, TypeError):  # one column may hold such a text
                names[place] = as_text(parts_of(name))
    return names


def _finds_enough(outlook: Outlook | None) -> bool:
    return outlook is not None and outlook.recall.low >= NOISE


def _worst(looked: Mapping[str, Outlook]) -> str:
    """The smallest of those groups that one ranking does not tell from the group of least recall: where nobody holds
    much, chance finds more, since many items tie.

    Args:
        looked: by group, the largest first.
    """
    least = min(looked.values(), key=lambda one: one.recall.value)
    return [group for group, one in looked.items() if one.recall_range[0] <= least.recall_range[1]][-1]


def _enough(question: Question) -> str:
    """The rule that the k-th item's count should keep; nothing where none is known, as without a public list."""
    asked, k, size = question.asked, question.asked.k, question.asked.domain.size
    reach = reach_of(question.top_k.mechanism, k, size) if size else None
    if k is None or reach is None:
        return ""
    needed = enough_told(reach, k, asked.score.resolution, grouped=asked.groups is not None)
    return f"{needed} (docs/choosing.md); "


def with_delta(question: Question) -> str:
    """How far counts would be moved with a delta, where draws have none and it at least halves that."""
    asked, k, size = question.asked, question.asked.k, question.asked.domain.size or None
    own = reach_of(question.top_k.mechanism, k, size)
    if k is None or own is None or question.held is not None:
        return ""
    if question.spare_delta or asked.mechanism.parameter("delta", 0):
        return ""
    names = compared(size) if question.reason else (name_of_asked(question),)
    others, _ = alternatives(question, names, delta=float(_DELTA))
    name = choose((other.top_k.mechanism for other in others.values()), k, size).name
    reach = reach_of(others[name].top_k.mechanism, k, size) or own
    if 2 * reach > own:  # a delta is a weaker promise: not for a little
        return ""
    told = noise_told(reach, question.asked.score.resolution)
    return f". With a delta, such as {_DELTA}, {told} ({name})"


def _of_a_named(question: Question) -> str:
    """The same of a mechanism that was named: of a chosen one it is told with the reason."""
    return "" if question.reason else with_delta(question)


def _declared(question: Question, like: str) -> ByGroup:
    top_k = question.top_k
    groups = 1 if top_k.groups is None else top_k.groups.labels.size
    declared = expected_of(like, top_k.domain.size or None, question.period, top_k.score)
    if groups > 1 and "" in declared and (names_a_file(like) or EACH not in like):
        remedy = "give the users of each group, as users=3000,2000, or where all are alike of one, as users=2500 each"
        raise InvalidArgument("like", f"is of one ranking, and {groups:,} groups are ranked", remedy)
    if len(declared) > 1 and len(declared) != groups and not names_a_file(like):
        raise InvalidArgument("like", f"has {len(declared):,} groups, and {groups:,} are ranked")
    return declared


def _outlook(top_k: TopK, expected: Expected) -> Outlook | None:
    """What is expected of a window, or None where less than k items of a public list are known."""
    known = not top_k.domain.is_public or counts_of(top_k, expected).items >= top_k.max_items
    return forecast(top_k, expected, _DRAWS) if known else None


def forewarn(
    question: Question,
    options: Options,
    earlier: Iterable[str],
    who: str | None = "private-topk",
    *,
    series: bool = False,
) -> str:
    """In one line what is known of a ranking's quality. Raises InvalidArgument if it would be close to noise, where
    that was asked for.

    Args:
        who: says on stderr that it would be close to noise; None if the caller tells the line.
    """
    noisy, text = forewarned(question, options.get("like"), earlier, series=series)
    if noisy and options.get("on_noise") == "refuse":
        raise InvalidArgument(
            "on_noise", verbatim(f"refuses what is {text}"), "ask for less, or let it {on_noise} warn"
        )
    if noisy and who is not None:
        with level("warning"):
            print(f"{who}: {text}", file=sys.stderr, flush=True)
    return text


def _is_there(place: str) -> bool:
    with suppress(InvalidArgument):
        return exists(place)
    return False


def _published_before(places: Iterable[str], top_k: TopK, groups: int) -> ByGroup:
    """What the first of some rankings tell, until there is one for every group."""
    rankings: dict[str, Released] = {}
    for place in islice(filter(_is_there, places), _PLACES * groups):  # periods that were refused left none
        with suppress(InvalidArgument):
            rankings = {**earlier_rankings(place, top_k.domain.size or None, top_k.score), **rankings}
        if len(rankings) >= groups:
            break
    return scored(falling(rankings), top_k.score)
