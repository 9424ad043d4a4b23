"""When a file of a watched folder arrived: what a repetition sees again, whatever its times say.

A file that was written under another name and renamed bears the time of its writing, which may be before a window had
closed that was published without it. Such a file has arrived when it was found; that is noted beside it, in a hidden
folder for operators only, since nothing else would tell a repetition. All others have arrived when they were written.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from private_topk.pipelines.files import FileInfo, exists, is_local, open_file
from private_topk.pipelines.sources.clock import Clock
from private_topk.transforms.errors import Refusal

__all__ = ["NOTES", "arrival_of"]

NOTES = ".private-topk-arrivals"


def arrival_of(file: FileInfo, clock: Clock, now: int) -> int:
    """When a file arrived, microseconds since 1970 UTC, as this run and every later one has it.

    Args:
        now: how far the clock is.

    Raises:
        Refusal: it arrived before a window had closed that is published without it, or that it came too late cannot
            be noted.
    """
    note = _note_of(file.path)
    noted = _read(note)
    if noted is None:
        if not clock.closes_between(file.written, now):
            return file.written
        _write(note, now)
        noted = _read(note)
    if noted is None:
        raise Refusal("", "a file appeared after windows had closed that it was written before, and its folder takes "
                      "no note of that, so a repetition would count it", "let this user write there, or set "
                      "the time of files that are moved in, as `touch` does")  # fmt: skip
    if clock.closes_between(noted, now):
        raise Refusal("", "a file appeared after windows had closed which another stream over this folder had found it "
                      "in time for", "take a new {release_id}")  # fmt: skip
    return noted


def _note_of(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{NOTES}/{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}"


def _read(note: str) -> int | None:
    if not exists(note):
        return None
    with open_file(note) as source:
        return int(source.read())


def _write(note: str, at: int) -> None:
    """Whoever notes it first is right."""
    content = b"%d\n" % at
    if not is_local(note):
        with FileSystems.create(note, compression_type=CompressionTypes.UNCOMPRESSED) as sink:
            sink.write(content)
        return
    own = f"{note}.{secrets.token_hex(8)}.incomplete"
    with suppress(OSError):  # the caller looks whether it is there
        os.makedirs(os.path.dirname(note), exist_ok=True)
        try:
            with open(own, "xb") as sink:
                sink.write(content)
            os.link(own, note)
        finally:
            os.remove(own)
