"""What `budget show` and `history` state of a ledger: no less than was spent, no more than fits."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from private_topk.pipelines.budget.accounting import Budget, Charge, Renewal, heaviest, most_by_kind
from private_topk.pipelines.budget.composition import Total
from private_topk.pipelines.budget.ledger import Ledger, Request
from private_topk.pipelines.budget.statement import of_datasets, statement
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.cli import main
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import Peeling
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import epsilon_within
from tests.pipelines.budget.support import some_period
from tests.pipelines.charged import arguments, create, place, with_ledger
from tests.pipelines.support import command

__all__ = ["place"]

URL = "sqlite:///budget.db"
LITTLE = Fraction(1, 10**9)


def some_costs(state: np.random.RandomState, adding: bool) -> list[Cost]:
    costs = [Cost(Fraction(int(n), 40), Fraction(int(n % 3), 10**8)) for n in state.randint(1, 9, 4)]
    return costs if adding else [*costs, Cost(Fraction(1, 2), Fraction(1, 10**7), Fraction(1, 10**3))]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_the_stated_spending_is_the_least_sufficient_budget(seed: int, delta: str) -> None:
    state = np.random.RandomState(seed)
    budget = Budget.of("plays", 9, Fraction(delta), unit="user")
    if not budget.rho:
        costs = [Cost(cost.epsilon, Fraction(0)) for cost in some_costs(state, adding=True)]
    else:
        costs = some_costs(state, adding=bool(seed % 2))
    spent = Cost.sum((1, cost) for cost in costs)
    stated = budget.guarantee(spent)
    assert 0 < stated.epsilon and stated.delta <= budget.total.delta
    for epsilon, lets_through in ((stated.epsilon * (1 + LITTLE), True), (stated.epsilon * (1 - LITTLE), False)):
        found = Budget("plays", "user", Total(epsilon, stated.delta, spent.zcdp_delta))
        assert found.fits(spent) == lets_through


@pytest.mark.parametrize("seed", range(20))
def test_the_stated_rest_fits_and_no_more(seed: int) -> None:
    budget = Budget.of("plays", 2, Fraction("1e-6"), unit="user")
    spent = Cost.sum((1, cost) for cost in some_costs(np.random.RandomState(seed), adding=bool(seed % 2)))
    left = budget.left(spent)
    for epsilon, fits in ((left.epsilon, True), (left.epsilon * (1 + LITTLE), False)):
        more = Cost(epsilon, Fraction(0))
        after = Cost(spent.epsilon + epsilon, spent.delta, spent.rho + more.rho, spent.zcdp_delta)
        assert budget.fits(after) == fits
    noise = Cost(Fraction(9), Fraction(1, 2), left.rho, left.zcdp_delta)
    assert budget.fits(
        Cost(spent.epsilon + 9, spent.delta + noise.delta, spent.rho + noise.rho, spent.zcdp_delta + noise.zcdp_delta)
    )


@pytest.mark.parametrize(
    ("cost", "binds", "used"),
    [
        (Cost(Fraction(1)), "epsilon", Fraction(1, 2)),
        (Cost(Fraction(1), rho=Fraction(1, 10**4)), "rho", None),
        (Cost(Fraction(1, 4), Fraction(1, 10**7), Fraction(1, 10**4), Fraction(1, 10**7)), "delta", Fraction(1, 5)),
        (Cost(Fraction(9), Fraction(1, 10**7), Fraction(1, 10**4)), "rho", None),
    ],
)
def test_the_sum_that_binds_is_the_one_that_is_used_most_where_a_release_has_to_fit(
    cost: Cost, binds: str, used: Fraction | None
) -> None:
    budget = Budget.of("plays", 2, Fraction("1e-6"), unit="user")
    assert budget.binding(cost) == (cost.rho / budget.rho if used is None else used, binds)


@pytest.mark.parametrize("seed", range(20))
def test_no_window_has_spent_more_than_is_stated(seed: int) -> None:
    """Also where the window that has used most of the budget is not the one with the largest sum."""
    state = np.random.RandomState(seed)
    budget = Budget.of("plays", 99, Fraction("1e-3"))
    charges = [Charge(Windows.of(some_period(state)), cost) for cost in some_costs(state, adding=bool(seed % 2))]
    sums = most_by_kind(budget.unit, charges)
    alone = [Cost.sum(heaviest(budget, charges, charge.windows)) for charge in charges]
    for spent in alone:
        [most] = [each for each in sums if each.adds_up == spent.adds_up]
        assert spent.epsilon <= most.epsilon and spent.rho <= most.rho and spent.zcdp_delta <= most.zcdp_delta
        assert budget.guarantee(spent).epsilon <= budget.guarantee(most).epsilon
        assert budget.left(spent).epsilon >= budget.left(most).epsilon


def test_noise_in_one_window_leaves_the_sums_of_others_as_they_are(place: Path, capsys: pytest.CaptureFixture) -> None:
    """Which do not add up with it. The second of two weeks has three releases, the first one of Gaussian noise."""
    create(URL, "--epsilon", "400", "--delta", "4e-6")
    noise = ["--mechanism", "gaussian", "--max-items-per-user", "1", "--epsilon", "3", "--delta", "1e-6"]
    assert main(arguments("a", *with_ledger(URL, *noise), weeks=1)) == 0
    for name in "bcd":
        assert main(arguments(name, *with_ledger(URL, "--epsilon", "3", "--from", "2026-01-12"), weeks=2)) == 0
    [shown] = told(capsys, "show", "--remaining", "2", "--k", "5")["budgets"]
    assert shown["spent"]["epsilon"] == 9 and shown["all_windows"]["epsilon"] == 12
    each = shown["left_for_each"]
    assert 140 < each["ranking"]["epsilon"] < 141 > each["epsilon"] > 140, "by rho, of the week that has noise"


def test_what_rounding_leaves_of_a_total_is_nothing(place: Path, capsys: pytest.CaptureFixture) -> None:
    """A sixth of 0.6 is no float: six windows spend 1e-17 less than the total."""
    create(URL, "--epsilon", "0.6", "--privacy-unit", "user")
    assert main(arguments("a", *with_ledger(URL, "--privacy-unit", "user", "--epsilon", "0.6"), weeks=6)) == 0
    [shown] = told(capsys, "show")["budgets"]
    assert shown["spent"]["epsilon"] == 0.6 and main(["budget", "show", "--ledger", URL]) == 0
    said = capsys.readouterr().out
    assert "  spent     epsilon 0.6, delta 0\n  fits now  nothing\n" in said


def told(capsys: pytest.CaptureFixture, *words: str) -> dict:
    capsys.readouterr()
    assert main(["budget", *words, "--ledger", URL, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_columns_of_a_history_add_up_to_what_is_spent(place: Path, capsys: pytest.CaptureFixture) -> None:
    """A joint draw over six windows, and Gaussian noise, of which only rho counts."""
    create(URL, "--epsilon", "4", "--delta", "1e-6", "--privacy-unit", "user")
    total = with_ledger(URL, "--privacy-unit", "user", "--epsilon", "1")
    assert main(arguments("a", *total, weeks=6)) == 0
    [shown] = told(capsys, "show")["budgets"]
    assert shown["spent"]["added_up"] == 1 and main(["budget", "show", "--ledger", URL]) == 0
    assert re.search(r"\n  sums      epsilon 1 of 4, or rho 0\.0208334 of 0\.\d+\n", capsys.readouterr().out)
    noise = ["--mechanism", "gaussian", "--max-items-per-user", "1", "--delta", "1e-7"]
    assert main(arguments("b", *total, *noise, weeks=6)) == 0
    [shown], charges = told(capsys, "show")["budgets"], told(capsys, "history")["charges"]
    assert sum(charge["rho"] for charge in charges) == pytest.approx(shown["spent"]["rho"])
    assert shown["binds"] == "rho" and main(["budget", "show", "--ledger", URL]) == 0
    said = capsys.readouterr().out
    assert shown["spent"]["added_up"] is None and "; epsilons have no sum any more, as a charge counts by rho" in said
    assert f"by zCDP, from rho {row_of(shown['spent']['rho'])}; both this epsilon and that of a page are true" in said
    assert "used by 2 charges, limited by rho" in said and "  fits now  one release of epsilon " in said
    assert [charge["epsilon"] for charge in charges] == [1, None] and charges[0]["rho"] == pytest.approx(1 / 48)
    assert main(["budget", "history", "--ledger", URL]) == 0
    head, *rows, why = (line.split() for line in capsys.readouterr().out.splitlines())
    assert " ".join(why) == "epsilon - is of what adds up by its rho alone; the manifest states its epsilon"
    assert head[8:11] == ["epsilon", "rho", "delta"]
    assert [row[-5:-2] for row in rows] == [["1", "0.0208334", "0"], ["-", row_of(charges[1]["rho"]), "0"]]
    assert shown["spent"]["delta"] == 5e-7 and 1 < shown["spent"]["epsilon"] < 2


def test_the_budgets_of_several_datasets_end_with_their_sums(place: Path) -> None:
    """Of users, whose epsilons add up only where they have the same neighbours; with more than one total, if adopted
    or renewed.
    """
    ledger, windows = Ledger(URL), Windows.of(None)

    def said() -> str:
        return command("budget", "show", "--ledger", URL).out.split("\n\n")[-2]

    for dataset, epsilon in (("plays", 1), ("reads", Fraction(1, 2))):
        ledger.create(Budget.of(dataset, 2, 1e-6, unit="user"))
        asked = Request(dataset, "user", dataset, "key", "f" * 32, {}, windows, Cost(epsilon))
        ledger.charge(asked)
        assert dataset == "reads" or "of a person" not in said()
    ledger.create(Budget.of("plays", 9, unit="user-window"))
    in_all = "of a person in all 2 datasets with a user budget: spent epsilon"
    assert said() == f"{in_all} 1.5, delta 0, protected by epsilon 4, delta 2e-06"
    ledger.adopt([replace(asked.entry(), release_id="more", cost=Cost(Fraction(2)))])
    assert said() == f"{in_all} 3.5, delta 0, protected by epsilon 4.5, delta 2e-06"
    books = ledger.read()
    of_plays = Renewal("plays", "user", books.charges[0].charged, timedelta(days=1), books.charges[0].id)
    renewed = of_datasets(books._replace(renewals=[of_plays]))
    assert renewed == f"{in_all} 3.5, delta 0, protected by epsilon 6.5, delta 3e-06 in the periods so far"
    ledger.create(Budget.of("lends", 1, unit="user", neighbours="replace-one"))
    assert "of a person" not in said()


def test_the_cost_over_all_windows_adds_up_over_releases_and_renewals(
    place: Path, capsys: pytest.CaptureFixture
) -> None:
    """Of one release it is what its manifest says; of two, and across a renewal, both, by zCDP where that is less."""
    create(URL, "--epsilon", "1")
    assert told(capsys, "show")["budgets"][0]["all_windows"] == {"epsilon": 0, "delta": 0}
    assert main(arguments("a", *with_ledger(URL, "--epsilon", "0.5"), weeks=6)) == 0
    of_one = json.loads((place / "a.manifest.json").read_text())["all_windows"]
    assert told(capsys, "show")["budgets"][0]["all_windows"] == of_one == {"epsilon": 3, "delta": 0}
    assert main(arguments("b", *with_ledger(URL, "--epsilon", "0.25"), weeks=6)) == 0
    books = Ledger(URL).read("plays")
    renewed = Renewal("plays", "user-window", books.charges[0].charged, timedelta(days=1), books.charges[0].id)
    found = statement(books.budgets[0], books._replace(renewals=[renewed]))
    rho = 6 * (Fraction(1, 4) + Fraction(1, 16)) / 8
    assert found["all_windows"] == {"epsilon": epsilon_within(rho, Fraction("1e-6")), "delta": Fraction("1e-6")}
    assert found["spent"]["epsilon"] == 0.25
    assert main(["budget", "show", "--ledger", URL]) == 0
    assert "together  epsilon 3.41796, delta 1e-06 for a user who is in all windows" in capsys.readouterr().out


def test_what_was_spent_in_full_does_not_look_over_what_fits(place: Path, capsys: pytest.CaptureFixture) -> None:
    words = ["budget", "create", "--ledger", URL, "--dataset", "full", "--epsilon", "1.6", "--delta", "3e-6"]
    assert main([*words, "--privacy-unit", "user"]) == 0
    [allowed] = re.findall(r"rhos \(zCDP\) to at most (\S+)", capsys.readouterr().out)
    ledger = Ledger(URL)
    cost = Cost(Fraction(2), Fraction(0), ledger.budget("full", "user").rho)
    ledger.charge(Request("full", "user", "all", "k", "f" * 64, {"mechanism": "joint"}, Windows.of(None), cost))
    assert main(["budget", "show", "--ledger", URL, "--dataset", "full"]) == 0
    assert f"by zCDP, from rho {allowed};" in capsys.readouterr().out
    with pytest.raises(InvalidArgument, match=f"adding up rho: {allowed} spent .*, over {allowed} "):
        ledger.charge(Request("full", "user", "more", "k", "f" * 64, {"mechanism": "joint"}, Windows.of(None), cost))


@pytest.mark.parametrize(("remaining", "binds"), [(1, "epsilon"), (47, "rho")])
def test_the_stated_share_of_further_releases_is_the_largest_that_fits(
    remaining: int, binds: str, place: Path, capsys: pytest.CaptureFixture
) -> None:
    """By adding up one is largest, by zCDP many are; what is said of each is spent so many times, and no more."""
    create(URL, "--epsilon", "4", "--delta", "1e-6", "--privacy-unit", "user")
    assert main(arguments("a", *with_ledger(URL, "--privacy-unit", "user", "--epsilon", "1"), weeks=6)) == 0
    [shown] = told(capsys, "show", "--remaining", str(remaining))["budgets"]
    each = shown["left_for_each"]
    assert each["releases"] == remaining and each["binds"] == binds
    budget = Budget.of("plays", 4, Fraction("1e-6"), unit="user")
    before = Cost(Fraction(1), Fraction(0), Fraction(shown["spent"]["rho"]))
    for more, fits in ((1 - LITTLE, True), (1 + 10 * LITTLE, False)):
        one = Cost(Fraction(each["epsilon"]) * Fraction(more), Fraction(0))
        assert budget.fits(Cost.sum([(1, before), (remaining, one)])) == fits
    assert each["rho"] == pytest.approx(shown["left"]["rho"] / remaining)
    assert each["delta"] == pytest.approx(5e-7 / remaining)
    assert main(["budget", "show", "--ledger", URL, "--remaining", str(remaining)]) == 0
    said = capsys.readouterr().out
    assert f"each of {remaining} further releases may spend epsilon " in said and f", limited by {binds}" in said
    assert "may rank" not in said
    [shown] = told(capsys, "show", "--remaining", str(remaining), "--k", "20")["budgets"]
    ranking = shown["left_for_each"]["ranking"]
    assert ranking["epsilon"] >= each["epsilon"] and ranking["binds"] == "rho"
    for more, fits in ((1 - LITTLE, True), (1 + 10 * LITTLE, False)):
        one = Peeling(ranking["epsilon"] * more).cost(20)
        assert budget.fits(Cost.sum([(1, before), (remaining, one)])) == fits
    assert main(["budget", "show", "--ledger", URL, "--remaining", str(remaining), "--k", "20"]) == 0
    assert "  each may rank the top 20 by peeling with epsilon " in capsys.readouterr().out
    assert main(["budget", "show", "--ledger", URL, "--k", "20"]) == 2
    assert "--k needs --remaining" in capsys.readouterr().err
    assert main(["budget", "show", "--ledger", URL, "--remaining", "0"]) == 2
    assert "--remaining must be at least 1, got 0" in capsys.readouterr().err


def row_of(rho: float) -> str:
    return f"{np.ceil(rho * 1e7) / 1e7:.6g}"


@pytest.mark.parametrize(
    ("delta", "unit", "more"),
    [
        ("1e-8", "user", ["--mechanism", "joint"]),
        ("1e-8", "user", ["--mechanism", "gaussian", "--max-items-per-user", "1"]),
        ("1e-8", "user-window", ["--mechanism", "gaussian", "--max-items-per-user", "1"]),
        ("0", "user", ["--mechanism", "joint"]),
        ("0", "user", ["--mechanism", "gaussian", "--max-items-per-user", "1"]),
        ("1e-6", "user", ["--publish-counts", "1", "--publish-counts-delta", "1e-7"]),
    ],
)
@pytest.mark.parametrize("weeks", [1, 2])
def test_a_run_of_a_larger_delta_than_its_ledger_is_refused(
    place: Path, capsys: pytest.CaptureFixture, delta: str, unit: str, more: list[str], weeks: int
) -> None:
    """Lowered without a word it would publish by less than was asked; and of one window it would state too little."""
    create(URL, "--epsilon", "9", "--delta", delta, "--privacy-unit", unit)
    asked = with_ledger(URL, "--privacy-unit", unit, "--epsilon", "1", "--delta", "1e-6", *more)
    for check in (["--dry-run"], []):
        assert main(arguments("a", *asked, *check, weeks=weeks)) == 2
        assert "--delta must be at most " in capsys.readouterr().err
    assert told(capsys, "history")["charges"] == []


def test_a_delta_of_which_nothing_was_spent_is_left_as_it_was_declared(place: Path) -> None:
    create(URL, "--epsilon", "1", "--delta", "1e-5", "--privacy-unit", "user")
    assert "; delta 5e-06 for single releases" in command("budget", "show", "--ledger", URL).out
    assert json.loads(command("budget", "show", "--ledger", URL, "--json").out)["budgets"][0]["left"]["delta"] == 5e-06
