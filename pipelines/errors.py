"""What goes wrong because of what was asked or given: exit status 2, one sentence, no traceback."""

from __future__ import annotations

import re

from private_topk.transforms.refusal import Refusal

__all__ = ["InputError", "as_option", "input_error_in", "sentence"]


class InputError(ValueError):
    """Bad input: the message names the argument or file, the rule and the remedy, and shows no data."""


_OPTIONS = {"period_from": "--from", "period_to": "--to"}


def as_option(field: str) -> str:
    """A field's name on the command line."""
    return _OPTIONS.get(field) or f"--{field.replace('_', '-')}"


def sentence(error: BaseException) -> str:
    """What an error says on the command line."""
    return error.shown(as_option) if isinstance(error, Refusal) else str(error)


_IN_TRACEBACK = re.compile(r"(?:^|\n)(?:[\w.]*\.)?InputError: (.+?)(?: \[while running [^\n]*)?(?:\n|$)")


def input_error_in(error: BaseException) -> InputError | None:
    """The `InputError` that a runner has wrapped into an error of its own, or None. Runners pass on text only."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, InputError):
            return InputError(str(chain).partition(" [while running ")[0])
        chain = chain.__cause__ or chain.__context__
    found = _IN_TRACEBACK.search(str(error))
    return InputError(found.group(1)) if found else None
