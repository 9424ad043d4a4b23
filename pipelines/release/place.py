"""What lies at the place of a ranking: nothing, this release whole or in part, another question, another release.

Whoever checks, publishes, or says what is published asks here, so that all say the same.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from private_topk.pipelines.differences import told
from private_topk.pipelines.files import exists, open_file, refuse_special
from private_topk.pipelines.release.formats import format_of
from private_topk.pipelines.release.manifest import MANIFEST, Manifest, QuestionFacts, question_difference
from private_topk.transforms.errors import ANOTHER_RELEASE, InvalidArgument, verbatim

Bounds = tuple[datetime | None, datetime | None]


class Pair(NamedTuple):
    """What stands at a path: a ranking and its manifest, each None if it is not there, or nothing that can be read."""

    ranking: bytes | None
    manifest: Manifest | None

    @property
    def is_whole(self) -> bool:
        """Whether both are there and belong together."""
        return self.ranking is not None and self.manifest is not None and self.manifest.is_of(self.ranking)


class Lying(NamedTuple):
    """What lies at the place of a ranking, seen from a release.

    Args:
        of: `this release` also where its ranking or its manifest is lost, so that one of them proves its first answer.
        release: the id of what lies there, as its manifest or its rows say; empty if neither does.
        windows: how many windows of it are published whole, of all groups where these are ranked.
        pair: both files.
        why: what is in the way of this release, and the remedy, as a refusal; None where nothing is.
        replaceable: whether that may be overwritten, if it is asked for. Never what the same id has answered to another
            question or under another key, nor the manifest of another ranking.
    """

    path: str
    of: Literal["nothing", "this release", "another question", "another release"]
    release: str = ""
    windows: int = 0
    pair: Pair = Pair(None, None)
    why: InvalidArgument | None = None
    replaceable: bool = False

    def obstacle(self, overwrite: bool) -> InvalidArgument | None:
        """Why this release cannot be published here; None if it can."""
        return None if overwrite and self.replaceable else self.why

    @property
    def lost_manifest(self) -> bool:
        """Whether the ranking of this release is there, and its manifest is not."""
        return self.of == "this release" and self.pair.manifest is None


def manifest_path(output: str) -> str:
    """The path of an output's manifest: ranking.avro has ranking.manifest.json beside it."""
    return output.rpartition(".")[0] + MANIFEST


def folders_of(folder: str) -> tuple[str, str]:
    """Where the rankings of a folder lie: it, and the pattern of the folders within it that hold corrections."""
    return folder.rstrip("/"), f"{folder.rstrip('/')}/correction-*"


def decoded(content: bytes, path: str, remedy: str) -> Manifest:
    """The manifest in a file that was read.

    Args:
        remedy: where it is none; one that was changed is brought back.

    Raises InvalidArgument.
    """
    try:
        return Manifest.decode(content)
    except ValueError as error:
        rule = f"{path} is no manifest of a ranking"
        try:
            facts = json.loads(content)
            if isinstance(facts, dict) and {"mechanism", "parameters"} <= facts.keys():
                marked = "an editor saved it in another encoding, or with a byte order mark"
                why = error if content.lstrip()[:1] == b"{" else marked
                rule, remedy = f"{path} is a manifest and was changed: {why}", "bring it back from a copy"
        except (ValueError, RecursionError) as broken:
            rule, remedy = f"{rule}, being no JSON: {broken}", f"if it was edited, bring back a copy; else {remedy}"
        raise InvalidArgument("", verbatim(rule), remedy) from None


def pair_at(path: str) -> Pair:
    """The ranking and the manifest at a path, each None where it cannot be read; nothing is raised."""
    manifest = None
    with suppress(ValueError):
        manifest = Manifest.decode(_content(manifest_path(path)) or b"")
    return Pair(_content(path), manifest)


def what_lies(
    path: str,
    release_id: str,
    key_id: str | None = None,
    asked: Manifest | None = None,
    bounds: Collection[Bounds] = (),
) -> Lying:
    """What lies at a path, seen from a release. Reads both files.

    Args:
        key_id: None where the key is not known here: a release is told by its id alone.
        asked: the question, as its manifest states it; None where the caller has none.
        bounds: of the windows that are asked.

    Raises InvalidArgument: it is no file, or this release's ranking was changed after it was published.
    """
    for place in filter(os.path.exists, (path, manifest_path(path))):  # a broken link can be replaced
        refuse_special(place, "output")
    ranking, manifest = pair = pair_at(path)
    owner = _owner(path, manifest)
    if owner is not None:
        own = manifest is not None and manifest.release_id == release_id
        remedy = "keep its ending, or give another name" if own else "give a name that differs in more than its ending"
        rule = f"{verbatim(manifest_path(path))} exists and is kept"
        why = InvalidArgument("output", rule, f"it is the manifest of {verbatim(owner)}: {remedy}")
        return Lying(path, "another release", release_id if own else "", pair=pair, why=why)
    if manifest is None and _id_in(path, ranking) == release_id:
        return Lying(path, "this release", release_id, 0, pair)
    if manifest is None or manifest.release_id != release_id:
        there = next(filter(exists, (path, manifest_path(path))), None)
        if there is None:
            return Lying(path, "nothing")
        return _in_the_way(path, pair, f"{verbatim(there)} exists and is kept")
    if key_id not in (None, manifest.key_id):
        rule = f"{verbatim(path)} was published under another release key"
        why = InvalidArgument("output", rule, "give that {release_key}, or another {release_id} and {output}")
        return Lying(path, "another release", release_id, pair=pair, why=why)
    if ranking is not None and not pair.is_whole:
        rule = f"{verbatim(path)} was changed after it was published: its manifest has another SHA-256"
        raise InvalidArgument("output", rule, "take it away, and run the same release again to have it back")
    other = None if asked is None else another_question(manifest, asked, bounds)
    if other is not None:
        rule = f"is taken: {verbatim(path)} is of {verbatim(release_id)} with {verbatim(other)}"
        free = ", or bring its ranking, which is lost, back from a copy (both are free)" if ranking is None else ""
        why = InvalidArgument("release_id", rule, f"ask the same again{free}, or {ANOTHER_RELEASE}")
        return Lying(path, "another question", release_id, 0, pair, why)
    return Lying(path, "this release", release_id, 0 if ranking is None else whole_windows(manifest), pair)


def _in_the_way(path: str, pair: Pair, rule: str) -> Lying:
    each = "" if pair.manifest is None else "it holds another draw, and each costs, overwritten or not: "
    why = InvalidArgument("output", rule, f"{each}give another path, or {{overwrite}}")
    whose = "" if pair.manifest is None else str(pair.manifest.release_id)
    return Lying(path, "another release", whose, 0, pair, why, replaceable=True)


def same_rows(path: str, one: bytes, other: bytes) -> bool:
    """Whether two rankings for a path say the same, also if other versions of a library have written one of them."""
    decode = format_of(path).decode
    try:
        return one == other or decode(one) == decode(other)
    except Exception:  # every format raises its own kinds
        return False


def another_question(published: Manifest, asked: Manifest, bounds: Collection[Bounds]) -> str | None:
    """How two manifests are of different questions, in words; None where they are of the same one.

    This is the one rule of what an id may publish at a place, before a run and at its end.

    Args:
        bounds: of the windows that are asked.
    """
    if "user" not in (published.columns or {}):  # of a pipeline: older versions never told it
        columns = {role: names for role, names in (asked.columns or {}).items() if role != "user"}
        asked = msgspec.structs.replace(asked, columns=columns or None)
    found = question_difference(published, asked, QuestionFacts, but=("key_id",))
    if published.bounds() != set(bounds):
        found["windows"] = (len(published.bounds()), len(set(bounds)))
    return told(found) if found else None


def whole_windows(manifest: Manifest) -> int:
    """How many windows have a ranking, of every group where groups are ranked."""
    rankings = Counter((window.start, window.end) for window in manifest.windows)
    of_a_window = 1 if manifest.groups is None else manifest.groups.rankings
    return sum(number >= of_a_window for number in rankings.values())


def _owner(path: str, manifest: Manifest | None) -> str | None:
    """Another existing ranking with the same manifest path, such as ranking.csv beside ranking.avro, or None."""
    folder, slash, name = path.rpartition("/")
    other = None if manifest is None else manifest.output
    if other is None or other == name or "/" in other or manifest_path(other) != manifest_path(name):
        return None
    return other if exists(f"{folder}{slash}{other}") else None


def _id_in(path: str, ranking: bytes | None) -> str | None:
    """The release id in the rows of a ranking; None where there is none."""
    with suppress(Exception):  # every format raises its own kinds
        return next((str(row["release_id"]) for row in format_of(path).decode(ranking)), None) if ranking else None
    return None


def _content(path: str) -> bytes | None:
    """The content of a file; None if there is none that can be read."""
    if not exists(path):  # a store reports a missing object late, and by its own kind of error
        return None
    with suppress(ValueError, OSError), open_file(path) as source:
        return source.read()
    return None
