"""The periods of a report file, and the options of each."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from private_topk.pipelines.files import names_in
from private_topk.pipelines.options import Options, names_a_file
from private_topk.pipelines.release.manifest import MANIFEST
from private_topk.pipelines.scheduled.file import OF_SCHEDULE, REMEMBER, Scheduled
from private_topk.pipelines.scheduled.schedule import Schedule
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.windows import Period, WindowBounds
from private_topk.transforms.windows.period import period_of

CORRECTION = "/correction-"
"""The part of a release id between the period and the number of a correction."""

OF_A_CORRECTION = ".correction-"
"""The part of a file's name between the name of the corrected file and the number of the correction."""

_NUMBER = re.compile("[1-9][0-9]*")
_STREAMS = ("kafka://", "pubsub://")
_APPENDED = (*_STREAMS, "bigquery://")


class Periods:
    """A report file and its periods.

    The release id is the report's name and the period: public knowledge, and the same for every call. So calling
    twice, or resuming after a crash, publishes the identical ranking and is charged once.

    Args:
        correction: which one of a period: a release of its own, in a place of its own, which costs; "*" in a pattern.
    """

    def __init__(self, file: Scheduled, correction: int | Literal["*"] | None = None) -> None:
        if correction is not None and "window.to_date" in file.values:
            raise InvalidArgument(
                "correction",
                "does not go with windows to date: two answers over two histories give the difference away",
                "give the corrected report another name, state and output, which costs",
            )
        self._file, self._correction = file, correction
        self._options: dict[int, Options] = {}

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def schedule(self) -> Schedule:
        return self._file.schedule

    def words(self, number: int) -> str:
        """A period as people read it."""
        schedule = self._file.schedule
        period = schedule.period(number)
        return f"{schedule.words(period.start)} to {schedule.words(period.end)}"

    @property
    def state(self) -> str | None:
        """The folder of what is counted, where the periods are windows to date: one series, and one release."""
        return self.options(0).get("state")

    def windows(self, number: int) -> Period:
        declared = period_of(self.options(number))
        assert declared is not None
        return declared if self.state is None else declared.alone(number)

    def uri(self, number: int) -> str:
        return self.options(number)["output"]

    def remembers(self, number: int) -> Sequence[int]:
        """The numbers of the periods before one whose rankings list items for it: not those that were withdrawn."""
        remembered = number if REMEMBER in self._file.values else 0
        return [each for each in range(remembered) if each not in self._file.withdrawn]

    def release_id(self, number: int, correction: int | None = 0) -> str:
        period = self._period(number)
        label = WindowBounds(period.start, period.end).label()
        chosen = self._correction if correction == 0 else correction
        return f"{self.name}/{label}" + (f"{CORRECTION}{chosen}" if chosen else "")

    def _period(self, number: int) -> Period:
        schedule = self._file.schedule
        return schedule.series() if "window.to_date" in self._file.values else schedule.period(number)

    def options(self, number: int) -> Options:
        """The options of a period: those of the file, and those that its schedule sets."""
        if number not in self._options:
            self._options[number] = self._options_of(number)
        return self._options[number]

    def _options_of(self, number: int) -> Options:
        schedule = self._file.schedule
        options: dict[str, Any] = {}
        parameters = {}
        for name, value in self._file.values.items():
            option = self._file.fields[name]
            if option.parameter:
                parameters[option.name] = value
            elif option.name not in OF_SCHEDULE:
                options[option.name] = self._value(name, number)
        period = self._period(number)
        options |= {"period_from": period.start, "period_to": period.end, "release_id": self.release_id(number)}
        options["time_zone"] = schedule.zone.key
        if earlier := self.remembers(number):
            published = (self._value("sink.output", period) for period in earlier)
            options["found"] = (*options.get("found", ()), *published)
        if self._correction is not None:
            options["output"] = corrected_place(options["output"], self._correction)
        if parameters:
            options["parameters"] = parameters
        if "to_date" in options:
            options["window"] = schedule.every
        if options.get("privacy_unit") != "user" or "to_date" in options:  # a series is paid for as a whole
            options.pop("horizon", None)
        return options

    @property
    def watches(self) -> bool:
        """Whether rows are read as they come, by a clock that goes to the end of the period, which is over."""
        values = self._file.values
        return values.get("source.watch", False) or any(map(_is_stream, values["source.input"]))

    def runner(self) -> tuple[str, list[str]]:
        """The runner's name, and its arguments."""
        values = self._file.values
        return values.get("runner.name", "direct"), list(values.get("runner.options", ()))

    def _value(self, name: str, number: int) -> Any:  # noqa: ANN401 - of any option
        """A value, for a period; a relative path in it is taken from the file's own folder."""
        value = self._file.values[name]
        if isinstance(value, tuple):
            return tuple(self._read(name, one, number) for one in value)
        return self._read(name, value, number)

    def _read(self, name: str, value: Any, number: int) -> Any:  # noqa: ANN401 - of any option
        if isinstance(value, Mapping):
            return {**value, "input": self._read(name, value["input"], number)}
        value = self._filled(value, number) if self._file.fields[name].template else value
        if not isinstance(value, str):
            return value
        if name == "release_key" and value.startswith("file:"):
            return f"file:{self._at_home(value.removeprefix('file:'))}"
        if name == "ledger.url" and (match := re.fullmatch(r"(sqlite(?:\+\w+)?:///)([^/:].*)", value)):
            return match[1] + os.path.abspath(self._at_home(match[2]))
        option = self._file.fields[name]
        return self._at_home(value) if option.path and (option.name != "like" or names_a_file(value)) else value

    def _filled(self, template: str, number: int) -> str:
        schedule = self._file.schedule
        period = schedule.period(number)
        bounds = {"start": schedule.words(period.start), "end": schedule.words(period.end)}
        return template.format(report=self._file.name, **bounds)

    def _at_home(self, path: str) -> str:
        return path if "://" in path else os.path.join(self._file.folder, path)


def _is_stream(place: str | Mapping[str, Any]) -> bool:
    return (place if isinstance(place, str) else place["input"]).startswith(_STREAMS)


def corrected_place(output: str, correction: int | str) -> str:
    """The place of a correction, beside what it corrects: week.correction-1.avro beside week.avro, and in a folder a
    folder of its own. Messages and rows of a table are told apart by their release id.
    """
    if output.startswith(_APPENDED):
        return output
    stem, dot, ending = output.rpartition(".")
    if dot and "/" not in ending:
        return f"{stem}{OF_A_CORRECTION}{correction}.{ending}"
    return f"{output.rstrip('/')}/{OF_A_CORRECTION[1:]}{correction}/"


def corrections_beside(output: str) -> list[int]:
    """The numbers of the corrections beside a place, also where a ranking is lost and its manifest is there."""
    if output.startswith(_APPENDED):
        return []
    before, _, after = corrected_place(output, "\0").partition("\0")
    folder, slash, start = before.rpartition("/")
    ends = ("",) if after == "/" else (after, MANIFEST)
    names = [name for name in names_in(folder + slash or ".") if name.startswith(start)]
    found = {name[len(start) : -len(end) or None] for name in names for end in ends if name.endswith(end)}
    return sorted(int(each) for each in found if _NUMBER.fullmatch(each))


def correction_of(release_id: str) -> int:
    """Which correction of its period a release is; 0 for the first publication, and for one that no report draws."""
    label = release_id.partition(CORRECTION)[2]
    return int(label) if _NUMBER.fullmatch(label) else 0


def now() -> datetime:
    return datetime.now(UTC)
