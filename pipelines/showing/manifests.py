"""The form of what is shown of a manifest: one that anybody has changed is told to be none, and not guessed at."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

__all__ = ["is_manifest"]

_TEXT, _WHOLE, _NUMBER = (str,), (int,), (int, float)
_FACTS: dict[str, tuple[type, ...]] = {
    "report": _TEXT, "mechanism": _TEXT, "answer": _TEXT, "parameters": (dict,), "max_items_per_user": _WHOLE,
    "max_windows_per_user": _WHOLE, "privacy": (dict,), "domain": (dict,), "versions": (dict,), "groups": (dict,),
    "against": (dict,), "amounts": (dict,), "weights": (dict,),
}  # fmt: skip
_WINDOW = {"start": _TEXT, "end": _TEXT, "group": _TEXT, "noise_stddev": _NUMBER, "noise_95": _NUMBER}
_OF_A_DOMAIN = {"range": {"start": _WHOLE, "stop": _WHOLE}, "public": {"size": _WHOLE}}


def is_manifest(found: object) -> bool:
    """Whether a value of JSON has the facts that are shown, each in its form; others may be missing or null."""
    if not isinstance(found, dict) or not _fits(found, _FACTS):
        return False
    windows, privacy, domain = found.get("windows", []), found.get("privacy"), found.get("domain")
    return (
        isinstance(windows, list)
        and all(isinstance(window, dict) and _is_window(window) for window in windows)
        and ("k" not in found or _is(found["k"], _WHOLE) and found["k"] > 0)
        and (not privacy or _is_privacy(privacy))
        and (not domain or _has(domain, _OF_A_DOMAIN.get(str(domain.get("kind")), {})))
        and (not found.get("groups") or _has(found["groups"], {"per_user": _WHOLE}))
        and (not found.get("against") or "weight" in found["against"])
    )


def _is_window(window: Mapping[str, Any]) -> bool:
    try:
        _ = [
            datetime.fromisoformat(window[name]).utcoffset()
            for name in ("start", "end")
            if window.get(name) is not None
        ]
    except (ValueError, TypeError):
        return False
    return _fits(window, _WINDOW)


def _is_privacy(privacy: Mapping[str, Any]) -> bool:
    shared = "share_of_a_window" in privacy or privacy.get("accounting")
    return (
        _has(privacy, {"epsilon": _NUMBER, "delta": _NUMBER, **({"windows": _WHOLE} if shared else {})})
        and privacy["epsilon"] > 0
        and _fits(privacy, {"windows_of_a_user": _WHOLE})
    )


def _fits(facts: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]]) -> bool:
    return all(facts.get(name) is None or _is(facts[name], kind) for name, kind in kinds.items())


def _has(facts: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]]) -> bool:
    return all(name in facts and _is(facts[name], kind) for name, kind in kinds.items())


def _is(value: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
