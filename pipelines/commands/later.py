"""What Beam loads and a run over local files never calls, loaded where it is called after all: a third of the modules.

Clients of HTTP, and beartype, which Beam asks about two type hints that it cannot compare itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any

__all__ = ["LATER", "later"]

LATER = ("httplib2", "requests")
"""Modules that Beam names and does not look into while it is loaded. Loading one at its first use is not safe in
several threads before Python 3.12: none of these is used by a worker of a local run."""


@contextmanager
def later() -> Iterator[None]:
    """What this thread loads inside finds these modules unloaded, unless they were loaded before."""
    finder = _Later()
    sys.meta_path.insert(0, finder)
    try:
        with _instead():
            yield
    finally:
        sys.meta_path.remove(finder)


class _Later(MetaPathFinder):
    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in LATER or threading.get_ident() != self._thread:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


class _DoorError(Exception):
    """What beartype raises of a type hint that it does not know."""


def _is_subhint(sub: Any, base: Any) -> bool:  # noqa: ANN401 - type hints of any kind
    from beartype.door import is_subhint
    from beartype.roar import BeartypeDoorException

    try:
        return is_subhint(sub, base)
    except BeartypeDoorException as error:
        raise _DoorError(str(error)) from error


class _StandIn(ModuleType):
    """A module with one name that can do without it. Whoever asks for another gets that of the module itself."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
        if name.startswith("__"):
            raise AttributeError(name)
        _leave()
        return getattr(import_module(self.__name__), name)


@contextmanager
def _instead() -> Iterator[None]:
    """`from` takes names out of a module, which loads it: here those of beartype's 300 modules that Beam takes."""
    names: dict[str, tuple[str, Any]] = {
        "beartype.door": ("is_subhint", _is_subhint),
        "beartype.roar": ("BeartypeDoorException", _DoorError),
    }
    for name, (taken, stands_in) in names.items() if "beartype" not in sys.modules else ():
        sys.modules[name] = _StandIn(name)
        setattr(sys.modules[name], taken, stands_in)
    try:
        yield
    finally:
        _leave()


def _leave() -> None:
    for name, module in list(sys.modules.items()):
        if type(module) is _StandIn:  # not `isinstance`, which looks into a module and so loads it
            del sys.modules[name]
