"""`private-topk budget create|show|history|adopt|renew`: a dataset's budget in a ledger."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections import Counter
from datetime import timedelta
from decimal import ROUND_FLOOR
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from private_topk.pipelines.budget.accounting import (
    ADOPTED,
    LEAST,
    Books,
    Budget,
    Entry,
    NoBudget,
    Renewal,
    ledger_named,
    most,
)
from private_topk.pipelines.budget.ahead import told_ahead
from private_topk.pipelines.budget.composition import UNITS, check_windows
from private_topk.pipelines.budget.rows import moment
from private_topk.pipelines.budget.statement import (
    adopted,
    in_numbers,
    of_datasets,
    of_periods,
    statement,
)
from private_topk.pipelines.cli.arguments import Command
from private_topk.pipelines.cli.output import print_json
from private_topk.pipelines.files import protected_files, refuse_replacing
from private_topk.pipelines.process import check_signals, level
from private_topk.transforms.errors import InvalidArgument, did_you_mean, literal, printable, verbatim
from private_topk.transforms.stated import number as shown

if TYPE_CHECKING:
    from private_topk.pipelines.budget.ledger import Ledger

_EXAMPLES = {
    "": """examples:
  private-topk budget create --ledger sqlite:///budget.db --dataset plays --epsilon 10 --delta 1e-6 --privacy-unit user
  private-topk budget show --ledger sqlite:///budget.db
  private-topk budget history --ledger sqlite:///budget.db --dataset plays --json

`private-topk budget ACTION --help` lists the arguments of one.""",
    "create": """examples:
  private-topk budget create --ledger sqlite:///budget.db --dataset plays --epsilon 10 --delta 1e-6 --privacy-unit user
  private-topk budget create --ledger sqlite:///budget.db --dataset plays --epsilon 4 --privacy-unit user""",
    "show": """examples:
  private-topk budget show --ledger sqlite:///budget.db
  private-topk budget show --ledger sqlite:///budget.db --dataset plays --remaining 47 --k 20 --json""",
    "history": """examples:
  private-topk budget history --ledger sqlite:///budget.db
  private-topk budget history --ledger sqlite:///budget.db --dataset plays --json""",
    "adopt": """examples:
  private-topk budget adopt published/ --ledger sqlite:///budget.db --dataset plays --dry-run
  private-topk budget adopt a.manifest.json b.csv --ledger sqlite:///budget.db --dataset plays --json""",
    "renew": """examples:
  private-topk budget renew --ledger sqlite:///budget.db --dataset plays --period 365d
  private-topk budget renew --ledger sqlite:///budget.db --dataset plays --period 90d --privacy-unit user --json""",
}
ACTIONS = {
    "create": "open a budget; it cannot be changed later",
    "show": "show what is spent and what is left",
    "history": "list every charge",
    "adopt": "write down published releases that a ledger lacks, such as one that was restored from a backup",
    "renew": "begin a new period, in which the whole budget can be spent again; the guarantee then is per period",
}


def _budget(arguments: Namespace, others: list[str]) -> None:
    """Refuse a call without an action, or with an unknown one."""
    got = "" if arguments.action is None else f"; got {verbatim(repr(arguments.action))}"
    raise InvalidArgument(
        "",
        f"`private-topk budget` must be followed by {', '.join(ACTIONS)}{got}",
        did_you_mean(arguments.action or "", ACTIONS),
    )


def _create(arguments: Namespace, others: list[str]) -> bool:
    """Open a budget. Raises InvalidArgument for numbers that break a rule, or if there is one already."""
    from private_topk.pipelines.release.manifest import BudgetFacts
    from private_topk.pipelines.show.words import weak_promise

    budget = Budget.of(
        arguments.dataset,
        arguments.epsilon,
        0 if arguments.delta is None else arguments.delta,
        arguments.release_delta,
        unit=arguments.privacy_unit or "user-window",
        neighbours=arguments.neighbours or "add-remove",
    )
    ledger = _ledger(arguments.ledger)
    ledger.create(budget, unit_named=arguments.privacy_unit is not None)
    for other in (books := ledger.read(budget.dataset)).budgets:
        if other.unit != budget.unit:
            print(
                f"dataset {printable(budget.dataset)} has a {other.unit} budget too, and every release is charged to "
                f"both: by those so far {float(statement(budget, books)['used']):.1%} of this one is used",
                file=sys.stderr,
            )
    with level("warning"):
        for each in weak_promise(BudgetFacts(epsilon=float(budget.total.epsilon), delta=float(budget.total.delta))):
            print(f"private-topk: {each}", file=sys.stderr)
    if arguments.json:
        _tell(arguments.ledger, budget.dataset, budget.unit, arguments)
        return True
    epsilon, delta = shown(budget.total.epsilon), shown(budget.total.delta)
    of = UNITS[budget.unit]
    if arguments.privacy_unit is None:
        of += f" (unit {budget.unit}, the default: a report with unit user needs `--privacy-unit user`)"
    print(f"{budget.dataset}: epsilon {epsilon}, delta {delta} for {of}; neighbours: {budget.neighbours}")
    if budget.rho:
        print(
            f"Releases fit while their epsilons add up to at most {epsilon}, or their rhos (zCDP) to at most "
            f"{shown(budget.rho)}"
        )
    return True


def _show(arguments: Namespace, others: list[str]) -> None:
    """Print every budget with what is spent, and the releases that were charged and not finished."""
    if arguments.plot is not None:
        from private_topk.pipelines.show.spending import check_plot

        check_plot(arguments.plot)
        refuse_replacing([arguments.plot], protected_files(vars(arguments)), "plot")
    if arguments.remaining is not None:
        check_windows(arguments.remaining, "remaining")
    elif arguments.k is not None:
        raise InvalidArgument("k", "needs {remaining}: how many rankings of the top {k} there will be")
    books = _read(arguments)
    unfinished = [entry for entry in books.charges if not entry.is_published]
    if arguments.json:
        print_json(
            {
                "budgets": [statement(budget, books, arguments.remaining, arguments.k) for budget in books.budgets],
                "unfinished": [_charge(entry) for entry in unfinished],
            }
        )
    else:
        for budget in books.budgets:
            print("\n".join(_lines(budget, books, arguments.remaining, arguments.k)) + "\n")
        if in_all := of_datasets(books):
            print(f"{in_all}\n")
        for entry in unfinished:
            alive = "unless it still runs, " if entry.outcome == "started" else ""
            print(
                f"not finished: {entry.release_id} of {entry.dataset}, charged {entry.charged} "
                f"({entry.outcome}); {alive}run it again with the same key and id over the same input, without "
                "files that came later, to resume at no cost, unless its key was random"
            )
    if arguments.plot is not None:
        from private_topk.pipelines.show.spending import plot

        plot(books, arguments.plot)
        print(f"plot: {printable(arguments.plot)}", file=sys.stderr if arguments.json else sys.stdout)


def _adopt(arguments: Namespace, others: list[str]) -> bool:
    """Write down published releases, and print what they were and what the budgets stand at."""
    from private_topk.pipelines.budget.ledger import tell_operator
    from private_topk.pipelines.release.adopting import entries_of, manifests_in
    from private_topk.pipelines.release.promise import charges_of, disputed

    manifests = [each for place in arguments.manifest for each in manifests_in(place)]
    ledger = _ledger(arguments.ledger)
    published = entries_of(manifests, arguments.dataset, {each.release_id for each in ledger.read().charges})
    try:
        added = ledger.adopt(published, dry := bool(arguments.dry_run))
    except NoBudget as error:
        units = {budget.unit for budget in ledger.read(arguments.dataset).budgets}
        lost = next(entry for entry in published if entry.unit not in units)
        remedy = f"give the ledger that was charged; if that is lost, {_opened_anew(arguments, lost, error)}"
        raise NoBudget(error.field, error.rule, literal(printable(remedy))) from None
    books = ledger.read(arguments.dataset)
    books = books._replace(charges=[*books.charges, *added]) if dry else books
    budgets = [statement(budget, books) for budget in books.budgets]
    with level("warning"):
        for told in disputed(charges_of(manifests, books.charges)):
            tell_operator(printable(told))
        for each in budgets:
            if each["used"] > 1:
                told = (
                    f"more than the {each['privacy_unit']} budget of {arguments.dataset} {'would be' if dry else 'is'} "
                    "charged: nothing more fits"
                )
                tell_operator(printable(f"{told}, and a user is protected by what is spent, not by its total"))
    if arguments.json:
        print_json({"adopted": [_charge(entry) for entry in added], "budgets": budgets})
        return not dry
    for entry in added:
        print(f"{'would adopt' if dry else 'adopted'} {printable(entry.release_id)}: {entry.windows.summary()}")
    for (release, _), times in Counter((entry.release_id, entry.key_id) for entry in published).items():
        if times > 1:
            print(f"{printable(release)} has {times} different answers here under one key: each is charged")
    rest = "; the others were charged before" if len(added) < len(published) else ""
    done = "would be adopted, and the ledger would then say" if dry else "adopted"
    print(f"{len(added)} of {len(published)} releases {done}{rest}\n")
    for budget in books.budgets:
        print("\n".join(_lines(budget, books)) + "\n")
    return not dry


def _opened_anew(arguments: Namespace, lost: Entry, error: NoBudget) -> str:
    """How to open the budget that a release was charged to: where another unit has one, in a ledger of its own."""
    url, other = ledger_named(arguments.ledger), error.field == "privacy_unit"
    where = "sqlite:///another.db" if other else url
    command = f"private-topk budget create --ledger {where} --dataset {shlex.quote(lost.dataset)} --epsilon EPSILON"
    more = "" if lost.neighbours == "add-remove" else f" --neighbours {lost.neighbours}"
    command += f" --delta DELTA --privacy-unit {lost.unit}{more}"
    return f"open one with its old total by `{command}`, and adopt into it"


def _renew(arguments: Namespace, others: list[str]) -> bool:
    units = [budget.unit for budget in _ledger(arguments.ledger).read(arguments.dataset).budgets]
    unit = arguments.privacy_unit or (units[0] if len(units) == 1 else "user-window")
    _ledger(arguments.ledger).renew(arguments.dataset, unit, arguments.period)
    _tell(arguments.ledger, arguments.dataset, unit, arguments)
    return True


def _tell(url: str, dataset: str, unit: str, arguments: Namespace) -> None:
    books = _ledger(url).read(dataset)
    [budget] = (budget for budget in books.budgets if budget.unit == unit)
    if arguments.json:
        print_json(statement(budget, books))
    else:
        print("\n".join(_lines(budget, books)))


def _history(arguments: Namespace, others: list[str]) -> None:
    books = _read(arguments)
    if arguments.json:
        print_json(
            {
                "charges": [_charge(entry) for entry in books.charges],
                "renewals": [
                    {
                        "began": each.began,
                        "dataset": each.dataset,
                        "privacy_unit": each.unit,
                        "days": each.length / timedelta(days=1),
                    }
                    for each in books.renewals
                ],
            }
        )
        return
    rows = [_HEAD, *(list(map(_cell, _charge(entry).values())) for entry in books.charges)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    print(lines[0])
    renewals = list(books.renewals)
    for entry, line in zip(books.charges, lines[1:], strict=True):
        for each in [each for each in renewals if each.dataset == entry.dataset and each.last_charge < entry.id]:
            print(_renewed(each))
            renewals.remove(each)
        print(line)
    for each in renewals:
        print(_renewed(each))
    if not all(entry.cost.adds_up for entry in books.charges):
        print("epsilon - is of what adds up by its rho alone; the manifest states its epsilon")
    if any(entry.outcome == ADOPTED for entry in books.charges):
        print("adopted releases have the time of the adoption, and their manifests the day of the release")


def _renewed(renewal: Renewal) -> str:
    days = renewal.length / timedelta(days=1)
    return f"renewed {renewal.began}: {renewal.dataset}, {renewal.unit}, for at least {days:g} days"


_HEAD = ["charged (UTC)", *"dataset unit report mechanism k windows epsilon rho delta key outcome".split()]
"""The heads of the columns of `_charge`."""


def _cell(value: Fraction | float | str | None) -> str:
    return "-" if value is None else shown(value) if isinstance(value, Fraction) else str(value)


def _charge(entry: Entry) -> dict[str, Any]:
    """A charge as JSON, with what it adds to the sums of its unit."""
    spent = most(entry.unit, [entry])
    return {
        "charged": entry.charged,
        "dataset": entry.dataset,
        "privacy_unit": entry.unit,
        "report": entry.release_id,
        "mechanism": entry.mechanism,
        "k": entry.k,
        "windows": entry.windows.summary(),
        "epsilon": spent.epsilon if spent.adds_up else None,
        "rho": spent.rho,
        "delta": spent.zcdp_delta,
        "key_id": entry.key_id,
        "outcome": entry.outcome,
    }


def _ledger(url: str) -> Ledger:
    from private_topk.pipelines.budget.ledger import Ledger  # loads SQLAlchemy, which --help does without

    check_signals()  # while it was loaded one may have been swallowed
    return Ledger(url)


def _read(arguments: Namespace) -> Books:
    books = _ledger(arguments.ledger).read(arguments.dataset)
    if arguments.dataset is not None and not books.budgets:
        raise InvalidArgument("dataset", f"{verbatim(arguments.dataset)} has no budget in this ledger")
    return books


def _lines(budget: Budget, books: Books, remaining: int | None = None, k: int | None = None) -> list[str]:
    found = statement(budget, books, remaining, k)
    used, left, period = float(found["used"]), found["left"], found["period"]
    charges = _charges(found["charges"])
    charges += f", limited by {found['binds']}" if found["binds"] and budget.total.delta else ""
    several = f", or several of rho {_floored(left['rho'])} in all; delta {_floored(left['delta'])} for single releases"
    if not left["rho"]:
        several = f"; none by rho: {shown(found['spent']['rho'])} of {shown(budget.rho)} is spent"
    fits = f"one release of epsilon {_floored(left['epsilon'])}{several * bool(budget.rho)}"
    if left["epsilon"] <= found["total"]["epsilon"] * LEAST:
        fits = "nothing"
    by_rho = f"            by zCDP, from rho {shown(found['spent']['rho'])}; "
    by_rho += "both this epsilon and that of a page are true: it may be at another delta, or of Gaussian noise"
    added = found["spent"]["added_up"]
    sums = f"rho {shown(found['spent']['rho'])} of {shown(budget.rho)}"
    sums = f"epsilon {shown(added)} of {shown(budget.total.epsilon)}, or {sums}" if added is not None else sums
    sums += "" if added is not None else "; epsilons have no sum any more, as a charge counts by rho alone"
    lines = [
        f"{budget.dataset}: {in_numbers(found['total'])} for {UNITS[budget.unit]}",
        f"  [{'#' * round(30 * min(used, 1)):<30}] {used:.1%} used by {charges}",
        *([f"  sums      {sums}"] if budget.rho else ()),
        f"  spent     {in_numbers(found['spent'])}",
        *([by_rho] if found["spent"]["accounting"] == "zcdp" else ()),
        f"  fits now  {fits}",
        *(f"  ahead     {printable(told)}" for told in told_ahead([budget], books)),
    ]
    if remaining is not None:
        each = found["left_for_each"]
        rhos = f", or rho {_floored(each['rho'])} by zCDP and delta {_floored(each['delta'])}"
        lines.append(
            f"  each of {remaining:,} further releases may spend epsilon {_floored(each['epsilon'])}"
            f"{rhos if budget.rho else ''}, limited by {each['binds']}"
        )
        if k is not None:
            of_k = each["ranking"]
            epsilon = f"epsilon {_floored(of_k['epsilon'])}, limited by {of_k['binds']}"
            lines.append(f"  each may rank the top {k:,} by {of_k['mechanism']} with {epsilon}")
    if budget.unit == "user-window":
        lines.append("  of the most used window: none has more spent or less left")
        if found["all_windows"]["epsilon"]:
            lines.append(f"  together  {in_numbers(found['all_windows'])} for a user who is in all windows")
    if told := adopted([entry for entry in books.charges if entry.dataset == budget.dataset]):
        lines.append(f"  adopted   {told}")
    if period["days"] is None:
        lines.append(f"  period 1, since {period['since']}; `budget renew` begins the next")
    else:
        over = moment(period["since"]) + timedelta(days=period["days"])
        each = f"each of at least {period['days']:g} days, to be renewed from {over:%Y-%m-%dT%H:%M:%SZ} on: "
        each += of_periods(budget, books)
        lines.append(f"  period {period['number']}, since {period['since']}, {each}")
        for one in found["earlier_periods"]:
            told = f"spent {in_numbers(one['spent'])} by {_charges(one['charges'])}"
            lines.append(f"  period {one['number']}, since {one['since']}: {told}")
        lines.append(f"  all {period['number']} periods so far spent {in_numbers(found['all_periods'])}")
    return lines


def _charges(number: int) -> str:
    return "1 charge" if number == 1 else f"{number} charges"


def _floored(value: Fraction | float) -> str:
    return shown(value, rounding=ROUND_FLOOR)


_LIST = "\n".join(f"  {name:<8} {text}" for name, text in ACTIONS.items())
COMMANDS = {
    "budget": Command(
        _budget,
        f"Create a dataset's budget in a ledger, and see what was spent of it.\n\nactions:\n{_LIST}",
        _EXAMPLES[""],
        alone=("ACTION", "one of them"),
        takes=", ".join(ACTIONS),
    ),
    **{
        f"budget {name}": Command(execute, f"{ACTIONS[name].capitalize()}.", _EXAMPLES[name], needs)
        for name, execute, needs in (
            ("create", _create, ("ledger", "dataset", "epsilon")),
            ("show", _show, ("ledger",)),
            ("history", _history, ("ledger",)),
            ("renew", _renew, ("ledger", "dataset", "period")),
        )
    },
    "budget adopt": Command(
        _adopt,
        f"{ACTIONS['adopt'].capitalize()}.",
        _EXAMPLES["adopt"],
        ("ledger", "dataset"),
        alone=("MANIFEST", "a manifest, a ranking that has one beside it, or a folder of them"),
        takes="what was published",
        several=True,
    ),
}
