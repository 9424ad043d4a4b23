"""The finding of a report: a release of its own now and then, whose items the report ranks from then on."""

from __future__ import annotations

from dataclasses import replace

from private_topk.pipelines.report_file.file import FOUND, Scheduled

__all__ = ["EVERY", "finding_of"]

EVERY = 8
"""A finding in one of so many periods, where nothing is said."""

_MOST_ITEMS = 1000
"""Of a user, where nothing is said: who holds many weighs little anyhow, and a bound costs little."""

_SHARED = ("report", "release_key", "budget.neighbours", "budget.privacy_unit", "domain.unknown", "mechanism.name",
           "mechanism.max_items_per_user", "mechanism.whole_items")  # fmt: skip
_SECTIONS = ("source", "window", "ledger", "runner")
_MEANT = {FOUND: "sink.output", "budget.find_epsilon": "budget.epsilon", "budget.find_delta": "budget.delta"}
"""Fields that are for the finding what others are for the ranking."""


def finding_of(file: Scheduled) -> Scheduled:
    """The report of the findings of one: private partition selection, as a file of its own would describe it.

    It counts users, whatever the report ranks by, and takes the rows of all groups together. With the unit `user` its
    total is shared by as many periods as have a finding. One item of a user counts wholly: fewer of those with few
    items are needed than with more, where all that counts is to be found. Raises Refusal.
    """
    for name in _MEANT:
        if name not in file.values:
            raise file.document.error(name, f"{name} must be given: {FOUND} is published at a cost of its own")
    fields = {name: option for name, option in file.fields.items()
              if name in _SHARED or name.partition(".")[0] in _SECTIONS}  # fmt: skip
    values = {name: value for name, value in file.values.items() if name in {**fields, **_MEANT}}
    values |= {"domain.unknown": True, "mechanism.name": "weighted-gaussian", "mechanism.whole_items": 1}
    values.setdefault("mechanism.max_items_per_user", _MOST_ITEMS)
    if "window.horizon" in values:
        values["window.horizon"] = -(-values["window.horizon"] // file.values.get("domain.find_every", EVERY))
    return replace(file, fields=fields | {own: file.fields[of] for own, of in _MEANT.items()}, values=values)
