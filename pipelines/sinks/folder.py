"""One file and one manifest for every window, as soon as it has closed: complete or not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from private_topk.pipelines.files import is_local, match_any, names_in
from private_topk.pipelines.publishing import manifest_path, obstacle, publish
from private_topk.pipelines.sinks.file import check_writable, keep_apart
from private_topk.pipelines.sinks.formats import FORMATS, format_of
from private_topk.pipelines.sinks.manifest import encode_manifest
from private_topk.pipelines.sinks.rows import Shape, ranking_rows
from private_topk.transforms.keys import Release, ReleaseKey
from private_topk.transforms.refusal import Refusal, verbatim
from private_topk.transforms.release import Ranking
from private_topk.transforms.windows import Period, WindowBounds

__all__ = ["ToFolder", "by_window"]


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
            there = names_in(self.place)
        except Exception as error:  # every file system raises its own kind
            raise Refusal("output", f"{verbatim(self.place)} cannot be read: {type(error).__name__}") from None
        for path in [] if self.overwrite else self.files(period):
            refusal = obstacle(path, release) if {_name(path), _name(manifest_path(path))} & there else None
            if refusal is not None:
                raise refusal
        keep_apart(self.files(period), inputs)
        if is_local(self.place):
            check_writable(f"{self.place.rstrip('/')}/any")

    def write(self, facts: dict[str, Any], release: Release) -> beam.PTransform:
        return _WriteWindows(self, facts, release.key)

    def files(self, period: Period | None) -> list[str]:
        windows = period.windows() if period is not None else [WindowBounds()]
        return [self.path(window) for window in windows]

    def path(self, window: WindowBounds) -> str:
        """Where the ranking of a window is written, such as out/20260105T000000Z--20260112T000000Z.avro."""
        return f"{self.place.rstrip('/')}/{window.label()}{self._ending}"

    def following(self, period: Period, release: Release) -> Callable[[], dict[str, float]]:
        def look() -> dict[str, float]:
            try:
                found = match_any(f"{self.place.rstrip('/')}/*{self._ending}")
            except Exception:  # the report itself says what is wrong with its folder
                return {}
            return {_name(file.path).removesuffix(self._ending): file.written / 1e6 for file in found}

        return look

    def local_places(self) -> tuple[str, ...]:
        return (self.place,) if is_local(self.place) else ()

    def published(self) -> list[dict[str, Any]] | None:
        """Not read back: the folder may hold windows of other reports."""
        return None


class _WriteWindows(beam.PTransform):
    def __init__(self, sink: ToFolder, facts: dict[str, Any], key: ReleaseKey) -> None:
        super().__init__()
        self._fn, self._grouped = _PublishWindowDoFn(sink, facts, key), "groups" in facts

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        # Ranking, or all of a window  ->  path
        together = by_window(rankings) if self._grouped else rankings | "Each" >> beam.Map(lambda ranking: [ranking])
        return together | "Publish each window" >> beam.ParDo(self._fn).with_output_types(str)


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
    def __init__(self, sink: ToFolder, facts: dict[str, Any], key: ReleaseKey) -> None:
        self._sink, self._facts, self._key = sink, facts, key

    def process(self, rankings: list[Ranking]) -> Iterator[str]:
        path = self._sink.path(rankings[0].window)
        facts = {**self._facts, "key_id": self._key.key_id()}
        rows = format_of(path).encode(ranking_rows(rankings, facts["report"]), Shape.of(facts))
        publish(path, rows, encode_manifest(facts, rankings, path, rows), self._sink.overwrite)
        yield path


def _name(path: str) -> str:
    return path.rpartition("/")[2]
