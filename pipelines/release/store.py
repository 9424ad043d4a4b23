"""The store of published rankings: a ranking and its manifest are located, read, and published both or neither.

The ranking is written last, so if it exists, all does; and a ranking to be replaced is removed first, so that an old
ranking never stands beside a new manifest. Files of this machine are published under a lock on their folder, which the
system releases with the process: files with a temporary name there were left by killed runs, and are removed.
"""

from __future__ import annotations

import glob
import os
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from typing import NamedTuple

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from private_topk.pipelines.files import PATIENCE, exists, is_local, open_file, refuse_special
from private_topk.pipelines.release.manifest import Manifest, QuestionFacts, first_difference
from private_topk.pipelines.run_state import RunState
from private_topk.runners import say
from private_topk.transforms.errors import InvalidArgument, printable, verbatim
from private_topk.transforms.release import Release
from private_topk.transforms.windows import WindowBounds

try:
    import fcntl
except ImportError:  # no such locks on this system: only the checks keep two runs to one output apart
    fcntl = None  # type: ignore[assignment]


Bounds = tuple[datetime | None, datetime | None]

_INCOMPLETE = ".incomplete"
_LONGEST_WAIT = 120.0
"""Seconds to wait for another process that publishes into the same folder, which takes it some milliseconds."""


class Pair(NamedTuple):
    """What stands at a path: a ranking and its manifest, each None if it is not there, or nothing that can be read."""

    ranking: bytes | None
    manifest: Manifest | None

    @property
    def is_whole(self) -> bool:
        """Whether both are there and belong together."""
        return self.ranking is not None and self.manifest is not None and self.manifest.is_of(self.ranking)


def manifest_path(output: str) -> str:
    """The path of an output's manifest: ranking.avro has ranking.manifest.json beside it."""
    return output.rpartition(".")[0] + ".manifest.json"


def pair_at(path: str) -> Pair:
    """What stands at a path. Raises nothing for what cannot be read."""
    return Pair(_content(path), _manifest_at(path))


def publish(
    path: str, ranking: bytes, manifest: Manifest, overwrite: bool, keep: bool = False, live: RunState | None = None
) -> None:
    """Publish a ranking and its manifest at a path, under temporary names until both are complete.

    Repeating the call gives the same files. Output of another run is kept, unless `overwrite` is set.

    Args:
        manifest: it gets the name and the digest of the ranking here.
        keep: a ranking that the same release has published there is kept, whatever it would be now. That is needed for
            streams, whose rows may have changed: otherwise one charge would pay for two answers.
        live: the run that publishes, if it is one of this process; it may have ended.

    Raises:
        InvalidArgument: something else exists there.
        RuntimeError: the run has ended; or the place has no locks, and another run was writing too.
    """
    manifest = manifest.at(path, ranking)
    with nullcontext() if live is None else live.publishing(), _alone_with(path) as alone:
        if _stands(path, ranking, manifest, keep, overwrite):
            return
        conflict = _in_the_way(path, overwrite)
        if conflict is not None:
            raise conflict
        if alone:
            _sweep(path)
        _put(path, {manifest_path(path): manifest.encode(), path: ranking})
        if not alone and not pair_at(path).is_whole:
            raise RuntimeError(f"another run has published to {path} at the same time: repeat this one")


def obstacle(path: str, release: Release, overwrite: bool = False) -> InvalidArgument | None:
    """Why a release cannot be published at a path without replacing something; None if it can.

    Output of the same release under the same key is no obstacle: repeating it gives the same bytes.
    """
    conflict = _in_the_way(path, overwrite)
    if conflict is None or _owner(path) is not None or not _is_of(path, _manifest_at(path), release):
        return conflict
    if exists(path) and not overwrite:
        unchanged_pair_at(path)
    return None


def check_question(path: str, release: Release, asked: Manifest, windows: Iterable[WindowBounds]) -> None:
    """Raise InvalidArgument if the same id has published the answer to another question at a path, or under another
    key.

    Args:
        asked: the manifest that would be published, as known before the run; and its windows.
    """
    known = _manifest_at(path)
    if known is None or not _is_of(path, known, release) or not exists(path):
        return
    differing = _differing(known, asked, {(window.start, window.end) for window in windows}, but=("key_id",))
    if differing is not None:
        value = getattr(known, differing)
        was = f"whose {differing} is {verbatim(value) if isinstance(value, str | int) else 'another'}"
        rule = f"is taken: {verbatim(path)} holds another question's ranking, {was}"
        raise InvalidArgument("release_id", rule, "give another id, and another {output}")


def unchanged_pair_at(path: str) -> Pair:
    """What stands at a path. Raises InvalidArgument if the ranking is not the one of its manifest: then it no longer
    counts as published.
    """
    there = pair_at(path)
    if there.ranking is not None and there.manifest is not None and not there.is_whole:
        rule = f"{verbatim(path)} was changed after it was published: its manifest has another SHA-256"
        raise InvalidArgument("output", rule, "take it away, and run the same release again to have it back")
    return there


def _taken(path: str) -> InvalidArgument:
    return InvalidArgument("output", f"{verbatim(path)} exists and is kept", "give another path, or {overwrite}")


def _in_the_way(path: str, overwrite: bool) -> InvalidArgument | None:
    """The refusal for a file at a path that may not be replaced, or None. The manifest of another ranking is never
    replaced; one without its ranking was left by a killed run, which published nothing.
    """
    manifest = manifest_path(path)
    for place in filter(os.path.exists, (path, manifest)):  # a broken link can be replaced
        refuse_special(place, "output")
    owner = _owner(path)
    if owner is not None:
        remedy = f"give another path: it is the manifest of {verbatim(owner)}"
        return InvalidArgument("output", f"{verbatim(manifest)} exists and is kept", remedy)
    if overwrite:
        return None
    if exists(path):
        return _taken(path)
    return _taken(manifest) if exists(manifest) and _manifest_at(path) is None else None


def _owner(path: str) -> str | None:
    """Another existing ranking with the same manifest path, such as ranking.csv beside ranking.avro, or None."""
    folder, slash, name = path.rpartition("/")
    manifest = _manifest_at(path)
    other = None if manifest is None else manifest.output
    if other is None or other == name or "/" in other or manifest_path(other) != manifest_path(name):
        return None
    return other if exists(f"{folder}{slash}{other}") else None


def _manifest_at(path: str) -> Manifest | None:
    """The manifest of a ranking; None if there is none, or none of ours."""
    with suppress(ValueError):
        return Manifest.decode(_content(manifest_path(path)) or b"")
    return None


def _is_of(path: str, manifest: Manifest | None, release: Release) -> bool:
    """Whether this release is published at a path. Raises InvalidArgument if its id is, under another key."""
    if manifest is None or manifest.report != release.id:
        return False
    try:
        same = manifest.key_id == release.key.key_id()
    except ValueError:  # the key cannot be read here
        return False
    if not same and not release.key.in_memory:
        rule = f"{verbatim(path)} was published under another release key"
        raise InvalidArgument("output", rule, "give that {release_key}, or another {release_id} and {output}")
    return same


def _stands(path: str, ranking: bytes, manifest: Manifest, keep: bool, overwrite: bool) -> bool:
    """Whether this ranking is published, or with `keep` any other that this release has answered to this question. Its
    manifest may be of an earlier run.
    """
    there = pair_at(path)
    if there.ranking is None or not (keep or there.ranking == ranking):
        return False
    if there.manifest == manifest:
        return True
    if there.manifest is None or overwrite and not keep:
        return False
    return (keep or there.is_whole) and _differing(there.manifest, manifest, manifest.bounds()) is None


def _differing(
    published: Manifest, asked: Manifest, bounds: Collection[Bounds], but: Collection[str] = ()
) -> str | None:
    """The first field by which two manifests are of different questions; None where they are of the same.

    This is the one rule of what an id may publish at a place, before a run and at its end.

    Args:
        bounds: of the windows that are asked.
        but: fields that are not known yet.
    """
    differing = first_difference(published, asked, QuestionFacts, but)
    return "windows" if differing is None and published.bounds() != set(bounds) else differing


def _content(path: str) -> bytes | None:
    """The content of a file; None if there is none that can be read."""
    if not exists(path):  # a store reports a missing object late, and by its own kind of error
        return None
    with suppress(ValueError, OSError), open_file(path) as source:
        return source.read()
    return None


@contextmanager
def _alone_with(path: str) -> Iterator[bool]:
    """Hold a lock on the folder of a path; yields whether there is one.

    Raises InvalidArgument if another process keeps it.
    """
    if not is_local(path) or fcntl is None:
        yield False
        return
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            locked = _locked(handle, folder)
        except OSError:  # some network file systems lock no folders
            locked = False
        yield locked
    finally:
        os.close(handle)


def _locked(handle: int, folder: str) -> bool:
    """Wait for the lock on a folder, with a message if it takes long. Raises InvalidArgument if it takes too long."""
    started, announced = time.monotonic(), False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            waited = time.monotonic() - started
        if waited > _LONGEST_WAIT:
            rule = f"{verbatim(folder)} has been locked by another process for {waited:.0f} seconds"
            raise InvalidArgument("output", rule, "end it if it hangs or is suspended, and run the same release again")
        if waited > PATIENCE and not announced:
            say(f"waiting for another process that publishes to {printable(folder)}, up to {_LONGEST_WAIT:.0f} seconds")
            announced = True
        time.sleep(0.01 if waited < 1 else 0.2)


def _sweep(path: str) -> None:
    for target in (path, manifest_path(path)):
        for left in glob.glob(f"{glob.escape(target)}.*{_INCOMPLETE}"):
            with suppress(OSError):
                os.remove(left)


def _put(path: str, contents: dict[str, bytes]) -> None:
    token = secrets.token_hex(8)
    temporary = {target: f"{target}.{token}{_INCOMPLETE}" for target in contents}
    written = _write_local if is_local(path) else _write_remote
    try:
        for target, content in contents.items():
            written(temporary[target], content)
        _remove(path)
        for target in contents:  # the ranking last
            _rename(temporary[target], target)
    except BaseException:
        for left in temporary.values():
            with suppress(Exception):
                _remove(left)
        raise


def replace_file(path: str, content: bytes) -> None:
    """Write a file whole: on this machine, and in stores that show an object once it is complete, whoever looks sees
    the old content or the new. On return it is stored for good.
    """
    if not is_local(path):
        _write_remote(path, content)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{secrets.token_hex(8)}{_INCOMPLETE}"
    try:
        _write_local(temporary, content)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.remove(temporary)
        raise


def _write_local(path: str, content: bytes) -> None:
    with open(path, "xb") as sink:
        sink.write(content)
        sink.flush()
        os.fsync(sink.fileno())


def _write_remote(path: str, content: bytes) -> None:
    with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as sink:
        sink.write(content)


def _rename(source: str, target: str) -> None:
    if is_local(target):
        os.replace(source, target)
        return
    _remove(target)  # not every store replaces
    FileSystems.rename([source], [target])


def _remove(path: str) -> None:
    if is_local(path):
        with suppress(FileNotFoundError):
            os.remove(path)
    elif exists(path):
        FileSystems.delete([path])
