"""The public lists of items and of groups that options name, from files: one item per line, or a column of CSV, JSON
lines, Parquet or Avro.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.files import as_path, match, match_any, open_content, reached
from private_topk.pipelines.options import Options
from private_topk.pipelines.release.place import pair_at
from private_topk.pipelines.sources.columns import Columns, read_rows
from private_topk.pipelines.sources.formats import INPUT_FORMATS, rows_in
from private_topk.transforms.composite import names_of, parts_of, published
from private_topk.transforms.domain import (
    Domain,
    DomainByGroup,
    Pairs,
    PublicDomain,
    RangeDomain,
    UnknownDomain,
    as_domain,
)
from private_topk.transforms.errors import InvalidArgument, literal, verbatim
from private_topk.transforms.groups import Groups
from private_topk.transforms.labels import check_items, digest_of
from private_topk.transforms.spec import MAX_LISTED

_ROLES = {"user_column": "domain_column", "item_column": "domain_column", "group_column": "domain_group_column"}
_OF_TITLES = {"user_column": "item_column", "item_column": "item_column", "group_column": "title_column"}


class _Listed(Columns):
    public = True


@dataclass(frozen=True)
class DomainFile:
    """Reads the items of a domain file, at the launch and again on every worker, so that no job carries them."""

    path: str
    column: tuple[str, ...]
    field: str = "domain"

    def __call__(self) -> pa.Array:
        with _about(self.path, self.field):
            return _columns_of(self.path, self.column)[0] if has_columns(self.path) else _lines(self.path)


@dataclass(frozen=True)
class PairsFile:
    """Reads which item can be ranked in which group, from a file with a column for each, as `DomainFile` does."""

    path: str
    column: tuple[str, ...]
    group_column: tuple[str, ...]

    def __call__(self) -> Pairs:
        items, groups = _columns_of(self.path, self.column, self.group_column)
        if groups.null_count:
            raise InvalidArgument("domain", "must name a group in every row", "leave rows without one out")
        return groups, items


@dataclass(frozen=True)
class Together:
    """Reads the items of a domain, if there is one, and those of found lists, each once, in the order they come in. A
    found item that is no label any more, which an earlier version may have published, is left out.
    """

    listed: Callable[[], pa.Array] | None
    found: tuple[DomainFile, ...]

    @property
    def path(self) -> str | None:
        return getattr(self.listed, "path", None)

    def __call__(self) -> pa.Array:
        listed = [] if self.listed is None else [self.listed()]
        return pa.concat_arrays([*listed, *(load().drop_null() for load in self.found)]).unique()


def _columns_of(path: str, column: tuple[str, ...], group_column: tuple[str, ...] = ()) -> tuple[pa.Array, pa.Array]:
    """The items, and their groups where these have a column. Raises InvalidArgument.

    The file is public, and whoever wrote it vouches for all of it: titles may hold line ends.
    """
    columns = _Listed(column[0], column, quoted_line_ends=True, group=group_column or None)  # a list is of no users
    items, groups = [pa.array([], pa.large_string())], [pa.array([], pa.large_string())]
    for rows in rows_in(match(path)[0], columns):
        arrays, unreadable = read_rows(rows, columns)
        if unreadable is not None and pc.any(unreadable).as_py():
            rule = f"{verbatim(path)} has rows that cannot be read"
            raise InvalidArgument("domain", rule, "every one must hold an item, in UTF-8 where the file is of text")
        items.append(arrays["item"])
        groups.append(arrays.get("group", groups[0]))
    return pa.concat_arrays(items), pa.concat_arrays(groups)


def has_columns(path: str) -> bool:
    """Whether a domain file is a table; any other has an item on every line."""
    return path.lower().endswith(tuple(INPUT_FORMATS))


def read_domain(path: str, column: tuple[str, ...]) -> PublicDomain:
    """The public domain of a file. Raises InvalidArgument, naming the file, unless it is a list of distinct items."""
    if len(column) > 1 and not has_columns(path):
        raise InvalidArgument(
            "domain",
            f"{verbatim(path)} must be a table with the columns {verbatim(', '.join(column))}: its "
            "lines are one text each",
        )
    source = DomainFile(_found_at(path), column)
    with _about(path):
        labels = check_items(source())
        if not has_columns(path) and labels[0].as_py() == column[0]:
            raise InvalidArgument(
                "domain",
                f"begins with {verbatim(column[0])}, as the column is called: a list of lines has no header",
                "remove that line; if it is no header, put it further down, or give a table, such as a CSV",
            )
    return PublicDomain(source, digest_of(labels), len(labels))


@as_domain.register(str)
@as_domain.register(os.PathLike)
def _at(path: str | os.PathLike[str], columns: tuple[str, ...] = ()) -> PublicDomain:
    columns = columns or ("item",)
    if isinstance(path, str) and "\n" in path:
        rule = "must be a list or the path of a file, got a text of several lines"
        raise InvalidArgument("domain", rule, "give .splitlines() of it")
    try:
        return read_domain(as_path(path, "domain"), columns)
    except InvalidArgument as error:
        if error.field != "domain_column":
            raise
        needed = f"it needs one column called {' and one called '.join(columns)}"  # no argument in Python names others
        raise InvalidArgument("domain", error.rule, f"{verbatim(needed)}; or give the items as a list") from None


def with_found(domain: PublicDomain | None, found: Sequence[str], column: tuple[str, ...]) -> PublicDomain | None:
    """The items of a domain, if there is one, and of rankings published before; None if these have none at all. Raises
    InvalidArgument.

    Args:
        column: the items of the rows; of several columns, rankings must have the same.
    """
    names = published("item", column)
    files = [DomainFile(_found_at(path, "found"), names, "found") for path in found]
    for file in files:
        pair = pair_at(file.path)
        if not pair.is_whole or pair.manifest is None:
            raise InvalidArgument(
                "found",
                f"{verbatim(file.path)} is no ranking that was published, with its manifest",
                "items of private rows must not be listed",
            )
        if pair.manifest.names("item") != names:
            raise InvalidArgument(
                "found",
                f"{verbatim(file.path)} has items of other columns than {{item_column}}",
                "give a ranking of the same, in the same order",
            )
    source = Together(None if domain is None else domain.load, tuple(files))
    with _about(files[-1].path, "found"):
        labels = source()
        return PublicDomain(source, digest_of(check_items(labels)), len(labels)) if len(labels) else None


def read_domain_by_group(
    path: str, column: tuple[str, ...], group_column: tuple[str, ...], groups: PublicDomain
) -> DomainByGroup:
    """The lists of all groups in one file.

    Raises InvalidArgument, naming the file, unless each has one of distinct items.
    """
    with _about(path):
        return DomainByGroup.of_pairs(PairsFile(_found_at(path), column, group_column), groups)


def read_titles(path: str, column: str | Sequence[str], title_column: str) -> dict[tuple[str, ...], str]:
    """The titles of the items in a table, by what each of their columns has. Raises InvalidArgument."""
    column = names_of("item_column", "", column)
    if not has_columns(path):
        raise InvalidArgument(
            "item_titles", f"{verbatim(path)} must be a table with a column for items and one for titles"
        )
    try:
        items, titles = _columns_of(_found_at(path), column, (title_column,))
    except InvalidArgument as error:
        if error.field in _OF_TITLES:
            raise error.renamed(lambda name: _OF_TITLES.get(name, name)) from None
        raise InvalidArgument("item_titles", error.rule, error.remedy) from None
    named = dict(zip(items.to_pylist(), titles.to_pylist(), strict=True))
    return {parts_of(item) if len(column) > 1 else (item,): title for item, title in named.items()}


@contextmanager
def _about(path: str, field: str = "domain") -> Iterator[None]:
    """Refusals inside name the file."""
    try:
        yield
    except InvalidArgument as error:
        if error.field == field and error.rule.startswith(verbatim(path)) or error.field in _ROLES.values():
            raise
        if error.field in _ROLES:
            raise error.renamed(lambda name: _ROLES.get(name, name)) from None
        rule = error.rule if error.field == "domain" else f"cannot be used: {error.rule}"
        raise InvalidArgument(field, f"{verbatim(path)} {rule}", error.remedy) from None


def _found_at(path: str, field: str = "domain") -> str:
    """The one file of a path. Raises InvalidArgument."""
    remedy = "give a public list, with one item or group per line"
    with reached(path, field, remedy=remedy):
        files = match_any(path)
    if not files:
        one = ": the list is one for all periods, so that no {start} is filled in" if "{start}" in path else ""
        raise InvalidArgument(field, f"{verbatim(path)} does not exist{literal(one)}", remedy)
    if len(files) > 1:
        raise InvalidArgument(field, f"must be one file, got {len(files)} by {verbatim(path)}")
    return files[0].path


def _lines(path: str) -> pa.Array:
    """The lines of a file without blank ones at its end, null where there is only white space. Raises InvalidArgument
    unless it is UTF-8.
    """
    with open_content(path) as source:
        content = source.read()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        remedy = "give one item per line, or a CSV, Parquet or Avro file with its ending"
        raise InvalidArgument("domain", f"is not UTF-8 text in line {line:,}", remedy) from None
    content = content.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").removesuffix(b"\n")
    # No Python object for each line and no copy of the text: a list may have 100 million lines.
    offsets = pa.py_buffer(np.array([0, len(content)]))
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(content)])
    lines = pc.split_pattern(text, "\n")[0].values
    blank = pc.or_(pc.equal(pc.binary_length(lines), 0), pc.utf8_is_space(lines))
    there = np.flatnonzero(~np.asarray(blank))
    lines = pc.if_else(blank, None, lines) if pc.any(blank).as_py() else lines
    return lines[: int(there[-1]) + 1 if len(there) else 0]


class Lists(NamedTuple):
    """What can be ranked: which items, and in which groups; None where there is one ranking for all."""

    domain: Domain
    groups: Groups | None = None


def load_lists(options: Options) -> Lists:
    """The domain and the groups that options name. Reads their files. Raises InvalidArgument."""
    _check_domain(options)
    groups = _groups(options)
    return Lists(_domain(options, groups), groups)


def stand_ins(options: Options) -> Lists:
    """Lists that stand for those that options name, and are as long as any. Reads no file. Raises InvalidArgument."""
    _check_domain(options)
    grouped = _check_groups(options)
    if options.get("unknown_domain"):
        listed = PublicDomain.of(["any"]) if {"domain", "found"} & set(options) else None
        domain: Domain = UnknownDomain(listed)
    else:
        longest = MAX_LISTED if "to_date" in options else RangeDomain.LONGEST
        domain = RangeDomain.parse(options.get("domain_range", f"0:{longest}"))
    asked = options.get("groups_per_user", 1), options.get("overall", False)
    return Lists(domain, Groups.numbered(None, *asked) if grouped else None)


def _check_domain(options: Options) -> None:
    """Raise InvalidArgument unless the options name a domain, of one kind. Reads no file."""
    listed = "domain" in options or "found" in options
    unknown = options.get("unknown_domain", False)
    if (listed or unknown) == ("domain_range" in options):
        raise InvalidArgument(
            "",
            "say which items can be ranked: {domain} or {found} (public lists), {domain_range} (consecutive integers), "
            "or {unknown_domain} (any item, also beside a list)",
        )
    if unknown and "domain_group_column" in options:
        raise InvalidArgument("domain_group_column", "does not go with {unknown_domain}", "leave it out")
    if "found" in options and "domain_group_column" in options:
        raise InvalidArgument(
            "found", "does not go with {domain_group_column}: found items belong to no group", "leave it out"
        )
    for name in {"domain_column", "domain_group_column"} & set(options):
        if "domain" not in options:
            raise InvalidArgument(name, "is of a {domain} file, and there is none: leave it out")
        if not has_columns(options["domain"]):
            raise InvalidArgument(name, f"does not apply to {verbatim(options['domain'])}: its lines are the items")
    if "domain_group_column" in options and not _check_groups(options):
        raise InvalidArgument(
            "domain_group_column", "needs {group_column} and {groups}: the groups that have a list each"
        )


def _domain(options: Options, groups: Groups | None) -> Domain:
    if "domain_range" in options:
        return RangeDomain.parse(options["domain_range"])
    items = names_of("item_column", "item", options.get("item_column", "item"))
    column = names_of("domain_column", "", options.get("domain_column", items))
    if "domain_group_column" in options and groups is not None:
        group = names_of("domain_group_column", "", options["domain_group_column"])
        return read_domain_by_group(options["domain"], column, group, groups.labels)
    listed = read_domain(options["domain"], column) if "domain" in options else None
    if listed is not None and groups is not None and not has_columns(options["domain"]):
        items = listed.index().labels
        if pc.all(_begins_with(items, groups.labels.index().labels)).as_py():
            rule = f"{verbatim(options['domain'])} has a group and more in every line, and a line is one item"
            remedy = "for items by group make it a .csv below a line of names, and give {domain_group_column}"
            raise InvalidArgument("domain", rule, remedy)
    if "found" in options:
        listed = with_found(listed, options["found"], items)
    if options.get("unknown_domain"):
        return UnknownDomain(listed)
    if listed is None:
        raise InvalidArgument(
            "found",
            f"{verbatim(', '.join(options['found']))} must hold at least one item, and nothing was found",
            "give {domain} too",
        )
    return listed


def _check_groups(options: Options) -> bool:
    """Whether the options name groups. Reads no file. Raises InvalidArgument if half of it is missing."""
    if "group_column" in options and "groups" not in options:
        raise InvalidArgument(
            "group_column", "needs {groups}: the public list of groups; every one of them is published"
        )
    for name in ("groups", "groups_per_user", "overall"):
        if options.get(name, False) is not False and "group_column" not in options:
            rest = "" if "groups" in options else " and {groups}, their public list"
            raise InvalidArgument(name, f"needs {{group_column}}, the column of the groups{',' * bool(rest)}{rest}")
    return "groups" in options


def _groups(options: Options) -> Groups | None:
    if not _check_groups(options):
        return None
    column = names_of("group_column", "group", options["group_column"])
    try:
        labels = read_domain(options["groups"], column)
    except InvalidArgument as error:
        raise error.renamed(lambda name: "group_column" if name == "domain_column" else "groups") from None
    if not has_columns(options["groups"]):
        lines = labels.index().labels
        longer = lines.filter(_begins_with(lines, lines))
        if len(longer):
            rule = f"{verbatim(options['groups'])} has the line {verbatim(repr(longer[0].as_py()))}, which is one group"
            remedy = "give one group a line, and {overall} for all rows; if it is one, quote it in a .csv"
            raise InvalidArgument("groups", rule, remedy)
    return Groups(labels, options.get("groups_per_user", 1), options.get("overall", False))


def _begins_with(lines: pa.Array, groups: pa.Array) -> pa.Array:
    """Which lines are a group and more, as in a table: DE,tea."""
    return pc.is_in(pc.struct_field(pc.extract_regex(lines, r"^(?P<head>[^,;\t]+)[,;\t]\S"), "head"), value_set=groups)
