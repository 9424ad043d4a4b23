"""The rankings of all windows as one file, and a manifest beside it."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from private_topk.pipelines.files import exists, is_local, open_file
from private_topk.pipelines.live import LiveRun
from private_topk.pipelines.protected_files import refuse_replacing
from private_topk.pipelines.publishing import manifest_path, obstacle, publish
from private_topk.pipelines.sinks.formats import format_of
from private_topk.pipelines.sinks.manifest import encode_manifest
from private_topk.pipelines.sinks.rows import Shape, ranking_rows
from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.release import Ranking, Release, ReleaseKey
from private_topk.transforms.windows import Period

__all__ = ["ToFile", "check_writable"]

_LONGEST = 200  # bytes of a name, so that the manifest and what is being written have room for theirs


@dataclass(frozen=True)
class ToFile:
    """One file with its manifest, both complete or neither. Writing it again writes the same bytes.

    Args:
        place: the path; its ending names the format.
    """

    place: str
    overwrite: bool = False

    def __post_init__(self) -> None:
        format_of(self.place)

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        for path in (self.place, manifest_path(self.place)):
            if is_local(path) and os.path.isdir(path):
                raise Refusal("output", f"{verbatim(path)} is a folder", "give another path")
        refuse_replacing([self.place, manifest_path(self.place)], inputs)
        refusal = obstacle(self.place, release, self.overwrite)
        if refusal is not None:
            raise refusal
        if is_local(self.place):
            check_writable(self.place)
        else:
            exists(self.place)  # whether its store can be reached at all

    def write(self, facts: dict[str, Any], release: Release, live: LiveRun | None = None) -> beam.PTransform:
        return _WriteFile(self, facts, release.key, live)

    def files(self, period: Period | None) -> list[str] | None:
        return [self.place]

    def following(self, period: Period, release: Release) -> None:
        return None

    def local_places(self) -> tuple[str, ...]:
        return (self.place,) if is_local(self.place) else ()

    def published(self) -> list[dict[str, Any]] | None:
        with open_file(self.place) as source:
            return format_of(self.place).decode(source.read())


def check_writable(output: str) -> None:
    """Raise Refusal unless a file can be made in the folder, or in the nearest one above that is there.

    What is made has no name, so that no file of anybody's is touched.
    """
    folder = os.path.dirname(os.path.abspath(output))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        if len(os.fsencode(os.path.basename(output))) > _LONGEST:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Refusal("output", f"{verbatim(output)} cannot be written: {error.strerror}") from None


class _WriteFile(beam.PTransform):
    def __init__(self, sink: ToFile, facts: dict[str, Any], key: ReleaseKey, live: LiveRun | None) -> None:
        super().__init__()
        self._fn = _PublishDoFn(sink, facts, key, live)

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
    def __init__(self, sink: ToFile, facts: dict[str, Any], key: ReleaseKey, live: LiveRun | None) -> None:
        self._sink, self._facts, self._key, self._live = sink, facts, key, live

    def process(self, element: tuple[int, Iterable[Ranking]]) -> Iterator[str]:
        rankings, path = list(element[1]), self._sink.place
        rows = format_of(path).encode(ranking_rows(rankings, self._facts["report"]), Shape.of(self._facts))
        facts = {**self._facts, "key_id": self._key.key_id()}
        publish(path, rows, encode_manifest(facts, rankings, path, rows), self._sink.overwrite, live=self._live)
        yield path
