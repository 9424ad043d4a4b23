"""Loading what a run needs, Beam above all, which is most of the time that a small one takes."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from private_topk.runners import RUNNERS, short_name

__all__ = ["load"]


def load(runner: str | None) -> None:
    """Load what a run needs, without Python's searches for garbage: a fifth of the time.

    The modules make some 370,000 objects, which all stay to the end, so no later search goes through them either. Where
    Beam is loaded, as in a process that runs other things beside, this does nothing.

    Args:
        runner: its name, right or wrong, or None for the default.
    """
    if "apache_beam" in sys.modules or not gc.isenabled():
        return
    gc.disable()
    try:
        import_module("private_topk.pipelines.commands.launching")
        import_module(RUNNERS.get(short_name(runner or "direct"), RUNNERS["direct"]))
    finally:
        gc.freeze()
        gc.enable()
