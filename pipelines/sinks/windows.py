"""One file and one manifest for every window, as soon as it has closed: complete or not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from private_topk.pipelines.files import publish
from private_topk.pipelines.sinks.formats import FORMATS
from private_topk.pipelines.sinks.manifest import encode_manifest, manifest_path
from private_topk.pipelines.sinks.rows import ranking_rows
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.release import Ranking
from private_topk.transforms.windows import WindowBounds

__all__ = ["WriteWindows", "window_path"]


def window_path(folder: str, ending: str, window: WindowBounds) -> str:
    """Where the ranking of a window is written, such as out/20260105T000000Z--20260112T000000Z.avro."""
    return f"{folder.rstrip('/')}/{window.label()}{ending}"


class WriteWindows(beam.PTransform):
    """The ranking of every window as a file named by its bounds, with its manifest beside it.

    Repeating the bundle writes the same bytes again.

    Args:
        ending: a key of `FORMATS`, such as .avro.
        facts: the manifest as known at the launch.
    """

    def __init__(self, folder: str, ending: str, facts: dict[str, Any], key: ReleaseKey) -> None:
        super().__init__()
        self._fn = _PublishWindowDoFn(folder, ending, facts, key)

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        # Ranking  ->  path
        return rankings | "Publish each window" >> beam.ParDo(self._fn).with_output_types(str)


class _PublishWindowDoFn(beam.DoFn):
    def __init__(self, folder: str, ending: str, facts: dict[str, Any], key: ReleaseKey) -> None:
        self._folder, self._ending, self._facts, self._key = folder, ending, facts, key

    def process(self, ranking: Ranking) -> Iterator[str]:
        path = window_path(self._folder, self._ending, ranking.window)
        facts = {**self._facts, "key_id": self._key.key_id()}
        rows = FORMATS[self._ending].encode(ranking_rows([ranking], facts["report"]))
        publish([(manifest_path(path), encode_manifest(facts, [ranking], path)), (path, rows)])
        yield path
