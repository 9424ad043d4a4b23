"""One file and one manifest for every window, as soon as it has closed: complete or not there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from private_topk.pipelines.files import is_local, match_any, names_in
from private_topk.pipelines.live import LiveRun
from private_topk.pipelines.protected_files import refuse_replacing
from private_topk.pipelines.publishing import manifest_path, obstacle, publish
from private_topk.pipelines.sinks.file import check_writable
from private_topk.pipelines.sinks.formats import FORMATS, format_of
from private_topk.pipelines.sinks.manifest import encode_manifest
from private_topk.pipelines.sinks.partition import Partition
from private_topk.pipelines.sinks.rows import Shape, ranking_rows
from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.release import Ranking, Release, ReleaseKey
from private_topk.transforms.windows import Period, WindowBounds

__all__ = ["ToFolder", "by_window"]


@dataclass(frozen=True)
class ToFolder:
    """The ranking of every window as a file named by its bounds, with its manifest beside it.

    Args:
        place: the folder, made when there is something to write.
        format: avro, jsonl, csv or parquet.
        partition: where every group has a folder of its own inside, with a file for every window. The rows have no
            column for the group then, as readers of such folders expect it; the manifest names it.
    """

    place: str
    format: str = "avro"
    overwrite: bool = False
    partition: Partition | None = None

    def __post_init__(self) -> None:
        if self._ending not in FORMATS:
            known = ", ".join(ending.removeprefix(".") for ending in FORMATS)
            raise Refusal("output_format", f"must be one of {known}, got {verbatim(self.format)}")

    @property
    def _ending(self) -> str:
        return f".{self.format}"

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        try:
            there = self._there()
        except Exception as error:  # every file system raises its own kind
            raise Refusal("output", f"{verbatim(self.place)} cannot be read: {type(error).__name__}") from None
        for path in self.files(period) if there else []:
            refusal = obstacle(path, release, self.overwrite) if {path, manifest_path(path)} & there else None
            if refusal is not None:
                raise refusal
        folder = os.path.join(os.path.realpath(self.place), "")
        inside = [path for path in inputs if os.path.realpath(path).startswith(folder)]
        if inside:
            files = self.files(period)
            refuse_replacing([*files, *map(manifest_path, files)], inside)
        if is_local(self.place):
            check_writable(f"{self.place.rstrip('/')}/any")

    def write(self, facts: dict[str, Any], release: Release, live: LiveRun | None = None) -> beam.PTransform:
        return _WriteWindows(self, facts, release.key, live)

    def files(self, period: Period | None) -> list[str]:
        windows = period.windows() if period is not None else [WindowBounds()]
        return [f"{folder}/{window.label()}{self._ending}" for window in windows for folder in self._folders()]

    def path(self, window: WindowBounds, group: str | None = None) -> str:
        """Where the ranking of a window is written, such as out/20260105T000000Z--20260112T000000Z.avro, or in
        out/country=DE/.
        """
        inside = "" if self.partition is None else f"{self.partition.folder(group)}/"
        return f"{self._root}/{inside}{window.label()}{self._ending}"

    @property
    def _root(self) -> str:
        return self.place.rstrip("/")

    def _folders(self) -> list[str]:
        """Where files are."""
        if self.partition is None:
            return [self._root]
        return [f"{self._root}/{folder}" for folder in self.partition.folders]

    def _there(self) -> set[str]:
        """The paths of what stands where files are written."""
        names = names_in(self.place)
        if self.partition is None:
            return {f"{self._root}/{name}" for name in names}
        some = [folder for folder in self._folders() if _name(folder) in names]
        return {f"{folder}/{name}" for folder in some for name in names_in(folder)}

    def following(self, period: Period, release: Release) -> Callable[[], dict[str, float]]:
        inside = "/*" if self.partition is None else "/*=*/*"

        def look() -> dict[str, float]:
            try:
                found = match_any(f"{self._root}{inside}{self._ending}")
            except Exception:  # the report itself says what is wrong with its folder
                return {}
            return {self._label(file.path): file.written / 1e6 for file in found}

        return look

    def _label(self, path: str) -> str:
        """The window of a path; of a group's ranking a name of its own, behind a bar."""
        folder, _, name = path.removesuffix(self._ending).rpartition("/")
        return name if self.partition is None else f"{name}|{_name(folder)}"

    def local_places(self) -> tuple[str, ...]:
        return (self.place,) if is_local(self.place) else ()

    def published(self) -> list[dict[str, Any]] | None:
        """Not read back: the folder may hold windows of other reports."""
        return None


class _WriteWindows(beam.PTransform):
    def __init__(self, sink: ToFolder, facts: dict[str, Any], key: ReleaseKey, live: LiveRun | None) -> None:
        super().__init__()
        self._sink, self._facts, self._key, self._live = sink, facts, key, live
        self._grouped = "groups" in facts and sink.partition is None

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        # Ranking, or all of a window  ->  path
        together = by_window(rankings) if self._grouped else rankings | "Each" >> beam.Map(lambda ranking: [ranking])
        fn = _PublishWindowDoFn(self._sink, self._facts, self._key, not rankings.is_bounded, self._live)
        return together | "Publish each window" >> beam.ParDo(fn).with_output_types(str)


def by_window(rankings: beam.PCollection) -> beam.PCollection:
    """All rankings of a window together, [Ranking]."""
    return (
        rankings
        | "Name the window" >> beam.WithKeys(lambda ranking: ranking.window.label()).with_output_types(
            tuple[str, Ranking])
        | "Bring its groups together" >> beam.GroupByKey()
        | "Without the name" >> beam.MapTuple(lambda _, found: list(found))
    )  # fmt: skip


class _PublishWindowDoFn(beam.DoFn):
    def __init__(
        self, sink: ToFolder, facts: dict[str, Any], key: ReleaseKey, keep: bool, live: LiveRun | None
    ) -> None:
        self._sink, self._facts, self._key, self._keep, self._live = sink, facts, key, keep, live

    def process(self, rankings: list[Ranking]) -> Iterator[str]:
        path, partition = self._sink.path(rankings[0].window, rankings[0].group), self._sink.partition
        facts = {**self._facts, "key_id": self._key.key_id()}
        shape = Shape.of(facts)
        if partition is not None:
            facts["partition"], shape = {partition.word: rankings[0].group}, shape._replace(grouped=False)
        rows = format_of(path).encode(ranking_rows(rankings, facts["report"], shape.grouped), shape)
        manifest = encode_manifest(facts, rankings, path, rows)
        publish(path, rows, manifest, self._sink.overwrite, self._keep, self._live)
        yield path


def _name(path: str) -> str:
    return path.rpartition("/")[2]
