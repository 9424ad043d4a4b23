"""Publishing the periods of a report file, each once however often it is asked for."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TypeVar

from private_topk.pipelines import batch
from private_topk.pipelines.errors import sentence
from private_topk.pipelines.files import exists, open_file
from private_topk.pipelines.options import add_run_arguments
from private_topk.pipelines.report import settle
from private_topk.pipelines.scheduled.schema import FIELDS, Scheduled
from private_topk.pipelines.show import show_output
from private_topk.pipelines.sinks.manifest import manifest_path
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.windows import WindowBounds

__all__ = ["ScheduledReport"]

T = TypeVar("T")


class ScheduledReport:
    """A report file and its periods.

    The release id is the report's name and the period: public knowledge, and the same for every call. So whatever
    calls twice, or resumes after a crash, publishes the identical ranking and is charged once.

    Args:
        correction: tells a corrected report from the one it replaces: a release of its own, which costs.
    """

    def __init__(self, file: Scheduled, correction: str | None = None, quiet: bool = False) -> None:
        self._file, self._correction, self._quiet = file, correction, quiet

    def check(self) -> None:
        """Raise InputError where the mechanism or the form of the release key is wrong: no other file is looked at."""
        self._explained(lambda: settle(self._arguments(0)))
        self._explained(lambda: ReleaseKey.parse(self._file.text("release_key") or ""), "release_key")

    def publish(self, number: int) -> bool:
        """Publish a period unless that is done. Returns whether there was something to do.

        Raises:
            InputError: with the line of the file where it is one of its fields that is wrong.
        """
        if self.published(number):
            return False
        report = self._explained(lambda: batch.make_report(self._arguments(number)))
        runner, options = self._file.text("runner.name") or "direct", self._file.texts("runner.options")
        launch = self._explained(lambda: batch.launch(runner, options), "runner.options")
        batch.run(report, launch)
        if not self._quiet:
            show_output(report.output)
        return True

    def published(self, number: int) -> bool:
        """Whether a period's output is there, complete, and noted in the ledger if there is one.

        Raises:
            InputError: another release is in its place.
        """
        output, name = self.output(number), self.release_id(number)
        if not exists(output) and not exists(manifest_path(output)):
            return False
        found = _release_in(manifest_path(output))
        base = self.release_id(number, None)
        if found is None or (found != name and not (self._correction and found.startswith(base))):
            raise self._file.document.error("sink.output", f"{output} exists and is kept, since it is not {name}: "
                                            "move it, or change sink.output")  # fmt: skip
        return found == name and exists(output) and self._noted(name)

    def missed(self, until: datetime) -> list[int]:
        """The numbers of all periods that have ended and are not published."""
        return [number for number in range(self._file.schedule.ended(until)) if not self.published(number)]

    def words(self, number: int) -> str:
        """A period for people."""
        schedule = self._file.schedule
        period = schedule.period(number)
        return f"{schedule.words(period.start)} to {schedule.words(period.end)}"

    def output(self, number: int) -> str:
        return self._place(self._filled(self._file.text("sink.output") or "", number))

    def release_id(self, number: int, correction: str | None = "") -> str:
        """The name of a period's release."""
        period = self._file.schedule.period(number)
        label = WindowBounds(period.start, period.end).label()
        chosen = self._correction if correction == "" else correction
        return f"{self._file.name}/{label}" + (f"/correction-{chosen}" if chosen else "")

    def _arguments(self, number: int) -> argparse.Namespace:
        """The arguments of `private-topk run` that stand for this file and period."""
        period = self._file.schedule.period(number)
        words = ["--from", period.start.isoformat(), "--to", period.end.isoformat(), "--overwrite"]
        words += ["--release-id", self.release_id(number)]
        for name, rule in FIELDS.items():
            value = self._file.text(name)
            if not rule.option or value is None:
                continue
            value = self._filled(value, number) if "{" in value else value
            words += [rule.option] if name == "domain.unknown" else [f"{rule.option}={self._resolved(name, value)}"]
        if self._file.text("budget.privacy_unit") == "user":
            words.append(f"--horizon={self._file.schedule.horizon}")
        parser = argparse.ArgumentParser(prog="private-topk report", allow_abbrev=False)
        add_run_arguments(parser)
        return parser.parse_args(words)

    def _resolved(self, name: str, value: str) -> str:
        if name == "release_key" and value.startswith("file:"):
            return f"file:{self._place(value.removeprefix('file:'))}"
        if name == "ledger.url" and (found := re.fullmatch(r"(sqlite(?:\+\w+)?:///)([^/:].*)", value)):
            return found[1] + os.path.abspath(self._place(found[2]))
        return self._place(value) if FIELDS[name].path else value

    def _filled(self, template: str, number: int) -> str:
        schedule = self._file.schedule
        period = schedule.period(number)
        bounds = {"start": schedule.words(period.start), "end": schedule.words(period.end)}
        return template.format(report=self._file.name, **bounds)

    def _place(self, path: str) -> str:
        return path if "://" in path else os.path.join(self._file.folder, path)

    def _noted(self, name: str) -> bool:
        """Whether the ledger, if there is one, knows this release to be out."""
        url = self._file.text("ledger.url")
        if url is None:
            return True
        from private_topk.budget.ledger import Ledger

        key = self._resolved("release_key", self._file.text("release_key") or "")
        key_id = self._explained(lambda: ReleaseKey.parse(key).key_id(), "release_key")
        ledger = Ledger(self._resolved("ledger.url", url))
        return any(entry.outcome == "released" for entry in ledger.find(name, key_id))

    def _explained(self, action: Callable[[], T], otherwise: str = "") -> T:
        """The result of an action; what it finds wrong points at the line of the field that is meant, or another."""
        try:
            return action()
        except ValueError as error:
            text = sentence(error)
            meant = [name for name, rule in FIELDS.items() if rule.option and re.search(rf"{rule.option}\b(?!-)", text)]
            present = [name for name in meant if name in self._file.document.fields]
            for name in meant:
                text = re.sub(rf"{FIELDS[name].option}\b(?!-)", name, text)
            raise self._file.document.error((present or meant or [otherwise])[0], text) from None


def _release_in(manifest: str) -> str | None:
    if not exists(manifest):
        return None
    with open_file(manifest) as source:
        try:
            return str(json.load(source)["report"])
        except (ValueError, KeyError, TypeError):
            return None


def now() -> datetime:
    return datetime.now(timezone.utc)
