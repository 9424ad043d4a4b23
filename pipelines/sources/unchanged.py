"""Whether a file is what it was at the launch: a ranking is drawn from the rows that were charged, or not at all."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

from apache_beam.io.filesystems import FileSystems

from private_topk.pipelines.files import FileInfo, is_local, open_file
from private_topk.transforms.errors import InvalidArgument, refused

_HASHING = threading.Lock()


class Stamp(NamedTuple):
    """What the system says of a file of this machine; whatever writes or replaces it gives it another.

    Args:
        written: nanoseconds since 1970 UTC, which a program may set.
        changed: the same, which no program sets; it changes with names and permissions too.
        number: of the file behind its name.
    """

    size: int
    written: int
    changed: int
    number: int


@dataclass
class Original:
    """A file as it was at the launch.

    Args:
        stamp: None for a file of a store.
        content: the SHA-256 of its bytes, or its store's checksum; None until it was identified for a ledger.
    """

    file: FileInfo
    stamp: Stamp | None
    content: str | None = None

    @classmethod
    def of(cls, file: FileInfo) -> Original:
        """A file that was listed, as it is now. Raises InvalidArgument if it cannot be opened."""
        stamp = _stamp_of(file.path) if is_local(file.path) else None
        if stamp is not None:
            file = FileInfo(file.path, stamp.size, stamp.written // 1000)
        return cls(file, stamp)

    def identify(self) -> None:
        """Learn its content. Cost: a file of this machine is read once, at about 1.5 GB/s a core."""
        path = self.file.path
        self.content = _checksum_of(path) if self.stamp is None else _digest_of(path)

    def check_still(self) -> None:
        """Raise InvalidArgument if a local file was written since it was listed, before anything was charged."""
        if self.stamp is not None and _stamp_of(self.file.path) != self.stamp:
            raise refused(f"{self.file.path} was changed while it was looked at: call again when it is complete")

    def check(self) -> None:
        """Raise InvalidArgument if the file is another than at the launch.

        To be called when the last of its rows was read, and before anything is drawn. Without its content a file of
        this machine is known by its size and when it was written, and one of a store not at all. With it the content
        decides; a file whose stamp is the same is not read again.
        """
        if not self._is_same():
            raise refused(
                f"{self.file.path} was changed after the launch, and a ranking is drawn only from files that "
                "stay as they are until the job has ended"
            )

    def _is_same(self) -> bool:
        path, before, content = self.file.path, self.stamp, self.content
        if before is None:
            return content is None or _checksum_of(path) == content
        try:
            now = _stamp_of(path)
        except InvalidArgument:  # it is gone
            return False
        if content is None:
            return (now.size, now.written) == (before.size, before.written)
        return now == before or (now.size == before.size and _digest_once(path, now) == content)


def _stamp_of(path: str) -> Stamp:
    with open_file(path) as source:  # to open a file brings what a network's file system knows of it up to date
        status = os.fstat(source.fileno())
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _checksum_of(path: str) -> str:
    return str(FileSystems.checksum(path))


def _digest_of(path: str) -> str:
    with open_file(path) as source:
        return hashlib.file_digest(cast(Any, source), "sha256").hexdigest()


def _digest_once(path: str, stamp: Stamp) -> str:
    """The digest of a file, which is read once while its stamp stays, however many of its pieces are checked."""
    with _HASHING:  # threads that ask at once would each read all of it
        return _digest_with(path, stamp)


@lru_cache(maxsize=1 << 12)
def _digest_with(path: str, stamp: Stamp) -> str:
    return _digest_of(path)
