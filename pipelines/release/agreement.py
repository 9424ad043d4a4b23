"""Whether the numbers of a manifest go together: what follows from its question is found again, by what has found it
when the ranking was published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any

from private_topk.pipelines.budget.composition import SERIES, UNITS
from private_topk.pipelines.budget.rows import BROKEN, cost_in, fraction_in
from private_topk.pipelines.budget.sharing import cost_of, windows_of_a_user
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.release.describe import of_a_shared_hash
from private_topk.pipelines.release.manifest import PERIOD, Manifest, PeriodFacts, PrivacyFacts, Window
from private_topk.pipelines.release.promise import ROUNDED, charged_otherwise, cost_of_a_window, covers
from private_topk.pipelines.scheduled.schedule import Schedule
from private_topk.transforms.domain import RangeDomain, UnknownDomain
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import MECHANISMS, make_mechanism, parameters_of
from private_topk.transforms.mechanisms.noisy_counts import CountBudget, DrawnCounts
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import WindowBounds
from private_topk.transforms.windows.calendar import UNITS as CALENDAR
from private_topk.transforms.windows.calendar import time_zone

_noise_of, _cost_of = lru_cache(maxsize=1024)(TopK.noise), lru_cache(maxsize=256)(cost_of)  # files of one question
_SIX_DIGITS, _DAY = 1e-5, timedelta(days=1)
_windows_in = lru_cache(maxsize=256)(Windows.read)
_CHANGED = "one was changed, or another version wrote it: bring it back from a copy"


def check_agrees(published: Manifest, path: str) -> None:
    """Raise InvalidArgument for a manifest that contradicts itself. A mechanism of one's own is not drawn up again."""
    privacy, told = published.privacy, ""
    if privacy is None:
        return
    try:
        charged = published.charge and cost_in(published.charge)
        if not covers(published) or charged and charged_otherwise(published, charged):
            told = "its epsilons, its rho and what it charges"
        elif published.parameters.get("neighbours", privacy.neighbours) != privacy.neighbours:
            told = "its neighbours and its parameters"
        elif not _are_its_windows(published, privacy):
            told = "its unit, its windows, their horizon, its release id and what it charges"
        elif published.mechanism in MECHANISMS:
            told = next(_otherwise(published, privacy), "")
    except (*BROKEN, InvalidArgument):
        told = "its mechanism, its parameters and its costs"
    if told:
        raise InvalidArgument("", f"{verbatim(path)} contradicts itself: {told} do not go together", _CHANGED)


def _are_its_windows(published: Manifest, privacy: PrivacyFacts) -> bool:
    """Whether unit, windows and horizon are those that are charged. A file lists all of the windows, or in a folder the
    one that it is named after. So is the release of a report's one period, and of its correction.
    """
    if (charge := published.charge) is None:
        return True
    charged, listed = _windows_in(charge.windows), published.paid_for()
    names = [WindowBounds(*each).label() for each in listed]
    whole = len(names) == charged.number or len(names) == 1 and (published.output or "").startswith(names[0])
    if published.runner and charged.number == 1 and (period := PERIOD.search(str(published.release_id))):
        whole &= names == [period[1]]
    unit = UNITS["user-window"] if privacy.unit == SERIES else privacy.unit
    shared = (privacy.windows or 1) >= charged.number or not privacy.of_all_windows
    shared &= published.horizon is None or _has_its_periods(published.horizon, published, charged)
    return UNITS.get(charge.unit) == unit and whole and charged.holds(listed) and shared


def _has_its_periods(horizon: PeriodFacts, published: Manifest, charged: Windows) -> bool:
    """Whether a horizon is all periods of a schedule, as many as share the total, and those that are charged are among
    them. To half a day: the law on a zone's clocks may have changed since.
    """
    zone, number = time_zone(published.time_zone or "UTC"), published.privacy and published.privacy.windows or 1
    (start, end), *more = charged.moments()
    if more or start is None or end is None:
        return False
    near = min(end - start, _DAY) / 2
    lengths: list[timedelta | str] = [end - start, (round((end - start) / _DAY) or 1) * _DAY, *CALENDAR]
    for every in lengths:
        with suppress(OverflowError, ValueError):  # beyond the year 9999, or of months that lack its day
            schedule = Schedule(horizon.start, every, zone, number)
            own = schedule.period(min(schedule.ended(start + near), number - 1))
            last = schedule.period(number - 1)
            pairs = ((own.start, start), (own.end, end), (last.end, horizon.end))
            if all(abs(here - there) < near for here, there in pairs):
                return True
    return False


def drawn_with(published: Manifest) -> TopK:
    """What a window was drawn with by a built-in mechanism: over a list of the same length, and as many groups as
    matter. Raises InvalidArgument or one of `BROKEN` where a manifest states nothing that can be.
    """
    own, counts = parameters_of(MECHANISMS[published.mechanism]), published.privacy and published.privacy.counts
    given = {name: value for name, value in published.parameters.items() if name in own}
    given |= {name: _exact(value) for name, value in given.items() if own[name].kind == "number"}
    rounded, noisy, groups = published.counts_rounded_to or 1, None, None
    if counts:
        noisy = DrawnCounts(rounded) if counts.get("drawn") else budget_of(counts, rounded)
    if (listed := published.groups) is not None:
        number = listed.number and min(listed.number, 2 * listed.per_user)
        groups = Groups.numbered(number, listed.per_user, listed.overall)
    items = published.domain and published.domain.number
    return TopK(
        published.k,
        make_mechanism(published.mechanism, **given),
        RangeDomain(0, items) if items else UnknownDomain(),
        published.max_items_per_user,
        noisy,
        published.score,
        groups,
        published.max_windows_per_user,
    )


def budget_of(counts: Mapping[str, Any], rounded: int = 1) -> CountBudget:
    """The budget of noisy counts that a manifest states."""
    return CountBudget(_exact(counts["epsilon"]), _exact(counts["delta"]), rounded)


def _exact(value: Any) -> Any:  # noqa: ANN401 - JSON
    """A number as it was given: a text where no float is equal to it."""
    return fraction_in(value) if isinstance(value, str) else value


def _otherwise(published: Manifest, privacy: PrivacyFacts) -> Iterator[str]:
    """What a manifest states otherwise than what it was drawn with gives."""
    drawn, groups = drawn_with(published), published.groups
    mechanism, told = drawn.mechanism, drawn.mechanism.parameters()
    if published.answer != mechanism.guarantee.answer:
        yield "its mechanism and its answer"
    if privacy.guarantee == "pure" and privacy.delta:
        yield "its guarantee and its delta"
    if any(told.get(name) != value for name, value in published.parameters.items()):
        yield "its mechanism and its parameters"
    if mechanism.parameter("neighbours", "add-remove") != privacy.neighbours:
        yield "its neighbours and its mechanism"
    rankings, most = drawn.rankings_of_a_user(), None
    if privacy.of_all_windows and published.max_windows_per_user is not None:
        bound, entered = published.max_windows_per_user, drawn.rankings_of_a_newcomer()
        most = windows_of_a_user(privacy.windows or 1, bound, mechanism, rankings, entered)
    stated = (privacy.rankings_of_a_user_in_a_window or 1, groups.rankings_of_a_user if groups else 1)
    if stated != (rankings, rankings) or privacy.windows_of_a_user != most:
        yield "the rankings and windows that a user counts in"
    if (published.delta_of_a_shared_hash or 0) < of_a_shared_hash(drawn):
        yield "its bounds and the delta of a shared hash"
    cost, paid = _cost_of(drawn), cost_of_a_window(published)
    names = ("epsilon", "delta", *(("rho", "zcdp_delta") if published.zcdp_of_a_window else ()))
    if paid.gdp > cost.gdp or any(getattr(cost, name) > ROUNDED * getattr(paid, name) for name in names):
        yield "its epsilons, its rho and what it is drawn with"
    if privacy.accounting == "bounded-range":
        ranged = None if drawn.publish_counts else mechanism.cost(drawn.max_items).bounded_range
        if ranged is None or not covers(published, ranged):
            yield "its total, its accounting and what it is drawn with"
    if not all(_has_its_noise(each, drawn, published) for each in published.windows):
        yield "the noise of its counts and their budget"


def _has_its_noise(window: Window, drawn: TopK, published: Manifest) -> bool:
    """Whether a window states the noise of its counts. Of windows to date, and of counts by the draw from a list for
    each group, no less than the least there is: a manifest tells neither how many steps nor how long each list is.
    """
    domain, step = published.domain, None if published.to_date is None else 1
    lists = None if domain is None else domain.by_group
    noise = _noise_of(drawn, window.returned, None if lists is None else lists["least"], step)
    deviation, within = window.noise_stddev, window.noise_95
    if noise is None or deviation is None or within is None:
        return [noise, deviation, within] == [None] * 3
    least = drawn.draws_counts and (lists or step)
    return all(
        there >= its * (1 - _SIX_DIGITS) and (least or there <= its * (1 + _SIX_DIGITS))
        for there, its in ((deviation, noise.stddev), (within, noise.within_95))
    )
