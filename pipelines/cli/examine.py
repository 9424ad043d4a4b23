"""`private-topk audit` and `private-topk doctor`: whether the promise is kept, and whether this machine can run."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.cli.arguments import Command
from private_topk.pipelines.cli.output import print_json
from private_topk.pipelines.cli.parser import flag
from private_topk.pipelines.process import RunFailed
from private_topk.transforms.errors import InvalidArgument, did_you_mean, printable, verbatim
from private_topk.transforms.mechanisms.choice import AUTO
from private_topk.transforms.mechanisms.registry import name_of

if TYPE_CHECKING:
    from private_topk.pipelines.audit import Check
    from private_topk.transforms.testing.audit.datasets import Asked


_AUDIT = """Attack the whole path, from rows to files, on neighbouring inputs that are hard to protect: many draws
through plain functions, some through Beam. A lower bound of epsilon above the declared one is a defect. docs/audit.md
explains the table and says what no audit can see."""

_AUDIT_EXAMPLES = """examples:
  private-topk audit --mechanism joint --draws 5000
  private-topk audit --report reports/weekly.yaml
  private-topk audit --mechanism joint --draws 200 --beam-draws 0 --json

Exit status: 0 no bound is above the declared one, 1 a bound is, 2 bad arguments."""

_DOCTOR = """Check whether this machine has what a first run needs: Python, the runner, space, time zones, the release
key, the ledger. It changes nothing and prints nothing private."""
_DOCTOR_EXAMPLES = """examples:
  private-topk doctor
  private-topk doctor --release-key file:release.key --ledger sqlite:///budget.db
  private-topk doctor --runner flink --json

Exit status: 0 nothing is wrong, 1 something is wrong, 2 bad arguments."""

_ROW = "{:<22} {:<8} {:<11} {:<8} {:<8} {:<9} {:>8} {:>6} {:>7} {:>7}  {}"
_HEAD = ("mechanism", "domain", "neighbours", "of", "counts", "releases", "declared", "delta", "plain", "Beam", "where")


def _audit(arguments: Namespace, others: list[str]) -> None:
    """Print a line for every check as it is done. Raises RunFailed where one fails."""
    from private_topk.pipelines.audit import Audit, audit

    given: dict[str, Any] = {name: value for name, value in vars(arguments).items() if value is not None}
    if "confidence" in given:
        given["confidence"] = float(given["confidence"])
    stop, as_json = given.pop("stop", False), given.pop("json", False)
    report = given.pop("report", None)
    if report is not None and "mechanism" in given:
        raise InvalidArgument("report", "does not go with {mechanism}: the file names its own", "leave one of them out")
    asked, left_out = (None, []) if report is None else _asked(report)
    how = Audit(mechanisms=given.pop("mechanism", ()), asked=asked, **given)
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
        print_json(
            {
                "confidence": how.confidence,
                "draws": how.draws,
                "beam_draws": how.beam_draws,
                "not_attacked": left_out,
                "checks": [check.as_json() for check in checks],
            }
        )
    else:
        print(
            f"\nconfidence {how.confidence:g} for all bounds together; from each neighbour {how.draws} draws, and "
            f"{how.beam_draws} through Beam"
        )
    if failed:
        raise RunFailed(
            f"the audit found {failed} of {len(checks)} checks failing: see the lines marked EXCEEDED or WRONG"
        )
    if not as_json:
        print(f"no bound is above what is declared, in {len(checks)} checks; the counts are right on every path")
        for what in left_out:
            print(f"not attacked: {what}")


def _asked(path: str) -> tuple[Asked, list[str]]:
    """The question of a report file, and what of it no check attacks."""
    from private_topk.pipelines.scheduled.file import read_report
    from private_topk.pipelines.scheduled.publish import ScheduledReport
    from private_topk.transforms.testing.audit.datasets import Asked

    report = ScheduledReport(read_report(path))
    options = report.options(0)
    name = options.get("mechanism", AUTO)
    of = "groups" if "groups" in options else "amounts" if "value_column" in options else "users"
    listed = any(name in options for name in ("domain", "found", "remember"))
    unseen = {
        "items that are listed beside an unknown domain": "unknown_domain" in options and listed,
    }
    asked = Asked(
        name_of(type(report.question().asked.mechanism)) if name == AUTO else name,
        options.get("parameters", {}),
        options.get("neighbours", "add-remove"),
        of,
        "publish_counts" in options,
    )
    return asked, [what for what, there in unseen.items() if there]


def _line(check: Check) -> str:
    """One line of the table."""
    case = check.case
    if case is None:
        return f"WRONG counts: {check.fault}"
    epsilon, delta = check.declared
    mechanism, counts, releases = case.spec.mechanism, "yes" if case.counted else "no", case.releases
    bounds = ("-" if bound is None else f"{bound:.2f}" for bound in (check.bound, check.through_beam))
    return _ROW.format(
        mechanism.about.name,
        mechanism.guarantee.domain,
        case.neighbours,
        case.of,
        counts,
        "one" if releases == 1 else "two",
        f"{epsilon:g}",
        f"{delta:g}",
        *bounds,
        f"{'' if check.holds else 'EXCEEDED: '}{check.where}",
    ).rstrip()


def _doctor(arguments: Namespace, others: list[str]) -> None:
    """Print what was found. Raises RunFailed where something is wrong."""
    from private_topk.pipelines.doctor import examine
    from private_topk.runners import RUNNERS

    runner = arguments.runner or "direct"
    if runner not in RUNNERS:
        rule = f"must be one of {', '.join(RUNNERS)}, got {verbatim(runner)}"
        raise InvalidArgument("runner", rule, did_you_mean(runner, RUNNERS))
    findings = list(examine(runner, arguments.ledger, arguments.release_key))
    wrong = [finding.name for finding in findings if finding.state == "wrong"]
    if arguments.json:
        print_json({"ok": not wrong, "findings": [finding._asdict() for finding in findings]})
    else:
        width = max(len(finding.name) for finding in findings)
        for each in findings:
            print(f"{each.state:<6} {each.name:<{width}}  {printable(each.says)}")
    if wrong:
        more = f" (without {flag('json')} each is explained)" if arguments.json else ""
        raise RunFailed(f"{', '.join(wrong)} must be fixed{more}")


COMMANDS = {
    "audit": Command(_audit, _AUDIT, _AUDIT_EXAMPLES),
    "doctor": Command(_doctor, _DOCTOR, _DOCTOR_EXAMPLES),
}
