"""`private-topk audit`: how large an epsilon the published rankings show, beside what is declared."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.cli.answering import print_json
from private_topk.pipelines.cli.parser import Parser, add, add_json, add_switch
from private_topk.pipelines.texts import number, whole
from private_topk.pipelines.unfinished import Unfinished

if TYPE_CHECKING:
    from private_topk.pipelines.auditing import Check

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
    checks: list[Check] = []
    for check in audit(how):
        if not as_json:
            print(_line(check), flush=True)
        checks.append(check)
        if stop and not check.holds:
            break
    failed = sum(not check.holds for check in checks)
    if as_json:
        print_json({"confidence": how.confidence, "draws": how.draws, "beam_draws": how.beam_draws,
                    "checks": [check.as_json() for check in checks]})  # fmt: skip
    else:
        print(f"\nconfidence {how.confidence:g} for all bounds together; from each neighbour {how.draws} draws, and "
              f"{how.beam_draws} through Beam")  # fmt: skip
    if failed:
        raise Unfinished(
            f"the audit found {failed} of {len(checks)} checks failing: see the lines marked EXCEEDED or WRONG"
        )
    if not as_json:
        print(f"no bound is above what is declared, in {len(checks)} checks; the counts are right on every path")


def _line(check: Check) -> str:
    """One line of the table."""
    case = check.case
    if case is None:
        return f"WRONG counts: {check.fault}"
    epsilon, delta = check.declared
    about, counts, releases = case.spec.mechanism.about, "yes" if case.counted else "no", case.releases
    bounds = ("-" if bound is None else f"{bound:.2f}" for bound in (check.bound, check.through_beam))
    return _ROW.format(about.name, about.domain, case.neighbours, case.of, counts, "one" if releases == 1 else "two",
                       f"{epsilon:g}", f"{delta:g}", *bounds,
                       f"{'' if check.holds else 'EXCEEDED: '}{check.where}").rstrip()  # fmt: skip
