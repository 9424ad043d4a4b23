"""Loading a module within a call, so that an interrupt of the call leaves nothing half loaded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from types import ModuleType


def load(name: str) -> ModuleType:
    """Import a module to its end, also where the caller is interrupted meanwhile: the interrupt is raised after it.

    Python raises it in the main thread, hence another one imports. Half of a package cannot be loaded again: its loaded
    modules stay, so that in a notebook only another kernel would help.
    """
    with ThreadPoolExecutor(1) as loader:
        return loader.submit(import_module, name).result()
