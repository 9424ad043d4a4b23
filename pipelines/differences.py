"""The settings by which two questions differ, as JSON holds them, and how a message names them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Differences = dict[str, tuple[Any, Any]]
"""The settings that differ by their names, each with its earlier and its present value."""

_SEVERAL = ("groups", "columns", "windows")
_AS_A_WHOLE = ("domain", "reading", "windowing", "allowed_lateness", *_SEVERAL)
"""The settings of which a message says that there is another one, since their parts say nothing to a reader."""
_SOME = 4
"""The most differences that a message names."""


def differences(was: Mapping[str, Any], now: Mapping[str, Any], but: Collection[str] = ()) -> Differences:
    """The settings that differ, each once, by its own name, however deep it stands.

    Args:
        but: names of settings that are not compared.
    """
    found: Differences = {}
    for name in {**was, **now}:
        one, other = was.get(name), now.get(name)
        if name in but or one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict) and name not in _AS_A_WHOLE:
            for part, values in differences(one, other, but).items():
                found.setdefault(part, values)
        else:
            found.setdefault(name, (one, other))
    return found


def told(differing: Differences) -> str:
    """The differences in the words of a message, such as `k 3 (now 4), another domain`."""
    some = [_difference(name, *values) for name, values in list(differing.items())[:_SOME]]
    return ", ".join(some) + (", and more" if len(differing) > _SOME else "")


def _difference(name: str, was: Any, now: Any) -> str:  # noqa: ANN401 - JSON
    if name in _AS_A_WHOLE or isinstance(was, dict | list) or isinstance(now, dict | list):
        return f"{'other' if name in _SEVERAL else 'another'} {name}"
    return f"{setting(name, was)} (now {'none' if now is None else now})"


def setting(name: str, value: Any) -> str:  # noqa: ANN401 - JSON
    """A setting as a message has it, such as `k 3`."""
    return f"no {name}" if value is None else f"{name} {value}"
