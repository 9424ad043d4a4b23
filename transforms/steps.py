"""Beam's `FlatMap` and `WindowInto` by DoFns of ours: Beam asks for the signatures of all that a DoFn lists, and theirs
list forty methods (see `crosses`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam

from private_topk.transforms.errors import crosses


def flat_map(function: Callable[..., Iterable[Any]], *arguments: object) -> beam.ParDo:
    """A step that emits what the function yields for an element, to which the arguments are added."""
    return beam.ParDo(_EachDoFn(function, arguments))


@crosses
class _EachDoFn(beam.DoFn):
    def __init__(self, function: Callable[..., Iterable[Any]], arguments: tuple[object, ...]) -> None:
        self._function, self._arguments = function, arguments

    def process(self, element: Any) -> Iterator[Any]:  # noqa: ANN401 - the function says
        yield from self._function(element, *self._arguments)


class WindowInto(beam.WindowInto):
    """As Beam's in all else."""

    @crosses
    class WindowIntoFn(beam.WindowInto.WindowIntoFn):
        """The DoFn by which Beam's class makes itself."""
