"""The audit of the whole path: neighbouring inputs, many draws, and the least epsilon that they show (docs/audit.md).

    python -m benchmarks.audit                                    # every mechanism: most of an hour of CPU
    python -m benchmarks.audit --mechanism laplace --draws 5000   # one of them, or your own as module:Class
    python -m benchmarks.audit --report reports/weekly.yaml       # what a report asks, at its own epsilon and delta

Exit status: 0 no bound is above the declared one, 1 a bound is, or counts are wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.audit.datasets import Case, cases_for, cases_of
from benchmarks.audit.whole_path import Audit, Check, audit, most_shown
from private_topk.transforms.errors import InvalidArgument

_ROW = "{:<22} {:<8} {:<11} {:<8} {:<8} {:<9} {:>8} {:>6} {:>7} {:>7}  {}"
_HEAD = ("mechanism", "domain", "neighbours", "of", "counts", "releases", "declared", "delta", "plain", "Beam", "where")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.audit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--mechanism", action="append", default=[], help="only this one; may be given several times")
    asked.add_argument("--report", help="a report file: its mechanism and budget, neighbours, counts, amounts, groups")
    parser.add_argument("--draws", type=int, default=2000, help="from each of two neighbours, without a runner")
    parser.add_argument("--beam-draws", type=int, default=300, help="likewise through Beam; 0 leaves Beam out")
    parser.add_argument("--confidence", type=float, default=0.999, help="that all bounds hold together")
    parser.add_argument("--seed", help="of all keys and ids, to repeat an audit (default: a fresh one)")
    parser.add_argument("--stop", action="store_true", help="stop at the first check that fails")
    given = parser.parse_args(argv)
    try:
        cases = cases_of(given.mechanism) if given.report is None else _cases_of_report(given.report)
    except InvalidArgument as refusal:
        parser.error(str(refusal))
    how = Audit(given.draws, given.beam_draws, given.confidence, given.seed)
    print(_ROW.format(*_HEAD))
    checks = failed = 0
    for check in audit(cases, how):
        print(_line(check), flush=True)
        checks, failed = checks + 1, failed + (not check.holds)
        if given.stop and failed:
            break
    print(f"\n{checks} checks, {failed} that do not hold; confidence {how.confidence:g} for all bounds together")
    plain, beam = most_shown(cases, how)
    through_beam = f" (plain) or {beam:.2f} (Beam)" if how.beam_draws else ""
    most = f"so many draws can show an epsilon of at most {plain:.2f}{through_beam}, where every guess is right"
    print(f"a bound of 0.00 shows nothing; {most}")
    return int(failed > 0)


def _cases_of_report(path: str) -> list[Case]:
    from private_topk.pipelines.scheduled.file import read_report
    from private_topk.pipelines.scheduled.publish import ScheduledReport

    return cases_for(ScheduledReport(read_report(path)).question().asked)


def _line(check: Check) -> str:
    """One line of the table."""
    case = check.case
    if case is None:
        return f"WRONG counts: {check.fault}"
    epsilon, delta = check.declared
    mechanism, releases = case.spec.mechanism, case.releases
    bounds = ("-" if bound is None else f"{bound:.2f}" for bound in (check.bound, check.through_beam))
    return _ROW.format(
        mechanism.about.name,
        mechanism.guarantee.domain,
        case.neighbours,
        case.of,
        case.counts,
        "one" if releases == 1 else "two",
        f"{epsilon:g}",
        f"{delta:g}",
        *bounds,
        f"{'' if check.holds else 'EXCEEDED: '}{check.where}",
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main())
