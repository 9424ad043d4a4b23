"""What goes wrong because of what was asked or given: exit status 2, one sentence, no traceback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["InputError", "as_arguments", "input_error_in"]


class InputError(Refusal):
    """Bad input: the message names the argument or file, the rule and the remedy, and shows no data."""

    def __init__(self, text: str) -> None:
        super().__init__("", verbatim(text))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)


@contextmanager
def as_arguments() -> Iterator[None]:
    """What is refused inside, with fields by their names on the command line."""
    try:
        yield
    except InputError:
        raise
    except Refusal as refusal:
        raise InputError(refusal.shown(_argument)) from None


def _argument(field: str) -> str:
    return {"period_from": "--from", "period_to": "--to"}.get(field, f"--{field.replace('_', '-')}")


_IN_TRACEBACK = re.compile(r"(?:^|\n)(?:[\w.]*\.)?(?:InputError|Refusal): (.+?)(?: \[while running [^\n]*)?(?:\n|$)")


def input_error_in(error: BaseException) -> InputError | None:
    """The `InputError` that a runner has wrapped into an error of its own, or None. Runners pass on text only."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, Refusal):
            return InputError(str(chain).partition(" [while running ")[0])
        chain = chain.__cause__ or chain.__context__
    found = _IN_TRACEBACK.search(str(error))
    return InputError(found.group(1)) if found else None
