"""The public lists of items and of groups that options name: checked, and read from their files."""

from __future__ import annotations

from typing import NamedTuple

from private_topk.pipelines.options import Options
from private_topk.pipelines.sources.domain import has_columns, read_domain, read_domain_by_group, with_found
from private_topk.transforms.composite import names_of
from private_topk.transforms.domain import Domain, PublicDomain, RangeDomain, UnknownDomain
from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.groups import Groups
from private_topk.transforms.spec import MAX_LISTED


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
            "give {domain} or {found}, public lists of items, {domain_range}, consecutive integers, or "
            "{unknown_domain}, which may stand beside a list",
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
        if name in options and "group_column" not in options:
            raise InvalidArgument(name, "needs {group_column}: the column of the groups")
    return "groups" in options


def _groups(options: Options) -> Groups | None:
    if not _check_groups(options):
        return None
    column = names_of("group_column", "group", options["group_column"])
    try:
        labels = read_domain(options["groups"], column)
    except InvalidArgument as error:
        field = "group_column" if error.field == "domain_column" else "groups"
        raise InvalidArgument(field, error.rule, error.remedy) from None
    return Groups(labels, options.get("groups_per_user", 1), options.get("overall", False))
