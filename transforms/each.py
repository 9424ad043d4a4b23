"""A function of single elements as a step of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam

from private_topk.transforms.errors import crosses


def flat_map(function: Callable[..., Iterable[Any]], *arguments: object) -> beam.ParDo:
    """`beam.FlatMap` by a DoFn of ours: Beam asks for the signature of one method (see `crosses`), and not of forty."""
    return beam.ParDo(_EachDoFn(function, arguments))


@crosses
class _EachDoFn(beam.DoFn):
    def __init__(self, function: Callable[..., Iterable[Any]], arguments: tuple[object, ...]) -> None:
        self._function, self._arguments = function, arguments

    def process(self, element: Any) -> Iterator[Any]:  # noqa: ANN401 - the function says
        yield from self._function(element, *self._arguments)
