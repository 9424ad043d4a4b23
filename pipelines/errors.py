"""What goes wrong on a worker because of what was given, or of a signal: found again in what a runner makes of it."""

from __future__ import annotations

import re

from private_topk.pipelines.signals import heard
from private_topk.transforms.guard import LostPartError
from private_topk.transforms.refusal import Refusal, refused

__all__ = ["interruption_in", "loss_in", "refusal_in"]

_LOSS = re.compile(r"(?:^|\n)(?:[\w.]*\.)?LostPartError: (.+?)(?: \[while running [^\n]*)?(?:\n|$)")
_IN_TRACEBACK = re.compile(r"(?:^|\n)(?:[\w.]*\.)?Refusal: (.+?)(?: \[while running [^\n]*)?(?:\n|$)")


def interruption_in(error: BaseException) -> KeyboardInterrupt | None:
    """The signal that an error comes from, or None.

    A signal is raised wherever the main thread just is. Inside a DoFn, Beam makes an error of its own of it, as of
    everything that is raised there, and so do libraries while they are being loaded.
    """
    chain: BaseException | None = error
    while chain is not None and not isinstance(chain, KeyboardInterrupt):
        chain = chain.__cause__ or chain.__context__
    return heard() if chain is None else chain


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


def loss_in(error: BaseException) -> LostPartError | None:
    """The loss of counts that a runner has wrapped into an error of its own, or None."""
    found = _LOSS.search(f"{type(error).__name__}: {error}")
    return LostPartError(found.group(1)) if found else None
