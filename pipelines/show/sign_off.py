"""What somebody signs for: a sheet of one page, and the entry for OpenDP's registry of deployments.

Both are filled from the manifest, and from the ledger where it is given. What no program knows is left blank, and
named.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from private_topk.pipelines.show.published import PublishedReport
from private_topk.pipelines.show.words import in_symbols, parameters, what_is_ranked, who_counts
from private_topk.transforms.errors import Refusal, printable
from private_topk.transforms.stated import number

__all__ = ["registry_entry", "sheet"]

_WIDTH, _LABEL = 100, 32
_BLANK = "TO BE FILLED IN"

_NOT_PROTECTED = (
    "Lists of items and groups, windows, k and all other parameters. People who act together, and people with several "
    "accounts. Anything from those who can read the rows, the workers or the release key. How long a job takes. "
    "SECURITY.md and docs/sharp-edges.md have the whole list."
)
_OTHERS = "other releases"
_ASKED = (
    ("decided by", "who chose epsilon and delta, and for which total"),
    ("looked at data", "whether k, windows, lists or bounds were chosen by looking at the data"),
    ("release key", "where it is, who can read it; what happens when it is lost, replaced, destroyed"),
    ("raw rows", "where they rest (input, checkpoints, temporary files, logs), who reads them, and for how long"),
    (_OTHERS, "of the same rows: what the ledger has spent and reserved (`private-topk budget show`)"),
    ("horizon", "what begins after the last window, and when"),
    ("signed", "name, date"),
)

_SECTIONS: dict[str, tuple[str, ...]] = {
    "basic": ("name", "data_curators", "intended_use", "data_product_type", "data_product_region", "description",
              "publication_date", "data_product_sector"),
    "dp_variant": ("variant_name", "data_domain", "unprotected_quantities"),
    "privacy_loss": ("privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"),
    "deployment_model": ("model_name", "actors", "release_type", "release_type_details", "data_source_type",
                         "access_type"),
    "accounting": ("post_processing", "composition"),
    "implementation": ("preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"),
    "administrative": ("sources", "registry_authors"),
}  # fmt: skip
"""The fields of an entry that a deployment of this kind has, after opendp/deployments-registry-data."""
_SAID = ("unit", "neighbours")
_LISTS = ("data_curators", "registry_authors")
_CHOICES = ("data_product_sector", "data_source_type")
"""Fields that take one of a few words: left out while they are blank, or the entry would not be valid."""


def sheet(report: PublishedReport, books: str = "") -> Iterator[str]:
    """The sign-off sheet, line by line: what the manifest says, then what has to be filled in.

    Args:
        books: what the ledger says of the dataset's budget; empty if nobody has asked it.

    Raises:
        Refusal: there is no manifest, or the ranking is not private.
    """
    privacy = _privacy(report)
    yield f"Sign-off: {printable(report.title)}"
    yield ""
    yield from _entries(_of_the_manifest(report, privacy))
    yield from _entries([(_OTHERS, books)] if books else [])
    yield ""
    yield "To be filled in by whoever signs"
    yield from _entries(each for each in _ASKED if not books or each[0] != _OTHERS)
    found = f"what `private-topk audit --mechanism {report.facts.get('mechanism')}` found here (or --report FILE)"
    yield from _entries([("audit", found)])


def registry_entry(report: PublishedReport, books: str = "") -> str:
    """An entry for OpenDP's registry of deployments as YAML; comments at its head name what is blank.

    Args:
        books: as for `sheet`.

    Raises:
        Refusal: there is no manifest, or the ranking is not private.
    """
    known = _known(report, _privacy(report), books)
    blank = [f"{section}.{field}" for section, fields in _SECTIONS.items() for field in fields if field not in known]
    deployment: dict[str, dict[str, Any]] = {}
    for section, fields in _SECTIONS.items():
        values = {field: known.get(field, [_BLANK] if field in _LISTS else _BLANK) for field in fields}
        deployment[section] = {
            field: value for field, value in values.items() if field in known or field not in _CHOICES
        }
    entry = {"url_slug": re.sub(r"[^a-z0-9]+", "-", report.name.lower()).strip("-"), "status": "Draft", "tier": 3,
             "deployment": deployment}  # fmt: skip
    head = "".join(f"# to be filled in: {name}\n" for name in blank)
    return head + yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=_WIDTH)


def _privacy(report: PublishedReport) -> Mapping[str, Any]:
    privacy = report.facts.get("privacy")
    if not privacy or not report.is_private or not all(isinstance(privacy.get(name), str) for name in _SAID):
        raise Refusal("", "there is no manifest beside this ranking that promises anything", "a ranking is signed for "
                      "by what its manifest says")  # fmt: skip
    return privacy


def _entries(entries: Any) -> Iterator[str]:  # noqa: ANN401 - pairs of texts
    for label, text in entries:
        yield textwrap.fill(printable(text), _WIDTH, initial_indent=f"  {label:<{_LABEL}}",
                            subsequent_indent=" " * (_LABEL + 2))  # fmt: skip


def _of_the_manifest(report: PublishedReport, privacy: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    facts = report.facts
    yield "what is published", what_is_ranked(facts)
    yield "who is protected", str(privacy["unit"])
    yield "from whom", "everybody who reads the ranking and its manifest, whatever else they know"
    yield "against what", in_symbols(report)
    yield "budget", _numbers(privacy)
    zcdp = facts.get("zcdp_of_a_window")
    if zcdp and zcdp["rho"]:
        delta = f" but for a delta of {number(zcdp['delta'])}" if zcdp["delta"] else ""
        yield "of each window", f"rho {number(zcdp['rho'])} (zCDP){delta}"
    if facts.get("all_windows"):
        yield "in all windows", _numbers(facts["all_windows"])
    if facts.get("delta_of_a_shared_hash"):
        yield "hash collisions", f"add {number(facts['delta_of_a_shared_hash'])} to delta for every other user"
    yield "how it holds", "the random bits are a cipher's under the release key: the guarantee is computational"
    yield from (each for each in parameters(report) if each[0] != "protected unit")
    yield "not protected", _NOT_PROTECTED


def _numbers(privacy: Mapping[str, Any]) -> str:
    return f"epsilon {number(privacy['epsilon'])}, delta {number(privacy['delta'])}"


def _composed(privacy: Mapping[str, Any]) -> str:
    if not privacy.get("accounting"):
        return ""
    return f"{privacy['accounting']} composition over {privacy['windows']} windows."


def _after(facts: Mapping[str, Any]) -> str:
    """What became of noisy counts after the draw."""
    if "counts_rounded_to" not in facts:
        return "None."
    hidden = f" Those below {facts['counts_hidden_below']} are left out." if "counts_hidden_below" in facts else ""
    return f"Noisy counts are rounded to multiples of {facts['counts_rounded_to']}.{hidden}"


def _known(report: PublishedReport, privacy: Mapping[str, Any], books: str) -> dict[str, Any]:
    """What the manifest says, by the registry's fields."""
    facts, several = report.facts, len(report.facts.get("windows") or ()) > 1
    swap = privacy["neighbours"] == "swap"
    numbers = {"epsilon": privacy["epsilon"]} | ({"delta": privacy["delta"]} if privacy["delta"] else {})
    everything = facts.get("all_windows")
    known = {
        "name": report.title,
        "data_product_type": "Summary statistics",
        "description": what_is_ranked(facts),
        "publication_date": facts.get("released"),
        "variant_name": "Approximate DP" if privacy["delta"] else "Pure DP",
        "unprotected_quantities": _NOT_PROTECTED,
        "privacy_unit": str(privacy["unit"]),
        "privacy_unit_details": f"Adjacent datasets differ by {'replacing' if swap else 'adding or removing'} "
        f"{privacy['unit']}. {who_counts(facts)}",
        "privacy_parameters": numbers,
        "privacy_parameters_details": f"One who is in all windows: {_numbers(everything)}." if everything else None,
        "model_name": "Central",
        "release_type": "Many releases" if several else "One release",
        "access_type": "Non-interactive",
        "post_processing": _after(facts),
        "composition": " ".join(filter(None, (_composed(privacy), books))) or None,
        "mechanisms": f"{dict(parameters(report)).get('mechanism')}, of private-topk: drawn exactly, in integers and "
        "ball arithmetic, from the keystream of a cipher under a secret key.",
    }
    return {field: value for field, value in known.items() if value is not None}
