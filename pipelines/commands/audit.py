"""`private-topk audit`: how large an epsilon the published rankings show, beside what is declared."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.commands.answering import print_json
from private_topk.pipelines.commands.parser import Parser, add, add_json, add_switch
from private_topk.pipelines.texts import number, whole
from private_topk.pipelines.unfinished import Unfinished

if TYPE_CHECKING:
    from private_topk.pipelines.auditing import Line
    from private_topk.testing.audit import Case

__all__ = ["execute", "parser"]

_TEXT = """Attack the whole path, from rows to files, on neighbouring inputs made to hurt: many draws through the plain
functions, some through Beam. A lower bound of epsilon above the declared one is a defect. docs/audit.md explains the
table and says what no audit can see."""

_EXAMPLE = """examples:
  private-topk audit --mechanism joint --draws 5000
  private-topk audit --mechanism joint --draws 200 --beam-draws 0 --json

Exit status: 0 no bound is above what is declared, 1 one is, 2 bad arguments."""

_ROW = "{:<22} {:<8} {:<11} {:<8} {:<8} {:<9} {:>8} {:>6} {:>7} {:>7}  {}"
_HEAD = ("mechanism", "domain", "neighbours", "of", "counts", "releases", "declared", "delta", "plain", "Beam", "where")


def parser(words: Sequence[str] = ()) -> Parser:
    found = Parser(prog="private-topk audit", description=_TEXT, epilog=_EXAMPLE)
    add(found, "mechanism", "NAME", "only this one, or your own as module:Class; may be given again (default: all)",
        many=True)  # fmt: skip
    add(found, "draws", "N", "from each of two neighbours, through the plain functions (default: 2000)", whole)
    add(found, "beam_draws", "N", "likewise through Beam, files to file; 0 leaves Beam out (default: 300)", whole)
    add(found, "confidence", "P", "that all bounds together are right (default: 0.999)", number)
    add(found, "seed", "TEXT", "of all keys and ids, to repeat an audit (default: fresh ones)")
    add_switch(found, "stop", "stop at the first check that fails")
    add_json(found, "the checks")
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Print a line for every check as it is done. Raises Unfinished where one fails."""
    from private_topk.pipelines.auditing import Audit, audit

    parser().refuse(others)
    given: dict[str, Any] = {name: value for name, value in vars(arguments).items() if value is not None}
    if "confidence" in given:
        given["confidence"] = float(given["confidence"])
    stop, as_json = given.pop("stop", False), given.pop("json", False)
    how = Audit(mechanisms=given.pop("mechanism", ()), **given)
    if not as_json:
        print(_ROW.format(*_HEAD))
    lines: list[Line] = []
    for line in audit(how):
        if not as_json:
            print(told(line), flush=True)
        lines.append(line)
        if stop and not line.holds:
            break
    checks, failed = len(lines), sum(not line.holds for line in lines)
    if as_json:
        print_json({"confidence": how.confidence, "draws": how.draws, "beam_draws": how.beam_draws,
                    "checks": [_plain(line) for line in lines]})  # fmt: skip
    else:
        print(f"\nconfidence {how.confidence:g} for all bounds together; from each neighbour {how.draws} draws, and "
              f"{how.beam_draws} through Beam")  # fmt: skip
    if failed:
        raise Unfinished(f"the audit found {failed} of {checks} checks failing: see the lines marked EXCEEDED or WRONG")
    if not as_json:
        print(f"no bound is above what is declared, in {checks} checks; the counts are right on every way")


def told(line: Line) -> str:
    """One line of the table."""
    if line.fault:
        return f"WRONG counts: {line.fault}"
    verdict = "" if line.holds else "EXCEEDED: "
    if line.apart is not None:
        shown = f"{verdict}how much the noise of counts tells of the answer"
        return _row(line.apart.case, 0.0, 0.0, f"{line.apart.bound:.2f}", "-", shown)
    assert line.met is not None
    case, beam = line.met.case, line.through_beam
    where = f"{verdict}{line.met.scene.name}: {line.met.guess.feature}"
    found = f"{line.met.bound:.2f}", "-" if beam is None else f"{beam.bound:.2f}"
    return _row(case, case.epsilon, case.delta, *found, where)


def _plain(line: Line) -> dict[str, Any]:
    """One check as JSON: `declared` and `bound` are epsilons, null where the check is of something else."""
    found: dict[str, Any] = {"holds": line.holds, "fault": line.fault or None, "mechanism": None, "declared": None,
                             "delta": None, "bound": None, "bound_through_beam": None, "where": None}  # fmt: skip
    if line.apart is not None:
        found |= {"mechanism": line.apart.case.selection.mechanism.about.name, "declared": 0.0, "delta": 0.0,
                  "bound": line.apart.bound, "where": "noise of counts"}  # fmt: skip
    elif line.met is not None:
        case, beam = line.met.case, line.through_beam
        found |= {"mechanism": case.selection.mechanism.about.name, "neighbours": case.neighbours,
                  "releases": case.releases, "declared": case.epsilon, "delta": case.delta,
                  "bound": line.met.bound, "bound_through_beam": None if beam is None else beam.bound,
                  "where": f"{line.met.scene.name}: {line.met.guess.feature}"}  # fmt: skip
    return found


def _row(case: Case, epsilon: float, delta: float, *rest: str) -> str:
    about, counts = case.selection.mechanism.about, "yes" if case.selection.publish_counts else "no"
    many = "one" if case.releases == 1 else "two"
    asked = about.name, about.domain, case.neighbours, case.of, counts, many
    return _ROW.format(*asked, f"{epsilon:g}", f"{delta:g}", *rest).rstrip()
