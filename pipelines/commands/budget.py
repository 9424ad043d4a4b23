"""`private-topk budget create|show|history`: a dataset's budget in a ledger."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from private_topk.budget.units import UNITS
from private_topk.pipelines.commands.arguments import NEIGHBOURS, add_ledger
from private_topk.pipelines.commands.parser import Parser, add, add_json
from private_topk.pipelines.texts import number, one_of
from private_topk.transforms.refusal import Refusal, verbatim
from private_topk.transforms.suggestions import did_you_mean

__all__ = ["ACTIONS", "execute", "parser"]

_EXAMPLES = {
    "": """examples:
  private-topk budget create --ledger sqlite:///budget.db --dataset plays --epsilon 10 --delta 1e-6
  private-topk budget show --ledger sqlite:///budget.db
  private-topk budget history --ledger sqlite:///budget.db --dataset plays --json

`private-topk budget ACTION --help` lists the arguments of one.""",
    "create": """examples:
  private-topk budget create --ledger sqlite:///budget.db --dataset plays --epsilon 10 --delta 1e-6
  private-topk budget create --ledger sqlite:///budget.db --dataset plays --epsilon 4 --privacy-unit user""",
    "show": """examples:
  private-topk budget show --ledger sqlite:///budget.db
  private-topk budget show --ledger sqlite:///budget.db --dataset plays --json""",
    "history": """examples:
  private-topk budget history --ledger sqlite:///budget.db
  private-topk budget history --ledger sqlite:///budget.db --dataset plays --json""",
}
_NEEDS = {"create": ("ledger", "dataset", "epsilon"), "show": ("ledger",), "history": ("ledger",)}
ACTIONS = {
    "create": "open a budget; it cannot be changed later",
    "show": "show what is spent and what is left",
    "history": "list every charge",
}


def parser(words: Sequence[str] = ()) -> Parser:
    """The arguments of the action that the words begin with."""
    action = next(iter(words), "")
    if action in ("", "-h", "--help"):
        actions = "\n".join(f"  {name:<8} {text}" for name, text in ACTIONS.items())
        text = f"Open a dataset's budget in a ledger, and see what was spent of it.\n\nactions:\n{actions}"
        found = Parser(prog="private-topk budget", description=text, epilog=_EXAMPLES[""])
        found.add_argument("action", metavar="ACTION", nargs="?")
        return found
    if action not in ACTIONS:
        rule = f"must be followed by {', '.join(ACTIONS)}; got {verbatim(repr(action))}"
        raise Refusal("", f"`private-topk budget` {rule}", did_you_mean(action, ACTIONS))
    text = f"{ACTIONS[action].capitalize()}."
    prog, needs = f"private-topk budget {action}", _NEEDS[action]
    found = Parser(prog=prog, description=text, epilog=_EXAMPLES[action], needs=needs)
    found.add_argument("action", metavar=action)
    add_ledger(found)
    if action == "create":
        _add_total(found)
    if action == "show":
        add(found, "plot", "FILE", "draw spending over time into a .png, .svg or .pdf")
    add_json(found, {"create": "the budget", "show": "budgets and what is spent", "history": "the charges"}[action])
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    from private_topk.pipelines.commands import ledger

    if arguments.action is None:
        raise Refusal("", f"`private-topk budget` must be followed by {', '.join(ACTIONS)}")
    parser([arguments.action]).refuse(others)
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    parser([arguments.action]).require(given)
    action = {"create": ledger.create, "show": ledger.show, "history": ledger.history}[arguments.action]
    action(arguments)


def _add_total(parser: Parser) -> None:
    add(parser, "epsilon", "E", "the total", number)
    add(parser, "delta", "D", "the total (default: 0, adding up only)", number)
    add(parser, "release_delta", "D", "the part of delta for the deltas of single releases; the rest lets many small "
        "ones cost less than their sum (default: half)", number)  # fmt: skip
    add(parser, "privacy_unit", "{user-window,user}", "what the total is of (default: user-window)", one_of(*UNITS))
    add(parser, "neighbours", "{add-remove,swap}", "what every run on it must protect (default: add-remove)",
        one_of(*NEIGHBOURS))  # fmt: skip
