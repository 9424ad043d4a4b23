"""The record of what a stream has read, beside its rankings.

A stream that is begun again reads its input anew. That is the same release only if the input still holds what was read
before, and the reader's own state, which knows, may be lost with its runner. So a reader writes down what it has read
before its bundle is committed, and no window closes before that: what is published is on record.

An entry is a JSON object: the path of a file, name and id of a topic, or what a partition had given before a window
closed; and once, since no manifest tells it, what was asked of the stream. What depends on rows, such as the size of a
file, is sealed, since who reads the rankings may look in here too.
A page holds up to a thousand entries: a folder of 100,000 files has a hundred pages, and a turn of reading writes one
of them, of some 100 KB.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from private_topk.pipelines.differences import of_streams, told
from private_topk.pipelines.files import FileInfo, exists, match_any, open_file, replace_file
from private_topk.transforms.errors import ANOTHER_RELEASE, InvalidArgument, verbatim
from private_topk.transforms.release import Release

FOLDER = ".private-topk-input"
_PAGE = 1000
_ASKED = "asked"

Entry = dict[str, Any]


class InputRecord:
    """The record of one release, in a hidden folder of its output. It pickles before it is used.

    Args:
        output: the folder of the rankings.
        release: each id, under each key, has a record of its own.
        asked: of the stream, as `of_streams` compares it; None compares nothing.
    """

    def __init__(self, output: str, release: Release, asked: Mapping[str, Any] | None = None) -> None:
        self._output, self._release, self._asked = output, release, asked
        self._name = f"{secrets.token_hex(8)}.jsonl"
        self._page: list[Entry] = []
        self._known: dict[str, Entry] | None = None
        self._kept = False

    @property
    def uri(self) -> str:
        """Its folder. Raises InvalidArgument of `release_key` if the key cannot be read here."""
        name = json.dumps([self._release.id, self._release.key.key_id()])
        return f"{self._output}/{FOLDER}/{hashlib.sha256(name.encode()).hexdigest()[:32]}"

    def sealed(self, *facts: int) -> str:
        """Facts as 16 hexadecimal digits, keyed: nobody without the release key can test a guess of them."""
        key = self._release.key.derive("input record")
        return hmac.digest(key, json.dumps(facts).encode(), "sha256").hex()[:16]

    def read(self) -> list[Entry]:
        """What was read, by this run and earlier ones. Raises InvalidArgument if a page cannot be understood, or
        something else was asked of the stream.
        """
        if self._known is None:
            pages = self._pages()
            known = {_text(entry): entry for page in pages for entry in _read(page.path)}
            for entry in known.values():
                asked = entry.get(_ASKED)
                if asked and self._asked and (found := of_streams(asked, self._asked)):
                    whose = f"{verbatim(self._output)} is of {verbatim(self._release.id)} with {verbatim(told(found))}"
                    remedy = f"ask the same again, or {ANOTHER_RELEASE}"
                    raise InvalidArgument("release_id", f"is taken: {whose}", remedy)
            self._known, self._kept = known, bool(pages)
        return [entry for entry in self._known.values() if _ASKED not in entry]

    def is_kept(self) -> bool:
        """Whether it is there: a stream has a page before its first window closes, though it may have read nothing."""
        return bool(self._pages())

    def _pages(self) -> list[FileInfo]:
        return match_any(f"{self.uri}/*.jsonl") if exists(self.uri) or "://" in self.uri else []

    def add(self, entries: Iterable[Entry]) -> None:
        """Write entries down, unless they are on record. On return they are stored for good, if only as none."""
        self.read()
        assert self._known is not None
        asked = [{_ASKED: self._asked}] if self._asked else []
        new = {_text(entry): entry for entry in (*asked, *entries) if _text(entry) not in self._known}
        if not new and self._kept:
            return
        page = [*self._page, *new.values()]
        replace_file(f"{self.uri}/{self._name}", "".join(f"{_text(entry)}\n" for entry in page).encode())
        self._known |= new
        self._page, self._kept = page, True
        if len(page) >= _PAGE:
            self._page, self._name = [], f"{secrets.token_hex(8)}.jsonl"


def _text(entry: Entry) -> str:
    return json.dumps(entry, sort_keys=True)


def _read(page: str) -> list[Entry]:
    with open_file(page) as source:
        try:
            return [dict(json.loads(line)) for line in source.read().splitlines()]
        except (ValueError, TypeError):
            rule = f"{verbatim(page)}, the record of what this release has read, is damaged"
            raise InvalidArgument("output", rule, f"bring it back from a copy, or {ANOTHER_RELEASE}") from None
