"""What somebody signs for: a sheet of one page, and the entry for OpenDP's registry of deployments.

Both are filled from the manifest, and from the ledger where it is given. What no program knows is left blank, and
named.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import yaml

from private_topk.pipelines.release.manifest import BudgetFacts, Manifest, PrivacyFacts
from private_topk.pipelines.show.published import PublishedReport
from private_topk.pipelines.show.words import in_symbols, parameters, shared_by, what_is_ranked, who_counts
from private_topk.transforms.errors import InvalidArgument, printable
from private_topk.transforms.stated import number

_WIDTH, _LABEL = 100, 32
_BLANK = "TO BE FILLED IN"

_NOT_PROTECTED = (
    "Lists of items and groups, windows, k and all other parameters. People who act together, and people with several "
    "accounts. Anything from those who can read the rows, the workers or the release key. How long a job takes. "
    "SECURITY.md and docs/sharp-edges.md have the whole list."
)
_OVER_A_YEAR = "at most the budget of one window, times the number of the year's windows that have rows of the person"
_OTHERS = "other releases"
_ASKED = (
    ("decided by", "who chose epsilon and delta, and of which total they are a part"),
    ("data looked at", "whether k, windows, lists or bounds were chosen by looking at the data"),
    ("release key", "where it is kept and who can read it; what happens if it is lost, replaced or destroyed"),
    (
        "raw rows",
        "where they are stored (input, checkpoints, temporary files, logs), for how long, and who can read them",
    ),
    (_OTHERS, "what releases of the same rows have spent (`private-topk budget show`)"),
    ("horizon", "what follows after the last window, and when"),
    ("signed", "name, date"),
)

_SECTIONS: dict[str, tuple[str, ...]] = {
    "basic": (
        "name",
        "data_curators",
        "intended_use",
        "data_product_type",
        "data_product_region",
        "description",
        "publication_date",
        "data_product_sector",
    ),
    "dp_variant": ("variant_name", "data_domain", "unprotected_quantities"),
    "privacy_loss": ("privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"),
    "deployment_model": (
        "model_name",
        "actors",
        "release_type",
        "release_type_details",
        "data_source_type",
        "access_type",
    ),
    "accounting": ("post_processing", "composition"),
    "implementation": ("preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"),
    "administrative": ("sources", "registry_authors"),
}
"""The fields of an entry that a deployment of this kind has, after opendp/deployments-registry-data."""
_LISTS = ("data_curators", "registry_authors")
_CHOICES = ("data_product_sector", "data_source_type")
"""Fields that take one of a few words: left out while they are blank, or the entry would not be valid."""


def sheet(report: PublishedReport, books: str = "") -> Iterator[str]:
    """The sign-off sheet, line by line: what the manifest says, then what has to be filled in.

    Args:
        books: what the ledger says of the dataset's budget; empty if nobody has asked it.

    Raises:
        InvalidArgument: there is no manifest, or the ranking is not private.
    """
    manifest, privacy = _promise(report)
    yield f"Sign-off: {printable(report.title)}"
    yield ""
    yield from _entries(_of_the_manifest(report, manifest, privacy))
    yield from _entries([(_OTHERS, books)] if books else [])
    yield ""
    yield "To be filled in by the person who signs"
    yield from _entries(each for each in _ASKED if not books or each[0] != _OTHERS)
    found = "what `python -m benchmarks.audit --report FILE` found in a checkout, with this report's epsilon"
    yield from _entries([("audit", found)])


def registry_entry(report: PublishedReport, books: str = "") -> str:
    """An entry for OpenDP's registry of deployments as YAML; comments at its head name what is blank.

    Args:
        books: as for `sheet`.

    Raises:
        InvalidArgument: there is no manifest, or the ranking is not private.
    """
    known = _known(report, *_promise(report), books)
    blank = [f"{section}.{field}" for section, fields in _SECTIONS.items() for field in fields if field not in known]
    deployment: dict[str, dict[str, Any]] = {}
    for section, fields in _SECTIONS.items():
        values = {field: known.get(field, [_BLANK] if field in _LISTS else _BLANK) for field in fields}
        deployment[section] = {
            field: value for field, value in values.items() if field in known or field not in _CHOICES
        }
    entry = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", report.name.lower()).strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": deployment,
    }
    head = "".join(f"# to be filled in: {name}\n" for name in blank)
    return head + yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=_WIDTH)


def _promise(report: PublishedReport) -> tuple[Manifest, PrivacyFacts]:
    manifest = report.manifest
    if manifest is None or manifest.privacy is None:
        raise InvalidArgument(
            "",
            "there is no manifest beside this ranking that promises anything",
            "a ranking is signed for by what its manifest says",
        )
    return manifest, manifest.privacy


def _entries(entries: Any) -> Iterator[str]:  # noqa: ANN401 - pairs of texts
    for label, text in entries:
        yield textwrap.fill(
            printable(text), _WIDTH, initial_indent=f"  {label:<{_LABEL}}", subsequent_indent=" " * (_LABEL + 2)
        )


def _of_the_manifest(report: PublishedReport, manifest: Manifest, privacy: PrivacyFacts) -> Iterator[tuple[str, str]]:
    yield "what is published", what_is_ranked(manifest)
    yield "who is protected", privacy.unit
    yield "from whom", "everybody who reads the ranking and its manifest, whatever else they know"
    yield "against what", in_symbols(manifest)
    yield "budget", _numbers(privacy)
    zcdp = manifest.zcdp_of_a_window
    if zcdp is not None and zcdp.rho:
        delta = f" but for a delta of {number(zcdp.delta)}" if zcdp.delta else ""
        yield "of each window", f"rho {number(zcdp.rho)} (zCDP){delta}"
    if manifest.all_windows is not None:
        yield "of a person in all windows", _numbers(manifest.all_windows)
    if not privacy.of_all_windows and _spans(manifest):
        yield "of a person over a year", _OVER_A_YEAR
    if manifest.delta_of_a_shared_hash:
        yield "hash collisions", f"for every other user, add {number(manifest.delta_of_a_shared_hash)} to delta"
    yield "how it holds", "random bits come from a cipher under the release key: the guarantee is computational"
    yield from (each for each in parameters(report) if each[0] != "protected unit")
    yield "not protected", _NOT_PROTECTED


def _over_time(manifest: Manifest, privacy: PrivacyFacts) -> Iterator[str]:
    """What several windows of a person cost, where each has a budget of its own."""
    if manifest.all_windows is not None:
        yield f"A person in all windows: {_numbers(manifest.all_windows)}."
    if not privacy.of_all_windows and _spans(manifest):
        yield f"A person over a year: {_OVER_A_YEAR}."


def _numbers(budget: BudgetFacts) -> str:
    return f"epsilon {number(budget.epsilon)}, delta {number(budget.delta)}"


def _composed(privacy: PrivacyFacts) -> str:
    shared = shared_by(privacy)
    return f"{shared}." if shared else ""


def _after(manifest: Manifest) -> str:
    """What became of noisy counts after the draw."""
    if manifest.counts_rounded_to is None:
        return "None."
    rounded = f"Noisy counts are rounded to multiples of {manifest.counts_rounded_to}."
    return f"{rounded} They come with the draw, and are too high on average." if manifest.draws_counts else rounded


def _data_domain(report: PublishedReport, manifest: Manifest) -> str:
    """What a row is, and which items there can be."""
    told = (("group", manifest.groups), ("amount", manifest.amounts), ("time", _spans(manifest)))
    row = ", ".join(["a user", "an item", *(f"a {name}" for name, there in told if there)])
    items = dict(parameters(report)).get("items to choose from")
    groups = f"{manifest.groups.number:,}, a public list" if manifest.groups is not None else None
    lists = "".join(f" {name}: {what}." for name, what in (("Items", items), ("Groups", groups)) if what)
    return f"Rows of {row}.{lists}"


def _spans(manifest: Manifest) -> set[tuple[datetime, datetime]]:
    return {(window.start, window.end) for window in manifest.windows if window.start and window.end}


def _releases(manifest: Manifest) -> str:
    """How many rankings there are, over which time."""
    spans = _spans(manifest)
    windows = len(spans) or 1
    each = "" if manifest.groups is None else f" for each of {len(manifest.windows) // windows:,} groups"
    if not spans:
        return f"One ranking of all rows{each}."
    start, end = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (min(spans)[0], max(end for _, end in spans)))
    return f"One ranking{each} in each of {windows:,} windows, from {start} to {end}."


def _known(report: PublishedReport, manifest: Manifest, privacy: PrivacyFacts, books: str) -> dict[str, Any]:
    """What the manifest says, by the registry's fields."""
    by = f", by Beam's runner {manifest.runner}" if manifest.runner else ""
    how = "replacing" if privacy.neighbours == "replace-one" else "adding or removing"
    known = {
        "name": report.title,
        "data_product_type": "Summary statistics",
        "description": what_is_ranked(manifest),
        "publication_date": manifest.released,
        "variant_name": "Approximate DP" if privacy.delta else "Pure DP",
        "data_domain": _data_domain(report, manifest),
        "unprotected_quantities": _NOT_PROTECTED,
        "privacy_unit": privacy.unit,
        "privacy_unit_details": f"Adjacent datasets differ by {how} {privacy.unit}. {who_counts(manifest)}",
        "privacy_parameters": {"epsilon": privacy.epsilon} | ({"delta": privacy.delta} if privacy.delta else {}),
        "privacy_parameters_details": " ".join(_over_time(manifest, privacy)) or None,
        "model_name": "Central",
        "actors": f"A trusted curator runs private-topk over the rows{by}. Readers of a ranking and its manifest are "
        "not trusted.",
        "release_type": "Many releases" if len(manifest.windows) > 1 else "One release",
        "release_type_details": _releases(manifest),
        "access_type": "Non-interactive",
        "post_processing": _after(manifest),
        "composition": " ".join(filter(None, (_composed(privacy), books))) or None,
        "mechanisms": f"{dict(parameters(report)).get('mechanism')}, of private-topk: drawn exactly, in integers and "
        "ball arithmetic, from the keystream of a cipher under a secret key.",
    }
    return {field: value for field, value in known.items() if value is not None}
