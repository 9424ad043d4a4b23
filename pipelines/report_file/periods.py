"""The periods of a report file, and what each asks for."""

from __future__ import annotations

import os
import re
from datetime import datetime, timezone
from typing import Any

from private_topk.pipelines.report_file.file import OF_SCHEDULE, Scheduled
from private_topk.pipelines.report_file.schedule import Schedule
from private_topk.transforms.options import Options, names_a_file
from private_topk.transforms.windows import WindowBounds

__all__ = ["CORRECTION", "Periods", "now"]

CORRECTION = "/correction-"
"""What stands in a release id between the period and the name of a correction."""

_STREAMS = ("kafka://", "pubsub://")


class Periods:
    """A report file and its periods.

    The release id is the report's name and the period: public knowledge, and the same for every call. So whatever
    calls twice, or resumes after a crash, publishes the identical ranking and is charged once.

    Args:
        correction: tells a corrected report from the one it replaces: a release of its own, which costs.
    """

    def __init__(self, file: Scheduled, correction: str | None = None) -> None:
        self._file, self._correction = file, correction

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def schedule(self) -> Schedule:
        return self._file.schedule

    def words(self, number: int) -> str:
        """A period for people."""
        schedule = self._file.schedule
        period = schedule.period(number)
        return f"{schedule.words(period.start)} to {schedule.words(period.end)}"

    def place(self, number: int) -> str:
        """Where a period is published."""
        return self.options(number)["output"]

    def release_id(self, number: int, correction: str | None = "") -> str:
        """The name of a period's release."""
        period = self._file.schedule.period(number)
        label = WindowBounds(period.start, period.end).label()
        chosen = self._correction if correction == "" else correction
        return f"{self._file.name}/{label}" + (f"{CORRECTION}{chosen}" if chosen else "")

    def options(self, number: int) -> Options:
        """What a period asks for, field by field: what the file says, and what its schedule sets."""
        schedule = self._file.schedule
        given: dict[str, Any] = {}
        parameters = {}
        for name, value in self._file.values.items():
            option = self._file.fields[name]
            if option.parameter:
                parameters[option.name] = value
            elif option.name not in OF_SCHEDULE:
                given[option.name] = self._placed(name, self._filled(value, number) if option.template else value)
        period = schedule.period(number)
        given |= {"period_from": period.start, "period_to": period.end, "release_id": self.release_id(number)}
        given["time_zone"] = schedule.zone.key
        if "against" in given:
            given["against_from"] = schedule.before(number)
        given |= {"overwrite": True, **({"parameters": parameters} if parameters else {})}
        if given.get("privacy_unit") != "user":
            given.pop("horizon", None)
        return given

    @property
    def watches(self) -> bool:
        """Whether rows are read as they come; the period is over, so that is as far as its clock goes."""
        values = self._file.values
        return values.get("source.watch", False) or values["source.input"].startswith(_STREAMS)

    def runner(self) -> tuple[str, list[str]]:
        """The runner's name, and the words for it."""
        values = self._file.values
        return values.get("runner.name", "direct"), list(values.get("runner.options", ()))

    def _placed(self, name: str, value: object) -> object:
        """A value, with a path in it made to start at the file's own folder."""
        if not isinstance(value, str):
            return value
        if name == "release_key" and value.startswith("file:"):
            return f"file:{self._at_home(value.removeprefix('file:'))}"
        if name == "ledger.url" and (found := re.fullmatch(r"(sqlite(?:\+\w+)?:///)([^/:].*)", value)):
            return found[1] + os.path.abspath(self._at_home(found[2]))
        return self._at_home(value) if self._file.fields[name].path and names_a_file(value) else value

    def _filled(self, template: str, number: int) -> str:
        schedule = self._file.schedule
        period = schedule.period(number)
        bounds = {"start": schedule.words(period.start), "end": schedule.words(period.end)}
        return template.format(report=self._file.name, **bounds)

    def _at_home(self, path: str) -> str:
        return path if "://" in path else os.path.join(self._file.folder, path)


def now() -> datetime:
    return datetime.now(timezone.utc)
