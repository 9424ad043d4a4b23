"""What goes wrong on a worker because of what was given: found again in what a runner makes of it."""

from __future__ import annotations

import re

from private_topk.transforms.refusal import Refusal, refused

__all__ = ["refusal_in"]

_IN_TRACEBACK = re.compile(r"(?:^|\n)(?:[\w.]*\.)?Refusal: (.+?)(?: \[while running [^\n]*)?(?:\n|$)")


def refusal_in(error: BaseException) -> Refusal | None:
    """The refusal that a runner has wrapped into an error of its own, or None. Runners pass on text only."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, Refusal):
            said, wrapped, _ = str(chain).partition(" [while running ")
            return refused(said) if wrapped else chain
        chain = chain.__cause__ or chain.__context__
    found = _IN_TRACEBACK.search(str(error))
    return refused(found.group(1)) if found else None
