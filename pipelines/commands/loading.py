"""Loading what a run needs, Beam above all, which is most of the time that a small one takes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module

from private_topk.pipelines.commands.clients import unseen
from private_topk.pipelines.commands.later import later
from private_topk.runners import RUNNERS, short_name

__all__ = ["load"]


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
