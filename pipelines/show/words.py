"""A published report in words: its rankings on a terminal, what they promise and how to read them.

Every sentence has to be true of every ranking that it is shown for, so nothing is stated that a manifest does not say.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from private_topk.pipelines.budget.composition import UNITS
from private_topk.pipelines.release.formats import as_text
from private_topk.pipelines.release.manifest import (
    MANIFEST,
    BudgetFacts,
    ListedItems,
    Manifest,
    PrivacyFacts,
    RankedGroups,
    Weights,
    Zcdp,
)
from private_topk.pipelines.release.promise import not_corrected, of_epsilons
from private_topk.pipelines.show import noise
from private_topk.pipelines.show.published import PublishedReport, day_of, of_kept_rows, when
from private_topk.transforms.errors import printable
from private_topk.transforms.mechanisms.parameters import LARGE_DELTA, TAKE_DELTA
from private_topk.transforms.stated import number

_WEAK = math.log(100)
_WIDTH = 100
NOT_PRIVATE = (
    "This ranking is not private. It was made for a test, without noise or with noise that anybody can "
    "take off, and must not be passed on."
)
_OF_EPSILONS = ". Not all here declared zCDP: each counts by its epsilon, an upper bound, and a ledger may tell less"
NO_RANKING = "No ranking is here: what was published was taken away or is lost, and counts all the same."
_NO_MANIFEST = "There is no manifest beside this ranking, so nothing can be said of what it promises."


def in_words(report: PublishedReport) -> list[str]:
    """The guarantee as sentences; or that there is none, or that no manifest tells it."""
    if not report.is_private:
        return [NOT_PRIVATE]
    manifest = report.manifest
    if manifest is None:
        return [_NO_MANIFEST]
    if manifest.privacy is None:
        return []
    privacy, windows = manifest.privacy, len(manifest.bounds())
    reach = _reach(privacy, manifest) if manifest.to_date is None else "in the whole period"
    sentences = [f"{_change(privacy, reach)} {_bound(privacy)}", who_counts(manifest)]
    sentences += corrections_of(report)
    sentences += [*not_counted(report), *declared_horizon(report), *what_is_lost(report)]
    sentences += what_was_adopted(report)
    if report.charged:
        many = len(report.charged)
        more = "one more publication" if many == 1 else f"{many:,} more publications"
        sentences.append(f"These numbers also count {more} that a ledger has charged, and that is not shown.")
    sentences += report.disputed
    if everything := manifest.all_windows:
        several = "windows" if report.charged else f"of the {windows} windows"
        sentences.append(
            f"For a person who is active in several {several}, the budgets add up: a person in all of them is "
            f"protected by {in_numbers(everything)}."
        )
    sentences += weak_promise(privacy, manifest.all_windows)
    if manifest.delta_of_a_shared_hash:
        each = number(manifest.delta_of_a_shared_hash)
        sentences.append(f"Two people may share a hash and count as one: every other person adds {each} to delta.")
    sentences.append(
        "Windows, parameters and the list of items, if there is one, are public and not protected. Whatever else is "
        "published of the same people adds to these numbers."
    )
    return [*sentences, *report.limits]


def weak_promise(privacy: BudgetFacts, everything: BudgetFacts | None = None) -> list[str]:
    """That a promise is a weak one, where it is.

    Args:
        everything: of a person who is in all windows, where each has a budget of its own.
    """
    weak, told = "is a weak promise, a factor above 100", list[str]()
    if privacy.epsilon > _WEAK:
        more = "people who already know much may learn much from what is published."
        told.append(f"Epsilon {number(privacy.epsilon)} {weak}: {more}")
    elif everything is not None and everything.epsilon > _WEAK:
        delta = f" at delta {number(everything.delta)}" if everything.delta else ""
        of_all = f"Epsilon {number(everything.epsilon)}{delta}, for a person who is in all windows,"
        told.append(f"{of_all} {weak}: the privacy unit `user` has one total for all of them.")
    if privacy.delta > LARGE_DELTA:
        told.append(f"Delta {number(privacy.delta)} is a large delta: {TAKE_DELTA}.")
    return told


def corrections_of(report: PublishedReport) -> list[str]:
    """Which windows were published more than once, or charged, where a ledger tells of what is not here."""
    manifest = report.manifest
    corrected = (
        [] if manifest is None else [each for each in not_corrected(report.parts or [manifest]) if each.corrects]
    )
    if not corrected and not report.charged_again:
        return []
    here = [(start, f"{len(each.corrects) + 1} times") for each in corrected for start, _ in sorted(each.bounds())]
    gone = [(start, f"{times} times, and nothing of it is here") for start, times in report.charged_again.items()]
    starts = sorted(here + gone, key=lambda each: (each[0] is not None, each[0]))
    hours = any(listing.hours for listing in report.listings())
    named = [f"{day_of(start, report.zone, hours) if start else 'all rows'} ({times})" for start, times in starts]
    what = "ranking of" if None in dict(starts) else "window of" if len(named) == 1 else "windows of"
    once, shown = ("Charged", "The last that is here") if report.charged else ("Published", "The last")
    counted = f"{shown} is shown, and all" if here else "All"
    return [f"{once} more than once: the {what} {', '.join(named)}. {counted} of these are counted."]


def not_counted(report: PublishedReport) -> list[str]:
    """What the numbers of a promise may leave out, since it is not shown."""
    manifest = report.manifest
    privacy = None if manifest is None else manifest.privacy
    if manifest is None or privacy is None:
        return []
    several = privacy.of_all_windows
    correction = "a correction that is still to come"
    own = any(each.runner is None for each in report.parts)  # a pipeline's, whose corrections have any id
    if report.charged is None or report.adopted:
        correction = "a correction or a lost period that is not shown"
    elif own:
        correction += ", or that is lost and has an id that begins otherwise,"
    charged = "as the ledger has charged it or else " if report.charged else ""
    if several and len(manifest.bounds()) < (privacy.windows or 1):
        return [
            f"All that is shown here counts, and each other one of the {privacy.windows} windows once, {charged}asked "
            f"as the newest here: {correction} adds to these numbers, and so does a larger budget or another horizon."
        ]
    if (
        several
        and manifest.horizon is None
        and len(manifest.bounds())
        > max((each.privacy.windows or 1 for each in report.parts if each.privacy), default=10**9)
    ):
        return [
            "More windows are shown than one total was declared for: all of them count, and each window that is still "
            f"to come adds to these numbers, and so does {correction}."
        ]
    if manifest.to_date is None and (own or any("/" in str(each.release_id) for each in report.parts)):  # report file
        more = ", and what else of it the ledger has charged" * bool(report.charged)
        return [f"All that is shown here counts{more}: {correction} adds to these numbers."]
    return []


def declared_horizon(report: PublishedReport) -> list[str]:
    """From when to when the promise of all windows reaches, where that is declared."""
    manifest = report.manifest
    if manifest is None or manifest.horizon is None or manifest.privacy is None or not manifest.privacy.of_all_windows:
        return []
    declared = when(manifest.horizon.start, manifest.horizon.end, report.zone)
    return [f"The horizon, as the newest here declares it, is {declared}."]


def not_shown(report: PublishedReport) -> Iterator[str]:
    """That a folder lacks earlier periods of its horizon, and which dataset may have been charged for them."""
    manifest = report.manifest
    if manifest is None or manifest.horizon is None:
        return
    datasets = dict.fromkeys(filter(None, (each.dataset for each in report.parts or [manifest])))
    until = manifest.horizon.start
    for start, end in sorted(manifest.bounds()):
        if datasets and start is not None and start > until:
            lacking = when(until, start, report.zone)
            told = f"Of the horizon {lacking} is not shown here: if dataset {', '.join(datasets)},"
            yield f"{told} which the manifests name, was charged for it, `--ledger` counts that."
            return
        until = max(until, end or until)


def what_is_lost(report: PublishedReport) -> list[str]:
    """Which manifests have no ranking beside them, and which rankings no manifest."""
    unknown = "its cost may be missing from these numbers"
    if report.charged:
        unknown = "counts in these numbers only as the ledger has charged it"
    told = (
        ("ranking", "was withdrawn or is lost, and counts in these numbers."),
        ("manifest", f"is not shown, and {unknown}. Bring the manifest back from a copy."),
    )
    sentences = []
    for lost, cost in told:
        names = [printable(name) for name in report.lost if name.endswith(MANIFEST) == (lost == "ranking")]
        beside = f"has no {lost} beside it" if len(names) == 1 else f"have no {lost}s beside them"
        sentences += [f"{', '.join(names)} {beside}: what was published there {cost}"] * bool(names)
    return sentences


def what_was_adopted(report: PublishedReport) -> list[str]:
    """Which charges a ledger has adopted, beside which others may be missing."""
    return [f"In the ledger {report.adopted}"] * bool(report.adopted)


def in_numbers(budget: BudgetFacts) -> str:
    """A budget; without a delta where it is pure."""
    delta = f" and delta {number(budget.delta)}" if budget.delta else ""
    return f"epsilon {number(budget.epsilon)}{delta}"


def in_rho(zcdp: Zcdp, rankings: int = 1) -> str:
    """What each of so many rankings that cost this together costs as zCDP."""
    delta = f" but for a delta of {number(zcdp.delta / rankings)}" if zcdp.delta else ""
    return f"rho {number(zcdp.rho / rankings)} (zCDP){delta}"


def _reach(privacy: PrivacyFacts, manifest: Manifest) -> str:
    if all(window.start is None for window in manifest.windows):
        return "in the data"
    if not privacy.of_all_windows:
        return "within one window"
    return "in the one window" if privacy.windows == 1 else f"in all {privacy.windows} windows together"


def _change(privacy: PrivacyFacts, reach: str) -> str:
    if privacy.neighbours == "replace-one":
        return f"If any one person had done something else {reach}, the same ranking could have come out:"
    return (
        f"If the rows of any one person {reach} had been missing, or if one more person had been there, the same "
        "ranking could have come out:"
    )


def _bound(privacy: PrivacyFacts) -> str:
    outcome = "set of outcomes" if privacy.delta else "outcome"
    more = f", but for an added probability of at most {number(privacy.delta)}" if privacy.delta else ""
    cases = (
        "in one case as in the other" if privacy.neighbours == "replace-one" else "with them as without, or the reverse"
    )
    return f"no {outcome} is more than {_factor(privacy.epsilon)} times as likely {cases}{more}."


def _factor(epsilon: float) -> str:
    if epsilon > 13:
        return f"e^{number(epsilon)}"
    value = math.exp(epsilon)
    digits = 3 if value < 1.1 else 2 if value < 10 else 0
    # Rounded up: a promise that is stated must not be better than the one that is kept.
    return f"{math.ceil(value * 10**digits) / 10**digits:,.{digits}f}"


def who_counts(manifest: Manifest) -> str:
    """Who is one person, and what of each was counted."""
    who = "A person is one value of the user column: somebody with two accounts is protected as two people."
    return " ".join(filter(None, [who, what_counts(manifest)]))


def what_counts(manifest: Manifest) -> str:
    """What of a person was counted, where that was bounded."""
    limit = manifest.max_items_per_user
    series = manifest.to_date is not None
    most = ""
    if limit is not None:
        many, were = ("One item", "was") if limit == 1 else (f"At most {limit:,} items", "were")
        whole = series or all(window.start is None for window in manifest.windows)
        of_each = f"of each person{'' if whole else ' and window'}"
        most = f"{many} {of_each} {were} counted{', the first ones in the period' if series else ''}."
    windows = manifest.max_windows_per_user
    of_windows = f"Each counted in at most {windows:,} of the windows." if windows else ""
    groups = manifest.groups
    place = ", the first ones in the period" if series else " of a window"
    overall = ", and in the ranking of all rows" if groups and groups.overall else ""
    of_groups = f"Each counted in at most {groups.per_user:,} of the groups{place}{overall}." if groups else ""
    return " ".join(filter(None, [most, of_groups, of_windows]))


def in_symbols(manifest: Manifest | None) -> str:
    """The inequality of the guarantee, or nothing if there is no manifest."""
    if manifest is None or manifest.privacy is None:
        return ""
    how = change_of(manifest.privacy)
    (first, unit), *more = _budgets(manifest)
    said = f"{_inequality(first)} for every set S of rankings and all D, D′ that differ by {how} {unit}"
    return said + "".join(f"; {_inequality(budget)} if they differ by {how} {rows}" for budget, rows in more)


def as_a_guess(manifest: Manifest) -> str:
    """How well anybody can tell two equally likely neighbours apart."""
    told = [f"{guessed(budget)} where they differ by {rows}" for budget, rows in _budgets(manifest)]
    guess = "Whoever thinks two data sets equally likely, and guesses from the rankings which one it was, is right"
    return f"{guess} {', '.join(told)}; without them, 50%"


def guessed(budget: BudgetFacts) -> str:
    """How often such a guess is right: with at most (e^epsilon + delta) / (e^epsilon + 1), as the two inequalities of
    the guarantee give (Kairouz, Oh & Viswanath 2015).
    """
    right = math.ceil(1000 * (1 - (1 - budget.delta) / (1 + math.exp(min(budget.epsilon, 700))))) / 10
    return f"at most {right}% of the time" if right < 100 else "perhaps nearly always"


def change_of(privacy: PrivacyFacts) -> str:
    """What is done with one unit of a dataset to get a neighbour."""
    return "replacing" if privacy.neighbours == "replace-one" else "adding or removing"


def _budgets(manifest: Manifest) -> Iterator[tuple[BudgetFacts, str]]:
    """Every budget of the promise, with the rows that it protects."""
    if manifest.privacy is not None:
        yield manifest.privacy, manifest.privacy.unit
    if manifest.all_windows is not None:
        yield manifest.all_windows, UNITS["user"]


def _inequality(budget: BudgetFacts) -> str:
    delta = f" + {number(budget.delta)}" if budget.delta else ""
    return f"P(A(D) ∈ S) ≤ e^{number(budget.epsilon)} · P(A(D′) ∈ S){delta}"


def how_to_read(report: PublishedReport) -> list[str]:
    """Sentences on what places and counts mean, and what they do not."""
    manifest, listings = report.manifest, report.listings()
    several = len({(listing.start, listing.end) for listing in listings}) > 1
    series = manifest is not None and manifest.to_date is not None
    drawn = manifest is not None and manifest.private  # of others nobody knows whether there is any noise
    far, counted = of_places(report), drawn and any(listing.counted for listing in listings)
    count, enough = listings[0].counts if listings else "count", noise.enough(_drawn(report))
    added = "weight" if manifest and _weights_of(manifest) else count
    sentences = {
        what_is_ranked(manifest): manifest is not None,
        "This ranking is a set: the items stand in the order of the public list, or in alphabetical order, and not "
        "in order of rank.": manifest is not None and manifest.answer == "set",
        f"Items were drawn with noise{f': {far}' if far else ''}. Items that are close in truth may have changed "
        "places, and items from below the last place may stand for others.": drawn,
        "The items alone do not show how much of a ranking is noise: where few people are in the data, or epsilon is "
        f"small, it may be all noise. {enough and f'{enough.capitalize()}. '}An empty window has a ranking too.": drawn
        and not counted,
        "Every window begins with the period, and most of its noise is that of the window before: an item that "
        "stands too high in one window may do so in all that follow.": drawn and several and series,
        "Noise is drawn anew in every window: an item that moves by a place or two from one window to the next may not "
        "have moved at all.": drawn and several and not series,
        of_kept_rows(added): not counted and any(report.leaves_rows_out(group) for group in report.by_group()),
        f"{count.capitalize()}s have noise of their own and may be below zero. Where a range is shown, the {count} "
        f"without noise lies in it with a probability of at least 95%, for {_of_which(manifest)}. "
        f"{count.capitalize()}s of one ranking may have much of their noise in common, which sums and averages of them "
        "keep.": counted,
        "A noisy weight is what an item is ranked by, with noise whose standard deviation is "
        f"{_of_weights(manifest)}.": any(listing.weighed for listing in listings),
        f"Where an order is certain, no item below has a larger {count} without noise, with 95% confidence for all "
        f"items of a ranking together. That follows from the differences of {count}s: ranges of two may overlap.": any(
            listing.certainty for listing in listings
        ),
    }
    changes = (f"{each}." for each in changes_of(report))
    return [*(sentence for sentence, applies in sentences.items() if applies), *changes, *why_short(report)]


def _of_weights(manifest: Manifest | None) -> str:
    stddev = manifest and manifest.weights and manifest.weights.noise_stddev
    return number(stddev) if stddev else "not known"


def _of_which(manifest: Manifest | None) -> str:
    return "all items of a ranking together" if manifest and manifest.draws_counts else "each item by itself"


def ranges(noise: Iterable[float | None]) -> str:
    """The ranges of published counts, from the smallest to the largest; nothing where none is stated."""
    found = sorted({each for each in noise if each is not None})
    return " to ".join(f"{each:,}" for each in dict.fromkeys(found[:1] + found[-1:]))


def of_counts(manifest: Manifest) -> str:
    """How far published counts are from the true ones; nothing where none are, or that is not stated."""
    far = ranges(window.noise_95 for window in manifest.windows)
    return f"± {far} with a probability of at least 95%, for {_of_which(manifest)}" if far else ""


def of_draws(report: PublishedReport) -> str:
    """How far nearly all counts were moved by the noise of the draws, or nothing (`noise.of_draws`)."""
    return noise.of_draws(_drawn(report))


def _drawn(report: PublishedReport) -> list[Manifest]:
    manifest = report.manifest
    drawn = not_corrected(report.parts or ([manifest] if manifest else []))
    return [each for each in drawn if manifest is None or each.bounds() & manifest.bounds()]


def of_places(report: PublishedReport) -> str:
    """The same beside the ranking, where counts that are shown have noise of their own."""
    far = of_draws(report)
    shown = [listing.counts for listing in report.listings() if listing.counted]
    return f"{far} in the draw of places, which is not the noise of the {shown[0]}s shown" if far and shown else far


def changes_of(report: PublishedReport) -> list[str]:
    """Which windows of a series were asked otherwise than the newest, and how."""
    spans, hours = dict[str, list[str]](), any(listing.hours for listing in report.listings())
    begin: datetime | None = None
    starts = sorted({each.start for part in report.parts for each in part.windows if each.start})
    for start, _, what in report.changes:
        own = [each for each in starts if begin and start and begin <= each < start]
        ends = dict.fromkeys(day_of(each, report.zone, hours) for each in own[:1] + own[-1:])
        named = f"window{'s' * (len(own) > 1)} of {' to '.join(ends)}"
        before = f"windows before that{f' of {day_of(start, report.zone, hours)}' if start else ''}"
        if what:
            spans.setdefault(what, []).append(named if own else before)
        begin = start
    alone = {what for what, which in spans.items() if len(which) == 1 and which[0].startswith("window of ")}
    return [
        f"The {' and the '.join(which)} {'was' if what in alone else 'were'} asked otherwise: {what}"
        for what, which in spans.items()
    ]


def why_short(report: PublishedReport) -> list[str]:
    """Why a list has fewer items than were asked for, or none, and what helps; nothing where all are full."""
    listings = report.listings()
    if (listings or report.lost) and all(
        listing.rows and listing.rows[0]["returned"] >= listing.rows[0]["k"] for listing in listings
    ):
        return []
    lower = "" if report.manifest is not None and report.k is None else "a smaller k, "
    return [
        "A list is short, or empty, if too few people have the same items. Such items are not published, because "
        "they could reveal who has them. What helps: more people in a window or a group, a larger epsilon or delta, "
        f"{lower}or a public list of items."
    ]


def promise(manifest: Manifest | None) -> str:
    """The guarantee in a few words, or nothing."""
    return "" if manifest is None else "; ".join(f"{in_numbers(each)} for {rows}" for each, rows in _budgets(manifest))


def shared_by(manifest: Manifest) -> str:
    """How the budget adds up over windows, or nothing where each has its own."""
    privacy = manifest.privacy
    if privacy is None or privacy.windows is None:
        return ""
    bound, rankings = privacy.windows_of_a_user, privacy.rankings_of_a_user_in_a_window
    again = manifest.corrects and bound is None and not privacy.of_all_windows  # one window, whose rows came out again
    several = "publications of the same rows" if again else "windows"
    windows = "one window" if privacy.windows == 1 else f"{privacy.windows:,} {several}"
    among = "" if bound is None else f"{bound:,} of "
    each = "" if rankings is None else f"{rankings:,} rankings of {'each of ' if privacy.windows > 1 else ''}"
    more = f", and over {corrected}" if privacy.of_all_windows and (corrected := what_was_corrected(manifest)) else ""
    return f"{privacy.accounting} composition over {each}{among}{windows}{more}"


def what_was_corrected(manifest: Manifest) -> str:
    """How many corrections there are of what stays published; or nothing."""
    corrections = len(manifest.corrects)
    return "one correction" if corrections == 1 else f"{corrections:,} corrections" if corrections else ""


def what_is_ranked(manifest: Manifest | None) -> str:
    """What items are ranked by, in one sentence; nothing where no manifest tells."""
    if manifest is None:
        return ""
    if (weights := _weights_of(manifest)) is None:
        return manifest.score.explained
    return (
        "Items are ranked by sums of weights, not of people: a person of whom t items count adds "
        f"{weights.of_a_user_with_t_items} to each, so that people with few items count most."
    )


def _weights_of(manifest: Manifest) -> Weights | None:
    """How people are weighed, where one may have more items that count than weigh wholly: else sums are of people."""
    whole, most = (manifest.parameters.get(name) or 0 for name in ("whole_items", "max_items_per_user"))
    return manifest.weights if whole < most else None


def _items(domain: ListedItems) -> str:
    if domain.start is not None and domain.stop is not None:
        return f"the numbers from {domain.start:,} to {domain.stop - 1:,}"
    if domain.kind == "public":
        return f"{domain.size:,}, a public list"
    if domain.catalogue is None:
        return "not known beforehand"
    return f"{domain.catalogue.number:,} that are listed, and others not known beforehand"


def drawn_by(manifest: Manifest) -> list[str]:
    """The mechanism, and each of its settings."""
    chosen = (
        f"{name} {number(value) if isinstance(value, float) else value}"
        for name, value in manifest.parameters.items()
        if value is not None
    )
    return [manifest.mechanism, *chosen]


def of_groups(groups: RankedGroups) -> str:
    overall = "; and all rows together, where every user counts" if groups.overall else ""
    return f"{groups.number:,}, a ranking each; a user counts in {groups.per_user:,} of them{overall}"


def parameters(report: PublishedReport) -> list[tuple[str, str]]:
    manifest = report.manifest
    asked = ("items asked for", "all above a threshold" if report.k is None else f"{report.k:,}")
    if manifest is None:
        return [("release", report.name), *([asked] if report.rows else [])]
    privacy, parts = manifest.privacy, report.parts or (manifest,)
    users, amounts, items, of_group = (
        _of_each(str((each.columns or {}).get(of) or "") for each in parts) for of in ("user", "value", "item", "group")
    )
    shared, days = shared_by(manifest), [each.released for each in parts if each.released]
    several = {role: names for role in ("item", "group") if len(names := manifest.names(role)) > 1}
    listed = manifest.domain or not_corrected(parts)[-1].domain
    others = "" if manifest.domain else "; other windows have other lists"
    settings = (
        ("release", report.name),
        ("mechanism", ", ".join(drawn_by(manifest))),
        (f"noisy {manifest.score.called}s", privacy and _of_counts(privacy.counts)),
        asked,
        ("items to choose from", listed and f"{_items(listed)}{others}"),
        ("groups", manifest.groups and of_groups(manifest.groups)),
        ("lists of found items among them", ", ".join(manifest.found or ())),
        ("protected unit", privacy and privacy.unit),
        ("how the budget adds up", shared and shared + _OF_EPSILONS * of_epsilons(parts)),
        ("rankings one user can change", _of_a_user(report)),
        ("a user is", users and f"a value of the column {users}"),
        ("an amount is", amounts and f"a value of the column {amounts}"),
        ("an item is", _held("item", several, items)),
        ("a group is", _held("group", several, of_group)),
        ("dataset", _charged_to(parts)),
        ("released", " to ".join(sorted({min(days), max(days)})) if days else None),
        ("key", _of_each(each.key_id for each in parts)),
        ("run by", _of_each(each.runner for each in parts)),
        ("SHA-256 of the ranking", manifest.ranking_sha256),
        ("versions", _of_each(", ".join(map(" ".join, (each.versions or {}).items())) for each in parts)),
    )
    return [(label, value) for label, value in settings if value]


def _held(role: str, several: Mapping[str, tuple[str, ...]], name: str) -> str:
    if role in several:
        return f"what the columns {as_text(several[role])} hold"
    return name and f"a value of the column {name}"


def _of_a_user(report: PublishedReport) -> str:
    """How many rankings one user can change; nothing of a single one, or where that is not known."""
    known, more = {each.release_id for each in report.parts}, ""
    gone = any(one.release_id not in known for each in report.parts for one in each.corrects)
    if gone or report.charged or not all(name.endswith(MANIFEST) for name in report.lost):
        more = "; those that are lost, or only charged, come on top"
    many = report.rankings_of_a_user or 0
    return f"{many:,} of all that is published here{more}" * (many > (0 if more else 1))


def _of_counts(counts: Mapping[str, Any]) -> str:
    """That noisy counts are published too, and at what cost, or nothing."""
    if "epsilon" not in counts:
        return "published too, those of the draw" if counts else ""
    cost = BudgetFacts(epsilon=counts["epsilon"], delta=counts.get("delta") or 0)
    noise = "Gaussian noise" if cost.delta else "pure noise (Laplace or K-norm)"
    return f"published too, with {noise}, for {in_numbers(cost)} of each ranking"


def _charged_to(parts: Iterable[Manifest]) -> str:
    """The datasets that were charged, and of how many releases none was; nothing where none was of any."""
    datasets = [each.dataset for each in parts]
    told, lacking = _of_each(datasets), datasets.count(None)
    none = f"; for {lacking:,} release{'s' * (lacking > 1)} none was charged when drawn"
    return told and told + none * bool(lacking)


def _of_each(names: Iterable[str | None]) -> str:
    """What all releases have; or of how many releases each is, where they differ."""
    found = Counter(names)
    several = {
        name: f" of {number:,} release{'s' * (number > 1)}" if len(found) > 1 else "" for name, number in found.items()
    }
    return ", ".join(f"{name}{more}" for name, more in several.items() if name)


def in_text(report: PublishedReport) -> Iterator[str]:
    """The lines: every window, then the guarantee and how to read it."""
    yield from report.tables()
    if not report.rows and (not report.lost or not report.listings()):
        yield NO_RANKING if report.lost else "No item was released."
        yield ""
    promise = [*in_words(report), *filter(None, [in_symbols(report.manifest)])]
    for title, sentences in (("What it promises", promise), ("How to read it", how_to_read(report))):
        if sentences:
            yield title
            for sentence in sentences:
                yield textwrap.fill(sentence, _WIDTH, initial_indent="  ", subsequent_indent="  ")
            yield ""
