"""Published rankings read back with their manifests: files, or folders with a file for every window or group."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from private_topk.pipelines.files import as_path, exists, is_local, match_any, open_file, reached
from private_topk.pipelines.release.agreement import check_agrees
from private_topk.pipelines.release.formats import RANKING_FORMATS, as_text, columns_in, format_of, group_of
from private_topk.pipelines.release.manifest import MANIFEST, PERIOD, Manifest, series_change, series_difference
from private_topk.pipelines.release.place import decoded, folders_of, manifest_path
from private_topk.pipelines.release.promise import (
    as_corrected,
    cost_of_a_window,
    first_start,
    not_corrected,
    one_cost_of_each,
    rankings_of_a_user,
    series_of,
)
from private_topk.pipelines.show.published import PublishedReport, when
from private_topk.pipelines.sources.domain import read_titles
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.stated import some

_Content = tuple[list[dict[str, Any]], Manifest | None]
"""The rows of a file, and its manifest. A manifest whose ranking is lost has no rows."""

_APART = (
    "show them apart, in a folder each or as `show FOLDER/NAME-*` without quotes; what a person has over all reports, "
    "their ledger adds up: {sign_off} of each with {ledger} says it, or `private-topk budget show`"
)
_CHANGED = "a manifest was changed: bring it back from a copy"
_NEEDED = ("window_start", "window_end", "rank", "k", "returned", "release_id")


def read_published(*places: str) -> PublishedReport:
    """The report in ranking files, or in the files of folders, with their manifests: one release, or a series. Of a
    ranking and its correction the correction is shown. A manifest in a folder whose ranking is lost counts: it promises
    what was published. A ranking in a folder whose manifest is lost is named alone: nobody knows what it has cost.

    Raises:
        InvalidArgument: there is no ranking, it cannot be read, or a manifest is of another ranking or contradicts
            itself; or several are no series, since their parameters differ or a window occurs twice.
    """
    found = [_files(as_path(place, "ranking")) for place in places]
    files = list(dict.fromkeys(file for some, _ in found for file in some))
    published = {file: _read(file) for file in files}
    promising = [each for _, each in published.values() if each is not None and each.private]
    costs = one_cost_of_each((str(each.release_id), cost_of_a_window(each)) for each in promising)
    for file, (_, each) in published.items():
        if each is not None and as_corrected(each, costs) != each:
            rule = f"{verbatim(file)} states less of what it corrects than the manifest of that"
            raise InvalidArgument("", rule, _CHANGED)
    uncorrected = {each.release_id for each in not_corrected([one for _, one in published.values() if one is not None])}
    contents = {file: each for file, each in published.items() if each[1] is None or each[1].release_id in uncorrected}
    rows = [row for some, _ in contents.values() for row in some]
    _check_series(contents)
    if len(contents) > 1:
        rows.sort(key=lambda row: (row["window_start"] is not None, row["window_start"]))
    unknown: dict[str, frozenset[Any]] = {
        _name(file): frozenset() for _, some in found for file in some if file not in files
    }
    if any(each is None for _, each in contents.values()):
        return PublishedReport(rows, lost=unknown)
    there = {
        window
        for file, (_, each) in contents.items()
        if each and not file.endswith(MANIFEST)
        for window in each.windows
    }
    lost = unknown | {  # in folders of corrections names are alike: that of the last one, which is shown, stands
        _name(file): frozenset(each.windows) - there
        for file, (_, each) in sorted(published.items(), key=lambda one: one[0] in contents)
        if each and file.endswith(MANIFEST)
    }
    report = in_series([each for _, each in published.values() if each is not None])
    return replace(report, rows=rows, lost=lost)


def titles_at(
    path: str, report: PublishedReport, item_column: str | Sequence[str] | None = None, title_column: str = "title"
) -> dict[tuple[str, ...], str]:
    """The titles in a table, of the items of a report as its rows name them. Raises InvalidArgument."""
    names = columns_in(report.rows[0])[1] if report.rows else ("item",)
    of_rows = (report.manifest and report.manifest.columns or {}).get("item", names)  # by whose name lists are read too
    return read_titles(path, item_column or of_rows, title_column)


def in_series(manifests: Iterable[Manifest]) -> PublishedReport:
    """The report of manifests of one series, with those of rankings that were corrected; without rows."""
    paid = sorted(manifests, key=first_start)
    shown = not_corrected(paid)
    changes = []
    for was, now in pairwise(shown):
        if (words := series_change(was, now)) is not None:
            changes.append((first_start(now)[1], words, series_change(was, shown[-1])))
    of_a_user = rankings_of_a_user(paid) if shown[0].private else None
    corrected = {window.start for each in shown if each.corrects for window in each.windows}
    return PublishedReport([], series_of(paid), "", changes, {}, of_a_user, paid, corrected)


def _check_series(contents: Mapping[str, _Content]) -> None:
    """Raise InvalidArgument unless the files' places mean the same, and no window occurs twice."""
    first: tuple[str, Manifest] | None = None
    columns: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    whose: dict[tuple[Any, ...], str] = {}
    reports: dict[str, str] = {}
    for file, (rows, manifest) in contents.items():
        if manifest is not None:
            first = first or (file, manifest)
            if (differing := series_difference(first[1], manifest)) is not None:
                rule = f"{file} is of another series than {first[0]}: {differing}"
                raise InvalidArgument("", verbatim(rule), _APART)
            if manifest.horizon is not None:  # whose windows that are still to come count too
                reports[PERIOD.sub("", str(manifest.release_id))] = file
            if len(reports) > 1:
                (one, there), (other, here) = reports.items()
                rule = f"{here} is of the report {other}, and {there} of {one}: each promises for a horizon of its own"
                raise InvalidArgument("", verbatim(rule), _APART)
        columns = columns or (columns_in(rows[0]) if rows else None)
        if rows and columns_in(rows[0]) != columns:
            raise InvalidArgument("", f"{verbatim(file)} has items or groups of other columns", _APART)
        windows = [(row["window_start"], row["window_end"], group_of(row)) for row in rows]
        returned = {window: row["returned"] for window, row in zip(windows, rows, strict=True)}
        for window, items in Counter(windows).items():
            if items > returned[window]:
                rule = f"{verbatim(file)} has {items} items of a window that has {returned[window]}"
                remedy = "a window has one ranking, or one of each group: RankingSchema(grouped=True) writes these"
                raise InvalidArgument("", rule, remedy)
            if window in whose:
                zone = (None if manifest is None else manifest.time_zone) or "UTC"
                which = "" if window[0] is None else f" of {when(*window[:2], zone)}"
                rule = f"{verbatim(file)} has a window{which} that {verbatim(whose[window])} has too"
                remedy = f"give one of them: a series has each window once; of two reports, {_APART}; if one is a "
                remedy += "correction, its manifest was changed: bring it back from a copy"
                raise InvalidArgument("", rule, remedy)
            whose[window] = file


def _files(path: str) -> tuple[list[str], list[str]]:
    """Rankings, and manifests whose rankings are lost: of a folder, or by a name of either. And rankings of a folder
    without a manifest.
    """
    if path.lower().endswith(tuple(RANKING_FORMATS)) and exists(path):
        return [path], []
    if path.endswith(MANIFEST) and exists(path):
        rankings = [path.removesuffix(MANIFEST) + ending for ending in RANKING_FORMATS]
        return [*filter(exists, rankings)] or [path], []
    if not exists(path) and is_local(path) and not os.path.isdir(path):
        raise InvalidArgument("", f"{verbatim(path)} does not exist", "check the path")
    with reached(path):
        paths = [file.path for folder in folders_of(path) for file in match_any(f"{folder}/*")]
    tables = [file for file in paths if file.lower().endswith(tuple(RANKING_FORMATS))]
    files = [file for file in tables if manifest_path(file) in paths]
    owned = set(map(manifest_path, files))
    files += [path for path in paths if path.endswith(MANIFEST) and path not in owned]
    if not files:
        with reached(path):
            below = sorted({file.path.rpartition("/")[0] for file in match_any(f"{path.rstrip('/')}/*/*{MANIFEST}")})
        remedy = f"a file that ends with one of {', '.join(RANKING_FORMATS)}, or a folder of them with their manifests"
        remedy = f"one of these folders in it: {verbatim(some(below))}" if below else remedy
        raise InvalidArgument("", f"{verbatim(path)} is no ranking", f"give {remedy}")
    return files, [file for file in tables if manifest_path(file) not in owned and _is_ranking(file)]


def _is_ranking(path: str) -> bool:
    try:
        return bool(_read(path)[0])
    except InvalidArgument:  # a table of something else
        return False


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _read(path: str) -> _Content:
    with open_file(path) as source:
        content = source.read()
    if path.endswith(MANIFEST):
        lone = decoded(content, path, "move it away")
        check_agrees(lone, path)
        return [], lone
    try:
        rows = format_of(path).decode(content)
    except KeyError:  # a table, of something else
        raise InvalidArgument("", f"{verbatim(path)} is no ranking of ours", "it has other columns") from None
    except Exception as error:  # every format raises its own kinds
        rule = f"{verbatim(path)} is no ranking of ours, or is damaged"
        remedy = f"its format cannot be decoded ({type(error).__name__}): bring it back from a copy"
        raise InvalidArgument("", rule, remedy) from None
    missing = [name for name in _NEEDED if rows and name not in rows[0]]
    missing += ["item"] if rows and not columns_in(rows[0])[1] else []
    if missing:
        raise InvalidArgument("", f"{verbatim(path)} is no ranking of ours", f"it has no column {', '.join(missing)}")
    place = manifest_path(path)
    if not exists(place):
        return rows, None
    with open_file(place) as source:
        manifest = decoded(source.read(), place, "copy the one beside the ranking again")
    if not manifest.is_of(content):
        raise InvalidArgument(
            "",
            f"{verbatim(path)} is not the file that its manifest is of",
            "one of the two was changed or replaced: the SHA-256 is another",
        )
    if rows and manifest.k not in (None, rows[0]["k"]):
        rule = f"{verbatim(place)} states k {manifest.k}, and its ranking was asked for {rows[0]['k']}"
        raise InvalidArgument("", rule, _CHANGED)
    _check_noise(rows, manifest, place)
    check_agrees(manifest, place)
    return rows, manifest


def _check_noise(rows: list[dict[str, Any]], manifest: Manifest, place: str) -> None:
    """Raise InvalidArgument if a manifest lacks a window of its ranking, or states other noise of the counts there."""
    windows = {
        (each.start, each.end, None if each.group is None else as_text(each.group)): each for each in manifest.windows
    }
    for row in rows:
        at = row["window_start"], row["window_end"]
        if (window := windows.get((*at, group_of(row)))) is None:
            which = when(*at, manifest.time_zone or "UTC") + (f" of {group_of(row)}" if group_of(row) else "")
            raise InvalidArgument("", verbatim(f"{place} lacks a window that its ranking has: {which}"), _CHANGED)
        for name in ("noise_95", "noise_stddev"):
            told, there = getattr(window, name), row.get(name)
            if there is not None and told != there:
                rule = f"{verbatim(place)} states {name} {told}, and its ranking {there}"
                raise InvalidArgument("", rule, _CHANGED)
