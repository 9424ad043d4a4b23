"""Published releases that a ledger lacks, such as one that was restored from a backup: their manifests tell it.

A manifest tells neither the input of its release nor the fingerprint of it, by which readers would see whether the
input of two releases differs.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Collection, Iterable
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import msgspec

from private_topk.pipelines.budget.accounting import ADOPTED, HORIZON, Entry, ledger_named
from private_topk.pipelines.budget.ledger import Account
from private_topk.pipelines.budget.rows import BROKEN, record_in
from private_topk.pipelines.files import as_path, exists, match_any, open_file, reached
from private_topk.pipelines.release.agreement import check_agrees
from private_topk.pipelines.release.manifest import MANIFEST, Manifest, Publication
from private_topk.pipelines.release.place import decoded, folders_of, manifest_path
from private_topk.pipelines.release.promise import cost_of_publication
from private_topk.transforms.errors import InvalidArgument, literal, verbatim
from private_topk.transforms.mechanisms.cost import Cost

_LAST_BITS = Fraction(1, 2**50)
"""By which part a float may be less than what it states."""


def manifests_in(place: str) -> list[Manifest]:
    """The manifests in a folder, those of its corrections too; or one, by its own path or that of its ranking.

    Raises InvalidArgument.
    """
    path = as_path(place, "MANIFEST")
    with reached(place):
        beside = path if path.endswith(MANIFEST) else manifest_path(path)
        patterns = [beside] if exists(beside) else [f"{folder}/*{MANIFEST}" for folder in folders_of(path)]
        paths = [file.path for pattern in patterns for file in match_any(pattern)]
        manifests = [_decoded(path) for path in paths]
    if not manifests:
        remedy = f"give a folder of rankings with their manifests, a ranking, or a file that ends with {MANIFEST}; "
        remedy += f"subfolders are not searched, but for corrections: give each, as {verbatim(place.rstrip('/'))}/*"
        if os.path.isfile(path):
            remedy = "bring it back from a copy; without it, open a budget that is smaller by what this may have cost"
        raise InvalidArgument("", f"{verbatim(place)} has no manifest", remedy)
    return manifests


def _decoded(path: str) -> Manifest:
    with open_file(path) as source:
        manifest = decoded(source.read(), path, "leave it out")
    check_agrees(manifest, path)
    return manifest


def entries_of(manifests: Iterable[Manifest], dataset: str, charged: Collection[str] = ()) -> list[Entry]:
    """The charges of published releases to a dataset, each once for every answer that is there, and of what these
    correct. What promises nothing costs nothing.

    Args:
        charged: release ids that a ledger knows, under any key: nothing tells the key of what is corrected.

    Raises InvalidArgument for a release that cannot be charged to the dataset.
    """
    manifests = list(manifests)
    for manifest in manifests:
        if manifest.dataset not in (None, dataset):
            rule = f"of {verbatim(manifest.release_id)} is {verbatim(manifest.dataset)}, got {verbatim(dataset)}"
            raise InvalidArgument("dataset", rule, "adopt the releases of each dataset apart")
    found, corrected = _entries_of(manifests, dataset), dict[str, Entry]()
    known = {*charged, *(entry.release_id for entry in found)}
    for manifest in manifests:
        for each in manifest.corrects if manifest.private else ():
            if each.release_id not in known:
                corrected.setdefault(each.release_id, _entry_of_corrected(each, _entry_of(manifest, dataset)))
    return [*corrected.values(), *found]


def _entries_of(manifests: Iterable[Manifest], dataset: str) -> list[Entry]:
    """Each charge once for every answer. A release has one ranking of a window, which a format writes in one way: other
    bytes are another answer.
    """
    found, answers = dict[Any, Entry](), dict[Any, list[str | None]]()
    for manifest in sorted(manifests, key=lambda each: (not each.dataset, each.released or "", each.release_id or "")):
        if manifest.private:
            entry, ending = _entry_of(manifest, dataset), (manifest.output or "").rpartition(".")[2]
            release = (entry.release_id, entry.key_id, entry.windows)
            digests = answers.setdefault((release, frozenset(manifest.bounds()), ending), [])
            if manifest.ranking_sha256 not in digests:
                digests.append(manifest.ranking_sha256)
            found.setdefault((release, digests.index(manifest.ranking_sha256)), entry)
    return list(found.values())


def _entry_of_corrected(corrected: Publication, correction: Entry) -> Entry:
    """The charge of the same windows that a correction tells of: exact where it was the same, else no less than that of
    which its floats are.
    """
    same = Publication.of(corrected.release_id, correction.cost) == corrected
    cost = correction.cost if same else Cost.sum([(1 + _LAST_BITS, cost_of_publication(corrected))])
    return replace(correction, release_id=corrected.release_id, cost=cost, mechanism=None, k=None)


def _entry_of(manifest: Manifest, dataset: str) -> Entry:
    columns, reading, privacy = manifest.columns or {}, manifest.reading or {}, manifest.privacy
    horizon = (privacy.windows or 1) if privacy and privacy.of_all_windows else None
    asked = {"horizon": horizon, HORIZON: msgspec.to_builtins(manifest.horizon)}
    row = {
        **(msgspec.structs.asdict(manifest.charge) if manifest.charge is not None else {}),
        "id": 0,
        "dataset": manifest.dataset or dataset,
        "release_id": manifest.release_id,
        "key_id": manifest.key_id,
        "fingerprint": "",
        "question": json.dumps({"asked": asked}) if horizon else "",
        "stream": None,
        "mechanism": manifest.mechanism,
        "k": manifest.k,
        "neighbours": privacy and privacy.neighbours,
        "user_column": columns.get("user"),
        "time_column": columns.get("time"),
        "time_unit": reading.get("time_unit", "s") if "time" in columns else None,
        "charged": "1970-01-01T00:00:00Z",
        "finished": None,
        "outcome": ADOPTED if manifest.dataset is None else "released",  # whoever charges it names the dataset
    }
    try:
        return record_in(Entry, SimpleNamespace(**row))
    except (*BROKEN, InvalidArgument):
        rule = f"the manifest of {verbatim(manifest.release_id)} does not tell what a ledger is charged"
        raise InvalidArgument("", rule, "only manifests that this version has written can be adopted") from None


def check_adopted(account: Account, published: Iterable[Manifest | None], key_id: str | None) -> None:
    """Raise InvalidArgument if an account's ledger was never charged for a release that is published under a key.

    Args:
        published: the manifests that lie there; None where there is none.
    """
    told = (each for each in published if each is not None and each.key_id == key_id and each.charge is not None)
    lacking = account.books.lacks(_entries_of(told, account.dataset))
    if lacking:
        rule = f"has no charge of {verbatim(lacking[0].release_id)}, which is published"
        raise InvalidArgument(
            "ledger",
            f"{rule}: the report ran without this ledger, or the ledger was restored from a backup",
            literal(
                f"let `private-topk budget adopt FOLDER --ledger {ledger_named(account.ledger)} "
                f"--dataset {shlex.quote(account.dataset)}` write down all that is published (docs/operations.md)"
            ),
        )
