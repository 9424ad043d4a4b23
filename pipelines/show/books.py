"""A published report beside the ledger that was charged for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from private_topk.pipelines.budget.accounting import OF_A_LOST_LEDGER, Books, Entry, ledger_named
from private_topk.pipelines.budget.ahead import told_ahead
from private_topk.pipelines.budget.ledger import Ledger
from private_topk.pipelines.budget.statement import adopted, limit, sentence
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.release.formats import RANKING_FORMATS
from private_topk.pipelines.release.manifest import MANIFEST, Manifest
from private_topk.pipelines.release.promise import (
    apart,
    as_charged,
    as_corrected,
    charged_again,
    charged_too,
    charges_of,
    disputed,
    named,
    of_same_ids,
    one_cost_of_each,
    series_of,
    windows_charged_too,
    with_charged,
)
from private_topk.pipelines.show.published import PublishedReport
from private_topk.pipelines.show.words import not_shown
from private_topk.transforms.errors import InvalidArgument, literal, printable, verbatim
from private_topk.transforms.release import series_name
from private_topk.transforms.stated import some

_CHARGED = "give the ledger that was charged"


def with_books(
    report: PublishedReport, places: Sequence[str], ledger: str | None, books: Books | None = None
) -> tuple[PublishedReport, Sequence[str]]:
    """The report with the cost of what a ledger has charged of it and is not here, and what the ledger says of the
    dataset, of that and of what it has not charged; as it is where none is named. Of single files, and units of one
    window, only charges of these windows count.

    Args:
        places: where it was read.
        books: what the ledger will hold, where that is asked before a charge; by default what it holds.

    Raises:
        InvalidArgument: the ledger knows nothing of it.
    """
    manifest, files = report.manifest, all(place.lower().endswith((*RANKING_FORMATS, MANIFEST)) for place in places)
    if ledger is None or manifest is None:  # each form says that it has none, or refuses it
        return report, () if files else ("", *not_shown(report))
    planned, parts, books = books is not None, report.parts or [manifest], books or Ledger(ledger).read()
    charged = charges_of(parts, books.charges)
    otherwise = disputed(charged)
    known = of_same_ids(parts, books.charges)
    ids = {each.release_id for each in known}
    lacking = [
        f"this answer of {name}" if name in ids else name
        for name in _names(part for part, charge in charged if charge is None)
    ]
    datasets = _datasets(charged, known, books)
    if not known:
        command = shlex.join([*places, "--ledger", ledger_named(ledger), "--dataset", datasets[0]])
        adopt = f"`private-topk budget adopt {printable(command)}` charges this one"
        remedy = f"{_CHARGED}; if that is lost, or the job ran outside `with charge(...)`, {adopt}"
        raise InvalidArgument("ledger", f"knows nothing of {verbatim(lacking[0])}", literal(remedy))
    charges = [each for each in books.charges if each.dataset in datasets]
    budgets = [budget for budget in books.budgets if budget.dataset in datasets]
    limits = tuple(limit(budget, books) for budget in budgets)
    costs = one_cost_of_each((each.release_id, each.cost) for each in charges)
    changed = [str(each.release_id) for each in parts if as_corrected(each, costs) != each]
    if changed:
        corrected = f"The manifest of {some(changed)} states less of what it corrects than the ledger"
        otherwise.append(f"{corrected}: one was changed since, and these numbers count the larger.")
    told = [*otherwise, *apart(lacking, datasets)]
    report = replace(report, disputed=told, adopted=adopted(charges), limits=limits)
    if files and manifest.privacy is not None and not manifest.privacy.of_all_windows:
        starts, ends = Windows.at(manifest.bounds()).bounds()
        shown = starts.min(keepdims=True), ends.max(keepdims=True)
        charges = [each for each in charges if each.windows.overlapping(*shown).any()]
    series = {series_name(str(each.release_id)) for each in parts}
    others = dict.fromkeys(series_name(each.release_id) for each in charges).keys() - series
    lost, lacked = charged_too(charges, parts), [] if files else windows_charged_too(charged)
    also = [*lost, *lacked]
    report = replace(report, charged=also, charged_again=charged_again(parts, also))
    if also or otherwise:
        parts = [as_corrected(as_charged(*each), costs) for each in charged]
        whole, told_by = series_of(parts, also), with_charged(parts, also)
        report = replace(report, manifest=whole, parts=told_by)
    of_each = " ".join(sentence(budget, books, planned=planned) for budget in budgets)
    of_each += f" Among these are charges of {some(sorted(others))}, which no other number here counts." * bool(others)
    of_each += "".join(f" What lies ahead {each}." for each in told_ahead(budgets, books))
    why = f", {'beyond the files shown' if files else 'of which no manifest is here'}: these numbers count that"
    why += ". Show the folder for all that lies in it" * files
    more = ", with windows that are not here, lost or not published yet: these numbers count them"
    return report, (of_each, *named(lost, why), *named(lacked, more), *told)


def _names(parts: Iterable[Manifest]) -> list[str]:
    return list(dict.fromkeys(str(part.release_id) for part in parts))


def _datasets(charged: Sequence[tuple[Manifest, Entry | None]], known: Sequence[Entry], books: Books) -> list[str]:
    """The datasets of releases: as charged, or as their manifests name them, and those of other answers of theirs.

    Args:
        known: the charges under their ids, of any answers.

    Raises:
        InvalidArgument: the ledger has no budget of any.
    """
    named = [charge.dataset if charge else part.dataset for part, charge in charged]
    datasets = list(dict.fromkeys(filter(None, [*named, *(each.dataset for each in known)])))
    if not datasets:
        rule = (
            "does not apply: no manifest here names a dataset that was charged, and the ledger has charged none of them"
        )
        raise InvalidArgument("ledger", rule, "leave it out, or let `private-topk budget adopt` charge them")
    if not any(budget.dataset in datasets for budget in books.budgets):
        rule = f"has no budget of dataset {verbatim(' or '.join(datasets))}, which the manifest names"
        raise InvalidArgument("ledger", rule, f"{_CHARGED}; {OF_A_LOST_LEDGER}")
    return datasets
