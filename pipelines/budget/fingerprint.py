"""Which input a release was made from: recognised again, and disclosed to nobody."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from apache_beam.io.filesystems import FileSystems

from private_topk.pipelines.files import FileInfo, open_file
from private_topk.pipelines.sources.columns import Columns
from private_topk.transforms.keys import ReleaseKey

__all__ = ["fingerprint", "place_fingerprint"]

_AT_ONCE = 1 << 20


def fingerprint(files: Sequence[FileInfo], columns: Columns, key: ReleaseKey) -> str:
    """64 hexadecimal digits that name the bytes of the input and the columns read from it.

    The same files under other paths or in another order are the same input; the same rows written anew are not. A
    checksum of the data would let anybody test a guess of the data, so this is an HMAC under the release key.
    Cost: every local file is read once, about 1.5 GB/s a core; of remote ones only the checksum that their store keeps.
    """
    with ThreadPoolExecutor(16) as pool:
        contents = sorted(pool.map(_content, files))
    names = [columns.user, columns.item, columns.time, columns.time_unit, *["quoted"] * columns.quoted_line_ends]
    message = json.dumps(["private-topk input 1", names, contents])
    return hmac.digest(key.derive("input fingerprint"), message.encode(), "sha256").hex()


def place_fingerprint(place: str, columns: Columns, clock: str, start: str, key: ReleaseKey) -> str:
    """64 hexadecimal digits that name a stream by where it comes from: what it will hold, nobody knows when it starts.

    So the same place is the same input. That is true of a log that keeps its rows, read by its own clock.
    """
    names = [columns.user, columns.item, columns.time, columns.time_unit, *["quoted"] * columns.quoted_line_ends]
    message = json.dumps(["private-topk stream 1", place, names, clock, start])
    return hmac.digest(key.derive("input fingerprint"), message.encode(), "sha256").hex()


def _content(file: FileInfo) -> tuple[int, str]:
    if "://" in file.path:
        return file.size, str(FileSystems.checksum(file.path))
    digest = hashlib.sha256()
    with open_file(file.path) as source:
        while chunk := source.read(_AT_ONCE):
            digest.update(chunk)
    return file.size, digest.hexdigest()
