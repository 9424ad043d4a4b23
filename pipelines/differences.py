"""The settings by which two questions differ, as JSON holds them, and how a message names them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from private_topk.transforms.mechanisms import MECHANISMS, parameters_of
from private_topk.transforms.stated import number

Differences = dict[str, tuple[Any, Any]]
"""The settings that differ by their names, each with its earlier and its present value."""

NOT_KNOWN = "not known"
"""In place of a setting that a record does not tell: nothing is said of it."""

_SEVERAL = ("groups", "columns", "windows")
_RANKINGS = "rankings_of_a_user"
_OF_GROUPS = ("per_user", "overall", _RANKINGS)
_AS_A_WHOLE = ("domain", "reading", "windowing", *_SEVERAL)
"""The settings of which a message says that there is another one, since their parts say nothing to a reader."""
_PARAMETERS = frozenset(name for mechanism in MECHANISMS.values() for name in parameters_of(mechanism))
_SOME = 4
"""The most differences that a message names."""

_IN_ADDRESS = ("kind", "servers", "topic", "uri")
"""What the address of an input says already."""
_STREAM = {"id": "topic id", "start": "kafka_start", "since": "the launch of"}
"""Facts of a source by the names that an operator knows, where these are others."""


def differences(was: Mapping[str, Any], now: Mapping[str, Any], but: Collection[str] = ()) -> Differences:
    """The settings that differ, each once, by its own name, however deep it stands.

    Args:
        but: names of settings that are not compared.
    """
    found: Differences = {}
    was, now = _by_argument(was), _by_argument(now)
    if was.get("mechanism") != now.get("mechanism"):
        was, now = _of_both(was, now), _of_both(now, was)
    for name in {**was, **now}:
        one, other = was.get(name), now.get(name)
        if name in but or one == other or NOT_KNOWN in (one, other):
            continue
        if isinstance(one, dict) and isinstance(other, dict) and name not in _AS_A_WHOLE:
            for part, values in differences(one, other, but).items():
                found.setdefault(part, values)
        else:
            found.setdefault(name, (one, other))
    return found


def differing(
    was: Mapping[str, Any], now: Mapping[str, Any], as_asked: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Differences:
    """The settings that were asked and differ; those that follow from others only where nothing else does.

    So whoever is told gets the argument to put right, and everything that two questions differ in still decides.
    """
    return differences(as_asked(was), as_asked(now), but=(_RANKINGS,)) or differences(was, now)


def _by_argument(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with those of groups by the arguments that ask for them, beside the list."""
    groups = settings.get("groups")
    if not isinstance(groups, Mapping):
        return settings
    per_user, overall, rankings = map(groups.get, _OF_GROUPS)
    return {
        **settings,
        "groups": {name: value for name, value in groups.items() if name not in _OF_GROUPS},
        "groups_per_user": None if per_user == 1 else per_user,
        "overall": overall or None,
        _RANKINGS: rankings,
    }


def _of_both(settings: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without parameters that only their own mechanism has: `no noise` would be read as a ranking's."""
    kept = {name: value for name, value in settings.items() if name in others or name not in _PARAMETERS}
    its, theirs = kept.get("parameters"), others.get("parameters")
    if isinstance(its, Mapping) and isinstance(theirs, Mapping):
        kept["parameters"] = {name: value for name, value in its.items() if name in theirs}
    return kept


def of_streams(was: Mapping[str, Any], now: Mapping[str, Any]) -> Differences:
    """The facts by which two streams differ; what is `read` is the identity of a source, also inside of another."""
    one, other = map(_facts, (was, now))
    return differences(one, other, but=_IN_ADDRESS)


def _facts(stream: Mapping[str, Any]) -> dict[str, Any]:
    facts = {**stream["read"], **stream["read"].get("source", {})}
    named = {_STREAM.get(name, name): value for name, value in facts.items() if name != "source"}
    return {name: value for name, value in stream.items() if name != "read"} | named


def told(differing: Differences) -> str:
    """The differences in the words of a message, such as `k 3 (now 4), another domain`."""
    some = [_difference(name, *values) for name, values in list(differing.items())[:_SOME]]
    return ", ".join(some) + (", and more" if len(differing) > _SOME else "")


def _difference(name: str, was: Any, now: Any) -> str:  # noqa: ANN401 - JSON
    if name == "groups" and None not in (was, now):
        return "another list of groups"
    if name == "domain" and None not in (was, now):
        return "another domain, whose order counts too"
    if name == "windows" and isinstance(was, str) and isinstance(now, str):
        return f"other windows: {was} (now {now})"
    if name in _AS_A_WHOLE or isinstance(was, dict | list) or isinstance(now, dict | list):
        return f"{'other' if name in _SEVERAL else 'another'} {name}"
    if name == "allowed_lateness":  # in microseconds, and in seconds as it may be typed
        was, now = (f"{value / 10**6:.15g}s" if isinstance(value, int) else value for value in (was, now))
    short = [number(value) if isinstance(value, float) else value for value in (was, now)]
    was, now = short if short[0] != short[1] else (was, now)  # some differ in their last digits alone
    return f"{setting(name, was)} (now {'none' if now is None else 'given' if now is True else now})"


def setting(name: str, value: Any) -> str:  # noqa: ANN401 - JSON
    """A setting as a message has it, such as `k 3`."""
    return f"no {name}" if value is None else name if value is True else f"{name} {value}"
