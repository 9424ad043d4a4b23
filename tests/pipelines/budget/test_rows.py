"""Rows of a ledger: how a dataset is read, what its tables hold, and what damage is told."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql
from sqlalchemy import inspect

from private_topk.pipelines.budget import Budget, Cost, Ledger, Request, Windows, tables
from private_topk.pipelines.cli import main
from private_topk.transforms.errors import InvalidArgument
from tests.databases import let_pass
from tests.refusals import refused

ROWS = {"user_column": "user", "time_column": "time", "time_unit": "s"}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.chdir(tmp_path)
    found = Ledger("sqlite:///budget.db")
    found.create(Budget.of("plays", 9))
    return found


def request(report: str, rows: dict[str, str] | None = None, epsilon: str = "1", delta: str = "0") -> Request:
    cost = Cost(Fraction(epsilon), Fraction(delta))
    return Request(
        "plays", "user-window", report, "k", "f" * 64, {"mechanism": "mine"}, Windows.of(None), cost, rows or {}
    )


def change(column: str, value: object, table: str = "charges", where: str = "1") -> None:
    connection = sqlite3.connect("budget.db")
    with connection:
        connection.execute(f"update private_topk_{table} set {column} = ? where {where}", (value,))
    connection.close()


@pytest.mark.parametrize("field", list(ROWS))
def test_a_dataset_is_read_as_by_its_first_charge(ledger: Ledger, field: str) -> None:
    ledger.charge(request("a", ROWS))
    other = {**ROWS, field: "us"}
    with pytest.raises(InvalidArgument, match=f"{field} must be {ROWS[field]} for dataset plays, .* got us") as refused:
        ledger.charge(request("b", other))
    assert refused.value.field == field
    assert str(refused.value).endswith("; rename the column where it means the same") == field.endswith("_column")
    assert ledger.charge(request("c", ROWS)).outcome is None
    assert ledger.charge(request("a", ROWS)).outcome == "started"
    assert len(ledger.read().charges) == 2 and dict(ledger.read().charges[0].rows) == ROWS


def test_columns_left_open_by_the_first_charge_are_fixed_by_the_next(ledger: Ledger) -> None:
    """All rows at once need no time column, and a job of one's own may name none."""
    ledger.charge(request("a job"))
    ledger.charge(request("all rows", {"user_column": "user"}))
    ledger.charge(request("weeks", ROWS))
    with pytest.raises(InvalidArgument, match="time_column must be time"):
        ledger.charge(request("other weeks", {**ROWS, "time_column": "added"}))
    with pytest.raises(InvalidArgument, match="user_column must be user"):
        ledger.charge(request("other users", {"user_column": "item"}))


def test_the_same_name_for_a_larger_epsilon_is_no_repeat(ledger: Ledger) -> None:
    """0.1 as a decimal and as a float go by one name, and differ by 5e-18."""
    ledger.charge(request("a", epsilon="1/10"))
    assert ledger.charge(request("a", epsilon=str(Fraction(0.1)))).outcome is None
    assert ledger.charge(request("a", epsilon="1/10")).outcome == "started"


def test_gaussian_noise_is_charged_by_the_reading_that_uses_less(ledger: Ledger) -> None:
    ledger.create(Budget.of("noise", 1, Fraction("1e-6"), unit="user"))

    def ask(report: str, cost: Cost) -> Request:
        return Request("noise", "user", report, "k", "f" * 64, {"mechanism": "mine"}, Windows.of(None), cost)

    little = Cost(Fraction(1, 2), Fraction("4e-7"), Fraction(1, 1000))
    much = Cost(Fraction(1, 2), Fraction("4e-7"), Fraction(1, 10))
    ledger.charge(ask("by its rho", little))
    with pytest.raises(InvalidArgument, match="epsilons do not add up here"):
        ledger.charge(ask("by its epsilon", much))
    assert ledger.read("noise").charges[0].cost == little
    ledger.create(Budget.of("fresh", 1, Fraction("1e-6"), unit="user"))
    fresh = Request("fresh", "user", "c", "k", "0" * 64, {"mechanism": "mine"}, Windows.of(None), much)
    assert ledger.charge(fresh).used == Fraction(4, 5)
    assert ledger.read("fresh").charges[0].cost == Cost(much.epsilon, much.delta)
    assert ledger.charge(fresh).outcome == "started", "recognised by what it asks, however it was read"
    with pytest.raises(InvalidArgument, match="adding up epsilon: 0.5 spent . 0.6 asked = 1.1, over 1"):
        ledger.charge(replace(fresh, release_id="d", cost=replace(much, epsilon=Fraction(3, 5))))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("epsilon", "x"),
        ("epsilon", "-1"),
        ("epsilon", ""),
        ("epsilon", "1/0"),
        ("epsilon", "1e999999999"),
        ("epsilon", b"\xff"),
        ("delta", "nan"),
        ("rho", "0.1"),
        ("zcdp_delta", "1"),
        ("windows", "["),
        ("epsilon", "9" * 500),
        ("rho", "9" * 500),
        ("windows", "[" * 100_000),
        ("charged", "yesterday"),
        ("k", 1.5),
        ("windows_of_a_user", 0),
        ("windows_of_a_user", 2),
        ("bounded", 2),
        ("bounded", "perhaps"),
        ("user_column", b"user"),
        ("fingerprint", b"f"),
        ("windows", "[1,2]"),
        ("windows", "null"),
        ("windows", "[0,10,0,0,1]"),
    ],
)
def test_damaged_charges_are_named(ledger: Ledger, capsys: pytest.CaptureFixture, column: str, value: object) -> None:
    ledger.charge(request("a"))
    ledger.charge(request("b"))
    change(column, value, where="id = 2")
    with pytest.raises(InvalidArgument, match=r"ledger sqlite:.* is damaged: charge 2 of dataset plays cannot be read"):
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
    ],
)
def test_damaged_budgets_are_named(ledger: Ledger, column: str, value: object) -> None:
    change(column, value, "budgets")
    with pytest.raises(InvalidArgument, match="is damaged: the user-window budget of dataset plays cannot be read"):
        ledger.charge(request("a"))


def test_a_budget_whose_name_is_not_text_hides_no_other(ledger: Ledger) -> None:
    ledger.create(Budget.of("x", 1))
    change("dataset", b"\xff", "budgets", where="dataset = 'x'")
    with pytest.raises(InvalidArgument, match="dataset nope has no budget in this ledger, which knows b'.xff', plays"):
        ledger.charge(replace(request("a"), dataset="nope"))


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"mechanism": object()}},
        {"parameters": {5: "x"}},
        {"parameters": ["mechanism"]},
        {"windows_of_a_user": 0},
        {"windows_of_a_user": 2},
        {"windows_of_a_user": 1.0},
        {"rows": {"time_unit": 5}},
        {"cost": Cost(Fraction(1, 10**4100), Fraction(0), Fraction(1))},
        {"cost": Cost(Fraction(10**40), Fraction(0))},
        {"cost": Cost(Fraction(1), Fraction(2))},
    ],
    ids=["parameters"] * 3 + ["windows_of_a_user"] * 3 + ["rows"] + ["cost"] * 3,
)
def test_nothing_is_charged_that_could_not_be_read_again(ledger: Ledger, change: dict[str, Any]) -> None:
    """One such row would refuse every later charge of its dataset, as a damaged one does."""
    for ask in (ledger.charge, ledger.quote):
        with refused("request", "must be one that a ledger can hold"):
            ask(replace(request("a"), **change))
    assert ledger.read("plays").charges == []


def test_a_charge_that_names_no_mechanism_is_listed(ledger: Ledger, capsys: pytest.CaptureFixture) -> None:
    ledger.charge(replace(request("a"), parameters={}))
    for more in ([], ["--json"]):
        assert main(["budget", "history", "--ledger", "sqlite:///budget.db", *more]) == 0
        assert "user-window" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("column", "value"), [("began", "soon"), ("seconds", "x"), ("last_charge", "x"), ("unit", b"user")]
)
def test_damaged_renewals_are_named(ledger: Ledger, column: str, value: object) -> None:
    ledger.create(Budget.of("plays", 9, unit="user"))
    let_pass("sqlite:///budget.db", timedelta(days=9))
    ledger.renew("plays", "user", timedelta(days=9))
    change(column, value, "renewals")
    with pytest.raises(InvalidArgument, match="is damaged: renewal 1 of dataset plays cannot be read"):
        ledger.charge(request("a"))


def run(url: str, *statements: str) -> None:
    engine = sql.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sql.pool.NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sql.text(statement))


@pytest.mark.parametrize("version", [1, 4])
def test_tables_of_another_version_are_refused_and_kept(url: str, version: int) -> None:
    """1 is what no release has made, 4 what a later one will."""
    Ledger(url).create(Budget.of("plays", 9))
    run(url, f"update private_topk_ledger set version = {version}")
    for use in (lambda: Ledger(url).read(), lambda: Ledger(url).create(Budget.of("more", 9))):
        with refused("ledger", f"has tables of version {version}, and this", "reads version 3"):
            use()
    run(url, "update private_topk_ledger set version = 3")
    assert [budget.dataset for budget in Ledger(url).read().budgets] == ["plays"]


def test_the_steps_that_are_left_are_taken_once_and_keep_what_is_held(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever comes first with the version that has them."""
    Ledger(url).create(Budget.of("plays", 9))
    Ledger(url).charge(request("a"))
    before = Ledger(url).read()
    monkeypatch.setitem(
        tables._STEPS,
        4,
        "alter table private_topk_charges add column note text;update private_topk_charges set note = mechanism",
    )
    monkeypatch.setitem(tables._STEPS, 5, "update private_topk_charges set k = 7")
    assert Ledger(url).read().charges == [replace(before.charges[0], k=7)]
    Ledger(url).charge(request("b"))
    assert [entry.k for entry in Ledger(url).read().charges] == [7, None]


def test_the_page_names_every_column(url: str) -> None:
    """docs/budget.md, for operators who look at the tables by SQL."""
    Ledger(url).create(Budget.of("plays", 9))
    page = (Path(__file__).parents[3] / "docs" / "budget.md").read_text().partition("### The tables")[2]
    engine = sql.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sql.pool.NullPool)
    told = dict(re.findall(r"^- `private_topk_(\w+)`: ((?:`\w+`,?\s+)*`\w+`)", page, re.MULTILINE))
    held = {name: inspect(engine).get_columns(f"private_topk_{name}") for name in told}
    assert {f"private_topk_{name}" for name in told} == set(inspect(engine).get_table_names())
    for name, columns in held.items():
        assert re.findall(r"\w+", told[name]) == [column["name"] for column in columns], name


def test_a_file_that_is_no_database_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("budget.db").write_bytes(b"not a database at all, but long enough to be looked at" * 20)
    with pytest.raises(InvalidArgument, match="ledger sqlite:///budget.db cannot be used") as caught:
        Ledger("sqlite:///budget.db").read()
    assert caught.value.status == InvalidArgument.status
