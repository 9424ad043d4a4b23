"""Which releases stand at a place: what is published already, and what of another report would be replaced."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from private_topk.pipelines.files import exists, open_file, refuse_special
from private_topk.pipelines.publishing import manifest_path, refuse_changed
from private_topk.pipelines.sinks.sink import Sink, about_the_output
from private_topk.transforms.windows import Period

__all__ = ["Standing", "standing_at", "whole_windows"]


class Standing(NamedTuple):
    """What stands at a path.

    Args:
        release: its id; empty where no manifest says so.
        windows: how many windows it publishes, of all groups where these are ranked; 0 where the ranking or its
            manifest is missing.
        parts: how many such files a window has: more than one where every group has a folder of its own.
    """

    path: str
    release: str
    windows: int
    parts: int = 1


def standing_at(sink: Sink, period: Period | None) -> list[Standing | None] | None:
    """What stands at each of a sink's files for a period, None for nothing. None for a sink that is no files.

    Raises Refusal where nobody can tell.
    """
    paths = sink.files(period)
    with about_the_output(sink.place):
        return None if paths is None else list(_look(paths))


def whole_windows(standing: Iterable[Standing]) -> int:
    """How many windows are published, with all of their parts."""
    found = list(standing)
    parts = Counter(its.path.rpartition("/")[2] for its in found if its.parts > 1 and its.windows)
    together = max((its.parts for its in found), default=1)
    return sum(its.windows for its in found if its.parts == 1) + sum(some >= together for some in parts.values())


def _look(paths: list[str]) -> Iterator[Standing | None]:
    for path in paths:
        manifest = manifest_path(path)
        described, written = exists(manifest), exists(path)
        if not described:
            yield Standing(path, "", 0) if written else None
            continue
        for place in (path, manifest):
            refuse_special(place, "output")
        if written:
            refuse_changed(path)
        with open_file(manifest) as source:
            try:
                found = json.load(source)
                parts = found["groups"]["size"] if "partition" in found else 1
                windows = len(found["windows"]) if parts > 1 else _whole_windows(found)
                yield Standing(path, str(found["report"]), windows if written else 0, parts)
            except (ValueError, KeyError, TypeError):
                yield Standing(path, "", 0)


def _whole_windows(manifest: dict[str, Any]) -> int:
    """How many windows have a ranking, of every group where groups are ranked."""
    rankings = Counter((window["start"], window["end"]) for window in manifest["windows"])
    groups = (manifest.get("groups") or {}).get("size", 1)
    return sum(found >= groups for found in rankings.values())
