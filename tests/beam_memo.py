"""Two pure functions of Beam, remembered: half of the time that a small pipeline takes in one process goes into them.

What a DoFn's class says of its state is read anew some hundred times for each pipeline, and so are the words of each
kind of option. Nothing else of Beam is touched. `PRIVATE_TOPK_PLAIN_BEAM=1` leaves it as it is, as `make newest` does.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate

__all__ = ["remember"]


def remember() -> None:
    """From here on, in this process."""
    if not os.environ.get("PRIVATE_TOPK_PLAIN_BEAM"):
        userstate.get_dofn_specs = _specs
        PipelineOptions.__init__ = _init  # type: ignore[method-assign]


_read_specs, _read_options = userstate.get_dofn_specs, PipelineOptions.__init__
_SPECS: dict[type, tuple[set[Any], set[Any]]] = {}
_OPTIONS: dict[tuple[type, tuple[str, ...]], Any] = {}


def _specs(dofn: Any) -> tuple[set[Any], set[Any]]:  # noqa: ANN401 - a DoFn
    if any(map(callable, vars(dofn).values())):  # it may wrap a function, with parameters of its own
        return _read_specs(dofn)
    kind = type(dofn)
    if kind not in _SPECS:
        _SPECS[kind] = _read_specs(dofn)
    states, timers = _SPECS[kind]
    return set(states), set(timers)


def _init(self: Any, flags: Sequence[str] | None = None, **kwargs: Any) -> None:  # noqa: ANN401
    key = (type(self), tuple(sys.argv[1:] if flags is None else flags))
    if isinstance(flags, str) or key not in _OPTIONS:
        _read_options(self, flags, **kwargs)
        _OPTIONS[key] = copy.deepcopy(self._visible_options)
        return
    self._flags = flags
    self._visible_options = copy.deepcopy(_OPTIONS[key])
    self._all_options = kwargs
    for name in self._visible_option_list():
        self._all_options.setdefault(name, getattr(self._visible_options, name))
