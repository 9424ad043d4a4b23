"""Files wherever Beam can reach them: local paths, gs://, s3://, hdfs://. Local ones are handled without Beam."""

from __future__ import annotations

import gzip
import io
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from fnmatch import fnmatchcase
from glob import has_magic
from typing import IO, Any, NamedTuple, cast
from urllib.parse import unquote

from private_topk.pipelines.process import PATIENCE, told_if_slow
from private_topk.transforms.errors import InvalidArgument, install_extra, printable, refused, verbatim

_NAMED = ("domain", "groups", "success_file", "payload_schema", "counts", "like")
"""Fields that name a file to be read or kept."""


INCOMPLETE = ".incomplete"
"""How the name of a file ends that is being written."""


class FileInfo(NamedTuple):
    """A file, its bytes, and when it was last written: microseconds since 1970 UTC, 0 where a store keeps no times."""

    path: str
    size: int
    written: int = 0


def match(pattern: str, otherwise: str = "") -> list[FileInfo]:
    """The files of a path or a glob, sorted by path. Raises InvalidArgument if there are none, with what else helps."""
    with reached(pattern):
        files = match_any(pattern, strict=True)
    if not files:
        refuse_folder(pattern)
        raise refused(
            f"{pattern} matches no file: check the path, and quote a glob on a command line. A wildcard does not match "
            f"names that start with '.' or '_'{otherwise}"
        )
    return files


def refuse_folder(pattern: str) -> None:
    """Raise InvalidArgument for the path of a folder, where paths of files are wanted."""
    if is_local(pattern) and os.path.isdir(pattern):
        found = [name for name in sorted(os.listdir(pattern)) if "." in name[1:]]
        ending = found[0].rpartition(".")[2] if found else "avro"
        raise refused(f"{pattern} is a folder: name its files, as in '{pattern.rstrip('/')}/*.{ending}'")


def match_any(pattern: str, strict: bool = False) -> list[FileInfo]:
    """The files of a path or a glob, sorted by path; there may be none. Raises what a file system raises.

    Writers put a `.` or a `_` in front of the names of what is no data, such as drafts, logs and checksums. A wildcard
    does not match these, in folders and files alike; a pattern that has them does.

    Args:
        strict: raise InvalidArgument if a broken link, a pipe or a device is among them. Folders are ignored.
    """
    if is_local(pattern):
        found = [pattern] if os.path.isfile(pattern) else _below(*_literal(pattern))
        paths = [path for path in dict.fromkeys(found) if _is_meant(path, pattern)]
        if strict:
            for path in paths:
                refuse_special(path)
        files = (_look(path) for path in paths if os.path.isfile(path))
        return sorted(file for file in files if file is not None)
    entries = _listed(pattern)
    return sorted(
        FileInfo(entry.path, entry.size_in_bytes, int((entry.last_updated_in_seconds or 0.0) * 1e6))
        for entry in entries
        if not entry.path.endswith("/") and _is_meant(entry.path, pattern)
    )


def _is_meant(path: str, pattern: str) -> bool:
    """Whether each name of a path that starts with `.` or `_` is matched by one of the pattern that starts so too."""
    return all(
        any(part == named or (part[0] == named[:1] and fnmatchcase(part, named)) for named in pattern.split("/"))
        for part in path.split("/")
        if part.startswith(".") or (part.startswith("_") and "=" not in part)  # _day=2026-01-05 is a key
    )


def refuse_doubled(files: Iterable[FileInfo]) -> None:
    """Raise InvalidArgument if a file is there under two names, such as that of a link."""
    names: dict[object, str] = {}
    for file in files:
        if (other := names.setdefault(same_file(file.path), file.path)) != file.path:
            rule = f"{file.path} and {other} are one file, so its rows would count twice"
            raise InvalidArgument("input", verbatim(rule), "give a pattern without the link")


_TABLES = {
    "Delta": "_delta_log/*",
    "Iceberg": "metadata/*.metadata.json*",
    "Hudi": ".hoodie/hoodie.properties",
    "Paimon": "snapshot/snapshot-*",
}
"""The file or folder by which the folder of a table is known, by the kind of table."""


def refuse_tables(files: Iterable[FileInfo]) -> None:
    """Raise InvalidArgument if a file is part of a table, whose folder keeps rows that were deleted or replaced.

    Only the table's own record says which of its files, and which of their rows, count.
    """
    above: set[str] = set()
    for file in files:
        folder = os.path.dirname(file.path)
        folder = os.path.realpath(folder or ".") if is_local(file.path) else folder
        while folder not in above and not folder.endswith(("/", ":")):
            above.add(folder)
            folder = os.path.dirname(folder)
    for folder in sorted(above):
        if "=" in os.path.basename(folder):  # of a table's keys, and never its own folder
            continue
        for kind, mark in _TABLES.items():
            if _is_any(f"{folder}/{mark}"):
                raise refused(
                    f"{folder} is the folder of a {kind} table, and also has rows that were deleted or replaced: read "
                    "the table with its own reader, and write its present rows to Parquet files in another folder"
                )


def _is_any(pattern: str) -> bool:
    if is_local(pattern):
        return any(True for _ in _below(*_literal(pattern)))
    with suppress(Exception):  # who may not look into the folder above reads no table there
        return bool(_listed(pattern, 1))
    return False


@contextmanager
def reached(place: str, field: str = "", fault: str = "cannot be read", remedy: str = "") -> Iterator[None]:
    """Turns what file systems raise inside, each its own kind of error, into refusals of the field."""
    try:
        yield
    except InvalidArgument:
        raise
    except Exception as error:
        raise InvalidArgument(field, verbatim(f"{place} {fault}: {why(error)}"), remedy) from None


def why(error: Exception) -> str:
    """The reason of a file system's error, without the errors that Beam wraps around it."""
    inner = getattr(error, "exception_details", None)
    while isinstance(inner, dict) and inner:
        error = next(iter(inner.values()))
        inner = getattr(error, "exception_details", None)
    if isinstance(error, NameError):  # Beam imports without a missing client, and fails at its first use
        return "the client of its store is not installed: `pip install 'apache-beam[gcp,aws,azure]'` has all"
    if "Unable to get filesystem" in str(error):
        return (
            "no file system is known by that name: a path, gs://, s3://, azfs:// or hdfs://; "
            f"gs:// needs {install_extra('gcp')}, s3:// and azfs:// need `pip install 'apache-beam[aws,azure]'`"
        )
    return (str(error) or type(error).__name__).rstrip(".")


def refuse_special(path: str, field: str = "") -> None:
    """Raise InvalidArgument of the field if a path of this machine is a broken link, a pipe or a device: these cannot
    be read again, and opening one may block for ever.
    """
    if not is_local(path) or not os.path.lexists(path) or os.path.isfile(path) or os.path.isdir(path):
        return
    what = "a pipe, a socket or a device" if os.path.exists(path) else "a link that leads nowhere"
    raise InvalidArgument(field, f"{verbatim(path)} is {what}", "give a file")


def names_in(folder: str) -> set[str]:
    """The names in a folder; none where there is no such folder. Raises what a file system raises."""
    if is_local(folder):
        return set(os.listdir(folder)) if os.path.isdir(folder) else set()
    entries = _listed(f"{folder.rstrip('/')}/*")
    return {entry.path.rpartition("/")[2] for entry in entries}


def as_path(place: str | os.PathLike[str], field: str) -> str:
    """A place as a path that can be opened: file:///a%20b is /a b, ~/a is in the home folder, others stay.

    Raises InvalidArgument of the field.
    """
    if not isinstance(place, str | os.PathLike):
        raise InvalidArgument(field, f"must be a path, got {type(place).__name__}")
    uri = os.fspath(place)
    if not uri.startswith("file://"):
        return os.path.expanduser(uri)
    host, slash, path = uri.removeprefix("file://").partition("/")
    if host not in ("", "localhost") or not path:
        raise InvalidArgument(field, f"must be a path or file:///PATH, got {verbatim(uri)}")
    return slash + unquote(path)


def as_it_is(file: FileInfo) -> FileInfo | None:
    """The present state of a file of this machine; None if it is gone. A store's objects never change."""
    return _look(file.path) if is_local(file.path) else file


def _look(path: str) -> FileInfo | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:  # gone since it was listed
        return None
    return FileInfo(path, status.st_size, status.st_mtime_ns // 1000)


def _literal(pattern: str) -> tuple[str, list[str]]:
    """The folder at the start of a pattern, taken literally since names may hold brackets, and the parts to match."""
    folder, parts = "", pattern.split("/")
    while len(parts) > 1 and (parts[0] in ("", ".", "..") or os.path.isdir(folder + parts[0])):
        folder, parts = f"{folder}{parts[0]}/", parts[1:]
    return folder, parts


def _below(folder: str, parts: list[str], above: tuple[str, ...] = ()) -> Iterator[str]:
    """The paths in a folder that parts match. `**` follows links, but into none of the real folders above."""
    name, rest = parts[0], parts[1:]
    if not name or not os.path.isdir(folder or "."):
        return
    if name == "**":
        yield from _below(folder, rest or ["*"])
        above = above or (os.path.realpath(folder or "."),)
    alone = [name] if os.path.lexists(folder + name) else []
    for entry in sorted(os.listdir(folder or ".")) if has_magic(name) else alone:
        path = folder + entry
        if name == "**" and os.path.isdir(path):
            real = os.path.realpath(path)
            if real not in above:
                yield from _below(f"{path}/", parts, (*above, real))
        elif fnmatchcase(entry, name):
            if rest:
                yield from _below(f"{path}/", rest)
            elif not os.path.isdir(path):
                yield path


def open_file(path: str) -> IO[bytes]:
    """The bytes of a file as they are stored."""
    try:
        if is_local(path):
            return open(path, "rb")
        from apache_beam.io.filesystem import CompressionTypes
        from apache_beam.io.filesystems import FileSystems

        with _answer_of(path):
            return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except OSError as error:
        raise refused(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None


def is_local(path: str) -> bool:
    return "://" not in path


PACKINGS = {".gz": "gzip", ".zst": "zstd"}
"""How a file is compressed as a whole, by the end of its name."""


def packing_of(path: str) -> str:
    """How a file is compressed as a whole: gzip, zstd, or not at all: an empty text."""
    return next((kind for ending, kind in PACKINGS.items() if path.lower().endswith(ending)), "")


def unpacked_name(path: str) -> str:
    """A path in small letters, without the ending that says how the file is compressed."""
    path = path.lower()
    return next((path.removesuffix(ending) for ending in PACKINGS if path.endswith(ending)), path)


@contextmanager
def open_content(path: str) -> Iterator[IO[bytes]]:
    """The content of a file, unzipped if its name ends with .gz or .zst.

    Raises InvalidArgument if that stream is broken.
    """
    packing = packing_of(path)
    with open_file(path) as stored:
        if not packing:
            yield stored
            return
        if not stored.read(1):  # no bytes are an empty stream to Python, and a truncated one to both tools
            raise _not_whole(path)
        stored.seek(0)
        if packing == "zstd":
            with io.BufferedReader(_Zstd(stored, path)) as content:
                yield cast(IO[bytes], content)
            return
        try:
            with gzip.GzipFile(fileobj=stored) as content:
                yield cast(IO[bytes], content)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise _not_whole(path) from None


class _Zstd(io.RawIOBase):
    """The content of a zstd file. Arrow raises what a broken disk raises, so what it raises is told apart here."""

    def __init__(self, stored: IO[bytes], path: str) -> None:
        import pyarrow as pa

        self._content = pa.input_stream(cast(Any, stored), compression="zstd")
        self._path, self._at, self._is_broken = path, 0, False

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - anything writable
        try:
            size = 0 if self._is_broken else self._content.readinto(buffer)
        except OSError as error:
            if error.errno is not None:  # of the disk
                raise
            self._is_broken = True  # which Arrow says once, and then that the stream has ended
        if self._is_broken:
            raise _not_whole(self._path) from None
        self._at += size
        return size


def _not_whole(path: str) -> InvalidArgument:
    return refused(f"{path} is not a whole {packing_of(path)} file: write or copy it again, or rename it if it is none")


def exists(path: str) -> bool:
    """Whether anything exists at a path, even a broken link."""
    if is_local(path):
        return os.path.lexists(path)
    from apache_beam.io.filesystems import FileSystems

    with _answer_of(path):
        return bool(FileSystems.exists(path))


def _listed(pattern: str, most: int | None = None) -> list[Any]:
    from apache_beam.io.filesystems import FileSystems

    with _answer_of(pattern):
        return FileSystems.match([pattern], None if most is None else [most])[0].metadata_list


def _answer_of(path: str) -> AbstractContextManager[None]:
    """Report on stderr if a store does not answer, while its client, inside, retries for minutes."""
    scheme, _, rest = path.partition("://")
    store = printable(f"{scheme}://{rest.partition('/')[0]}")  # no more of the name than the operator has typed
    waits = f"{store} has not answered for {PATIENCE:g} seconds; its client goes on trying"
    return told_if_slow(f"{waits}. Check the network and the credentials, or stop with Ctrl-C", PATIENCE)


def replace_file(path: str, content: bytes) -> None:
    """Write a file whole: on this machine, and in stores that show an object once it is complete, whoever looks sees
    the old content or the new. On return it is stored for good.
    """
    if not is_local(path):
        write_file(path, content)
        return
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    temporary = f"{path}.{secrets.token_hex(8)}{INCOMPLETE}"
    try:
        write_file(temporary, content)
        os.replace(temporary, path)
        _store_names(os.path.dirname(path))
    except BaseException:
        with suppress(OSError):
            os.remove(temporary)
        raise


def write_file(path: str, content: bytes) -> None:
    """Write a file; one of this machine is new, and stored for good on return."""
    if is_local(path):
        with open(path, "xb") as sink:
            sink.write(content)
            sink.flush()
            os.fsync(sink.fileno())
        return
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as sink:
        sink.write(content)


def _store_names(folder: str) -> None:
    """Store for good what the files of a folder are called, where a system does that."""
    with suppress(OSError):
        handle = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def refuse_replacing(outputs: Iterable[str], kept: Iterable[str], field: str = "output") -> None:
    """Raise InvalidArgument of the field if an output is one of the files that are read or kept, by whatever name: a
    link, another spelling or a file:// address. Writing would replace that file.
    """
    others = {same_file(path): path for path in kept if path}
    for path in outputs:
        if (other := others.get(same_file(path))) is not None:
            rule = f"{verbatim(path)} would replace {verbatim(other)}, which is read"
            raise InvalidArgument(field, rule, "give another path")


def protected_files(asked: Mapping[str, Any]) -> list[str]:
    """The files named by options, to be read or kept."""
    named = (asked[field] for field in _NAMED if asked.get(field) is not None)
    files = [str(file) for value in named for file in (value if isinstance(value, tuple) else (value,))]
    kind, _, uri = str(asked.get("release_key", "")).partition(":")
    files += [uri] if kind == "file" else []
    if asked.get("ledger") is not None:
        from private_topk.pipelines.budget.tables import Database

        files += filter(None, [Database(asked["ledger"]).file])
    return files


def same_file(path: str) -> object:
    """An identifier of a file, the same for all its names, also if it does not exist yet."""
    path = as_path(path, "output") if path.startswith("file:///") else path
    if not is_local(path):
        return path
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    except ValueError:  # no file has a NUL in its name
        return path
    return status.st_dev, status.st_ino
