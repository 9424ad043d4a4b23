"""Decimals are decimals, sums are exact, and numbers beyond reason are refused before any arithmetic."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from private_topk.pipelines.budget import Budget, Composition, Ledger, Request, Total, Windows, share_out
from private_topk.pipelines.budget.composition import shares
from private_topk.pipelines.budget.sharing import Split
from private_topk.pipelines.cli import main
from private_topk.transforms.errors import InvalidArgument, plain
from private_topk.transforms.mechanisms import MECHANISMS
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from private_topk.transforms.mechanisms.parameters import decimal
from private_topk.transforms.stated import number

JOINT = MECHANISMS["joint"]
URL = "sqlite:///budget.db"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("user,item\n" + "".join(f"u{n},item {n % 3}\n" for n in range(60)))
    (tmp_path / "items.txt").write_text("item 0\nitem 1\nitem 2\n")
    (tmp_path / "key").write_text("a key of enough bytes")
    return tmp_path


def run(report: str, *more: str) -> int:
    return main(
        [
            *(
                "run --input rows.csv --domain items.txt --mechanism joint --k 2 --quiet --release-key file:key "
                f"--release-id {report} --output {report}.csv"
            ).split(),
            *more,
        ]
    )


def charged(*more: str) -> list[str]:
    return ["--ledger", URL, "--dataset", "plays", *more]


def test_nine_tenths_and_one_tenth_are_one(place: Path) -> None:
    assert main(["budget", "create", *charged("--epsilon", "1")]) == 0
    assert run("a", *charged("--epsilon", "0.9")) == 0
    assert run("b", *charged("--epsilon", "0.1")) == 0
    assert run("c", *charged("--epsilon", "1e-9")) == 2
    costs = [entry.cost.epsilon for entry in Ledger(URL).read().charges]
    assert costs == [Fraction(9, 10), Fraction(1, 10)]
    assert json.loads((place / "b.manifest.json").read_text())["privacy"]["epsilon"] == 0.1


def test_a_decimal_names_the_same_draw_as_its_float() -> None:
    """So that rankings under a key are what they were before budgets were decimals."""
    for text in ("0.1", "0.9", "1", "1e-6", "2.5", "0.3333333333333333", "1e22"):
        exact, near = JOINT(decimal(text)), JOINT(float(text))
        assert exact.parameters() == near.parameters() and json.dumps(exact.parameters())
        assert exact.cost(3).epsilon == Fraction(text)
    assert CountBudget(Fraction("0.1"), Fraction("1e-6")).parameters() == {"epsilon": 0.1, "delta": 1e-6}
    assert plain(Fraction(1, 3)) == "1/3" and JOINT(1.0, skew=Fraction(3, 5)).parameters()["skew"] == "3/5"


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e999999999", "1e-999999999", "0", "-0", "1" * 400])
def test_a_decimal_beyond_all_floats_stays_a_float(text: str) -> None:
    assert isinstance(decimal(text), float)


def test_floats_of_python_are_the_binary_numbers_they_are(place: Path) -> None:
    """And a refusal by a hair shows the hair."""
    ledger = Ledger(URL)
    ledger.create(Budget.of("plays", 1))

    def request(report: str, epsilon: float) -> Request:
        cost = JOINT(epsilon).cost(3)
        return Request("plays", "user-window", report, "k", "f" * 64, {"mechanism": "joint"}, Windows.of(None), cost)

    ledger.charge(request("a", 0.9))
    hair = r"0\.90{10,}\d+ spent \+ 0\.10{10,}\d+ asked = 1\.0{10,}\d+, over 1, by less than the rounding of a float"
    with pytest.raises(InvalidArgument, match=hair):
        ledger.charge(request("b", 0.1))
    with pytest.raises(InvalidArgument, match="= 1.0000001, over 1\n"):  # as decimals are
        ledger.charge(request("c", Fraction("0.1000001") - (Fraction(0.9) - Fraction("0.9"))))
    assert number(Fraction(0.1)) == "0.1" and number(Fraction(0.1), 24) == "0.100000000000000005551116"


@pytest.mark.parametrize("epsilon", ["0.1", "0.3", "1", "0.7", "3.3"])
@pytest.mark.parametrize("windows", [1, 2, 3, 7, 10, 49])
@pytest.mark.parametrize("held", [False, True])
def test_shares_never_sum_to_more_than_the_decimal(epsilon: str, windows: int, held: bool) -> None:
    total = Fraction(epsilon)
    ledgers = Total(2 * total) if held else None
    counts = CountBudget(total)
    shared = share_out(JOINT(total), 3, counts, composition=Composition("user", windows), held=ledgers)
    assert shared.counts is not None
    share = Fraction(shared.mechanism.parameter("epsilon")) + Fraction(shared.counts.epsilon)
    assert 2 * total * (1 - Fraction(1, 2**50)) <= windows * share <= 2 * total
    if windows == 1:
        assert (shared.mechanism, shared.counts) == (JOINT(total), counts), "the total itself"


@pytest.mark.parametrize("epsilon", ["1e-100", "1e6"])
@pytest.mark.parametrize("delta", ["0.999999", "1e-100"])
@pytest.mark.parametrize("windows", [1, 100, 10**15])
def test_shares_are_found_at_extreme_budgets_and_numbers_of_windows(epsilon: str, delta: str, windows: int) -> None:
    mechanism = JOINT(Fraction(epsilon))
    split = Split(mechanism, 3, None, Fraction(delta))
    found = shares(split.price, split.spendable, windows)
    assert 0 < found["basic"].epsilon * windows <= Fraction(epsilon)
