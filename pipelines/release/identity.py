"""The identity of a value: all of its fields as JSON, except those that are marked, with a reason.

A ledger takes two releases as one by the identity of what is asked, and by the fingerprint of the input's. If it knew
less, one charge could pay for several answers; so leaving a field out takes a mark.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.release import ReleaseKey

NOT_IN_FINGERPRINT = "not_in_fingerprint"
"""The mark's name in a field's metadata, for rooms that cannot import this one."""

OMIT_IF_DEFAULT = "omit_if_default"
"""The mark of a field that was added later: while it has its default, the identity is as it was without the field."""

TOLD_AS = "told_as"
"""The mark of a field that has another name in identities: the one that it had before."""

NONE_MEANS = "none_means"
"""The mark of a field whose None stands for a value, with that value: a question that names it is the same one."""


def not_in_fingerprint(reason: str) -> Mapping[str, str]:
    """Metadata of a dataclass field that changes neither which rows count nor what is drawn, and why that is so."""
    if not reason:
        raise ValueError("reason must be given: why the field changes neither rows nor draw")
    return {NOT_IN_FINGERPRINT: reason}


def identity_of(value: Any) -> Any:  # noqa: ANN401 - JSON, as far as the types go
    """A value as JSON: the kind and every field of a dataclass, recursively, but for those `not_in_fingerprint`.

    The kind of a class is its own `identity_tag`, of a mechanism its name. Raises TypeError for a value that has no
    such form.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        members = {}
        for field in fields(value):
            given, facts = getattr(value, field.name), field.metadata
            if NOT_IN_FINGERPRINT not in facts and not (OMIT_IF_DEFAULT in facts and given == field.default):
                compared = facts.get(NONE_MEANS) if given is None else given
                members[facts.get(TOLD_AS, field.name)] = identity_of(compared)
        return {"kind": _kind(value), **members}
    if isinstance(value, Mapping):
        return {str(name): identity_of(member) for name, member in sorted(value.items())}
    if isinstance(value, tuple | list):
        return [identity_of(member) for member in value]
    if isinstance(value, date):  # and datetime
        return value.isoformat()
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    raise TypeError(f"a {type(value).__name__} has no identity: make it a dataclass, or mark its field")


def _kind(value: object) -> str:
    if isinstance(value, Mechanism):
        return value.about.name
    tag = vars(type(value)).get("identity_tag")
    if not isinstance(tag, str):
        raise TypeError(f"a {type(value).__name__} has no identity: give its class an identity_tag, a name for good")
    return tag


def fingerprint(value: object, key: ReleaseKey) -> str:
    """64 hexadecimal digits that identify a value, keyed: nobody without the release key can test a guess of it."""
    message = json.dumps(["private-topk input 2", identity_of(value)], sort_keys=True)
    return hmac.digest(key.derive("input fingerprint"), message.encode(), "sha256").hex()
