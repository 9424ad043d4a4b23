"""Loading what a run needs, Beam above all, which is most of the time that a small one takes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib import import_module

from private_topk.pipelines.commands.clients import unseen
from private_topk.pipelines.commands.later import later
from private_topk.pipelines.fields import Asked
from private_topk.runners import RUNNERS, short_name

__all__ = ["load", "reading_early"]


def load(runner: str | None, local: bool = False) -> None:
    """Load what a run needs, without Python's searches for garbage: a fifth of the time.

    The modules make some 370,000 objects, which all stay to the end, so no later search goes through them either. Where
    Beam is loaded, as in a process that runs other things beside, this does nothing.

    Args:
        runner: its name, right or wrong, or None for the default.
        local: no place is in a cloud: neither the clients of clouds nor what only they use are loaded, where the runner
            is the direct one.
    """
    if "apache_beam" in sys.modules or not gc.isenabled():
        return
    alone = local and short_name(runner or "direct") == "direct"
    with _kept(), ExitStack() as around:
        if alone:
            around.enter_context(unseen())
            around.enter_context(later())
        import_module("private_topk.pipelines.commands.launching")
        import_module(RUNNERS.get(short_name(runner or "direct"), RUNNERS["direct"]))


def reading_early(asked: Asked, runner: str | None, words: Sequence[str]) -> AbstractContextManager[None]:
    """Decode the input of a run to come while Beam is being loaded, where its pipeline will be in this process.

    Args:
        asked: what it asks for.
        runner: its name, right or wrong, or None for the default.
        words: for Beam, which may ask for workers elsewhere.
    """
    if "apache_beam" in sys.modules or short_name(runner or "direct") != "direct" or words:
        return nullcontext()
    with _kept():
        from private_topk.pipelines.beginning import begun
    return begun(asked)


@contextmanager
def _kept() -> Iterator[None]:
    """What is loaded inside stays to the end: nobody searches it for garbage, now or later."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
