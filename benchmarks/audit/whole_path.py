"""The audit of the whole path: every case through the plain functions, and through Beam from files to a file."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.audit.audit import (
    Finding,
    Sampler,
    answer_of,
    audit_case,
    dependence,
    finding_of,
    tested,
    wrong_counts,
)
from benchmarks.audit.datasets import (
    GROUPS,
    Case,
    Dataset,
    Row,
    rows_of,
)
from benchmarks.audit.distinguish import Drawn, epsilon_of
from benchmarks.audit.paths import rankings_of
from private_topk.pipelines.question import Question
from private_topk.pipelines.report import Report
from private_topk.pipelines.run import run
from private_topk.pipelines.sinks.files import ToFile
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.files import Files
from private_topk.runners import prepare
from private_topk.transforms.release import Release
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period

_START, _DAY = datetime(2020, 1, 1, tzinfo=UTC), timedelta(days=1)
_FILES, _FAULTS = 3, 3


@dataclass(frozen=True)
class Audit:
    """The settings of an audit: how much is drawn, and how sure the bounds are.

    Args:
        draws: through the plain functions, from each of the two neighbours of a case.
        beam_draws: through Beam, likewise: the windows of one run each. 0 leaves Beam out.
        confidence: the probability that no bound is above the true epsilon.
        seed: of all keys and ids; None for fresh ones.
    """

    draws: int = 2000
    beam_draws: int = 300
    confidence: float = 0.999
    seed: str | None = None


@dataclass(frozen=True)
class Check:
    """The result of one check: a lower bound of epsilon, beside the declared one; or a fault in the counts.

    Args:
        case: None for a check of counts.
        bound, through_beam: by the plain functions, and by whole runs if there were any.
        where: the pair and the feature that show the bound.
        of_noise: the bound is of how much the noise of counts depends on the answer, which should be 0.
        fault: in words.
    """

    case: Case | None = None
    bound: float | None = None
    through_beam: float | None = None
    where: str = ""
    of_noise: bool = False
    fault: str = ""

    @property
    def declared(self) -> tuple[float, float]:
        """Epsilon and delta."""
        return (0.0, 0.0) if self.case is None or self.of_noise else (self.case.epsilon, self.case.delta)

    @property
    def holds(self) -> bool:
        return not self.fault and max(self.bound or 0, self.through_beam or 0) <= self.declared[0]


def audit(cases: Sequence[Case], how: Audit) -> Iterator[Check]:
    """Every check in turn; if counts are wrong, only these faults.

    Cost: about a millisecond of CPU a draw, of which a case has up to four times `draws`, and a second or two a run of
    Beam, of which a case has two.
    """
    sampler = Sampler() if how.seed is None else Sampler(how.seed.encode())
    of_noise, beam_cases, risk = _parts(cases, how)
    faults = list(islice(wrong_counts(sampler), _FAULTS))
    yield from (Check(fault=fault) for fault in faults)
    if faults:
        return  # draws from wrong counts show nothing
    for case in of_noise:
        yield Check(case, dependence(case, sampler, how.draws, risk), where="noise of counts", of_noise=True)
    for number, case in enumerate(cases):
        finding = audit_case(case, sampler, how.draws, risk)
        beam = _through_beam(finding, sampler, how.beam_draws, number, risk) if case in beam_cases else None
        yield Check(case, finding.bound, beam, f"{finding.pair.name}: {finding.guess.feature}")


def most_shown(cases: Sequence[Case], how: Audit) -> tuple[float, float]:
    """The largest bound of any case if every guess is right: by the plain functions, and through Beam."""
    *_, risk = _parts(cases, how)
    plain, beam = (
        max(epsilon_of(draws, 0, draws, case.delta, risk) for case in cases)
        for draws in (tested(how.draws), 2 * how.beam_draws)
    )
    return plain, beam


def _parts(cases: Sequence[Case], how: Audit) -> tuple[list[Case], list[Case], float]:
    """The cases whose noise is tested too, those that Beam runs too, and the risk of each bound."""
    of_noise = [
        case
        for case in cases
        if (case.counts, case.neighbours, case.of, case.releases) == ("yes", "add-remove", "users", 1)
    ]
    beam_cases = [case for case in cases if how.beam_draws and _goes_through_beam(case)]
    return of_noise, beam_cases, (1 - how.confidence) / (len(cases) + len(of_noise) + len(beam_cases))


def _goes_through_beam(case: Case) -> bool:
    """Whether a case is also run through Beam: all of users, and one each of amounts and groups, since a run costs as
    much as a thousand draws.
    """
    if case.of == "users":
        return case.releases == 1
    return case.neighbours == "replace-one" and case.counted == (case.of == "amounts")


def _through_beam(finding: Finding, sampler: Sampler, windows: int, number: int, risk: float) -> float:
    """The bound from whole runs, by the guess that the plain draws have chosen: one window a draw."""
    case, pair, guess, _ = finding
    one, other = (
        _published(case, dataset, len(numbers), Release(sampler.key(4 + side), f"beam {number}"))
        for side, ((dataset,), numbers) in enumerate(
            zip(pair[1:], sampler.coins(2 * windows, f"beam {number}"), strict=True)
        )
    )
    return finding_of(case, pair, guess, one, other, risk).bound


def _published(case: Case, dataset: Dataset, windows: int, release: Release) -> Drawn:
    """The answers that one run publishes, one for each window, from CSV files with all rows in every window."""
    spec = case.spec
    others, target = rows_of(dataset, rankings_of(spec))
    moments = [int((_START + number * _DAY).timestamp()) + 3600 for number in range(windows)]
    with tempfile.TemporaryDirectory() as folder:
        for file in range(_FILES):
            with open(Path(folder, f"rows-{file}.csv"), "w", newline="", encoding="utf-8") as sink:
                writer = csv.writer(sink)
                writer.writerow((*Row._fields, "time"))
                writer.writerows((*row, time) for time in moments for row in [*others[file::_FILES], *target])
        columns = Columns(
            time="time",
            time_unit="s",
            value="amount" if spec.score.columns else None,
            group=None if spec.groups is None else "group",
        )
        sink_of_rankings = ToFile(str(Path(folder, "ranking.parquet")))
        period = Period(_START, _START + windows * _DAY, _DAY)
        source = Files(str(Path(folder, "rows-*.csv")), columns)
        question = Question(_with_whole_budget(spec), period, release)
        with redirect_stderr(io.StringIO()):  # its warnings are of this trial, and no findings
            run(Report(question, source, sink_of_rankings), prepare("direct", []))
        published = sink_of_rankings.published() or []
    groups = (None,) if spec.groups is None else GROUPS
    by_ranking: dict[tuple[int, str | None], list[dict[str, Any]]] = {
        (window, group): [] for window in range(windows) for group in groups
    }
    for row in published:
        by_ranking[(row["window_start"] - _START) // _DAY, row.get("group")].append(row)
    answers = {
        of: answer_of(
            [row["item"] for row in rows], [row["noisy_count"] for row in rows] if case.counted else None, spec, dataset
        )
        for of, rows in by_ranking.items()
    }
    return [tuple(answers[window, group] for group in groups) for window in range(windows)]


def _with_whole_budget(spec: TopK) -> TopK:
    """The specification with the budget of all rankings of a window that one user can change, as a run is asked."""
    own, rankings = spec.mechanism, spec.rankings_of_a_user()
    given = {name: own.parameter(name) for name in ("epsilon", "delta")}
    whole: dict[str, Any] = {name: rankings * Fraction(part) for name, part in given.items() if part is not None}
    return replace(spec, mechanism=replace(own, **whole))
