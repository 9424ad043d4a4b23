"""`private-topk doctor`: whether this machine can run."""

from __future__ import annotations

from argparse import Namespace

from private_topk.pipelines.cli.arguments import Command
from private_topk.pipelines.cli.output import print_json
from private_topk.pipelines.cli.parser import flag
from private_topk.pipelines.process import RunFailed
from private_topk.transforms.errors import printable

_DOCTOR = """Check whether this machine has what a first run needs: Python, the runner, space, time zones, the release
key, the ledger. It changes nothing and prints nothing private."""
_DOCTOR_EXAMPLES = """examples:
  private-topk doctor
  private-topk doctor --release-key file:release.key --ledger sqlite:///budget.db
  private-topk doctor --runner flink --json

Exit status: 0 nothing is wrong, 1 something is wrong, 2 bad arguments."""


def _doctor(arguments: Namespace, others: list[str]) -> None:
    """Print what was found. Raises RunFailed where something is wrong."""
    from private_topk.pipelines.doctor import examine
    from private_topk.runners import name_of

    findings = list(examine(name_of(arguments.runner or "direct"), arguments.ledger, arguments.release_key))
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
    "doctor": Command(_doctor, _DOCTOR, _DOCTOR_EXAMPLES),
}
