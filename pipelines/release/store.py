"""The store of published rankings: a ranking and its manifest are published both or neither.

The ranking is written last, so if it exists, all does; and a ranking to be replaced is removed first, so that an old
ranking never stands beside a new manifest. Files of this machine are published under a lock on their folder, which the
system releases with the process: files with a temporary name there were left by killed runs, and are removed.
"""

from __future__ import annotations

import glob
import logging
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

from apache_beam.io.filesystems import FileSystems

from private_topk.pipelines.files import INCOMPLETE, PATIENCE, exists, is_local, write_file
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.place import Lying, manifest_path, pair_at, same_rows, what_lies
from private_topk.pipelines.run_state import RunState
from private_topk.runners import say
from private_topk.transforms.errors import ANOTHER_RELEASE, InvalidArgument, of_another_release, printable, verbatim

try:
    import fcntl
except ImportError:  # no such locks on this system: only the checks keep two runs to one output apart
    fcntl = None  # type: ignore[assignment]


_LAUNCHER = ".private-topk-launcher"
_SINCE = "its input has changed since, or its code, or another version has drawn it"
_LONGEST_WAIT = 120.0
"""Seconds to wait for another process that publishes into the same folder, which takes it some milliseconds."""


def publish(
    path: str, ranking: bytes, manifest: Manifest, overwrite: bool, keep: bool = False, live: RunState | None = None
) -> None:
    """Publish a ranking and its manifest at a path, under temporary names until both are complete.

    Repeating the call gives the same files. Output of another release is kept, unless `overwrite` is set; a second
    answer of the same release is refused in any case.

    Args:
        manifest: it gets the name and the digest of the ranking here.
        keep: a ranking that the same release has published there is kept, whatever it would be now. That is needed for
            streams, whose rows may have changed: otherwise one charge would pay for two answers.
        live: the run that publishes, if it is one of this process; it may have ended.

    Raises:
        InvalidArgument: something else lies there (`what_lies`).
        RuntimeError: the run has ended; or the place has no locks, and another run was writing too.
    """
    manifest = manifest.at(path, ranking)
    with nullcontext() if live is None else live.publishing(), alone_with(path) as alone:
        lying = what_lies(path, str(manifest.release_id), manifest.key_id, manifest, manifest.bounds())
        if lying.windows and (keep or lying.pair.ranking == ranking):
            if lying.pair.ranking is not None and not same_rows(path, lying.pair.ranking, ranking):
                kept = f"is kept as it was published: this release would rank it otherwise now, as {_SINCE}"
                logging.getLogger(__name__).warning("%s %s", printable(path), kept)
            return
        refusal = lying.obstacle(overwrite) or _second_answer(lying, ranking)
        if refusal is not None:
            raise refusal
        if alone:
            sweep(path)
        _put(path, {manifest_path(path): manifest.encode(), path: ranking})
        if not alone and not pair_at(path).is_whole:
            raise RuntimeError(f"another run has published to {path} at the same time: repeat this one")


def _second_answer(lying: Lying, ranking: bytes) -> InvalidArgument | None:
    """The refusal of a ranking other than the one that this release has published at a place, or None."""
    there, manifest = lying.pair
    if lying.of != "this release" or there is not None and same_rows(lying.path, there, ranking):
        return None
    if there is None:
        if manifest is None or manifest.is_of(ranking):
            return None
        rule = f"{verbatim(lying.path)} is lost, and was another ranking of {verbatim(lying.release)}, as its manifest"
        remedy = "bring it back from a copy, or draw it with the code, input and versions that it had"
        return InvalidArgument("output", f"{rule} tells: {_SINCE}", f"{remedy} (free); or {ANOTHER_RELEASE}", True)
    rule = f"{verbatim(lying.path)} holds another ranking of {verbatim(lying.release)}"
    if lying.lost_manifest:
        return InvalidArgument("output", f"{rule}, whose manifest is lost", "bring its manifest back from a copy")
    return of_another_release("output", f"{rule}: {_SINCE}")


@contextmanager
def alone_with(path: str) -> Iterator[bool]:
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


@contextmanager
def sole_launcher(path: str) -> Iterator[None]:
    """Be the only launcher of a stream into the folder of a path, by a lock that the system releases with the process.

    Two of one release would share one charge and one health file, and the first to end would tell for both how it
    stands. Of two releases one would be charged for windows that the other publishes. Where there are no locks of
    files, nobody notices.

    Raises InvalidArgument if another process holds the lock.
    """
    if not is_local(path) or fcntl is None:
        yield
        return
    folder = os.path.dirname(os.path.abspath(path))
    new = not os.path.isdir(folder)
    os.makedirs(folder, exist_ok=True)
    held = f"{folder}/{_LAUNCHER}"
    with open(held, "a+") as holder:
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder.seek(0)
            raise _beside(folder, holder.read()) from None
        except OSError:  # some network file systems lock no files
            pass
        holder.truncate(0)
        holder.write(f"process {os.getpid()} of {socket.gethostname()}")
        holder.flush()
        try:
            yield
        finally:
            if new and os.listdir(folder) == [os.path.basename(held)]:  # refused or failed: no folder is left behind
                with suppress(OSError):
                    os.remove(held)
                    os.rmdir(folder)


def check_sole_launcher(path: str) -> None:
    """Raise InvalidArgument if a stream into the folder of a path has a live launcher; changes nothing."""
    folder = os.path.dirname(os.path.abspath(path))
    if not is_local(path) or fcntl is None or not os.path.exists(f"{folder}/{_LAUNCHER}"):
        return
    with suppress(OSError), open(f"{folder}/{_LAUNCHER}") as holder:
        try:
            fcntl.flock(holder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _beside(folder, holder.read()) from None


def _beside(folder: str, launcher: str) -> InvalidArgument:
    rule = f"{verbatim(folder)} is the folder of a live stream, {verbatim(launcher)}"
    remedy = "wait until that launcher has ended, or end it; another {release_id} can go to another folder"
    return InvalidArgument("output", rule, remedy)


def sweep(path: str) -> None:
    """Remove what killed runs have left of a ranking or another file, under the lock on its folder."""
    for target in (path, manifest_path(path)):
        for left in glob.glob(f"{glob.escape(target)}.*{INCOMPLETE}"):
            with suppress(OSError):
                os.remove(left)


def _put(path: str, contents: dict[str, bytes]) -> None:
    token = secrets.token_hex(8)
    temporary = {target: f"{target}.{token}{INCOMPLETE}" for target in contents}
    try:
        for target, content in contents.items():
            write_file(temporary[target], content)
        _remove(path)
        for target in contents:  # the ranking last
            _rename(temporary[target], target)
    except BaseException:
        for left in temporary.values():
            with suppress(Exception):
                _remove(left)
        raise


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
