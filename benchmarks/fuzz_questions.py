"""Random questions of random rows, and what plain Python counts for them: what `benchmarks.fuzz_executions` asks."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

Rows = list[dict[str, Any]]
Words = dict[str, Any]
Scores = dict[tuple[int, "str | None"], Counter[str]]
"""By the start of a window in seconds since 1970, 0 for all rows, and by group."""

_NO_NOISE, _OVERALL = "1000000", "overall"
_DAY = 86_400
_START = 1_767_571_200  # 2026-01-05 in UTC
_WORDS = ["tea", "cäke", "5", "007", "a,b", 'say "x"', " sp ", "\u200bz", "日本", "-0", "NULL", "x" * 300, "'"]
_PUBLIC = [
    "joint",
    "fast-joint",
    "joint-set",
    "canonical",
    "peeling",
    "cdp-peeling",
    "pnf-peeling",
    "oneshot",
    "laplace",
    "gaussian",
    "gamma",
]
_BY_WEIGHTS = ["weighted-order"]
_UNKNOWN = [
    "limit-domain",
    "laplace-limit-domain",
    "top-stable",
    "restricted-gumbel",
    "restricted-normal",
    "restricted-pnf",
    "restricted-laplace",
]
_OF_WEIGHTS = {*_BY_WEIGHTS, "weighted-gaussian"}
_BOUNDED = {"laplace-limit-domain", "restricted-normal", *_OF_WEIGHTS}
_WITH_DELTA = {"cdp-peeling", "gaussian", *_UNKNOWN, *_OF_WEIGHTS}


class Question(NamedTuple):
    """What is asked of which rows.

    Args:
        items, groups: the public lists; None where there is none.
        words: arguments of `run`, but for those of an execution.
        exact: so large an epsilon that there is no noise.
        limits: of the plan, by name: digests are of its item shards, so all executions have the same.
    """

    rows: Rows
    items: list[str] | None
    groups: list[str] | None
    words: Words
    exact: bool
    limits: dict[str, int]


def question(draw: random.Random) -> Question:
    """A random question."""
    size, exact, unknown = draw.choice([1, 2, 3, 15, 15, 40, 300]), draw.random() < 0.6, draw.random() < 0.3
    items = [str(n) for n in range(size)]
    if draw.random() < 0.5:
        items = [*_WORDS, *(f"item {n}" for n in range(size))][:size]
    words: Words = {"epsilon": _NO_NOISE if exact else draw.choice(["0.1", "1", "3"])}
    words["k"] = draw.choice([1, size, draw.randint(1, size)])
    words |= _windows(draw) if draw.random() < 0.6 else {}
    words |= _amounts(draw) if draw.random() < 0.25 else {}
    words |= _mechanism(draw, words, unknown)
    if unknown:
        words["unknown_domain"] = True
    elif items[0] == "0" and draw.random() < 0.5:
        words["domain_range"] = f"0:{size}"
    if words["mechanism"] not in _OF_WEIGHTS and draw.random() < 0.8:
        words["publish_counts"] = _NO_NOISE if exact else "1"
    groups = None
    if draw.random() < 0.3:
        groups = ["de", "fr", "É u", "7"][: draw.randint(1, 4)]
        if draw.random() < 0.2 and words.get("to") != _day(100):  # thousands of rankings take half a minute
            groups = [f"g{n}" for n in range(70)]
        words |= {"group_column": "group", "groups_per_user": draw.choice([1, 2, len(groups)])}
        words |= {"overall": True} if draw.random() < 0.5 else {}
    if "slide" in words and (groups or "max_items_per_user" in words):
        words["neighbours"] = "replace-one"
    bits = draw.choice([0, 1, 3, 16])
    limits = {
        "ITEM_SHARD_BITS": bits,
        "_MAX_BITS": max(bits, 3),
        "_KEYS": draw.choice([2, 4, 64]),
        "_WINDOW_GROUPS": draw.choice([1, 2, 64]),
        "_MAX_TOGETHER": draw.choice([2, 1024]),
    }
    return Question(_rows(draw, items, groups), None if unknown else items, groups, words, exact, limits)


def _mechanism(draw: random.Random, words: Words, unknown: bool) -> Words:
    kinds = _UNKNOWN if unknown else _PUBLIC
    if "value_column" not in words and draw.random() < 0.15:
        kinds = ["weighted-gaussian"] if unknown else _BY_WEIGHTS
    found: Words = {"mechanism": draw.choice(kinds)}
    if found["mechanism"] in _WITH_DELTA:
        found["delta"] = "0.01"
    if draw.random() < 0.2 or found["mechanism"] in _BOUNDED:
        found["max_items_per_user"] = draw.choice([1, 2, 5])
    return found | ({"neighbours": "replace-one"} if draw.random() < 0.15 else {})


def _amounts(draw: random.Random) -> Words:
    found: Words = {"value_column": "amount", "max_value": draw.choice(["1", "4", "60"])}
    return found | {"value_resolution": "0.5" if draw.random() < 0.3 else "1"}


def _windows(draw: random.Random) -> Words:
    days, length = draw.choice([1, 3, 14, 14, 100]), draw.choice([1, 1, 2, 7])
    words: Words = {"from_": "2026-01-05", "to": _day(days), "time_column": "time", "time_unit": "s"}
    if days % length or draw.random() < 0.15:
        return words
    words["window"] = f"{length}d"
    if length > 1 and draw.random() < 0.5:
        words["slide"] = draw.choice(["1d", "12h"])
    elif days > 1 and draw.random() < 0.3:
        words |= {"privacy_unit": "user", "max_windows_per_user": draw.choice([1, 2])}
    return words


def _day(number: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(_START + number * _DAY))


def _rows(draw: random.Random, items: list[str], groups: list[str] | None) -> Rows:
    users, found = draw.choice([1, 3, 30, 300]), []
    for _ in range(draw.choice([0, 1, 7, 60, 60, 600])):
        place = min(int(draw.expovariate(4 / len(items))), len(items))
        after = draw.choice(
            [draw.randrange(-_DAY, 20 * _DAY), _DAY * draw.randrange(-3, 103), draw.randrange(100 * _DAY)]
        )
        row = {
            "user": f"ü{draw.randrange(users)}",
            "item": [*items, "elsewhere"][place],
            "time": _START + after,
            "amount": draw.choice([0.0, 0.5, 1.0, 2.5, -3.0, 59.75, 1e9]),
            "group": draw.choice([*(groups or []), "mars"]),
        }
        if draw.random() < 0.05:
            row[draw.choice(sorted(row))] = None
        found += [row] * draw.choice([1, 1, 1, 2])
    return found


def expected(asked: Question) -> Scores | None:
    """The score of every item by window and group, in the measure of published counts; None where a hash has a say."""
    words = asked.words
    if {"max_items_per_user", "max_windows_per_user"} & set(words):
        return None
    held: defaultdict[tuple[int, str], Counter[str | None]] = defaultdict(Counter)
    amounts: defaultdict[tuple[int, str | None, str, str], int] = defaultdict(int)
    for row in asked.rows:
        units = _units(row, words)
        if row["user"] is None or row["item"] is None or not units:
            continue
        if asked.items is not None and row["item"] not in asked.items:
            continue
        own = [None] if not asked.groups else [row["group"]] if row["group"] in asked.groups else []
        for start in _starts(row["time"], words):
            held[start, row["user"]].update(own)
            for group in [*own, *([_OVERALL] if "overall" in words else [])]:
                amounts[start, group, row["user"], row["item"]] += units
    most = words.get("groups_per_user", 1)
    if any(_torn(groups, most) for groups in held.values()):
        return None
    found: Scores = defaultdict(Counter)
    for (start, group, user, item), units in amounts.items():
        if group == _OVERALL or group in dict(held[start, user].most_common(most)):
            found[start, group][item] += min(units, _cap(words))
    unit = _resolution(words) if "value_column" in words else 1
    return {place: Counter({item: units * unit for item, units in its.items()}) for place, its in found.items()}


def _resolution(words: Words) -> float:
    return float(words.get("value_resolution", 1))


def _cap(words: Words) -> int:
    return int(float(words.get("max_value", 1)) / _resolution(words))


def _units(row: dict[str, Any], words: Words) -> int:
    if "value_column" not in words:
        return 1
    return 0 if row["amount"] is None else max(0, min(round(row["amount"] / _resolution(words)), _cap(words)))


def _torn(groups: Counter[str | None], most: int) -> bool:
    """Whether two groups have as many of a user's rows, and one of them counts."""
    rows = [number for _, number in groups.most_common()]
    return len(rows) > most and rows[most - 1] == rows[most]


def _starts(moment: int | None, words: Words) -> Iterator[int]:
    """The starts of the windows that a moment lies in."""
    if "from_" not in words:
        yield 0
        return
    end = next(_START + n * _DAY for n in range(101) if _day(n) == words["to"])
    length = int(words["window"][:-1]) * _DAY if "window" in words else end - _START
    step = {"1d": _DAY, "12h": _DAY // 2}.get(words.get("slide", ""), length)
    if moment is not None:
        yield from (start for start in range(_START, end - length + 1, step) if start <= moment < start + length)
