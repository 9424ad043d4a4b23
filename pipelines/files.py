"""Files wherever Beam can reach them: local paths, gs://, s3://, hdfs://. Of local ones it knows without Beam."""

from __future__ import annotations

import gzip
import os
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import IO, Any, NamedTuple, cast
from urllib.parse import unquote

from private_topk.pipelines.process import level
from private_topk.transforms.errors import Refusal, printable, refused, verbatim

__all__ = [
    "PATIENCE",
    "FileInfo",
    "as_it_is",
    "as_path",
    "exists",
    "is_gzip",
    "is_local",
    "ledger_file",
    "match",
    "match_any",
    "names_in",
    "open_content",
    "open_file",
    "protected_files",
    "refuse_folder",
    "refuse_replacing",
    "refuse_special",
    "why",
]

PATIENCE = 5.0
"""Seconds without an answer, of a store or of another process, before a word is said."""

_NAMED = ("input", "domain", "groups", "success_file", "payload_schema", "counts", "counts_before", "like",
          "config")  # fmt: skip
"""Fields that name a file to be read or kept."""


class FileInfo(NamedTuple):
    """A file, its bytes, and when it was last written: microseconds since 1970 UTC, 0 where a store keeps no times."""

    path: str
    size: int
    written: int = 0


def match(pattern: str) -> list[FileInfo]:
    """The files of a path or a glob, sorted by path. Raises Refusal if there are none."""
    try:
        files = match_any(pattern, strict=True)
    except Refusal:
        raise
    except Exception as error:  # every file system raises its own kind
        raise refused(f"{pattern} cannot be read: {why(error)}") from None
    if not files:
        refuse_folder(pattern)
        raise refused(f"{pattern} matches no file: check the path, and quote a glob so that the shell "
                         "leaves it alone")  # fmt: skip
    return files


def refuse_folder(pattern: str) -> None:
    """Raise Refusal for the path of a folder, where those of its files are wanted."""
    if is_local(pattern) and os.path.isdir(pattern):
        raise refused(f"{pattern} is a folder: name its files, as in '{pattern.rstrip('/')}/*.avro'")


def match_any(pattern: str, strict: bool = False) -> list[FileInfo]:
    """The files of a path or a glob, sorted by path; there may be none. Raises what a file system raises.

    Args:
        strict: raise Refusal where something else is among them that may hold rows: a link that leads nowhere, a pipe
            or a device. Folders are passed over.
    """
    if is_local(pattern):
        paths = dict.fromkeys([pattern] if os.path.isfile(pattern) else _below(*_literal(pattern)))
        if strict:
            for path in paths:
                refuse_special(path)
        files = (_look(path) for path in paths if os.path.isfile(path))
        return sorted(file for file in files if file is not None)
    found = _listed(pattern)
    return sorted(FileInfo(entry.path, entry.size_in_bytes, int((entry.last_updated_in_seconds or 0.0) * 1e6))
                  for entry in found if not entry.path.endswith("/"))  # fmt: skip


def why(error: Exception) -> str:
    """What a file system says, without the errors that Beam wraps around it."""
    inner = getattr(error, "exception_details", None)
    while isinstance(inner, dict) and inner:
        error = next(iter(inner.values()))
        inner = getattr(error, "exception_details", None)
    if isinstance(error, NameError):  # Beam's modules go on without a client that is not installed, up to its first use
        return "the client of its store is not installed: pip install 'apache-beam[gcp,aws,azure]' has all"
    if "Unable to get filesystem" in str(error):
        return ("no file system is known by that name: a path, gs://, s3://, azfs:// or hdfs://; gs:// needs "
                "`pip install 'private-topk[gcp]'`, s3:// and azfs:// need 'apache-beam[aws,azure]'")  # fmt: skip
    return (str(error) or type(error).__name__).rstrip(".")


def refuse_special(path: str, field: str = "") -> None:
    """Raise Refusal of the field where a link that leads nowhere, a pipe or a device stands at a path of this machine:
    they cannot be read again, and whoever opens one may wait for ever.
    """
    if not is_local(path) or not os.path.lexists(path) or os.path.isfile(path) or os.path.isdir(path):
        return
    what = "a pipe, a socket or a device" if os.path.exists(path) else "a link that leads nowhere"
    raise Refusal(field, f"{verbatim(path)} is {what}", "give a file")


def names_in(folder: str) -> set[str]:
    """The names in a folder; none where there is no such folder. Raises what a file system raises."""
    if is_local(folder):
        return set(os.listdir(folder)) if os.path.isdir(folder) else set()
    found = _listed(f"{folder.rstrip('/')}/*")
    return {entry.path.rpartition("/")[2] for entry in found}


def as_path(place: str, field: str) -> str:
    """A place as it is opened: file:///a%20b is /a b, and everything else is itself. Raises Refusal of the field."""
    if not place.startswith("file://"):
        return place
    host, slash, path = place.removeprefix("file://").partition("/")
    if host not in ("", "localhost") or not path:
        raise Refusal(field, f"must be a path or file:///PATH, got {verbatim(place)}")
    return slash + unquote(path)


def as_it_is(file: FileInfo) -> FileInfo | None:
    """A file of this machine once more; None where it is gone. A store's objects are whole, and stay as they are."""
    return _look(file.path) if is_local(file.path) else file


def _look(path: str) -> FileInfo | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:  # gone since it was listed
        return None
    return FileInfo(path, found.st_size, found.st_mtime_ns // 1000)


def _literal(pattern: str) -> tuple[str, list[str]]:
    """The folder that a pattern names as it stands, and what is to be matched below: names may hold brackets."""
    folder, parts = "", pattern.split("/")
    while len(parts) > 1 and (parts[0] in ("", ".", "..") or os.path.isdir(folder + parts[0])):
        folder, parts = f"{folder}{parts[0]}/", parts[1:]
    return folder, parts


def _below(folder: str, parts: list[str]) -> Iterator[str]:
    name, rest = parts[0], parts[1:]
    if not name or not os.path.isdir(folder or "."):
        return
    if name == "**":
        yield from _below(folder, rest or ["*"])
    for entry in sorted(os.listdir(folder or ".")):
        path = folder + entry
        if name == "**" and os.path.isdir(path) and not os.path.islink(path):
            yield from _below(f"{path}/", parts)
        elif fnmatchcase(entry, name):
            if rest:
                yield from _below(f"{path}/", rest)
            elif not os.path.isdir(path):
                yield path


def open_file(path: str) -> IO[bytes]:
    """The bytes of a file as they are stored."""
    try:
        if "://" not in path:
            return open(path, "rb")
        return _opened(path)
    except OSError as error:
        raise refused(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None


def is_local(path: str) -> bool:
    """Whether a path is of this machine."""
    return "://" not in path


def is_gzip(path: str) -> bool:
    return path.lower().endswith(".gz")


@contextmanager
def open_content(path: str) -> Iterator[IO[bytes]]:
    """What a file holds, unzipped where its name ends with .gz. Raises Refusal if that stream is broken."""
    with open_file(path) as stored:
        if not is_gzip(path):
            yield stored
            return
        try:
            if not stored.read(1):  # to Python no bytes are a stream of nothing; to gzip they are one that is cut short
                raise EOFError
            stored.seek(0)
            with gzip.GzipFile(fileobj=stored) as content:
                yield cast(IO[bytes], content)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise refused(f"{path} is not a whole gzip file: write or copy it again") from None


def exists(path: str) -> bool:
    """Whether something stands at a path, be it a link that leads nowhere."""
    if is_local(path):
        return os.path.lexists(path)
    from apache_beam.io.filesystems import FileSystems

    with _answer_of(path):
        return bool(FileSystems.exists(path))


def _listed(pattern: str) -> list[Any]:
    from apache_beam.io.filesystems import FileSystems

    with _answer_of(pattern):
        return FileSystems.match([pattern])[0].metadata_list


def _opened(path: str) -> IO[bytes]:
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    with _answer_of(path):
        return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


@contextmanager
def _answer_of(path: str) -> Iterator[None]:
    """Say on stderr that a store does not answer, while what is inside goes on: its client tries again for minutes."""
    teller = threading.Timer(PATIENCE, _tell_of, [path])
    teller.daemon = True
    teller.start()
    try:
        yield
    finally:
        teller.cancel()


def _tell_of(path: str) -> None:
    scheme, _, rest = path.partition("://")
    store = printable(f"{scheme}://{rest.partition('/')[0]}")  # no more of a name than the operator has typed
    with suppress(OSError, ValueError), level("warning"):  # a terminal that is gone
        print(f"{store} has not answered for {PATIENCE:g} seconds; its client goes on trying. Check the network and "
              "the credentials, or stop with Ctrl-C", file=sys.stderr, flush=True)  # fmt: skip


def refuse_replacing(outputs: Iterable[str], kept: Iterable[str], field: str = "output") -> None:
    """Raise Refusal of the field where an output is one of the files that are read or kept, by whatever name: a link,
    another spelling, a detour or a file:// address.

    What is written replaces what stands there, also where everything else of the run is right.
    """
    others = {_same_file(path): path for path in kept if path}
    for path in outputs:
        if (other := others.get(_same_file(path))) is not None:
            rule = f"{verbatim(path)} would replace {verbatim(other)}, which is read"
            raise Refusal(field, rule, "give another path")


def protected_files(asked: Mapping[str, Any]) -> list[str]:
    """The files that are named by what is asked for, to be read or kept."""
    found = [str(asked[field]) for field in _NAMED if asked.get(field) is not None]
    kind, _, place = str(asked.get("release_key", "")).partition(":")
    found += [place] if kind == "file" else []
    ledger = ledger_file(asked["ledger"]) if asked.get("ledger") is not None else None
    return found if ledger is None else [*found, ledger]


def ledger_file(url: str) -> str | None:
    """The file of a ledger, where it is one. Raises Refusal of a URL that is none."""
    from private_topk.pipelines.budget.tables import Database

    return Database(url).file


def _same_file(path: str) -> object:
    """What is the same for two names of one file, and for two names of one that is not there yet."""
    path = as_path(path, "output") if path.startswith("file:///") else path
    if not is_local(path):
        return path
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
