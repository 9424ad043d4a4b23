"""Where rankings go: files that appear complete or not at all, and a manifest beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from private_topk.pipelines.files import publish
from private_topk.pipelines.sinks.formats import format_of
from private_topk.pipelines.sinks.manifest import encode_manifest, manifest_path
from private_topk.pipelines.sinks.rows import ranking_rows
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.release import Ranking

__all__ = ["WriteRankings"]


class WriteRankings(beam.PTransform):
    """The rankings of all windows as one file with its manifest, both complete or neither.

    Repeating the bundle writes the same bytes again.

    Args:
        output: the file; its ending names the format.
        facts: the manifest as known at the launch.
        key: the release key, which the manifest names; read where the file is written.
    """

    def __init__(self, output: str, facts: dict[str, Any], key: ReleaseKey) -> None:
        super().__init__()
        format_of(output)
        self._fn = _PublishDoFn(output, facts, key)

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        return (
            rankings
            | "Out of the windows" >> beam.WindowInto(GlobalWindows())
            | "One file" >> beam.WithKeys(0).with_output_types(tuple[int, Ranking])
            | "Await every window" >> beam.GroupByKey()
            # (0, [Ranking])  ->  path
            | "Publish" >> beam.ParDo(self._fn).with_output_types(str)
        )


class _PublishDoFn(beam.DoFn):
    def __init__(self, output: str, facts: dict[str, Any], key: ReleaseKey) -> None:
        self._output, self._facts, self._key = output, facts, key

    def process(self, element: tuple[int, Iterable[Ranking]]) -> Iterator[str]:
        rankings = list(element[1])
        rows = format_of(self._output).encode(ranking_rows(rankings, self._facts["report"]))
        facts = {**self._facts, "key_id": self._key.key_id()}
        manifest = encode_manifest(facts, rankings, self._output)
        # The ranking comes last: where it is, all is.
        publish([(manifest_path(self._output), manifest), (self._output, rows)])
        yield self._output
