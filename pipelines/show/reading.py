"""Published rankings read back with their manifests: files, or folders with a file for every window or group."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from private_topk.pipelines.files import as_path, exists, match_any, open_file, why
from private_topk.pipelines.publishing import manifest_path
from private_topk.pipelines.show.published import PublishedReport
from private_topk.pipelines.sinks.formats import FORMATS, format_of
from private_topk.transforms.errors import Refusal, verbatim

__all__ = ["is_manifest", "read_report"]

_NEEDED = ("window_start", "window_end", "rank", "item", "k", "returned", "release_id")
_OF_A_FILE = ("output", "ranking_sha256", "windows")
_ASKED = ("mechanism", "answer", "parameters", "k", "max_items_per_user", "max_windows_per_user", "privacy", "against",
          "amounts", "weights", "private")  # fmt: skip
"""The facts that the releases of a series must share; their lists and versions may differ, and then are not shown."""

_TEXT, _WHOLE, _NUMBER = (str,), (int,), (int, float)
_FACTS: dict[str, tuple[type, ...]] = {
    "report": _TEXT, "mechanism": _TEXT, "answer": _TEXT, "parameters": (dict,), "max_items_per_user": _WHOLE,
    "max_windows_per_user": _WHOLE, "privacy": (dict,), "domain": (dict,), "versions": (dict,), "groups": (dict,),
    "against": (dict,), "amounts": (dict,), "weights": (dict,), "columns": (dict,), "all_windows": (dict,),
    "released": _TEXT, "delta_of_a_shared_hash": _NUMBER, "counts_rounded_to": _WHOLE, "counts_hidden_below": _WHOLE,
    "zcdp_of_a_window": (dict,), "found": (list,), "item_type": _TEXT,
}  # fmt: skip
_WINDOW = {"start": _TEXT, "end": _TEXT, "group": _TEXT, "group_number": _WHOLE, "noise_stddev": _NUMBER,
           "noise_95": _NUMBER}  # fmt: skip
_ZCDP = {"rho": _NUMBER, "delta": _NUMBER}
_OF_A_DOMAIN = {"range": {"start": _WHOLE, "stop": _WHOLE}, "public": {"size": _WHOLE}}


def read_report(*places: str) -> PublishedReport:
    """The report in ranking files, or in the files of folders, with their manifests: one release, or a series.

    Raises:
        Refusal: there is no ranking, it cannot be read, or a manifest is of another ranking; or several are no series,
            since their parameters differ or a window occurs twice.
    """
    files = list(dict.fromkeys(file for place in places for file in _files(as_path(place, "ranking"))))
    contents = {file: _read(file) for file in files}
    rows = [row for some, _ in contents.values() for row in some]
    facts = [manifest for _, manifest in contents.values() if manifest]
    _check_series(contents)
    if not facts or len(facts) < len(contents):
        return PublishedReport(sorted(rows, key=_moment) if len(contents) > 1 else rows)
    if len(contents) == 1:
        return PublishedReport(rows, facts[0])
    alike = {name: value for name, value in facts[0].items() if all(each.get(name) == value for each in facts)}
    windows = [window for each in facts for window in each.get("windows") or ()]
    shared = {name: value for name, value in alike.items() if name not in _OF_A_FILE} | {"windows": windows}
    return PublishedReport(sorted(rows, key=_moment), shared)


def _moment(row: Mapping[str, Any]) -> tuple[bool, Any]:
    return row["window_start"] is not None, row["window_start"]


def _check_series(contents: Mapping[str, tuple[list[dict[str, Any]], dict[str, Any]]]) -> None:
    """Raise Refusal unless the files have the same parameters, and no window occurs twice."""
    first, question = "", None
    whose: dict[tuple[Any, ...], str] = {}
    for file, (rows, facts) in contents.items():
        if facts:
            first, question = (file, facts) if question is None else (first, question)
            for name in _ASKED:
                if facts.get(name) != question.get(name):
                    one, other = (verbatim(_differing(name, *pair)) for pair in ((question, facts), (facts, question)))
                    raise Refusal("", f"{verbatim(first)} has {one}, {verbatim(file)} has {other}", "show them apart")
        for window in dict.fromkeys((row["window_start"], row["window_end"], row.get("group")) for row in rows):
            if window in whose:
                when = "" if window[0] is None else f" of {window[0]:%Y-%m-%d %H:%M}"
                raise Refusal("", f"{verbatim(file)} has a window{when} that {verbatim(whose[window])} has too",
                              "give one of them: a series has each window once")  # fmt: skip
            whose[window] = file
    privacy = (question or {}).get("privacy") or {}
    numbers = {window[:2] for window in whose}
    if "share_of_a_window" in privacy and len(contents) > 1 and len(numbers) > privacy["windows"]:
        raise Refusal("", f"these are {len(numbers)} windows, and their budget is of {privacy['windows']}",
                      "give the files of one total")  # fmt: skip


def _differing(name: str, facts: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """What a manifest says of the first setting, within what a fact consists of, in which another differs."""
    value, other = facts.get(name), others.get(name)
    if isinstance(value, dict) and isinstance(other, dict):
        return _differing(next(key for key in {**value, **other} if value.get(key) != other.get(key)), value, other)
    return f"{name} {value}" if value is not None else f"no {name}"


def _files(path: str) -> list[str]:
    if path.lower().endswith(tuple(FORMATS)) and exists(path):
        return [path]
    try:
        paths = [file.path for file in match_any(f"{path.rstrip('/')}/*")]
    except Exception as error:  # every file system raises its own kind
        raise Refusal("", f"{verbatim(path)} cannot be read: {verbatim(why(error))}") from None
    files = [file for file in paths if file.lower().endswith(tuple(FORMATS)) and manifest_path(file) in paths]
    if not files:
        raise Refusal("", f"{verbatim(path)} is no ranking", f"give a file that ends with one of "
                      f"{', '.join(FORMATS)}, or a folder of them with their manifests")  # fmt: skip
    return files


def _read(path: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    with open_file(path) as source:
        content = source.read()
    try:
        rows = format_of(path).decode(content)
    except KeyError:  # a table, of something else
        raise Refusal("", f"{verbatim(path)} is no ranking of ours", "it has other columns") from None
    except Exception as error:  # every format raises its own kinds
        raise Refusal("", f"{verbatim(path)} cannot be read: {type(error).__name__}") from None
    missing = [name for name in _NEEDED if rows and name not in rows[0]]
    if missing:
        raise Refusal("", f"{verbatim(path)} is no ranking of ours", f"it has no column {', '.join(missing)}")
    return rows, _manifest(path, content)


def _manifest(path: str, content: bytes) -> dict[str, Any]:
    place = manifest_path(path)
    if not exists(place):
        return {}
    with open_file(place) as source:
        try:
            manifest = json.loads(source.read())
        except (ValueError, RecursionError):
            manifest = None
    if not is_manifest(manifest):
        raise Refusal(
            "", f"{verbatim(path)}: {verbatim(place)} is no manifest", "copy the one beside the ranking again"
        )
    if manifest.get("ranking_sha256", "") != hashlib.sha256(content).hexdigest():
        raise Refusal("", f"{verbatim(path)} is not the file that its manifest is of",
                      "one of the two was changed or replaced: the SHA-256 is another")  # fmt: skip
    return manifest


def is_manifest(manifest: object) -> bool:
    """Whether a JSON value is a manifest: the facts that are shown have the right types; they may be missing or null.

    A manifest that somebody has altered is rejected, not interpreted.
    """
    if not isinstance(manifest, dict) or not _fits(manifest, _FACTS):
        return False
    windows, privacy, domain = manifest.get("windows", []), manifest.get("privacy"), manifest.get("domain")
    return (
        isinstance(windows, list)
        and all(isinstance(window, dict) and _is_window(window) for window in windows)
        and (manifest.get("k") is None or _is(manifest["k"], _WHOLE) and manifest["k"] > 0)
        and (not privacy or _is_privacy(privacy))
        and (not domain or _has(domain, _OF_A_DOMAIN.get(str(domain.get("kind")), {})))
        and (not manifest.get("groups") or _has(manifest["groups"], {"per_user": _WHOLE}))
        and (not manifest.get("all_windows") or _has(manifest["all_windows"], {"epsilon": _NUMBER, "delta": _NUMBER}))
        and (not manifest.get("zcdp_of_a_window") or _has(manifest["zcdp_of_a_window"], _ZCDP))
        and (not manifest.get("against") or "weight" in manifest["against"])
    )


def _is_window(window: Mapping[str, Any]) -> bool:
    try:
        _ = [
            datetime.fromisoformat(window[name].replace("Z", "+00:00")).utcoffset()
            for name in ("start", "end")
            if window.get(name) is not None
        ]
    except (ValueError, TypeError, AttributeError):
        return False
    return _fits(window, _WINDOW)


def _is_privacy(privacy: Mapping[str, Any]) -> bool:
    shared = "share_of_a_window" in privacy or privacy.get("accounting")
    return (
        _has(privacy, {"epsilon": _NUMBER, "delta": _NUMBER, **({"windows": _WHOLE} if shared else {})})
        and privacy["epsilon"] > 0
        and _fits(privacy, {"windows_of_a_user": _WHOLE})
    )


def _fits(facts: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]]) -> bool:
    return all(facts.get(name) is None or _is(facts[name], kind) for name, kind in kinds.items())


def _has(facts: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]]) -> bool:
    return all(name in facts and _is(facts[name], kind) for name, kind in kinds.items())


def _is(value: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
