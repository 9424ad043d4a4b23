"""What a set of published windows promises, for one privacy unit and for a user who is in all of them.

Pages, words, sign-off sheets, manifests and dry runs all state what `promised` finds. A ledger adds up the same costs
(`most`, `over_windows`) over everything that it has charged.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec

from private_topk.pipelines.budget.accounting import ADOPTED, HORIZON, Charge, Entry, largest_sums, most, units
from private_topk.pipelines.budget.composition import MAX_WINDOWS_OF_OPTIMAL, optimal_delta
from private_topk.pipelines.budget.rows import moment
from private_topk.pipelines.budget.sharing import over_windows
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.release.manifest import BudgetFacts, Manifest, PrivacyFacts, Publication, SeriesFacts, Zcdp
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import (
    at_most,
    bounded_range_epsilon,
    epsilon_within,
    gaussian_epsilon,
)
from private_topk.transforms.release import series_name
from private_topk.transforms.stated import number, some, stated

_CHANGED = "one was changed since, and these numbers count"
BY_RHO = ("zcdp", "gaussian")
"""The accountings that add up rhos."""
_ADDED = ("epsilon", "delta", "rho")
_OF_ROWS = ("user", "time")
"""The columns that a ledger holds, by role."""
ROUNDED = Fraction("1.0001")
"""By what factor two costs may differ that are one, written down in six digits."""


def promised(
    published: Iterable[tuple[Manifest, Windows]], also: Iterable[Entry] = ()
) -> tuple[PrivacyFacts, BudgetFacts | None]:
    """The promise for the privacy unit, and that for a user who is in every window, where this is not the unit.

    A unit is protected by the budget that was declared, as long as it is in no more windows than that was declared
    for. It is in more where windows were published again, or where the sliding windows of several releases overlap:
    then it is protected by what all of these cost together, and so where the budget has changed. The windows of the
    declared budget that are not among the published ones count too: they were published elsewhere, or will be. What
    lies outside the horizon of the first, as an earlier horizon does, is none of these and comes on top.

    Args:
        published: private releases with the same privacy unit, and windows of theirs. The same release may come several
            times, as it does from a folder with a file for each window; each of its windows counts once.
        also: what a ledger has charged of the same unit and is not among these (`charged_too`).
    """
    parts = _by_release(published)
    also = _untold((manifest for manifest, _ in parts), also)
    first, everything = parts[0][0], Windows.union([*(each for _, each in parts), *(each.windows for each in also)])
    charges = [_charge(manifest, windows) for manifest, windows in parts]
    declared, own = _declared(first), charges[0].cost
    charges += [*_corrected(parts), *also]
    changed = any(_facts(each.cost) != _facts(own) for each in charges)
    mixed, by_rho = _of_two_proofs((each.cost for each in charges), (manifest for manifest, _ in parts))
    if mixed and not by_rho:
        charges = [replace(each, cost=Cost(each.cost.epsilon, each.cost.delta)) for each in charges]
    unit = "user" if declared.of_all_windows else "user-window"
    dearer = any(
        _rounded(getattr(each.cost, name)) > _rounded(getattr(own, name))
        for each in charges
        for name in ("epsilon", "delta")
    )
    delta = max(each.cost.delta for each in charges)
    if unit == "user":  # as a ledger whose total this is shared from: it keeps the delta of a single ranking
        delta /= declared.rankings_of_a_user_in_a_window or 1
    newest = max((charges[0], *also), key=lambda each: each.windows.runs[-1].end)
    own_windows = everything
    if unit == "user" and first.horizon is not None:
        own_windows = everything.within(first.horizon.start, first.horizon.end) or everything
    once = replace(charges[0], windows=own_windows, cost=newest.cost, windows_of_a_user=_bound(first, own_windows))
    spent, reached = _with_the_rest(unit, charges, once, _covered(first))
    if changed or dearer or reached > _covered(first) or not covers(first):
        outside = everything.number - own_windows.number
        number = outside + max(own_windows.number, declared.windows or 1)
        restated = _restated(declared, spent, delta, number, reached, by_rho)
        # No less than they all declared, perhaps by a looser accounting: what comes later protects nobody.
        least = min(_declared(manifest).epsilon for manifest, _ in parts)
        declared = msgspec.structs.replace(restated, epsilon=max(restated.epsilon, least))
    if unit == "user" or everything.number == 1:
        return declared, None
    epsilon, delta = over_windows(most("user", charges), delta, added=not by_rho)
    return declared, BudgetFacts(epsilon=_rounded(epsilon), delta=_rounded(delta))


def of_epsilons(published: Sequence[Manifest]) -> bool:
    """Whether of private releases only the epsilons count together, and not the rhos that some declared."""
    return _of_two_proofs(map(cost_of_a_window, published), published) == (True, False)


def _of_two_proofs(costs: Iterable[Cost], published: Iterable[Manifest]) -> tuple[bool, bool]:
    """Whether costs have two kinds of proof, and whether rhos count even so, since all have declared that."""
    mixed = len({cost.adds_up for cost in costs}) > 1
    return mixed, mixed and all(_declared(each).accounting in BY_RHO for each in published)


def _by_release(published: Iterable[tuple[Manifest, Windows]]) -> list[tuple[Manifest, Windows]]:
    releases: dict[tuple[str | None, str | None], tuple[Manifest, list[Windows]]] = {}
    for manifest, own in published:
        windows = own if manifest.to_date is None else Windows.at(manifest.paid_for())
        releases.setdefault((manifest.release_id, manifest.key_id), (manifest, []))[1].append(windows)
    return [(manifest, Windows.union(each)) for manifest, each in releases.values()]


def rankings_of_a_user(published: Sequence[Manifest]) -> int | None:
    """How many rankings one user may have changed, of all that is here; None of windows to date.

    Args:
        published: private releases with the same privacy unit, with those that were corrected.
    """
    if any(manifest.to_date is not None for manifest in published):
        return None
    parts = _by_release((manifest, Windows.at(manifest.bounds())) for manifest in published)
    return sum(
        _charge(manifest, windows).reached() * (manifest.groups.rankings_of_a_user if manifest.groups else 1)
        for manifest, windows in parts
    )


def _facts(cost: Cost) -> tuple[float | bool, ...]:
    """All by which a declared total may have been composed. Shares differ in the last bits of their floats."""
    return (*(_rounded(each) for each in (cost.epsilon, cost.delta, cost.rho, cost.zcdp_delta)), cost.gdp)


def _corrected(parts: Sequence[tuple[Manifest, Windows]]) -> list[Charge]:
    """The charges of publications that were corrected, unless they are among the parts themselves."""
    shown, found = {manifest.release_id for manifest, _ in parts}, dict[str, tuple[Cost, list[Windows]]]()
    for manifest, windows in parts:
        for each in manifest.corrects:
            if each.release_id not in shown:
                found.setdefault(each.release_id, (cost_of_publication(each), []))[1].append(windows)
    return [Charge(Windows.union(windows), cost) for cost, windows in found.values()]


def not_corrected(published: Sequence[Manifest]) -> list[Manifest]:
    """All but what a correction among them corrects. What that has cost stands in the correction's manifest, as that of
    the same release under another key does in its own (`with_charged`).
    """
    corrected = {one.release_id for each in published for one in each.corrects if one.release_id != each.release_id}
    return [manifest for manifest in published if manifest.release_id not in corrected]


def series_of(published: Iterable[Manifest], also: Iterable[Entry] = ()) -> Manifest:
    """The manifest of a series: what all have, the windows of all, and what these promise together. What was asked
    otherwise before is told as the newest has it; what else differs, such as ids, is left out.

    Args:
        published: with those that were corrected.
        also: as for `promised`.
    """
    published, also = sorted(published, key=first_start), list(also)
    manifests = not_corrected(published)
    first, windows = manifests[-1], tuple(window for each in manifests for window in each.windows)
    asked = {each.name for each in msgspec.structs.fields(SeriesFacts)} | {"groups", "horizon"}
    names = {each.name for each in msgspec.structs.fields(Manifest)} - asked
    differing = {name for name in names if any(getattr(each, name) != getattr(first, name) for each in manifests)}
    facts: dict[str, Any] = dict.fromkeys(differing) | {"windows": windows}
    costs = [*map(cost_of_a_window, manifests if first.private else ()), *(each.cost for each in also)]
    if len({_facts(cost) for cost in costs}) == 1:  # but for last bits
        facts["zcdp_of_a_window"] = first.zcdp_of_a_window
    shown = {each.release_id for each in manifests}
    by_key: dict[str | None, float] = {}
    for each in published:  # a hash is shared, or not, anew under every key
        by_key[each.key_id] = max(by_key.get(each.key_id, 0), each.delta_of_a_shared_hash or 0)
    facts["delta_of_a_shared_hash"] = sum(by_key.values()) or None
    facts["corrects"] = tuple(
        dict.fromkeys(one for each in manifests for one in each.corrects if one.release_id not in shown)
    )
    facts["corrects"] += tuple(Publication.of(each.release_id, each.cost) for each in _repeats(published, also))
    if first.privacy is not None:
        facts["privacy"], facts["all_windows"] = promise_of(manifests[::-1], also)
    return msgspec.structs.replace(first, **facts)


def charged_too(charges: Iterable[Entry], here: Iterable[Manifest]) -> list[Entry]:
    """What else a ledger has charged of the reports of these, such as what is lost, or was messages, or another answer
    of the same release. A key that is not known here is any.
    """
    charges, here = list(charges), list(here)
    of_each = charges_of(here, charges)
    shown = {(str(each.release_id), each.key_id) for each in here}
    names = {series_name(name) for name, _ in shown}
    lacking = {_ids(each) for each, charge in of_each if charge is None}
    paying = {id(charge) for each, charge in of_each if _ids(each) not in lacking}
    of_these = (each for each in charges if series_name(each.release_id) in names)
    return [each for each in of_these if (each.release_id, None) not in shown and id(each) not in paying]


def windows_charged_too(charged: Iterable[tuple[Manifest, Entry | None]]) -> list[Entry]:
    """The charges, each with those of its windows that no manifest here counts, though others of its release do.

    A total of all windows counts each of them once anyhow, so of that only what was corrected or corrects is one.
    """
    charged = [(each, charge) for each, charge in charged if charge is not None and each.to_date is None]
    counted, of_corrections, found = defaultdict[str | None, list[Any]](list), set[str | None](), list[Entry]()
    for each in not_corrected([each for each, _ in charged]):
        names = {each.release_id, *(one.release_id for one in each.corrects)}
        of_corrections |= names if each.corrects else set()
        for name in names:
            counted[name] += each.bounds()
    for charge in {id(charge): charge for _, charge in charged if charge is not None}.values():
        name = charge.release_id
        if name not in counted or charge.unit == "user" and name not in of_corrections:
            continue
        if (left := charge.windows.without(Windows.at(counted[name]))) is not None:
            bound = charge.windows_of_a_user
            found.append(replace(charge, windows=left, windows_of_a_user=bound and min(bound, left.number)))
    return found


def _untold(published: Iterable[Manifest], also: Iterable[Entry]) -> list[Entry]:
    """The charges that no correction among the published tells of: of a release that two keys have drawn it tells of
    one, of none whose windows it has not, and of none here if that is published itself.
    """
    published, found = list(published), []
    told = {one.release_id: each.paid_for() for each in published for one in each.corrects}
    for each in published:
        told.pop(str(each.release_id), None)
    for charge in sorted(also, key=lambda charge: charge.cost.rho):
        windows = told.get(charge.release_id)
        if windows is not None and _share(Windows.at(windows), charge.windows):
            del told[charge.release_id]
        else:
            found.append(charge)
    return found


def _repeats(published: Sequence[Manifest], also: Iterable[Entry]) -> list[Entry]:
    """The charges that no correction tells of, for windows that are among the published or were charged before."""
    known, found = Windows.at(bounds for each in published for bounds in each.paid_for()), []
    for charge in _untold(published, also):
        found += [charge] * _share(known, charge.windows)
        known = Windows.union([known, charge.windows])
    return found


def charged_again(published: Iterable[Manifest], also: Iterable[Entry]) -> dict[datetime | None, int]:
    """How often windows were charged of which no manifest is here, by their first moments, where more than once."""
    known = {bounds for each in published for bounds in each.paid_for()}
    times = Counter(bounds for each in also for bounds in each.windows.moments() if bounds not in known)
    return {start: many for (start, _), many in times.items() if many > 1}


def _share(some: Windows, others: Windows) -> bool:
    return Windows.union([some, others]).number < some.number + others.number


def with_charged(published: Sequence[Manifest], also: Iterable[Entry]) -> list[Manifest]:
    """The manifests, where each that is shown corrects all that was charged of a window of it, for words about it."""
    again, shown, found = _repeats(published, also), not_corrected(published), []
    for manifest in published:
        own = Windows.at(manifest.bounds())
        more = [each for each in again if manifest in shown and _share(own, each.windows)]
        told = (*manifest.corrects, *(Publication.of(each.release_id, each.cost) for each in more))
        found.append(msgspec.structs.replace(manifest, corrects=told))
    return found


def named(charges: Sequence[Entry], more: str) -> Iterator[str]:
    """The sentence that names some of these and says more; nothing for none."""
    if charges:
        yield f"The ledger has charged {some(list(dict.fromkeys(each.release_id for each in charges)))} too{more}."


def charged_otherwise(published: Manifest, charged: Cost) -> bool:
    """Whether a manifest states another cost of a window than a ledger has charged, by any reading of it, or none."""
    return not published.private or not any(
        all(_is_one(getattr(cost, name), getattr(charged, name)) for name in _ADDED)
        for cost in cost_of_a_window(published).readings()
    )


def one_cost_of_each(known: Iterable[tuple[str, Cost]]) -> dict[str, Cost]:
    """The cost of a window of each release, but of one that two keys have drawn at two costs."""
    costs = dict[str, dict[tuple[float | bool, ...], Cost]]()
    for release_id, cost in known:
        costs.setdefault(release_id, {})[_facts(cost)] = cost
    return {name: cost for name, found in costs.items() if len(found) == 1 for cost in found.values()}


def as_corrected(published: Manifest, costs: Mapping[str, Cost]) -> Manifest:
    """The manifest, with the larger of two costs of what it corrects where more is known than it states.

    Args:
        costs: `one_cost_of_each`, as their own manifests or a ledger have it.
    """
    found = list[Publication]()
    for each in published.corrects:
        there, known = cost_of_publication(each), costs.get(each.release_id)
        if known is not None and any(getattr(known, name) > ROUNDED * getattr(there, name) for name in _ADDED):
            each = Publication.of(each.release_id, largest_sums([[(1, there)], [(1, known)]]))
        found.append(each)
    return msgspec.structs.replace(published, corrects=tuple(found))


def charges_of(published: Iterable[Manifest], charges: Sequence[Entry]) -> list[tuple[Manifest, Entry | None]]:
    """Each manifest with the first charge that pays for it, if one does. Whoever charges a release names the dataset in
    its manifest: where that names none, only the charge of its adoption is of this answer.
    """
    held = dict[Any, Entry]()
    for each in reversed(charges):
        for dataset in {each.dataset, None if each.outcome == ADOPTED else each.dataset}:
            held[(each.release_id, each.key_id), dataset] = each
    return [(each, held.get((_ids(each), each.dataset))) for each in published]


def _ids(published: Manifest) -> tuple[str, str]:
    return str(published.release_id), str(published.key_id)


def of_same_ids(published: Iterable[Manifest], charges: Iterable[Entry]) -> list[Entry]:
    """The charges under the release ids and keys of manifests, whether or not they pay for these answers."""
    ids = set(map(_ids, published))
    return [each for each in charges if (each.release_id, each.key_id) in ids]


def as_charged(published: Manifest, charge: Entry | None) -> Manifest:
    """The manifest, at the larger of two costs or horizons where a ledger has charged another than it states."""
    if charge is None or not published.private:
        return published
    declared, (horizon, _) = _declared(published), _horizon(charge)
    if declared.of_all_windows and isinstance(horizon, int) and horizon > (declared.windows or 1):
        declared = msgspec.structs.replace(declared, windows=horizon)
        published = msgspec.structs.replace(published, privacy=declared)
    if not charged_otherwise(published, charge.cost):
        return published
    larger = largest_sums([[(1, cost_of_a_window(published))], [(1, charge.cost)]])
    share, rankings = declared.share_of_a_window, declared.rankings_of_a_user_in_a_window or 1
    facts: dict[str, Any] = {name: stated(getattr(larger, name) / rankings) for name in ("epsilon", "delta")}
    if share is not None:
        facts = {"share_of_a_window": msgspec.structs.replace(share, **facts)}
    facts |= {"guarantee": "approximate" if larger.delta else declared.guarantee}
    privacy = msgspec.structs.replace(declared, **facts)
    return msgspec.structs.replace(published, privacy=privacy, zcdp_of_a_window=Zcdp.of(larger))


def _is_one(some: Fraction, other: Fraction) -> bool:
    return max(some, other) <= min(some, other) * ROUNDED


def disputed(charged: Iterable[tuple[Manifest, Entry | None]]) -> list[str]:
    """The sentences on published releases that a ledger has charged otherwise than their manifests state."""
    found: dict[str, dict[str, None]] = {}
    for published, charge in charged:
        if charge is not None:
            costs = ["costs"] * charged_otherwise(published, charge.cost)
            for names, why in (
                (costs, f"{_CHANGED} the larger"),
                (_asked_otherwise(published, charge), f"{_CHANGED} by the manifest: compare it with a copy"),
                (_named_since(published, charge), "a repeat of the pipeline has named it, or the manifest was changed"),
            ):
                if names:
                    told = f"other {', '.join(names)}: {why}."
                    found.setdefault(told, {})[str(published.release_id)] = None
    return [f"The manifest and the ledger's charge of {some([*each])} state {told}" for told, each in found.items()]


def _asked_otherwise(published: Manifest, charge: Entry) -> list[str]:
    """What a manifest states otherwise than a charge of all that its promise and accuracy rest on but the cost, as far
    as the ledger tells it: what was adopted tells little.
    """
    facts, privacy = published.to_json(), published.privacy
    if privacy is None:
        return []
    names = ("mechanism", "k", "max_items_per_user", "max_windows_per_user", "amounts", "domain", "groups")
    told = {**facts["parameters"], **{name: facts.get(name) for name in names}}
    told |= {"neighbours": privacy.neighbours, "publish_counts": privacy.counts or None}
    told["privacy_unit"] = "user" if privacy.of_all_windows else "user-window"
    columns = {"user": None} | (facts.get("columns") or {})  # the time of a pipeline's rows is in none
    told |= {f"{role} column": columns[role] for role in _OF_ROWS if role in columns}
    told["horizon"] = [privacy.windows or 1 if privacy.of_all_windows else None, facts.get("horizon")]
    row = {"mechanism": charge.mechanism, "k": charge.k, "neighbours": charge.neighbours, "privacy_unit": charge.unit}
    row |= {f"{role} column": charge.rows.get(f"{role}_column") for role in _OF_ROWS}
    if charge.outcome == ADOPTED:  # of the unit that the budget has
        del row["privacy_unit"]
    held = json.loads(charge.question or "{}") | {name: value for name, value in row.items() if value is not None}
    if "draws" in held:  # a question of rankings: what it leaves out was not asked
        held = dict.fromkeys(names) | held
    if (day := published.released) and charge.outcome != ADOPTED:
        if day < f"{moment(charge.charged) - timedelta(days=1):%Y-%m-%d}":  # its clock may be another
            told["released"], held["released"] = day, charge.charged[:10]
    held.pop("horizon", None)  # of a request of one's own, which may note anything
    if isinstance(held.get("asked"), dict):
        held["horizon"] = [*_horizon(charge)]
    return [_differing(name, held[name], now) for name, now in told.items() if _differ(held.get(name, now), now)]


def _named_since(published: Manifest, charge: Entry) -> list[str]:
    """The column of users that a manifest names and a charge does not, of those that note all that is asked."""
    user = (published.columns or {}).get("user")
    told = user is None or "user_column" in charge.rows or "draws" not in json.loads(charge.question or "{}")
    return [] if told else [f"user column ({user}, charged none)"]


def _horizon(charge: Entry) -> tuple[int | None, Any]:
    """How many windows share the total of a charge, and their two ends, as far as it notes them."""
    asked = json.loads(charge.question or "{}").get("asked")
    noted = asked if isinstance(asked, dict) else {}  # a request of one's own may note anything
    return noted.get("horizon") if charge.unit == "user" else None, noted.get(HORIZON)


def _differ(was: Any, now: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a fact differs; of one with parts, any that the ledger holds: others follow from these."""
    if isinstance(was, dict) and isinstance(now, dict):
        return any(_differ(value, now.get(name)) for name, value in was.items())
    return bool(was != now)


def _differing(name: str, was: Any, now: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(was, dict | list) or isinstance(now, dict | list):
        return name
    now, was = ("none" if value is None else value for value in (now, was))
    return f"{name} ({now}, charged {was})"


def apart(lacking: Sequence[str], datasets: Sequence[str]) -> Iterator[str]:
    """The sentences on published releases that a ledger has not charged, or has charged to several datasets."""
    if lacking:
        yield (
            f"The ledger has not charged {some(lacking)}: these numbers count that by its manifest, and the budget "
            "does not, until `private-topk budget adopt` charges it. What was not charged and is lost counts nowhere."
        )
    if len(datasets) > 1:
        yield f"The releases here were charged to datasets {', '.join(datasets)}: none of their budgets counts all."


def first_start(manifest: Manifest) -> tuple[bool, Any]:
    return min(((window.start is not None, window.start) for window in manifest.windows), default=(False, None))


def promise_of(manifests: Iterable[Manifest], also: Iterable[Entry] = ()) -> tuple[PrivacyFacts, BudgetFacts | None]:
    """`promised`, of the windows that manifests list."""
    return promised(((manifest, Windows.at(manifest.bounds())) for manifest in manifests), also)


def _declared(manifest: Manifest) -> PrivacyFacts:
    assert manifest.privacy is not None
    return manifest.privacy


def _covered(manifest: Manifest) -> int:
    """How many windows a unit may be in that the declared budget protects."""
    declared = _declared(manifest)
    return declared.windows_of_a_user or declared.windows or 1


def covers(manifest: Manifest, ranged: Fraction | None = None) -> bool:
    """Whether a declared total is no less than its windows come to, as its accounting adds up their costs.

    Args:
        ranged: the bounded range of a ranking; None if only its epsilon is known, which is no more.
    """
    declared, spent = _declared(manifest), _covered(manifest) * cost_of_a_window(manifest)
    epsilon, delta = ROUNDED * _decimal(declared.epsilon), ROUNDED * _decimal(declared.delta)
    draws, accounting = _covered(manifest) * (declared.rankings_of_a_user_in_a_window or 1), declared.accounting
    if declared.windows is None:
        return True
    if accounting == "optimal":
        return _is_optimal(draws, spent.epsilon / draws, epsilon, delta - spent.delta)
    if accounting == "bounded-range":
        rest = delta - spent.delta
        return rest > 0 and at_most(bounded_range_epsilon(draws, ranged or spent.epsilon / draws, rest), epsilon)
    if accounting not in BY_RHO:
        return spent.epsilon <= epsilon and spent.delta <= delta
    if accounting == "gaussian" and not spent.gdp:
        return False
    within = gaussian_epsilon if accounting == "gaussian" else epsilon_within
    return spent.zcdp_delta < delta and within(spent.rho, delta - spent.zcdp_delta) <= epsilon


@lru_cache(maxsize=256)
def _is_optimal(draws: int, share: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether so many draws, each share-DP, are (epsilon, delta)-DP together."""
    return draws <= MAX_WINDOWS_OF_OPTIMAL and at_most(optimal_delta(epsilon, share, draws), delta)


def _with_the_rest(unit: str, charges: Sequence[Charge], once: Charge, covered: int) -> tuple[Cost, int]:
    """What a unit has spent and will have at most, and in how many windows, each as often as it is published.

    Args:
        once: every window of the charges once, at the price of one that is still to come.
        covered: how many windows a unit is in when all have come.
    """
    spent = [[*each, (max(covered - seen, 0), cost)] for *each, (seen, cost) in units(unit, [*charges, once])]
    return largest_sums(spent), max(sum(number for number, _ in each) for each in spent)


def _bound(manifest: Manifest, windows: Windows) -> int | None:
    bound = _declared(manifest).windows_of_a_user
    return None if bound is None else min(bound, windows.number)


def _charge(manifest: Manifest, windows: Windows) -> Charge:
    return Charge(windows, cost_of_a_window(manifest), _bound(manifest, windows))


def cost_of_a_window(manifest: Manifest) -> Cost:
    """The cost of a private release for a user who is in one of its windows."""
    declared = _declared(manifest)
    share, rankings = declared.share_of_a_window or declared, declared.rankings_of_a_user_in_a_window or 1
    return _cost(share, manifest.zcdp_of_a_window, rankings)


def cost_of_publication(corrected: Publication) -> Cost:
    """The cost of what a manifest corrects for a user who is in one of its windows."""
    return _cost(corrected, corrected.zcdp)


def _cost(budget: BudgetFacts | Publication, zcdp: Zcdp | None, rankings: int = 1) -> Cost:
    """What is proved of a window by the numbers that state it, each for so many rankings, and as zCDP for all."""
    cost = rankings * Cost(_decimal(budget.epsilon), _decimal(budget.delta))
    if zcdp is None:
        return cost
    delta, tail = cost.delta, _decimal(zcdp.delta)
    if _to_last_bits(delta) == _to_last_bits(tail):  # one event, whose probability was rounded twice
        delta = tail = max(delta, tail)
    return Cost(cost.epsilon, delta, _decimal(zcdp.rho), tail, gdp=zcdp.gdp)


def _decimal(value: float) -> Fraction:
    return Fraction(str(value))


def _restated(
    declared: PrivacyFacts, spent: Cost, delta: Fraction, windows: int, reached: int, by_rho: bool
) -> PrivacyFacts:
    """The promise of a unit that is in more windows than its budget was declared for. A pure one stays pure: whoever
    declared no delta gets none.
    """
    pure = declared.guarantee == "pure" and not spent.delta
    epsilon, delta = (spent.epsilon, spent.delta) if pure else over_windows(spent, delta, added=not by_rho)
    spare = _decimal(declared.delta) - spent.zcdp_delta
    if 0 < spare < delta - spent.zcdp_delta:  # at the declared delta, where the rankings' own leave some of it
        within = over_windows(spent, spare, added=not by_rho, least=spare)
        epsilon, delta = within if within[1] < delta else (epsilon, delta)
    facts: dict[str, Any] = {"epsilon": _rounded(epsilon), "delta": _rounded(delta)}
    facts |= {"guarantee": "pure" if pure else "approximate"}
    if declared.windows is not None:
        facts |= {"windows": windows if declared.of_all_windows else reached}
        composed = "gaussian" if spent.gdp else "zcdp"
        facts |= {"accounting": "basic" if (epsilon, delta) == (spent.epsilon, spent.delta) else composed}
    if declared.windows_of_a_user is not None:
        facts |= {"windows_of_a_user": reached}
    return msgspec.structs.replace(declared, **facts)


def _rounded(value: Fraction) -> float:
    """A number rounded up to six digits, but for the last bits that shares gained as they were written as floats."""
    return float(number(_to_last_bits(value)))


def _to_last_bits(value: Fraction) -> float:
    return float(f"{float(value):.14g}")
