"""Pure functions of Beam, remembered: half of the time that a small pipeline takes in one process goes into them.

What a DoFn's class says of its state is read anew some hundred times for each pipeline, what a function's arguments and
types are some thousand times, and so are the source of each function and the words of each kind of option. What is
pickled is compressed, which takes tables of megabytes for any few bytes, and most of it was before: the level of least
memory does. Where in the code a type was said is noted each time, for messages that no test reads; and to weigh a value
of state, for a cache that is never full, all names of all modules are gone through. Nothing else of Beam is touched.
`PRIVATE_TOPK_PLAIN_BEAM=1` leaves it as it is, as `make newest` and `make oldest` do.
"""

from __future__ import annotations

import bz2
import copy
import os
import sys
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker import statecache
from apache_beam.transforms import core, userstate
from apache_beam.typehints.decorators import IOTypeHints

__all__ = ["remember"]


def remember() -> None:
    """From here on, in this process."""
    if not os.environ.get("PRIVATE_TOPK_PLAIN_BEAM"):
        userstate.get_dofn_specs = _specs
        core.get_function_args_defaults = _arguments
        core._check_fn_use_yield_and_return = _yields_and_returns
        PipelineOptions.__init__ = _init  # type: ignore[method-assign]
        PipelineOptions._visible_option_list = _visible  # type: ignore[method-assign]
        IOTypeHints.from_callable = staticmethod(_hints)  # type: ignore[method-assign, assignment]
        statecache.get_deep_size = lambda *values: 1000 * len(values)
        IOTypeHints._make_origin = staticmethod(_origin)  # type: ignore[method-assign, assignment]
        known = Compressed()
        cloudpickle_pickler.bz2 = SimpleNamespace(compress=known.compress, decompress=known.decompress)


Arguments = tuple[list[str], list[Any]]
"""Names, and defaults of the last ones."""

_read_specs, _read_options = userstate.get_dofn_specs, PipelineOptions.__init__
_read_hints = IOTypeHints.from_callable
_read_arguments, _read_source = core.get_function_args_defaults, core._check_fn_use_yield_and_return
_SPECS: dict[tuple[type, frozenset[str]], tuple[set[Any], set[Any]]] = {}
_ARGUMENTS: WeakKeyDictionary[FunctionType, dict[bool, Arguments]] = WeakKeyDictionary()
_HINTS: WeakKeyDictionary[FunctionType, dict[bool, IOTypeHints | None]] = WeakKeyDictionary()
_SOURCES: dict[Any, bool] = {}
_OPTIONS: dict[tuple[type, tuple[str, ...]], Any] = {}


class Compressed:
    """bz2, of which the last texts are remembered, up to some bytes in all."""

    def __init__(self, most: int = 1 << 26) -> None:
        self._most, self._size = most, 0
        self._packed: dict[bytes, bytes] = {}
        self._plain: dict[bytes, bytes] = {}

    def compress(self, plain: bytes, compresslevel: int = 9) -> bytes:
        packed = self._packed.get(plain)
        return self._note(plain, bz2.compress(plain, 1)) if packed is None else packed

    def decompress(self, packed: bytes) -> bytes:
        plain = self._plain.get(packed)
        if plain is None:
            plain = bz2.decompress(packed)
            self._note(plain, packed)
        return plain

    def _note(self, plain: bytes, packed: bytes) -> bytes:
        self._size += len(plain) + len(packed)
        if self._size > self._most:  # all go at once: what is needed again comes again
            self._packed, self._plain, self._size = {}, {}, len(plain) + len(packed)
        self._packed[plain], self._plain[packed] = packed, plain
        return packed


def _specs(dofn: Any) -> tuple[set[Any], set[Any]]:  # noqa: ANN401 - a DoFn
    own = {name for name, value in vars(dofn).items() if callable(value)}
    if any(type(getattr(dofn, name)) is not FunctionType for name in own):  # it may be a method, with its own state
        return _read_specs(dofn)
    key = (type(dofn), frozenset(own))
    if key not in _SPECS:
        _SPECS[key] = _read_specs(dofn)
    states, timers = _SPECS[key]
    return set(states), set(timers)


def _by_function(
    table: MutableMapping[FunctionType, dict[bool, Any]], read: Callable[..., Any], function: Callable[..., Any]
) -> Any:  # noqa: ANN401 - whatever is read
    """Of functions, and of methods, which are known by what they are made from and by being bound."""
    bound = type(function) is MethodType
    made = function.__func__ if bound else function  # type: ignore[attr-defined]
    if type(made) is not FunctionType:
        return read(function)
    known = table.setdefault(made, {})
    if bound not in known:
        known[bound] = read(function)
    return known[bound]


def _arguments(function: Callable[..., Any]) -> Arguments:
    """Of methods without what they are bound to."""
    names, defaults = _by_function(_ARGUMENTS, _read_arguments, function)
    return list(names), list(defaults)


def _hints(function: Callable[..., Any]) -> IOTypeHints | None:
    """They are never changed in place."""
    return _by_function(_HINTS, _read_hints, function)


def _origin(bases: Sequence[IOTypeHints], tb: bool = True, msg: Iterable[str] = ()) -> list[str]:
    return list(msg)


def _visible(self: Any) -> list[str]:  # noqa: ANN401 - options
    return sorted(name for name in vars(self._visible_options) if name[0] != "_")


def _yields_and_returns(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)  # a method's is its function's
    if code is None:
        return _read_source(function)
    if code not in _SOURCES:
        _SOURCES[code] = _read_source(function)
    return _SOURCES[code]


def _init(self: Any, flags: Sequence[str] | None = None, **kwargs: Any) -> None:  # noqa: ANN401
    key = (type(self), tuple(sys.argv[1:] if flags is None else flags))
    if isinstance(flags, str) or key not in _OPTIONS:
        _read_options(self, flags, **kwargs)
        _OPTIONS[key] = copy.deepcopy(self._visible_options)
        return
    self._flags = flags
    self._visible_options = copy.copy(_OPTIONS[key])
    for name, value in vars(_OPTIONS[key]).items():
        if isinstance(value, (list, dict, set)):
            setattr(self._visible_options, name, copy.deepcopy(value))
    self._all_options = kwargs
    for name in self._visible_option_list():
        self._all_options.setdefault(name, getattr(self._visible_options, name))
