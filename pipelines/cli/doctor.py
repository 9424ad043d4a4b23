"""`private-topk doctor`: whether this machine has what a run needs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from private_topk.pipelines.cli.answering import print_json, print_lines
from private_topk.pipelines.cli.parser import Parser, add, add_json, flag
from private_topk.pipelines.unfinished import Unfinished
from private_topk.transforms.errors import Refusal, did_you_mean, printable, verbatim

__all__ = ["execute", "parser"]

_TEXT = """Look whether this machine has what a run needs: Python, packages, programs, space, clock, the release key,
the ledger. Nothing is changed, and nothing private is told."""
_EXAMPLE = """examples:
  private-topk doctor
  private-topk doctor --release-key file:release.key --ledger sqlite:///budget.db
  private-topk doctor --runner flink --json

Exit status: 0 nothing is wrong, 1 something is, 2 bad arguments. What is missing is needed by some runs only."""


def parser(words: Sequence[str] = ()) -> Parser:
    found = Parser(prog="private-topk doctor", description=_TEXT, epilog=_EXAMPLE)
    add(found, "runner", "NAME", "whose programs must be there: direct (default), prism, flink, dataflow or portable")
    add(found, "release_key", "REF", "file:PATH, env:NAME or gcp-secret:...: whether it can be read, and by whom")
    add(found, "ledger", "URL", "whether it is there and can be charged, such as sqlite:///budget.db")
    add_json(found, "what was found")
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Print what was found. Raises Unfinished where something is wrong."""
    from private_topk.pipelines.doctor import examine
    from private_topk.runners import RUNNERS

    parser().refuse(others)
    runner = arguments.runner or "direct"
    if runner not in RUNNERS:
        rule = f"must be one of {', '.join(RUNNERS)}, got {verbatim(runner)}"
        raise Refusal("runner", rule, did_you_mean(runner, RUNNERS))
    found = list(examine(runner, arguments.ledger, arguments.release_key))
    wrong = [finding.name for finding in found if finding.state == "wrong"]
    if arguments.json:
        print_json({"well": not wrong, "findings": [vars(finding) for finding in found]})
    else:
        width = max(len(finding.name) for finding in found)
        print_lines(f"{its.state:<8} {its.name:<{width}}  {printable(its.says)}" for its in found)
    if wrong:
        more = f" (without {flag('json')} each is explained)" if arguments.json else ""
        raise Unfinished(f"{', '.join(wrong)} must be mended{more}")
