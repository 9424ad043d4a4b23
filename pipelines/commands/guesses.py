"""What people type who know other tools, and what it is called here."""

from __future__ import annotations

from collections.abc import Container

__all__ = ["meant", "meant_command"]

_ARGUMENTS = {
    "force": "overwrite", "replace": "overwrite", "yes": "overwrite",
    "start": "from", "begin": "from", "since": "from", "date-from": "from",
    "end": "to", "until": "to", "date-to": "to",
    "unit": "privacy-unit", "budget": "epsilon", "eps": "epsilon",
    "top": "k", "top-k": "k", "limit": "k", "n": "k",
    "user": "user-column", "users": "user-column", "user-id": "user-column",
    "item": "item-column", "items": "domain", "catalogue": "domain", "candidates": "domain",
    "time": "time-column", "timestamp": "time-column", "date": "time-column", "tz": "time-zone",
    "dry-run": "check", "validate": "check", "test": "check", "silent": "quiet", "counts": "publish-counts",
    "group-by": "group-column", "group": "group-column", "algorithm": "mechanism", "method": "mechanism",
    "source": "input", "sink": "output", "destination": "output", "file": "input",
    "key": "release-key", "name": "release-id", "id": "release-id", "clip": "max-items-per-user",
    "max-partitions-contributed": "max-windows-per-user", "max-partitions": "max-windows-per-user",
}  # fmt: skip
_SAID = {
    "seed": ("release-key", "noise has no seed: {} and --release-id repeat a release, and its key is a secret"),
    "verbose": ("show-left-out", "{} tells an operator of rows that were left out"),
    "noise": ("mechanism", "the {} decides which noise is drawn, and --epsilon how much"),
}
_COMMANDS = {
    "rank": "run", "publish": "run", "topk": "run", "top-k": "run", "batch": "run", "print": "show", "view": "show",
    "html": "show", "cat": "show", "demo": "sample", "example": "sample", "generate": "sample", "schedule": "report",
    "watch": "stream", "list": "mechanisms", "ledger": "budget", "init": "budget", "check": "run", "test": "audit",
}  # fmt: skip


def meant(option: str, known: Container[str]) -> str | None:
    """The remedy for an argument that other tools have, where the command has one for it."""
    name = option.lstrip("-").replace("_", "-")
    if name in _SAID:
        ours, text = _SAID[name]
        return text.format(f"--{ours}") if f"--{ours}" in known else None
    ours = _ARGUMENTS.get(name, "")
    return f"did you mean --{ours}?" if f"--{ours}" in known and ours else None


def meant_command(name: str, known: Container[str]) -> str | None:
    """The remedy for a command that other tools have."""
    if name in ("version", "-v", "-V"):
        return "`private-topk --version` says which it is"
    if name == "doctor":
        return "`private-topk run --check` says what a run would do"
    ours = _COMMANDS.get(name)
    return f"did you mean {ours}?" if ours in known else None
