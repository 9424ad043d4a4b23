"""No output takes the place of a file that is read, or that something is kept in: the one rule of all commands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from private_topk.pipelines.files import as_path, is_local
from private_topk.transforms.errors import Refusal, verbatim

__all__ = ["ledger_file", "protected_files", "refuse_replacing"]

_FIELDS = ("input", "domain", "groups", "success_file", "payload_schema", "counts", "counts_before", "like", "config")


def refuse_replacing(outputs: Iterable[str], kept: Iterable[str], field: str = "output") -> None:
    """Raise Refusal of the field where an output is one of the files that are read or kept, by whatever name: a link,
    another spelling, a detour or a file:// address.

    What is written replaces what stands there, also where everything else of the run is right.
    """
    others = {_identity(path): path for path in kept if path}
    for path in outputs:
        if (other := others.get(_identity(path))) is not None:
            rule = f"{verbatim(path)} would replace {verbatim(other)}, which is read"
            raise Refusal(field, rule, "give another path")


def protected_files(options: Mapping[str, Any]) -> list[str]:
    """The files that are named by what is asked for, to be read or kept."""
    found = [str(options[field]) for field in _FIELDS if options.get(field) is not None]
    kind, _, place = str(options.get("release_key", "")).partition(":")
    found += [place] if kind == "file" else []
    ledger = ledger_file(options["ledger"]) if options.get("ledger") is not None else None
    return found if ledger is None else [*found, ledger]


def ledger_file(url: str) -> str | None:
    """The file of a ledger, where it is one. Raises Refusal of a URL that is none."""
    from private_topk.pipelines.budget.tables import Database

    return Database(url).file


def _identity(path: str) -> object:
    """What is the same for two names of one file, and for two names of one that is not there yet."""
    path = as_path(path, "output") if path.startswith("file:///") else path
    if not is_local(path):
        return path
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
