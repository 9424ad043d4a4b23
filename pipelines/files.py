"""Files wherever Beam can reach them: local paths, gs://, s3://, hdfs://."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple, cast

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from private_topk.pipelines.errors import InputError

__all__ = ["FileInfo", "exists", "is_gzip", "is_local", "match", "open_content", "open_file"]


class FileInfo(NamedTuple):
    path: str
    size: int


def match(pattern: str) -> list[FileInfo]:
    """The files of a glob, sorted by path. Raises InputError if there are none."""
    if os.path.isfile(pattern):  # a name may hold brackets of its own
        return [FileInfo(pattern, os.path.getsize(pattern))]
    try:
        found = FileSystems.match([pattern])[0].metadata_list
    except Exception as error:  # every file system raises its own kind
        raise InputError(f"{pattern} cannot be read: {error}") from None
    files = sorted(FileInfo(entry.path, entry.size_in_bytes) for entry in found if not entry.path.endswith("/"))
    files = [file for file in files if "://" in file.path or os.path.isfile(file.path)]
    if not files:
        raise InputError(f"{pattern} matches no file: check the path, and quote a glob so that the shell "
                         "leaves it alone")  # fmt: skip
    return files


def open_file(path: str) -> IO[bytes]:
    """The bytes of a file as they are stored."""
    try:
        if "://" not in path:
            return open(path, "rb")
        return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None


def is_local(path: str) -> bool:
    """Whether a path is of this machine."""
    return "://" not in path


def is_gzip(path: str) -> bool:
    return path.lower().endswith(".gz")


@contextmanager
def open_content(path: str) -> Iterator[IO[bytes]]:
    """What a file holds, unzipped where its name ends with .gz. Raises InputError if that stream is broken."""
    with open_file(path) as stored:
        if not is_gzip(path):
            yield stored
            return
        try:
            with gzip.GzipFile(fileobj=stored) as content:
                yield cast(IO[bytes], content)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError(f"{path} is not a whole gzip file: write or copy it again") from None


def exists(path: str) -> bool:
    """Whether something stands at a path, be it a link that leads nowhere."""
    return os.path.lexists(path) if is_local(path) else FileSystems.exists(path)
