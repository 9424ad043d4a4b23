"""One file and one manifest for every window, as soon as it has closed: complete or not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from private_topk.pipelines.files import is_local, publish
from private_topk.pipelines.sinks.formats import FORMATS
from private_topk.pipelines.sinks.manifest import encode_manifest, manifest_path
from private_topk.pipelines.sinks.rows import ranking_rows
from private_topk.transforms.keys import Release, ReleaseKey
from private_topk.transforms.refusal import Refusal, verbatim
from private_topk.transforms.release import Ranking
from private_topk.transforms.windows import Period, WindowBounds

__all__ = ["ToFolder", "window_path"]


def window_path(folder: str, ending: str, window: WindowBounds) -> str:
    """Where the ranking of a window is written, such as out/20260105T000000Z--20260112T000000Z.avro."""
    return f"{folder.rstrip('/')}/{window.label()}{ending}"


@dataclass(frozen=True)
class ToFolder:
    """The ranking of every window as a file named by its bounds, with its manifest beside it.

    Args:
        place: the folder, made when there is something to write.
        format: avro, jsonl, csv or parquet.
    """

    place: str
    format: str = "avro"
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self._ending not in FORMATS:
            known = ", ".join(ending.removeprefix(".") for ending in FORMATS)
            raise Refusal("output_format", f"must be one of {known}, got {verbatim(self.format)}")

    @property
    def _ending(self) -> str:
        return f".{self.format}"

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        try:
            found = FileSystems.match([f"{self.place.rstrip('/')}/*"])[0].metadata_list
        except Exception as error:  # every file system raises its own kind
            raise Refusal("output", f"{verbatim(self.place)} cannot be read: {type(error).__name__}") from None
        there = {entry.path.rpartition("/")[2] for entry in found}
        windows = period.windows() if period is not None else [WindowBounds()]
        for window in [] if self.overwrite or not there else windows:
            path = window_path(self.place, self._ending, window)
            if path.rpartition("/")[2] in there:
                raise Refusal("output", f"{verbatim(path)} exists and is kept", "give another folder, or {overwrite}")

    def write(self, facts: dict[str, Any], release: Release) -> beam.PTransform:
        return _WriteWindows(self.place, self._ending, facts, release.key)

    def local_places(self) -> tuple[str, ...]:
        return (self.place,) if is_local(self.place) else ()

    def files(self, period: Period | None) -> list[str] | None:
        windows = period.windows() if period is not None else [WindowBounds()]
        return [window_path(self.place, self._ending, window) for window in windows]

    def published(self) -> list[dict[str, Any]] | None:
        """Not read back: the folder may hold windows of other reports."""
        return None


class _WriteWindows(beam.PTransform):
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
