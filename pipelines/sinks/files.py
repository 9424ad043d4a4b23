"""Rankings as files: one of all windows, or a folder with one for each window. A file and its manifest appear complete
or not at all.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from private_topk.pipelines.files import exists, is_local, match_any, names_in, open_file, refuse_replacing
from private_topk.pipelines.live import LiveRun
from private_topk.pipelines.publishing import manifest_path, obstacle, publish
from private_topk.pipelines.sinks.formats import FORMATS, Shape, format_of, ranking_rows
from private_topk.pipelines.sinks.manifest import encode_manifest
from private_topk.pipelines.sinks.sink import Sink
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.release import Ranking, Release, ReleaseKey
from private_topk.transforms.windows import Period, WindowBounds

__all__ = ["Partition", "ToFile", "ToFolder", "by_window", "escaped"]

_LONGEST = 200  # bytes of a name, so that the manifest and what is being written have room for theirs
_FOLDER = 255
_PLAIN = frozenset("-_. ~+,;@()&$")


@dataclass(frozen=True)
class ToFile(Sink):
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
            _check_writable(self.place)
        else:
            exists(self.place)  # raises if its store cannot be reached

    def write(self, facts: dict[str, Any], release: Release, live: LiveRun | None = None) -> beam.PTransform:
        return _WriteFile(_PublishDoFn(self, facts, release.key, live))

    def path(self, rankings: Sequence[Ranking]) -> str:
        return self.place

    def files(self, period: Period | None) -> list[str] | None:
        return [self.place]

    def local_places(self) -> tuple[str, ...]:
        return (self.place,) if is_local(self.place) else ()

    def published(self) -> list[dict[str, Any]] | None:
        with open_file(self.place) as source:
            return format_of(self.place).decode(source.read())


@dataclass(frozen=True)
class ToFolder(Sink):
    """The ranking of every window as a file named by its bounds, with its manifest beside it.

    Args:
        place: the folder, made when there is something to write.
        format: avro, jsonl, csv or parquet.
        partition: gives every group a folder of its own inside, with a file for every window. Rows then have no column
            for the group, as readers of such folders expect; the manifest names it.
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
            _check_writable(f"{self.place.rstrip('/')}/any")

    def write(self, facts: dict[str, Any], release: Release, live: LiveRun | None = None) -> beam.PTransform:
        by_window = "groups" in facts and self.partition is None
        return _WriteWindows(_PublishDoFn(self, facts, release.key, live), by_window)

    def files(self, period: Period | None) -> list[str]:
        windows = period.windows() if period is not None else [WindowBounds()]
        return [f"{folder}/{window.label()}{self._ending}" for window in windows for folder in self._folders()]

    def path(self, rankings: Sequence[Ranking]) -> str:
        """The path of a window's ranking, such as out/20260105T000000Z--20260112T000000Z.avro or in out/country=DE/."""
        inside = "" if self.partition is None else f"{self.partition.folder(rankings[0].group)}/"
        return f"{self._root}/{inside}{rankings[0].window.label()}{self._ending}"

    @property
    def _root(self) -> str:
        return self.place.rstrip("/")

    def _folders(self) -> list[str]:
        """The folders that files are written to."""
        if self.partition is None:
            return [self._root]
        return [f"{self._root}/{folder}" for folder in self.partition.folders]

    def _there(self) -> set[str]:
        """The paths of everything in the folders that files are written to."""
        names = names_in(self.place)
        if self.partition is None:
            return {f"{self._root}/{name}" for name in names}
        some = [folder for folder in self._folders() if _name(folder) in names]
        return {f"{folder}/{name}" for folder in some for name in names_in(folder)}

    def following(self, period: Period, release: Release) -> Callable[[], dict[str, float]]:
        inside = "/*" if self.partition is None else "/*=*/*"

        def look() -> dict[str, float]:
            try:
                files = match_any(f"{self._root}{inside}{self._ending}")
            except Exception:  # the report itself tells what is wrong with its folder
                return {}
            return {self._label(file.path): file.written / 1e6 for file in files}

        return look

    def _label(self, path: str) -> str:
        """The window of a path; for a group's ranking with the group's folder, behind a bar."""
        folder, _, name = path.removesuffix(self._ending).rpartition("/")
        return name if self.partition is None else f"{name}|{_name(folder)}"

    def local_places(self) -> tuple[str, ...]:
        return (self.place,) if is_local(self.place) else ()


@dataclass(frozen=True)
class Partition:
    """The folders of groups.

    Args:
        word: the name of the groups, such as country.
        groups: the groups, which are public.

    Raises:
        Refusal: a group cannot be the name of a folder.
    """

    word: str
    groups: PublicDomain

    def __post_init__(self) -> None:
        for group in self._names:
            folder = self.folder(group)
            if not group or len(folder.encode()) > _FOLDER:
                rule = f"makes no folder of {verbatim(repr(group[:40]))}: its name must have 1 to {_FOLDER} bytes"
                raise Refusal("partition_by", rule, "leave it out: every row names its group")

    @property
    def folders(self) -> list[str]:
        """The names of the folders, in the order of the groups."""
        return [self.folder(group) for group in self._names]

    def folder(self, group: str | None) -> str:
        """The name of a group's folder, such as country=DE."""
        assert group is not None
        return f"{escaped(self.word)}={escaped(group)}"

    @cached_property
    def _names(self) -> list[str]:
        return self.groups.index().labels.to_pylist()


def escaped(text: str) -> str:
    """A text as part of a name without meaning to file systems and patterns: special characters as %XX of UTF-8.

    Letters, digits and few others stay. Hive, Spark, DuckDB, polars and Arrow decode such names.
    """
    return "".join(char if char in _PLAIN or char.isalnum() else quote(char, safe="") for char in text)


def _check_writable(output: str) -> None:
    """Raise Refusal unless a file can be made in the folder, or in the nearest one above that exists.

    The trial file has no name, so that no file of anybody's is touched.
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
    def __init__(self, fn: _PublishDoFn) -> None:
        super().__init__()
        self._fn = fn

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        return (
            rankings
            | "Out of the windows" >> beam.WindowInto(GlobalWindows())
            | "One file" >> beam.WithKeys(0).with_output_types(tuple[int, Ranking])
            | "Await every window" >> beam.GroupByKey()
            # [Ranking]  ->  path
            | "Without the key" >> beam.MapTuple(lambda _, rankings: list(rankings))
            | "Publish" >> beam.ParDo(self._fn).with_output_types(str)
        )


class _WriteWindows(beam.PTransform):
    def __init__(self, fn: _PublishDoFn, grouped: bool) -> None:
        super().__init__()
        self._fn, self._grouped = fn, grouped

    def expand(self, rankings: beam.PCollection) -> beam.PCollection:
        # Ranking, or all of a window  ->  path
        together = by_window(rankings) if self._grouped else rankings | "Each" >> beam.Map(lambda ranking: [ranking])
        self._fn.keep = not rankings.is_bounded
        return together | "Publish each window" >> beam.ParDo(self._fn).with_output_types(str)


def by_window(rankings: beam.PCollection) -> beam.PCollection:
    """All rankings of a window together, [Ranking]."""
    return (
        rankings
        | "Name the window" >> beam.WithKeys(lambda ranking: ranking.window.label()).with_output_types(
            tuple[str, Ranking])
        | "Bring its groups together" >> beam.GroupByKey()
        | "Without the name" >> beam.MapTuple(lambda _, gathered: list(gathered))
    )  # fmt: skip


class _PublishDoFn(beam.DoFn):
    """The rankings of a file, [Ranking], to its path."""

    keep = False
    """Whether a ranking that the same release has published there is kept: see `publish`."""

    def __init__(self, sink: ToFile | ToFolder, facts: dict[str, Any], key: ReleaseKey, live: LiveRun | None) -> None:
        self._sink, self._facts, self._key, self._live = sink, facts, key, live

    def process(self, rankings: list[Ranking]) -> Iterator[str]:
        path, facts = self._sink.path(rankings), {**self._facts, "key_id": self._key.key_id()}
        shape, partition = Shape.of(facts), getattr(self._sink, "partition", None)
        if partition is not None:
            facts["partition"], shape = {partition.word: rankings[0].group}, shape._replace(grouped=False)
        rows = format_of(path).encode(ranking_rows(rankings, facts["report"], shape), shape)
        manifest = encode_manifest(facts, rankings, path, rows)
        publish(path, rows, manifest, self._sink.overwrite, self.keep, self._live)
        yield path


def _name(path: str) -> str:
    return path.rpartition("/")[2]
