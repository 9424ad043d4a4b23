"""The public lists that are asked for, of items and of groups: whether they go together, and what they hold."""

from __future__ import annotations

from private_topk.pipelines.drawing import mechanism_of
from private_topk.pipelines.fields import Asked
from private_topk.pipelines.sources.domain import has_columns, read_domain, read_domain_by_group
from private_topk.transforms.domain import Domain, RangeDomain, UnknownDomain
from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.groups import Groups
from private_topk.transforms.top_k import make_selection

__all__ = ["check_domain", "check_groups", "check_unknown", "domain_of", "groups_of"]


def check_domain(asked: Asked) -> None:
    """Raise Refusal unless a domain is asked for, of one kind. Looks at no file."""
    if ("domain" in asked) + ("domain_range" in asked) + asked.get("unknown_domain", False) != 1:
        raise Refusal("", "give {domain}, a public list of items, {domain_range}, consecutive integers, or "
                      "{unknown_domain}: one of them")  # fmt: skip
    for name in {"domain_column", "domain_group_column"} & set(asked):
        if "domain" not in asked:
            raise Refusal(name, "is of a {domain} file, and there is none: leave it out")
    for name in {"domain_column", "domain_group_column"} & set(asked):
        if not has_columns(asked["domain"]):
            raise Refusal(name, f"does not apply to {verbatim(asked['domain'])}: its lines are the items")


def check_unknown(asked: Asked) -> None:
    """Raise Refusal for a mechanism that needs a public domain where none is asked for. Looks at no file."""
    if asked.get("unknown_domain"):
        make_selection(asked["k"], mechanism_of(asked)[0], UnknownDomain(), asked.get("max_items_per_user"))


def domain_of(asked: Asked) -> Domain:
    """The domain that was asked for. Reads its file. Raises Refusal."""
    check_domain(asked)
    if asked.get("unknown_domain", False):
        return UnknownDomain()
    if "domain_range" in asked:
        return RangeDomain.parse(asked["domain_range"])
    column = asked.get("domain_column", asked.get("item_column", "item"))
    if "domain_group_column" not in asked:
        return read_domain(asked["domain"], column)
    groups = groups_of(asked)
    if groups is None:
        raise Refusal("domain_group_column", "needs {group_column} and {groups}: the groups that have a list each")
    return read_domain_by_group(asked["domain"], column, asked["domain_group_column"], groups.labels)


def check_groups(asked: Asked) -> bool:
    """Whether groups are asked for. Looks at no file. Raises Refusal where half of it is missing."""
    if "group_column" in asked and "groups" not in asked:
        raise Refusal("group_column", "needs {groups}: the public list of groups, of which every one is published")
    for name in ("groups", "groups_per_user"):
        if name in asked and "group_column" not in asked:
            raise Refusal(name, "needs {group_column}: the column of the groups")
    return "groups" in asked


def groups_of(asked: Asked) -> Groups | None:
    """Which groups are ranked, or None. Reads their file. Raises Refusal."""
    if not check_groups(asked):
        return None
    try:
        labels = read_domain(asked["groups"], asked["group_column"])
    except Refusal as error:
        raise Refusal("groups", error.rule, error.remedy) from None
    return Groups(labels, asked.get("groups_per_user", 1))
