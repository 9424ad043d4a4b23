"""Beam's options, as every job of ours is given them."""

from __future__ import annotations

from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

View = TypeVar("View", bound=PipelineOptions)


class BeamOptions(PipelineOptions):
    """Beam's options, of which each view is made once.

    Beam asks for a view some 250 times while it builds and runs a pipeline, and parses all words anew each time: more
    than a third of what a small job costs. Views of one class are alike, since they share their values.
    """

    def view_as(self, cls: type[View]) -> View:
        views = self.__dict__.setdefault("_views", {})  # Beam sets no attribute but options
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_views"}
