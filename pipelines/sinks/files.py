"""Rankings as files: one of all windows, or a folder with one for each window. A file and its manifest appear complete
or not at all.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.transforms.window import GlobalWindows

from private_topk.pipelines.files import exists, is_local, match_any, names_in, open_file, refuse_replacing
from private_topk.pipelines.release.formats import RANKING_FORMATS, RankingSchema, check_fields, format_of, ranking_rows
from private_topk.pipelines.release.input_record import InputRecord
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.place import Bounds, Lying, manifest_path, pair_at, what_lies
from private_topk.pipelines.release.store import publish
from private_topk.pipelines.run_state import RunState
from private_topk.pipelines.sinks.sink import Sink, about_the_output
from private_topk.transforms.errors import IncompleteDataError, InvalidArgument, crosses, verbatim
from private_topk.transforms.release import Ranking, Release, ReleaseKey
from private_topk.transforms.steps import WindowInto, flat_map
from private_topk.transforms.windows import Period, WindowBounds

_ROOM = "x" * 55  # behind a ranking's name, for the names of its manifest and of what is being written
_ROOM_BELOW = f"{'x' * 100}/{'x' * 100}"  # in its folder, for these and for the record of a stream


@dataclass(frozen=True)
class ToFile(Sink):
    """One file with its manifest, both complete or neither. Writing it again writes the same bytes.

    Args:
        uri: the path; its ending names the format.
    """

    uri: str
    overwrite: bool = False

    def __post_init__(self) -> None:
        format_of(self.uri)

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        for path in (self.uri, manifest_path(self.uri)):
            if is_local(path) and os.path.isdir(path):
                into = ", or with / at its end to have a file for every window in it" if path == self.uri else ""
                raise InvalidArgument("output", f"{verbatim(path)} is a folder", f"give another path{into}")
        refuse_replacing([self.uri, manifest_path(self.uri)], inputs)
        self.check_place(period, release)
        if is_local(self.uri):
            _check_writable(self.uri)
        else:
            exists(self.uri)  # raises if its store cannot be reached

    def lying(
        self, period: Period | None, release_id: str, key_id: str | None = None, asked: Manifest | None = None
    ) -> list[Lying]:
        with about_the_output(self.uri):
            return [what_lies(self.uri, release_id, key_id, asked, _bounds(period))]

    def check_columns(self, manifest: Manifest) -> None:
        if self.uri.lower().endswith(".avro"):
            check_fields(RankingSchema.of(manifest))

    def write(
        self, manifest: Manifest, release: Release, live: RunState | None = None, period: Period | None = None
    ) -> beam.PTransform:
        publishing = beam.ParDo(_PublishDoFn(self, manifest, release.key, live)).with_output_types(str)
        # Ranking  ->  [Ranking]  ->  path
        return WindowsTogether(period) | "Publish" >> publishing

    def path(self, rankings: Sequence[Ranking]) -> str:
        return self.uri

    def files(self, period: Period | None) -> list[str] | None:
        return [self.uri]

    def published(self) -> list[dict[str, Any]] | None:
        with open_file(self.uri) as source:
            return format_of(self.uri).decode(source.read())


@dataclass(frozen=True)
class ToFolder(Sink):
    """The ranking of every window as a file named by its bounds, with its manifest beside it.

    Args:
        uri: the folder, made when there is something to write.
        format: avro, jsonl, csv or parquet.
    """

    uri: str
    format: str = "avro"
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self._ending not in RANKING_FORMATS:
            known = ", ".join(ending.removeprefix(".") for ending in RANKING_FORMATS)
            raise InvalidArgument("output_format", f"must be one of {known}, got {verbatim(self.format)}")

    @property
    def _ending(self) -> str:
        return f".{self.format}"

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        self.check_place(period, release)
        folder = os.path.join(os.path.realpath(self.uri), "")
        inside = [path for path in inputs if os.path.realpath(path).startswith(folder)]
        if inside:
            files = self.files(period)
            refuse_replacing([*files, *map(manifest_path, files)], inside)
        if is_local(self.uri):
            _check_writable(self.files(period)[0])

    def lying(
        self, period: Period | None, release_id: str, key_id: str | None = None, asked: Manifest | None = None
    ) -> list[Lying]:
        with about_the_output(self.uri):
            there = {f"{self._root}/{name}" for name in names_in(self.uri)}
            return [
                what_lies(path, release_id, key_id, asked, [bounds])
                if {path, manifest_path(path)} & there
                else Lying(path, "nothing")
                for bounds, path in zip(_bounds(period), self.files(period), strict=True)
            ]

    def check_columns(self, manifest: Manifest) -> None:
        if self.format == "avro":
            check_fields(RankingSchema.of(manifest))

    def write(
        self, manifest: Manifest, release: Release, live: RunState | None = None, period: Period | None = None
    ) -> beam.PTransform:
        return _WriteWindows(_PublishDoFn(self, manifest, release.key, live), manifest.groups is not None)

    def files(self, period: Period | None) -> list[str]:
        return [f"{self._root}/{window.label()}{self._ending}" for window in windows_in(period)]

    def path(self, rankings: Sequence[Ranking]) -> str:
        """The path of a window's ranking, such as out/20260105T000000Z--20260112T000000Z.avro."""
        return f"{self._root}/{rankings[0].window.label()}{self._ending}"

    @property
    def _root(self) -> str:
        return self.uri.rstrip("/")

    def input_record(self, release: Release, asked: Mapping[str, Any]) -> InputRecord:
        return InputRecord(self._root, release, asked)

    def following(self, period: Period, release: Release) -> Callable[[], dict[str, float]]:
        labels, own = {window.label() for window in windows_in(period)}, dict[tuple[str, int], bool]()

        def published() -> dict[str, float]:
            try:
                files = match_any(f"{self._root}/*{self._ending}")
            except Exception:  # the report itself tells what is wrong with its folder
                return {}
            found = {
                (file.path.rpartition("/")[2].removesuffix(self._ending), file.written): file.path for file in files
            }
            for (label, written), path in found.items():
                if label in labels and (label, written) not in own and (manifest := pair_at(path).manifest) is not None:
                    own[label, written] = manifest.release_id == release.id
            return {label: written / 1e6 for label, written in found if own.get((label, written))}

        return published


def windows_in(period: Period | None) -> list[WindowBounds]:
    return [WindowBounds()] if period is None else list(period.windows())


def _bounds(period: Period | None) -> list[Bounds]:
    return [(window.start, window.end) for window in windows_in(period)]


def _check_writable(output: str) -> None:
    """Raise InvalidArgument unless a file can be made in the folder, or in the nearest one above that exists, and the
    system allows all names that are to come.

    The trial file has no name, so that no file of anybody's is touched.
    """
    path = os.path.abspath(output)
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        new = os.path.relpath(path + _ROOM, folder).split(os.sep)
        for name in (*new, os.path.join(*new), os.path.join(*new[:-1], _ROOM_BELOW)):
            with suppress(FileNotFoundError):
                os.lstat(os.path.join(folder, name))
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidArgument("output", f"{verbatim(output)} cannot be written: {error.strerror}") from None


class WindowsTogether(beam.PTransform):
    """The rankings of all windows together, [Ranking]. Raises IncompleteDataError on the worker if a window is missing,
    or all are: nobody else could notice.
    """

    def __init__(self, period: Period | None) -> None:
        super().__init__()
        self._windows = 1 if period is None else len(period)

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        some = rankings | "Out of the windows" >> WindowInto(GlobalWindows())
        none, kind = rankings.pipeline | beam.Impulse(), tuple[int, list[Ranking]]
        each = some | "Together" >> flat_map(lambda ranking: [(0, [ranking])]).with_output_types(kind)
        nothing = none | "None of them" >> flat_map(lambda _: [(0, [])]).with_output_types(kind)
        return (
            (each, nothing)
            | "With none" >> beam.Flatten()
            | "Await every window" >> beam.GroupByKey()
            | "See that all are there" >> flat_map(_all_there, self._windows)
        )


def _all_there(gathered: tuple[int, Iterable[list[Ranking]]], windows: int) -> Iterator[list[Ranking]]:
    rankings = [ranking for some in gathered[1] for ranking in some]
    if len({ranking.window for ranking in rankings}) < windows:
        raise IncompleteDataError(
            "not every window's ranking came to be published: a transform behind the rank left some out, or the "
            "runner lost windows"
        )
    yield rankings


class _WriteWindows(beam.PTransform):
    def __init__(self, fn: _PublishDoFn, grouped: bool) -> None:
        super().__init__()
        self._fn, self._grouped = fn, grouped

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        self._fn.keep = not rankings.is_bounded
        # Ranking  ->  [Ranking]  ->  path
        return by_window(rankings, self._grouped) | "Publish each window" >> beam.ParDo(self._fn).with_output_types(str)


def by_window(rankings: beam.PCollection, grouped: bool) -> beam.PCollection:
    """All rankings of a window together, [Ranking]: where groups have one each, several."""
    if not grouped:
        return rankings | "Each" >> flat_map(lambda ranking: [[ranking]])
    return (
        rankings
        | "Name the window"
        >> flat_map(lambda ranking: [(ranking.window.label(), ranking)]).with_output_types(tuple[str, Ranking])
        | "Bring its groups together" >> beam.GroupByKey()
        | "Without the name" >> flat_map(lambda named: [list(named[1])])
    )


@crosses
class _PublishDoFn(beam.DoFn):
    """The rankings of a file, [Ranking], to its path."""

    keep = False
    """Whether a ranking that the same release has published there is kept: see `publish`."""

    def __init__(self, sink: ToFile | ToFolder, manifest: Manifest, key: ReleaseKey, live: RunState | None) -> None:
        self._sink, self._manifest, self._key, self._live = sink, manifest, key, live

    def process(self, rankings: list[Ranking]) -> Iterator[str]:
        path, schema = self._sink.path(rankings), RankingSchema.of(self._manifest)
        rows = format_of(path).encode(ranking_rows(rankings, str(self._manifest.release_id), schema), schema)
        manifest = msgspec.structs.replace(self._manifest.with_answer(rankings), key_id=self._key.key_id())
        publish(path, rows, manifest, self._sink.overwrite, self.keep, self._live)
        yield path
