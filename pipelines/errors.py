"""What goes wrong on a worker because of what was given: found again in what a runner makes of it."""

from __future__ import annotations

import re

from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["InputError", "refusal_in"]


class InputError(Refusal):
    """A refusal of no one field."""

    def __init__(self, sentence: str) -> None:
        super().__init__("", verbatim(sentence))

    def __reduce__(self) -> tuple[type[Refusal], tuple[str, str, str]]:
        return Refusal, ("", self.rule, "")


_IN_TRACEBACK = re.compile(r"(?:^|\n)(?:[\w.]*\.)?(?:Refusal|InputError): (.+?)(?: \[while running [^\n]*)?(?:\n|$)")


def refusal_in(error: BaseException) -> Refusal | None:
    """The refusal that a runner has wrapped into an error of its own, or None. Runners pass on text only."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, Refusal):
            said, wrapped, _ = str(chain).partition(" [while running ")
            return Refusal("", said) if wrapped else chain
        chain = chain.__cause__ or chain.__context__
    found = _IN_TRACEBACK.search(str(error))
    return Refusal("", found.group(1)) if found else None
