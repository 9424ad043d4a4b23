"""The interface of every sink of rankings. tests/pipelines/sinks/contract.py tests them against it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import apache_beam as beam

from private_topk.pipelines.files import reached
from private_topk.pipelines.release.input_record import InputRecord
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.place import Lying
from private_topk.pipelines.run_state import RunState
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.release import Release, ReleaseKey
from private_topk.transforms.windows import Period


class Sink(ABC):
    """An address for rankings. A frozen dataclass; it pickles. Writing a release twice has the same result as once.

    Attributes:
        uri: the address as it was given; public.
        overwrite: what stands there may be replaced.
    """

    uri: str
    overwrite: bool = False

    @abstractmethod
    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        """Check that the rankings of a period can be written, without changing anything.

        Raises InvalidArgument of `output`.

        Args:
            inputs: addresses and paths that are read, and must not be written.
            release: output of this same release, complete or not, is no obstacle: it is resumed.
        """

    def check_columns(self, manifest: Manifest) -> None:
        """Raise InvalidArgument of `output` if what stands there has other columns than this manifest asks for."""
        return None

    def lying(
        self, period: Period | None, release_id: str, key_id: str | None = None, asked: Manifest | None = None
    ) -> list[Lying] | None:
        """What lies at each of the files for a period, seen from a release; None where rankings do not become files.

        Arguments and errors as those of `what_lies`.
        """
        return None

    def check_place(self, period: Period | None, release: Release, asked: Manifest | None = None) -> None:
        """Raise InvalidArgument if something lies there that this release must not replace."""
        for lying in self.lying(period, release.id, known_key_id(release.key), asked) or ():
            refusal = lying.obstacle(self.overwrite)
            if refusal is not None:
                raise refusal

    @abstractmethod
    def write(
        self, manifest: Manifest, release: Release, live: RunState | None = None, period: Period | None = None
    ) -> beam.PTransform:
        """The transform that writes, Ranking to str: the path of each, or its label where there are no files.

        Args:
            manifest: as known at the launch.
            live: the run, which a sink asks before it publishes whether it has ended.
            period: the windows, where there are several: what is published together has all of them, or raises
                IncompleteDataError on the worker.
        """

    def files(self, period: Period | None) -> list[str] | None:
        """The ranking files that a period's windows end in; None where rankings do not become files."""
        return None

    def input_record(self, release: Release, asked: Mapping[str, Any]) -> InputRecord | None:
        """The record of what a stream of a release has read; None where rankings do not become files."""
        return None

    def following(self, period: Period, release: Release) -> Callable[[], Mapping[str, float]] | None:
        """Begin to follow what is published of a period; None if the place cannot be read back by whoever writes.

        The returned function gives, at each call, when windows of the release were published, in seconds since 1970, by
        their labels: all of them, or those that are new since the last call. If groups are published separately, by the
        labels of rankings.
        """
        return None

    def published(self) -> list[dict[str, Any]] | None:
        """The published rows, for people; None where they cannot be read back."""
        return None


def known_key_id(key: ReleaseKey) -> str | None:
    """The id of a key; None where only the workers may read it, who look again."""
    if key.is_remote:
        return None
    try:
        return key.key_id()
    except InvalidArgument:
        return None


def refuse_read(uri: str, inputs: Sequence[str], kind: str) -> None:
    """Raise InvalidArgument of `output` for a place that is read."""
    if uri in inputs:
        raise InvalidArgument("output", f"{verbatim(uri)} is read", f"give another {kind}")


def about_the_output(uri: str) -> AbstractContextManager[None]:
    """Turns errors inside, which differ between stores, into refusals of the field `output`."""
    return reached(uri, "output", "cannot be looked at")
