"""The audit of the whole path: the plain functions, and Beam from rows in files to a ranking in a file."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from private_topk.pipelines.question import Question
from private_topk.pipelines.report import Report
from private_topk.pipelines.run import run
from private_topk.pipelines.sinks.file import ToFile
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.files import Files
from private_topk.runners import prepare
from private_topk.testing.audit import (
    GROUPS,
    Answer,
    Case,
    Dependence,
    Met,
    Row,
    Sampler,
    Sheet,
    answer_of,
    audit_case,
    bound_of,
    cases_of,
    dependence,
    rows_of,
    wrong_counts,
)
from private_topk.transforms.keys import Release
from private_topk.transforms.mechanisms import mechanism_by_name
from private_topk.transforms.refusal import Refusal
from private_topk.transforms.windows import Period

__all__ = ["Audit", "Line", "audit"]

_START, _DAY = datetime(2020, 1, 1, tzinfo=timezone.utc), timedelta(days=1)
_FILES = 3
_FIELDS = ("user", "item", "time", "group", "amount")
_NOBODY = Row("", "", "", 0.0)
_LEAST = 20
_FAULTS = 3


@dataclass(frozen=True)
class Audit:
    """How much is drawn, and how sure the bounds are.

    Args:
        mechanisms: by name; none for all built-in ones.
        draws: through the plain functions, from each of the two neighbours of a case.
        beam_draws: through Beam, likewise: the windows of one run each. 0 leaves Beam out.
        confidence: that all bounds together are at most what is so.
        seed: of all keys and ids; None for fresh ones.
    """

    mechanisms: tuple[str, ...] = ()
    draws: int = 2000
    beam_draws: int = 300
    confidence: float = 0.999
    seed: str | None = None

    def __post_init__(self) -> None:
        for name in self.mechanisms:
            mechanism_by_name(name)
        if self.draws < _LEAST:
            raise Refusal("draws", f"must be at least {_LEAST}, got {self.draws}")
        if self.beam_draws < 0 or 0 < self.beam_draws < _LEAST:
            raise Refusal("beam_draws", f"must be 0 or at least {_LEAST}, got {self.beam_draws}")
        if not 0 < self.confidence < 1:
            raise Refusal("confidence", f"must be between 0 and 1, got {self.confidence}")


@dataclass(frozen=True)
class Line:
    """What one check has shown: a case and its bounds, or how much noise and answer depend on each other; or a fault in
    the counts, in words.
    """

    met: Met | None = None
    through_beam: Met | None = None
    apart: Dependence | None = None
    fault: str = ""

    @property
    def holds(self) -> bool:
        checks = (self.met, self.through_beam, self.apart)
        return not self.fault and all(check is None or check.holds for check in checks)


def audit(how: Audit) -> Iterator[Line]:
    """Every check in turn; where counts are wrong, nothing but that.

    Cost: about a millisecond of CPU a draw, of which a case has up to four times `draws`, and a second or two a run of
    Beam, of which a case has two.
    """
    cases = cases_of(how.mechanisms)
    sampler = Sampler() if how.seed is None else Sampler(how.seed.encode())
    single = [case for case in cases if case.releases == 1]
    apart = [case for case in single if case.selection.publish_counts
             and case.neighbours == "add-remove" and case.of == "users"]  # fmt: skip
    whole = [case for case in single if how.beam_draws and _goes_through_beam(case)]
    bounds = len(cases) + len(apart) + len(whole)
    risk = (1 - how.confidence) / bounds
    faults = list(islice(wrong_counts(sampler), _FAULTS))
    yield from (Line(fault=fault) for fault in faults)
    if faults:
        return  # what is drawn from wrong counts says nothing
    yield from (Line(apart=dependence(case, sampler, how.draws, risk)) for case in apart)
    for number, case in enumerate(cases):
        met = audit_case(case, sampler, how.draws, risk)
        yield Line(met, _through_beam(met, sampler, how.beam_draws, number, risk) if case in whole else None)


def _goes_through_beam(case: Case) -> bool:
    """All of users; of amounts and groups a case each, since a run costs as much as a thousand draws."""
    counted = case.selection.publish_counts is not None
    return case.of == "users" or (case.neighbours == "swap" and counted == (case.of == "amounts"))


def _through_beam(met: Met, sampler: Sampler, windows: int, number: int, risk: float) -> Met:
    """The bound that whole runs show of the guess which the plain draws have chosen: one window a draw."""
    ending = list(_WRITERS)[number % len(_WRITERS)]
    sides = sampler.coins(2 * windows, f"beam {number}")
    here, there = (
        _published(met.case, sheet, len(side), ending, Release(sampler.key(4 + world), f"beam {number}"))
        for world, ((sheet,), side) in enumerate(zip((met.scene.here, met.scene.there), sides, strict=True))
    )
    return bound_of(met.case, met.scene, met.guess, here, there, risk)


def _published(case: Case, sheet: Sheet, windows: int, ending: str, release: Release) -> list[tuple[Answer, ...]]:
    selection = case.selection
    parts = 1 if selection.groups is None else selection.groups.size
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        others, mine = rows_of(sheet, parts)
        for file in range(_FILES):
            rows = [*others[file::_FILES], *mine] or [_NOBODY]
            _WRITERS[ending](place / f"rows-{file}{ending}", _dated(rows, windows))
        period = Period(_START, _START + windows * _DAY, _DAY)
        columns = Columns(time="time", time_unit="s", value=None if selection.amounts is None else "amount",
                          group=None if selection.groups is None else "group")  # fmt: skip
        source = Files(str(place / f"rows-*{ending}"), columns)
        sink = ToFile(str(place / "ranking.parquet"))
        run(Report(Question(selection, period, release), source, sink), prepare("direct", []))
        return _answers(sink.published() or [], case, sheet, windows)


def _answers(rows: list[dict[str, Any]], case: Case, sheet: Sheet, windows: int) -> list[tuple[Answer, ...]]:
    selection = case.selection
    groups = (None,) if selection.groups is None else GROUPS
    found: dict[tuple[int, str | None], list[dict[str, Any]]] = {
        (window, group): [] for window in range(windows) for group in groups
    }
    for row in rows:
        found[(row["window_start"] - _START) // _DAY, row.get("group")].append(row)
    counted = selection.publish_counts is not None
    answers = {
        of: answer_of([row["item"] for row in some], [row["noisy_count"] for row in some] if counted else None,
                      selection, sheet)
        for of, some in found.items()
    }  # fmt: skip
    return [tuple(answers[window, group] for group in groups) for window in range(windows)]


def _dated(rows: list[Row], windows: int) -> list[dict[str, Any]]:
    """All rows in every window. A row without a user and an item keeps a file from being empty."""
    moments = [int((_START + number * _DAY).timestamp()) + 3600 for number in range(windows)]
    return [{"user": row.user or None, "item": row.item or None, "time": time, "group": row.group, "amount": row.amount}
            for time in moments for row in rows]  # fmt: skip


def _to_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as sink:
        writer = csv.DictWriter(sink, _FIELDS)
        writer.writeheader()
        writer.writerows(rows)


def _to_json_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _to_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    kinds = (pa.string(), pa.string(), pa.int64(), pa.string(), pa.float64())
    types = pa.schema(dict(zip(_FIELDS, kinds, strict=True)))
    pq.write_table(pa.Table.from_pylist(rows, types), path)


def _to_avro(path: Path, rows: list[dict[str, Any]]) -> None:
    kinds = (["null", "string"], ["null", "string"], "long", "string", "double")
    fields = [{"name": name, "type": kind} for name, kind in zip(_FIELDS, kinds, strict=True)]
    with open(path, "wb") as sink:
        fastavro.writer(sink, {"type": "record", "name": "Row", "fields": fields}, rows, codec="deflate")


_WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    ".csv": _to_csv, ".jsonl": _to_json_lines, ".parquet": _to_parquet, ".avro": _to_avro,
}  # fmt: skip
