"""What somebody signs for: a sheet of one page, and the entry for OpenDP's registry of deployments.

Both are templates, filled from the manifest, and from the ledger where it is given. What no program knows is left
blank, and named.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from private_topk.pipelines.budget.accounting import Entry
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.release.agreement import budget_of
from private_topk.pipelines.release.manifest import BudgetFacts, Manifest, Zcdp
from private_topk.pipelines.release.promise import BY_RHO, cost_of_publication, not_corrected
from private_topk.pipelines.show.published import PublishedReport, day_of, in_the_newest, when
from private_topk.pipelines.show.templates import rendered
from private_topk.pipelines.show.words import (
    as_a_guess,
    change_of,
    changes_of,
    corrections_of,
    declared_horizon,
    in_rho,
    in_symbols,
    not_counted,
    of_counts,
    of_draws,
    parameters,
    shared_by,
    weak_promise,
    what_counts,
    what_is_lost,
    what_is_ranked,
    what_was_adopted,
    what_was_corrected,
    who_counts,
)
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.release import series_name
from private_topk.transforms.stated import number

_WIDTH, _LABEL = 100, 34
_TWO_NUMBERS = (
    "The promise above is of these rankings, at its own delta; what is spent is of all these charges, at the ledger's: "
    "both hold."
)
_NOT_PROTECTED = (
    "Lists of items and groups, windows, k and all other parameters. People who act together, and people with several "
    "accounts. Anything from those who can read the rows, the workers or the release key. How long a job takes. "
    "SECURITY.md and docs/sharp-edges.md have the whole list."
)


def sheet(report: PublishedReport, books: Sequence[str] = ()) -> Iterator[str]:
    """The sign-off sheet, line by line: what the manifest says, written or planned, then what has to be filled in.

    Args:
        books: what the ledger says of the dataset's budget, and then what it has charged and is not here; empty if
            nobody has asked it.

    Raises:
        InvalidArgument: there is no manifest, or the ranking is not private.
    """
    for line in rendered("sign_off.txt", **_facts(report, books)).split("\n"):
        label, bar, text = line.partition(" | ") if line.startswith("  ") else (line, "", "")
        left, below = f"{label:<{_LABEL}}", " " * _LABEL
        yield textwrap.fill(text, _WIDTH, initial_indent=left, subsequent_indent=below) if bar else line


def registry_entry(report: PublishedReport, books: Sequence[str] = ()) -> str:
    """An entry for OpenDP's registry of deployments as YAML; comments at its head name what is blank.

    Its fields are those that a deployment of this kind has, after opendp/deployments-registry-data. Fields that take
    one of a few words are left out while they are blank, or the entry would not be valid. Arguments and errors as those
    of `sheet`.
    """
    return rendered("registry.yaml", **_facts(report, books)) + "\n"


def _facts(report: PublishedReport, books: Sequence[str]) -> dict[str, Any]:
    """What both templates are filled with: texts, of which some may be empty, and the promise of the manifest."""
    manifest = report.manifest
    if manifest is None or manifest.privacy is None:
        raise InvalidArgument(
            "",
            "there is no manifest beside this ranking that promises anything",
            "a ranking is signed for by what its manifest says, so if that is lost bring it back from a copy",
        )
    privacy, everything = manifest.privacy, manifest.all_windows
    spans = {(window.start, window.end) for window in manifest.windows if window.start and window.end}
    one = "window" if manifest.to_date is None else "period"
    over_a_year = f"at most the budget of one {one}, times the number of the year's {one}s that have rows of the person"
    shared_hash = number(manifest.delta_of_a_shared_hash or 0)
    first = (report.parts or [manifest])[0].release_id
    start, end = min(spans, default=(None, None))[0], max((end for _, end in spans), default=None)
    return {
        "manifest": manifest,
        "privacy": privacy,
        "settings": dict(parameters(report)),
        "changes": changes_of(report),
        "corrections": corrections_of(report),
        "told": {
            "what is counted": " ".join(not_counted(report)),
            "declared horizon": " ".join(declared_horizon(report)),
            "what is lost": " ".join(what_is_lost(report)),
            "what a ledger tells": " ".join([*books[1:], *what_was_adopted(report)]),
        },
        "since": f" {day_of(report.changes[-1][0], report.zone)}" if report.changes and report.changes[-1][0] else "",
        "planned": any(each.released is None for each in report.parts),
        "title": report.title,
        "slug": re.sub(r"[^a-z0-9]+", "-", (series_name(first or "") or report.title).lower()).strip("-"),
        "ranked": what_is_ranked(manifest),
        "noise_of_draws": of_draws(report),
        "noise_of_counts": of_counts(manifest),
        "mostly_noise": _mostly_noise(report),
        "corrected": what_was_corrected(manifest),
        "change": change_of(privacy),
        "who_counts": who_counts(manifest),
        "what_counts": what_counts(manifest),
        "symbols": in_symbols(manifest),
        "guess": as_a_guess(manifest),
        "budget": _numbers(privacy),
        "weak": weak_promise(privacy, everything),
        "of_a_window": _of_a_window(manifest, report.parts, report.charged or ()),
        "of_rho": _of_rho(manifest),
        "all_windows": _numbers(everything) if everything else "",
        "over_a_year": over_a_year if spans and not privacy.of_all_windows else "",
        "hash_collisions": f"for every other user, add {shared_hash} to delta" * bool(manifest.delta_of_a_shared_hash),
        "not_protected": _NOT_PROTECTED,
        "shared": shared_by(manifest),
        "books": f"{books[0]} {_TWO_NUMBERS}" if books and books[0] else "",
        "adopted": report.adopted,
        "account": any(each.dataset for each in report.parts or [manifest]),
        "spans": spans,
        "when": when(start, end, report.zone),
        "groups": sum(not spans or (window.start, window.end) == max(spans) for window in manifest.windows),
    }


def _mostly_noise(report: PublishedReport) -> str:
    """In which groups of the newest window most is noise, by published counts; nothing where that is in none."""
    newest = in_the_newest(report.by_group()) if report.manifest and report.manifest.groups else {}
    noisy = [str(group) for group, listing in newest.items() if listing.noise]
    told = f"{len(noisy):,} of the {len(newest):,} groups of the newest window, by their noisy counts: "
    return (told + ", ".join(noisy)) * bool(noisy)


def _of_a_window(manifest: Manifest, parts: Sequence[Manifest], also: Sequence[Entry]) -> str:
    """What a window costs as zCDP each time it is published or was charged; where that differs, of how many of these.

    Args:
        also: what was charged and is not here, of which a part may tell (`with_charged`).
    """
    found: dict[str, int] = {}
    shown = not_corrected(parts or [manifest])
    for each in shown:
        before = (one.zcdp or Zcdp.of(cost_of_publication(one)) for one in each.corrects)
        for zcdp in (each.zcdp_of_a_window, *before):
            if zcdp is not None and zcdp.rho:
                told = in_rho(zcdp)
                found[told] = found.get(told, 0) + len(each.paid_for())
    for charge in also:
        tell = (each for each in shown if any(one.release_id == charge.release_id for one in each.corrects))
        known = [bounds for each in tell for bounds in each.paid_for()]
        left = charge.windows.without(Windows.at(known)) if known else charge.windows
        if left is not None and charge.cost.rho:
            told = in_rho(Zcdp.of(charge.cost))
            found[told] = found.get(told, 0) + left.number
    if len(found) < 2:
        return "".join(found)
    of, times = ("", " times") if any(each.corrects for each in shown) else ("of ", "")
    return ", ".join(f"{told} {of}{many:,}{times}".replace(" 1 times", " once") for told, many in found.items())


def _of_rho(manifest: Manifest) -> str:
    """How much of the rho of a window is of its counts, and how it goes with the epsilon and the deltas."""
    privacy, zcdp, parted = manifest.privacy, manifest.zcdp_of_a_window, ""
    assert privacy is not None
    if zcdp is not None and "epsilon" in privacy.counts:
        counts = (privacy.rankings_of_a_user_in_a_window or 1) * budget_of(privacy.counts).cost().rho
        parted = f", {number(max(zcdp.rho - counts, 0))} of it the ranking's and {number(counts)} the counts'"
    told = ". Each mechanism's own proof gives its rho: to convert the epsilon may give another"
    told += ". The total adds up rhos: the deltas of windows do not add up to its delta" * (
        privacy.accounting in BY_RHO
    )
    return parted + told * bool(privacy.delta)


def _numbers(budget: BudgetFacts) -> str:
    return f"epsilon {number(budget.epsilon)}, delta {number(budget.delta)}"
