"""Whether the wanted columns are there, by their names; what a refusal shows of those that are."""

from __future__ import annotations

from collections.abc import Iterable

from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.keys import all_keys
from private_topk.transforms.errors import InvalidArgument, did_you_mean, verbatim

_MAX = 50
"""The most names that are listed: a table may have thousands."""


def check_names(
    where: str, columns: Columns, known: Iterable[object], *, private: bool = False, hint: str = ""
) -> None:
    """Raise InvalidArgument unless every wanted column is there, once: with the columns that are, and the arguments to
    name them by.

    Args:
        where: the file, the table or the schema.
        known: the names of all columns, but for keys of a path, which are looked up.
        private: they may be the values of a row, so that only their number is told, and which of the wanted ones are
            there.
        hint: what else helps.
    """
    known = list(known)
    missing: dict[str, str] = {}
    for role, name in columns.each():
        if name not in known:
            missing.setdefault(name, role)
        elif (count := known.count(name)) > 1:
            rule = f"must name one column of {where}, got {name!r}: it has {count} columns of that name"
            raise InvalidArgument(f"{role}_column", verbatim(rule), "give each a name of its own")
    if not missing:
        return
    named = {name: f"{role}_column" for name, role in missing.items()}
    name, role = next(iter(missing.items()))
    if role == "user" and name in all_keys(where):
        raise InvalidArgument(
            named[name],
            verbatim(f"{name!r} is a key of the path {where}, and users are read from rows alone"),
            "write them into a column",
        )
    if private:
        there = [name for name in columns.names() if name not in missing]
        among = f", {', '.join(there)} among them" if there else ""
        rule = (
            f"{name!r} is no column of {where}, whose first line has {len(known)} values{among}, and is shown on "
            "a terminal alone"
        )
        remedy = f"give {_and(named.values())} as the line has it"
    else:
        keys = set(all_keys(where)) if {*missing.values()} != {"user"} and not columns.public else set()
        told = sorted({*map(str, known)} | keys)
        more = f" and {len(told) - _MAX} more" if len(told) > _MAX else ""
        rule = f"{name!r} is no column of {where}: it has {', '.join(told[:_MAX]) or 'none'}{more}"
        remedy = _with_names(named, told) if told else ""
    raise InvalidArgument(named[name], verbatim(rule), "; ".join(filter(None, (remedy, hint))))


def _with_names(named: dict[str, str], told: list[str]) -> str:
    near = {name: did_you_mean(name, told).removeprefix("did you mean ").removesuffix("?") for name in named}
    if len(named) == 1 and all(near.values()):
        return f"did you mean {verbatim(*near.values())}?"
    meant = [f"{{{named[name]}}} {verbatim(other)}" for name, other in near.items() if other]
    return f"give {_and(named.values())} from these names" + (f": did you mean {', '.join(meant)}?" if meant else "")


def _and(fields: Iterable[str]) -> str:
    *first, last = dict.fromkeys(f"{{{field}}}" for field in fields)
    return f"{', '.join(first)} and {last}" if first else last
