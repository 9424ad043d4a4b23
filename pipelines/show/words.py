"""A published report in words: its rankings on a terminal, what they promise and how to read them.

Every sentence has to be true of every ranking that it is shown for, so nothing is stated that a manifest does not say.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from private_topk.pipelines.show.published import PublishedReport, table
from private_topk.transforms.stated import number

__all__ = ["how_to_read", "in_symbols", "in_text", "in_words", "parameters", "promise", "what_is_ranked",
           "who_counts", "why_short"]  # fmt: skip

_WEAK = math.log(100)
_WIDTH = 100
NOT_PRIVATE = "This ranking is not private. It was made for a test, without noise or with noise that anybody can " \
              "take off, and must not be handed on."  # fmt: skip


def in_words(report: PublishedReport) -> list[str]:
    """The guarantee as sentences; empty where there is no manifest to take it from."""
    if not report.is_private:
        return [NOT_PRIVATE]
    privacy = report.facts.get("privacy")
    if not privacy:
        return []
    total = "share_of_a_window" in privacy
    windows = len({(window.get("start"), window.get("end")) for window in report.facts.get("windows") or ()})
    sentences = [f"{_change(privacy, _reach(privacy, windows))} {_bound(privacy)}", who_counts(report.facts)]
    if not total and windows > 1:
        most = report.facts.get("all_windows") or None
        added = "the epsilons and the deltas of these windows are added" if most is None else (
            f"one who is in all of them is protected by {_budget(most)}")  # fmt: skip
        sentences.append(f"Each window has this budget of its own. Of a person who is active in several of the "
                         f"{windows} windows, what these tell adds up: {added}.")  # fmt: skip
    if privacy["epsilon"] > _WEAK:
        sentences.append("A factor above 100 is a weak promise: who knows much already may learn much from this.")
    if report.facts.get("delta_of_a_shared_hash"):
        each = number(report.facts["delta_of_a_shared_hash"])
        sentences.append(f"Two people may share a hash and count as one: every other person adds {each} to delta.")
    sentences.append("The list of windows, all parameters and, unless it is unknown, the list of items are public, and "
                     "not protected.")  # fmt: skip
    return sentences


def _budget(privacy: Mapping[str, Any]) -> str:
    delta = f" and delta {number(privacy['delta'])}" if privacy["delta"] else ""
    return f"epsilon {number(privacy['epsilon'])}{delta}"


def _reach(privacy: Mapping[str, Any], windows: int) -> str:
    if "the one before it" in str(privacy.get("unit")):
        return "within one window and the one before it"
    if "share_of_a_window" in privacy:
        return f"in all {privacy['windows']} windows together"
    return "in the data" if windows <= 1 else "within one window"


def _change(privacy: Mapping[str, Any], reach: str) -> str:
    if privacy.get("neighbours") == "swap":
        return f"Had any one person done something else {reach}, the same ranking could have come out:"
    return f"Had any one person's rows {reach} been missing, or one more person's been there, the same ranking could " \
           "have come out:"  # fmt: skip


def _bound(privacy: Mapping[str, Any]) -> str:
    epsilon, delta = float(privacy["epsilon"]), float(privacy["delta"])
    more = f", but for a probability of at most {number(delta)}" if delta else ""
    cases = (
        "in either case as in the other"
        if privacy.get("neighbours") == "swap"
        else ("with them as without, or without as with")
    )
    return f"every outcome is at most {_factor(epsilon)} times as likely {cases}{more}."


def _factor(epsilon: float) -> str:
    if epsilon > 13:
        return f"e^{number(epsilon)}"
    value = math.exp(epsilon)
    digits = 3 if value < 1.1 else 2 if value < 10 else 0
    # Rounded up: a promise that is stated must not be better than the one that is kept.
    return f"{math.ceil(value * 10**digits) / 10**digits:,.{digits}f}"


def who_counts(facts: Mapping[str, Any]) -> str:
    """Who is one person, and what of each was counted."""
    limit = facts.get("max_items_per_user")
    most = f" At most {limit:,} items of each person and window were counted." if limit else ""
    windows = facts.get("max_windows_per_user")
    of_windows = f" Each counted in at most {windows:,} of the windows." if windows else ""
    groups, per_user = facts.get("groups"), (facts.get("groups") or {}).get("per_user")
    of_groups = f" Each counted in at most {per_user:,} of the groups of a window." if groups else ""
    return "A person is one value of the user column: who has two accounts is protected as two." \
           f"{most}{of_groups}{of_windows}"  # fmt: skip


def in_symbols(report: PublishedReport) -> str:
    """The inequality of the guarantee, or nothing if there is no manifest."""
    privacy = report.facts.get("privacy")
    if not privacy or not report.is_private:
        return ""
    delta = f" + {number(privacy['delta'])}" if privacy["delta"] else ""
    how = "replacing one user's rows" if privacy.get("neighbours") == "swap" else "adding or removing one user"
    return f"P(A(D) ∈ S) ≤ e^{number(privacy['epsilon'])} · P(A(D′) ∈ S){delta} for every set S of rankings and all " \
           f"D, D′ that differ by {how}"  # fmt: skip


def how_to_read(report: PublishedReport) -> list[str]:
    """Sentences on what places and counts mean, and what they do not."""
    listings = report.listings()
    sentences = [what_is_ranked(report.facts)]
    if report.facts.get("answer", "sequence") == "set":
        sentences.append("This mechanism answers with a set: the items are in the order of the public list, or of "
                         "their spelling, and not in order of rank.")  # fmt: skip
    sentences.append("Items were drawn with noise. Items whose true counts are close may have changed places, and "
                     "one just below the last place may have taken one above it.")  # fmt: skip
    sentences.append("Nothing in a ranking shows how much of it is noise: where few people are in the data, or epsilon "
                     "is small, it may be all noise. An empty window has a ranking too.")  # fmt: skip
    if len({(listing.start, listing.end) for listing in listings}) > 1:
        sentences.append("Noise is drawn anew in every window: an item that moves by a place or two from one window to "
                         "the next need not have moved at all.")  # fmt: skip
    if any(listing.counted for listing in listings):
        sentences.append("Counts have noise of their own and may be below zero. Where a range is shown, the true count "
                         "lies in it with a probability of at least 95%, for each item by itself.")  # fmt: skip
    return [*sentences, *why_short(report)]


def why_short(report: PublishedReport) -> list[str]:
    """Why a list has fewer items than were asked for, or none, and what helps; nothing where all are full."""
    listings = report.listings()
    if listings and all(listing.rows and listing.rows[0]["returned"] >= listing.rows[0]["k"] for listing in listings):
        return []
    lower = "" if report.facts.get("k", 0) is None else "a smaller k, "
    return ["A list is short, or empty, where too few people have the same items: such items are not published, since "
            "they could tell who has them. What helps: more people in a window or a group, a larger epsilon or delta, "
            f"{lower}or a public list of items."]  # fmt: skip


def promise(report: PublishedReport) -> str:
    """The guarantee in a few words, or nothing."""
    privacy = report.facts.get("privacy")
    if not privacy or not report.is_private:
        return ""
    delta = f", delta {number(privacy['delta'])}" if privacy["delta"] else ""
    unit = f" for {privacy['unit']}" if "unit" in privacy else ""
    return f"epsilon {number(privacy['epsilon'])}{delta}{unit}"


def what_is_ranked(facts: Mapping[str, Any]) -> str:
    """What items are ranked by, in one sentence."""
    against = facts.get("against")
    if against:
        less = "" if against["weight"] == 1 else f" {against['weight']} of"
        what = (
            "an amount that is added up over people" if facts.get("amounts") else "how many different people have them"
        )
        return f"Items are ranked by their rise: {what}, less{less} that of the window before."
    if facts.get("amounts"):
        return "Items are ranked by an amount that is added up over people; each adds no more than a bound to an item."
    return "Items are ranked by how many different people have them. How often one person has an item does not matter."


def _items(domain: Mapping[str, Any]) -> str:
    if domain.get("kind") == "range":
        return f"the numbers from {domain['start']:,} to {domain['stop'] - 1:,}"
    if domain.get("kind") == "public":
        return f"{domain['size']:,}, a public list"
    listed = (domain.get("catalogue") or {}).get("size")
    return f"{listed:,} that are listed, and others not known beforehand" if listed else "not known beforehand"


def parameters(report: PublishedReport) -> list[tuple[str, str]]:
    """The settings, as names and values."""
    facts, settings = report.facts, []
    domain, privacy = facts.get("domain") or {}, facts.get("privacy") or {}
    settings.append(("release", report.name))
    if facts.get("mechanism"):
        chosen = {name: value for name, value in (facts.get("parameters") or {}).items() if value is not None}
        settings.append(
            ("mechanism", ", ".join([facts["mechanism"], *(f"{name} {value}" for name, value in chosen.items())]))
        )
    if report.rows or "k" in facts:
        k = facts.get("k", report.rows[0]["k"] if report.rows else None)
        settings.append(("items asked for", "all above a threshold" if k is None else f"{k:,}"))
    if domain:
        settings.append(("items to choose from", _items(domain)))
    if groups := facts.get("groups"):
        settings.append(
            ("groups", f"{groups.get('size')}, a ranking each; a user counts in {groups['per_user']} of them")
        )
    if facts.get("found"):
        settings.append(("lists of found items among them", ", ".join(map(str, facts["found"]))))
    if "unit" in privacy:
        settings.append(("protected unit", str(privacy["unit"])))
        if privacy.get("accounting"):
            shared = privacy.get("windows_of_a_user", privacy["windows"])
            settings.append(("windows that share the budget", f"{shared:,}, by {privacy['accounting']} composition"))
    if facts.get("columns"):
        settings.append(("a user is", f"a value of the column {facts['columns'].get('user')}"))
    for name, label in (
        ("dataset", "dataset"),
        ("released", "released"),
        ("key_id", "key"),
        ("runner", "run by"),
        ("ranking_sha256", "SHA-256 of the ranking"),
    ):
        if facts.get(name):
            settings.append((label, str(facts[name])))
    if facts.get("versions"):
        settings.append(("versions", ", ".join(f"{name} {version}" for name, version in facts["versions"].items())))
    return settings


def in_text(report: PublishedReport) -> Iterator[str]:
    """The lines: every window, then the guarantee and how to read it."""
    for listing in report.listings():
        yield from table(listing)
        yield ""
    if not report.rows:
        yield "No item was released."
        yield ""
    promise = [*in_words(report), *([in_symbols(report)] if in_symbols(report) else [])]
    for title, sentences in (("What it promises", promise), ("How to read it", how_to_read(report))):
        if sentences:
            yield title
            for sentence in sentences:
                yield textwrap.fill(sentence, _WIDTH, initial_indent="  ", subsequent_indent="  ")
            yield ""
