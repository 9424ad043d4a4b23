"""Whether the wanted columns are there, by their names; what a refusal may show of those that are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.keys import all_keys
from private_topk.transforms.errors import Refusal, did_you_mean, verbatim

__all__ = ["check_names", "usual_names"]

_MOST = 50
"""The most names that are listed: a table may have thousands."""


def check_names(
    where: str,
    columns: Columns,
    known: Iterable[object],
    *,
    shown: Collection[str] | None = None,
    hint: str = "",
) -> None:
    """Raise Refusal unless every wanted column is there: with the columns that are, and the arguments to name them by.

    Args:
        where: the file, the table or the schema.
        known: the names of all columns, but for keys of a path, which are looked up.
        shown: those that may be told; None for all.
        hint: what else helps.
    """
    known = list(known)
    missing: dict[str, str] = {}
    for role, name in columns.by_role().items():
        if name not in known:
            missing.setdefault(name, role)
    if not missing:
        return
    named = {name: f"{role}_column" for name, role in missing.items()}
    name, role = next(iter(missing.items()))
    if role == "user" and name in all_keys(where):
        raise Refusal(named[name], verbatim(f"{name!r} is a key of the path {where}, and users are read from rows "
                      "alone"), "write them into a column")  # fmt: skip
    keys = set(all_keys(where)) if {*missing.values()} != {"user"} and not columns.public else set()
    told = sorted({*map(str, known if shown is None else shown)} | keys)
    listed = told[:_MOST]
    others = len({*known} | keys) - len(listed)
    if listed:
        more = f" and {others} more" if others else ""
        rule = f"{name!r} is no column of {where}: it has {', '.join(listed)}{more}"
        remedy = _with_names(named, told)
    else:
        rule = f"{name!r} is no column of {where}, whose first line ({len(known)} values) is not shown: it may be a row"
        remedy = f"give {_and(named.values())} as the line has it, or write a line of names above the rows"
    raise Refusal(named[name], verbatim(rule), "; ".join(filter(None, (remedy, hint))))


def _with_names(named: dict[str, str], told: list[str]) -> str:
    near = {name: did_you_mean(name, told).removeprefix("did you mean ").removesuffix("?") for name in named}
    if len(named) == 1 and all(near.values()):
        return f"did you mean {verbatim(*near.values())}?"
    meant = [f"{{{named[name]}}} {verbatim(other)}" for name, other in near.items() if other]
    return f"give {_and(named.values())} from these names" + (f": did you mean {', '.join(meant)}?" if meant else "")


def _and(fields: Iterable[str]) -> str:
    *first, last = (f"{{{field}}}" for field in fields)
    return f"{', '.join(first)} and {last}" if first else last


_PEOPLE = {*"""account actor author buyer citizen client consumer contact contributor customer donor driver employee
fan follower guest household listener login member msisdn owner participant passenger patient person player profile
reader respondent reviewer rider shopper student subscriber uid user viewer visitor voter""".split()}  # fmt: skip
_THINGS = {*"""action address album amount app article artist asset book brand campaign category channel city clip
content count country created currency date day department device district domain duration ean episode event file film
game genre group gtin host hour ingested isbn isrc item kind label lang language link listened location loaded market
media message method minute model modified month movie object occurred offer operation order page path place played
playlist post price product province purchased quantity query rank rating received region release room score search
second section seen segment series session shop show site sku song source started state status store stream sum tag
term time timestamp timezone title topic total track type unit updated url value variant version video viewed visited
volume watched week weight word year zone""".split()}  # fmt: skip
_BESIDE = {*"at by code full hash id ids in is key local long mbid ms nr name no ns num number of on ref s short ts "
            "us utc uuid".split()}  # fmt: skip
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def usual_names(names: Iterable[str], wanted: Collection[str]) -> list[str]:
    """Of the values of a first line, those that are words of the list above, or the caller's own; none unless one is
    of people and another is there. A first line may be a row: so nothing is shown of it but words of ours.
    """
    usual = [name for name in names if name in wanted or _is_usual(name, _PEOPLE | _THINGS)]
    people = [name for name in usual if name in wanted or _is_usual(name, _PEOPLE)]
    return usual if people and len({*usual}) > 1 else []


def _is_usual(name: str, nouns: Collection[str]) -> bool:
    if not re.fullmatch(r"[A-Za-z]+(?:[ _.-]?[A-Za-z]+)*", name):
        return False
    words = [word.lower() for word in _WORD.findall(name)]
    known = [word for word in words if word in _BESIDE or _noun(word, _PEOPLE | _THINGS)]
    return len(known) == len(words) and any(_noun(word, nouns) for word in words)


def _noun(word: str, nouns: Collection[str]) -> bool:
    """Whether a word is a noun, in plural or with what is often written in one with it: users, userid, username."""
    return any(word.removesuffix(end) in nouns for end in ("", "s", "id", "name", "code", "key") if word.endswith(end))
