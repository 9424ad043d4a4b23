"""What a Parquet file says of itself, looked at before Arrow believes it: its footer, and the head of every page.

Arrow ends the process over a schema that is nested without end, allots what a page claims to decode to, and reads on
past what a row group says it has. Nothing is decoded here: heads only are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import IO, Any, NamedTuple

from private_topk.pipelines.sources.thrift import Broken, Short, decode
from private_topk.transforms.refusal import Refusal, refused

__all__ = ["Chunk", "Group", "Lengths", "check_pages", "check_rows", "groups_of", "not_parquet"]

LARGEST_PAGE = 256 << 20
_LARGEST_FOOTER = 64 << 20
_LARGEST_HEAD = 16 << 20
_DEEPEST = 100
_ROWS, _ROWS_A_BYTE = 1 << 24, 100
_MAGIC = b"PAR1"
_DATA_PAGES = {5: 2, 8: 4}
"""The fields of a page's head that tell of its rows, in either version, and the field there that tells how."""
_DELTA_TEXTS = 7


class Chunk(NamedTuple):
    """A column of a row group: where its pages are, and how many values they are to hold."""

    start: int
    size: int
    values: int


class Group(NamedTuple):
    """A row group, and its columns by name; those of nested ones are left out."""

    rows: int
    chunks: dict[bytes, Chunk]


class Lengths(NamedTuple):
    """How long the values of some row groups are.

    Args:
        longest: bytes, of a value that does not come out of a dictionary: on the average of its page, unless one can
            stand for all.
        dictionaries: the number of the group and the name of the column, for each that has one.
    """

    longest: int
    dictionaries: list[tuple[int, str]]


class _Page(NamedTuple):
    """A page's head, as it claims. `values` is None where it holds no rows."""

    decoded: int
    values: int | None
    encoding: int


def groups_of(source: IO[bytes], path: str) -> tuple[Group, ...]:
    """The row groups of a file. Cost: that of decoding its footer, some seconds where that has megabytes.

    Raises:
        Refusal: the file is not whole, or its footer is larger or nested deeper than any that is meant well.
    """
    end = source.seek(0, os.SEEK_END)
    source.seek(max(end - 8, 0))
    size, magic = int.from_bytes(source.read(4), "little"), source.read(4)
    if magic != _MAGIC or not 0 < size <= end - 12:
        raise not_parquet(path)
    if size > _LARGEST_FOOTER:
        raise refused(f"{path} has a footer of more than {_LARGEST_FOOTER >> 20} MiB: write it with fewer columns "
                         "or row groups")  # fmt: skip
    source.seek(end - 8 - size)
    try:
        return _groups(source.read(size))
    except (Broken, LookupError, TypeError, AttributeError):
        raise not_parquet(path) from None


def not_parquet(path: str) -> Refusal:
    return refused(f"{path} is not a Parquet file, or it is truncated: write or copy it again")


def check_rows(groups: Sequence[Group], stored: int, path: str) -> None:
    """Raise Refusal if a file claims more rows than one of so many bytes is let have.

    Rows without a value take next to none: a file of a megabyte could have more than anybody can wait for.
    """
    if sum(group.rows for group in groups) > _ROWS + _ROWS_A_BYTE * stored:
        raise refused(f"{path} claims more rows than {_ROWS:,} and {_ROWS_A_BYTE} for each of its bytes: leave out "
                         "those without a user or an item, or copy it again")  # fmt: skip


def check_pages(source: IO[bytes], path: str, groups: Sequence[Group], names: Sequence[str]) -> Lengths:
    """Look at every page of the wanted columns.

    Raises:
        Refusal: a page decodes to more than the bound, or a column has not the rows of its group.
    """
    longest, dictionaries = 1, []
    for number, group in enumerate(groups):
        for name in names:
            rows, chunk = 0, group.chunks.get(name.encode())
            if chunk is None or chunk.values != group.rows:
                raise damaged(path)
            for page in _pages(source, chunk, path) if chunk.values else ():
                if page.decoded > LARGEST_PAGE:
                    raise refused(f"{path} has a page that decodes to more than {LARGEST_PAGE >> 20} MiB: write "
                                     "smaller pages")  # fmt: skip
                rows += page.values or 0
                if page.values is None:
                    dictionaries.append((number, name))
                elif page.values:
                    # Texts written as what they do not share with the one before may each be as long as all together.
                    together = page.encoding == _DELTA_TEXTS
                    longest = max(longest, page.decoded if together else page.decoded // page.values)
            if rows != group.rows:
                raise damaged(path)
    return Lengths(longest, dictionaries)


def damaged(path: str) -> Refusal:
    return refused(f"{path} is damaged: a row group has other pages than it says. Write or copy it again")


@lru_cache(maxsize=4)
def _groups(footer: bytes) -> tuple[Group, ...]:
    facts, _ = decode(footer)
    _check_depth(facts[2])
    return tuple(_group(group) for group in facts.get(4, []))


def _group(facts: dict[int, Any]) -> Group:
    columns = [column[3] for column in facts[1]]
    return Group(_count(facts, 3), {bytes(column[3][0]): _chunk(column) for column in columns if len(column[3]) == 1})


def _chunk(facts: dict[int, Any]) -> Chunk:
    """Where its pages begin, as Arrow has it: with the dictionary, if that is said to come first."""
    first, dictionary = _count(facts, 9), _count(facts, 11) if 11 in facts else 0
    return Chunk(dictionary if 0 < dictionary < first else first, _count(facts, 7), _count(facts, 5))


def _count(facts: dict[int, Any], field: int) -> int:
    if not isinstance(facts[field], int) or facts[field] < 0:
        raise Broken("a field is no number, or below 0")
    return facts[field]


def _check_depth(schema: Sequence[dict[int, Any]]) -> None:
    """The schema is a list in which each element says how many of those that follow are inside it."""
    inside: list[int] = []
    for element in schema:
        while inside and not inside[-1]:
            inside.pop()
        if inside:
            inside[-1] -= 1
        inside.append(_count(element, 5) if 5 in element else 0)
        if len(inside) > _DEEPEST:
            raise Broken("nested too deep")


def _pages(source: IO[bytes], chunk: Chunk, path: str) -> Iterator[_Page]:
    at, end = chunk.start, chunk.start + chunk.size
    if end > source.seek(0, os.SEEK_END):
        raise damaged(path)
    while at < end:
        facts, size = _head(source, at, path)
        try:
            page, stored = _page(facts), _count(facts, 3)
        except (Broken, LookupError, TypeError):
            raise damaged(path) from None
        yield page
        at += size + stored


def _page(facts: dict[int, Any]) -> _Page:
    for field, encoding in _DATA_PAGES.items():
        if field in facts:
            return _Page(_count(facts, 2), _count(facts[field], 1), _count(facts[field], encoding))
    return _Page(_count(facts, 2), None, 0)


def _head(source: IO[bytes], at: int, path: str) -> tuple[dict[int, Any], int]:
    """A page's head and its size. It may hold the least and the largest value, so nobody knows how long it is."""
    size = 256
    while size <= _LARGEST_HEAD:
        source.seek(at)
        content = source.read(size)
        try:
            return decode(content)
        except Short:
            if len(content) < size:
                break
        except Broken:
            break
        size *= 16
    raise damaged(path)
