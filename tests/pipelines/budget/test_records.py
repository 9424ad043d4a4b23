"""Rows of a ledger: how a dataset is read, what older ledgers hold, and what damage is told."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from private_topk.pipelines.budget import Budget, Cost, Ledger, Request, Windows
from private_topk.pipelines.cli import main
from private_topk.transforms.errors import Refusal

ROWS = {"user_column": "user", "time_column": "time", "time_unit": "s"}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.chdir(tmp_path)
    found = Ledger("sqlite:///budget.db")
    found.create(Budget.of("plays", 9))
    return found


def request(report: str, rows: dict[str, str] | None = None, epsilon: str = "1", delta: str = "0") -> Request:
    cost = Cost.of_any(Fraction(epsilon), Fraction(delta))
    return Request("plays", "user-window", report, "k", "f", {"mechanism": "mine"}, Windows.of(None), cost, rows or {})


def change(column: str, value: object, table: str = "charges", where: str = "1") -> None:
    connection = sqlite3.connect("budget.db")
    with connection:
        connection.execute(f"update private_topk_{table} set {column} = ? where {where}", (value,))
    connection.close()


@pytest.mark.parametrize("field", list(ROWS))
def test_a_dataset_is_read_as_by_its_first_charge(ledger: Ledger, field: str) -> None:
    ledger.charge(request("a", ROWS))
    other = {**ROWS, field: "us"}
    with pytest.raises(Refusal, match=f"{field} must be {ROWS[field]} for dataset plays, .* got us") as refused:
        ledger.charge(request("b", other))
    assert refused.value.field == field
    assert ledger.charge(request("c", ROWS)).outcome is None
    assert ledger.charge(request("a", ROWS)).outcome == "started"
    assert len(ledger.read()[1]) == 2 and dict(ledger.read()[1][0].request.rows) == ROWS


def test_what_the_first_charge_left_open_is_settled_by_the_next(ledger: Ledger) -> None:
    """All rows at once need no time column; a ledger from before columns were kept names none."""
    ledger.charge(request("old"))
    ledger.charge(request("all rows", {"user_column": "user"}))
    ledger.charge(request("weeks", ROWS))
    with pytest.raises(Refusal, match="time_column must be time"):
        ledger.charge(request("other weeks", {**ROWS, "time_column": "added"}))
    with pytest.raises(Refusal, match="user_column must be user"):
        ledger.charge(request("other users", {"user_column": "item"}))


def test_what_is_written_for_requests_without_rows_is_what_ever_was(ledger: Ledger) -> None:
    """So charges of older ledgers are recognised when they are repeated."""
    asked = request("a")
    ledger.charge(asked)
    connection = sqlite3.connect("budget.db")
    [row] = connection.execute("select parameters, windows, epsilon, delta, rho, rest from private_topk_charges")
    connection.close()
    ever = json.dumps({"mechanism": "mine", "windows": asked.windows.plain()}, sort_keys=True)
    assert row == (ever, json.dumps([-(1 << 61), 1 << 61, 1 << 62, 1 << 62, 1]), "1", "0", str(asked.cost.rho), "0")
    change("rho", "1/2")  # as it was written once
    assert ledger.charge(request("a", ROWS)).outcome == "started", "the same request, now with its columns"


def test_the_same_name_for_a_larger_epsilon_is_no_repeat(ledger: Ledger) -> None:
    """0.1 as a decimal and as a float go by one name, and differ by 5e-18."""
    ledger.charge(request("a", epsilon="1/10"))
    assert ledger.charge(request("a", epsilon=str(Fraction(0.1)))).outcome is None
    assert ledger.charge(request("a", epsilon="1/10")).outcome == "started"


def test_gaussian_noise_is_charged_by_the_reading_that_uses_less(ledger: Ledger) -> None:
    ledger.create(Budget.of("noise", 1, Fraction("1e-6"), unit="user"))

    def ask(report: str, cost: Cost) -> Request:
        return Request("noise", "user", report, "k", "f", {"mechanism": "mine"}, Windows.of(None), cost)

    little = Cost(Fraction(1, 2), Fraction("4e-7"), Fraction(1, 1000))
    much = Cost(Fraction(1, 2), Fraction("4e-7"), Fraction(1, 10))
    ledger.charge(ask("by its rho", little))
    with pytest.raises(Refusal, match="epsilons do not add up here"):
        ledger.charge(ask("by its epsilon", much))
    assert ledger.read("noise")[1][0].request.cost == little
    ledger.create(Budget.of("fresh", 1, Fraction("1e-6"), unit="user"))
    fresh = Request("fresh", "user", "c", "k", "other rows", {"mechanism": "mine"}, Windows.of(None), much)
    assert ledger.charge(fresh).used == Fraction(4, 5)
    assert ledger.read("fresh")[1][0].request.cost == Cost.of_any(much.epsilon, much.delta)
    assert ledger.charge(fresh).outcome == "started", "recognised by what it asks, however it was read"


@pytest.mark.parametrize(("mechanism", "weight"), [("gaussian", "1/4"), ("cdp-peeling", "1/2")])
def test_parts_of_risers_are_those_of_their_law_in_older_charges_too(
    ledger: Ledger, mechanism: str, weight: str
) -> None:
    """That of a square where the noise is Gaussian, which older charges tell by their mechanism alone."""
    cost = Cost(Fraction(1), Fraction("1e-6"), Fraction(1, 100), gdp=mechanism == "gaussian")
    against = {"mechanism": mechanism, "against": {"window": "previous", "weight": "1/2"}}
    ledger.create(Budget.of("risers", 9, 1e-5))
    ledger.charge(Request("risers", "user-window", "a", "k", "f", against, Windows.of(None), cost))
    [new] = ledger.read("risers")[1]
    [(text,)] = sqlite3.connect("budget.db").execute("select parameters from private_topk_charges").fetchall()
    change("parameters", json.dumps({k: v for k, v in json.loads(text).items() if k != "as one Gaussian"}))
    [old] = ledger.read("risers")[1]
    assert new.charge.weight == old.charge.weight == Fraction(weight)
    change("parameters", json.dumps({**json.loads(text), "as one Gaussian": "perhaps"}))
    with pytest.raises(Refusal, match="charge 1 of dataset risers cannot be read"):
        ledger.read("risers")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("epsilon", "x"), ("epsilon", "-1"), ("epsilon", ""), ("epsilon", "1/0"), ("epsilon", "1e999999999"),
        ("epsilon", b"\xff"), ("delta", "nan"), ("rho", "0.1"), ("rest", "1"), ("parameters", "{"),
        ("epsilon", "9" * 500), ("rho", "9" * 500),
        ("parameters", "[1]"), ("parameters", "[]"), ("parameters", "[" * 100_000),
        ("windows", "[1,2]"), ("windows", "null"), ("windows", "[0,10,0,0,1]"),
    ],
)  # fmt: skip
def test_damaged_charges_are_named(ledger: Ledger, capsys: pytest.CaptureFixture, column: str, value: object) -> None:
    ledger.charge(request("a"))
    ledger.charge(request("b"))
    change(column, value, where="id = 2")
    with pytest.raises(Refusal, match=r"ledger sqlite:.* is damaged: charge 2 of dataset plays cannot be read"):
        ledger.charge(request("c"))
    for command in ("show", "history"):
        assert main(["budget", command, "--ledger", "sqlite:///budget.db"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("private-topk: --ledger sqlite:///budget.db is damaged: charge 2") and "backup" in said


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("epsilon", "x"),
        ("epsilon", "0"),
        ("epsilon", "9" * 500),
        ("delta", "1"),
        ("release_delta", "1/2"),
        ("delta", b""),
    ],  # fmt: skip
)
def test_damaged_budgets_are_named(ledger: Ledger, column: str, value: object) -> None:
    change(column, value, "budgets")
    with pytest.raises(Refusal, match="is damaged: the user-window budget of dataset plays cannot be read"):
        ledger.charge(request("a"))


def test_a_budget_whose_name_is_not_text_hides_no_other(ledger: Ledger) -> None:
    ledger.create(Budget.of("x", 1))
    change("dataset", b"\xff", "budgets", where="dataset = 'x'")
    with pytest.raises(Refusal, match="dataset nope has no budget in this ledger, which knows b'.xff', plays"):
        ledger.charge(replace(request("a"), dataset="nope"))


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"mechanism": object()}}, {"parameters": {5: "x"}}, {"parameters": ["mechanism"]},
        {"parameters": {"windows of a user": "none"}}, {"reach": 0}, {"reach": 2},
        *({"parameters": {"against": {"window": "previous", "weight": weight}}} for weight in (-1, 2, "1/0", None)),
        {"cost": Cost(Fraction(1, 10**4100), Fraction(0), Fraction(1))},
        {"cost": Cost.of_any(Fraction(10**40), Fraction(0))}, {"cost": Cost.of_any(Fraction(1), Fraction(2))},
    ],
    ids=["parameters"] * 4 + ["reach"] * 2 + ["weight"] * 4 + ["cost"] * 3,
)  # fmt: skip
def test_nothing_is_charged_that_could_not_be_read_again(ledger: Ledger, change: dict[str, Any]) -> None:
    """One such row would refuse every later charge of its dataset, as a damaged one does."""
    for ask in (ledger.charge, ledger.quote):
        with pytest.raises(Refusal, match="request must be one that a ledger can hold: parameters that are JSON"):
            ask(replace(request("a"), **change))
    assert ledger.read("plays")[1] == []


def test_a_charge_that_names_no_mechanism_is_listed(ledger: Ledger, capsys: pytest.CaptureFixture) -> None:
    ledger.charge(replace(request("a"), parameters={}))
    for more in ([], ["--json"]):
        assert main(["budget", "history", "--ledger", "sqlite:///budget.db", *more]) == 0
        assert "user-window" in capsys.readouterr().out


def test_a_file_that_is_no_database_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("budget.db").write_bytes(b"not a database at all, but long enough to be looked at" * 20)
    with pytest.raises(Refusal, match="ledger sqlite:///budget.db cannot be used"):
        Ledger("sqlite:///budget.db").read()
