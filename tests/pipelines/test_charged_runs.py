"""Runs of the command line with a ledger and with a user's total: real pipelines, real databases."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from private_topk.pipelines.budget.composition import rho_within
from private_topk.pipelines.budget.ledger import Ledger
from private_topk.pipelines.show import spending
from private_topk.transforms.mechanisms import noise_of_counts
from tests.pipelines.charged import arguments, create, place, with_ledger
from tests.pipelines.support import Done, command

__all__ = ["place"]


def said_by(*words: str, status: int = 0) -> Done:
    done = command(*words)
    assert done.status == status, done
    return done


def test_a_user_s_total_is_split_and_the_manifest_says_so(place: Path) -> None:
    total = ["--privacy-unit", "user", "--epsilon", "1", "--delta", "1e-6"]
    said_by(*arguments("six", *total, weeks=6))
    privacy = json.loads((place / "six.manifest.json").read_text())["privacy"]
    assert (privacy["epsilon"], privacy["delta"], privacy["guarantee"]) == (1, 1e-6, "approximate")
    assert (privacy["windows"], privacy["accounting"]) == (6, "zcdp")
    share = privacy["share_of_a_window"]["epsilon"]
    assert 1 / 6 < share and 6 * Fraction(share) ** 2 / 8 <= rho_within(Fraction(1), Fraction(1e-6))
    said_by(*arguments("one", *total, "--horizon", "6"))
    one = json.loads((place / "one.manifest.json").read_text())
    assert one["privacy"]["share_of_a_window"] == privacy["share_of_a_window"] and len(one["windows"]) == 1
    assert one["parameters"]["epsilon"] == share


@pytest.mark.parametrize("before", [0, 1])
def test_a_run_and_its_dry_run_say_what_the_ledger_holds_then(place: Path, before: int) -> None:
    """After a pure release Gaussian noise is charged by its epsilon, which is then more than the declared total."""
    url = "sqlite:///budget.db"
    create(url, "--epsilon", "1.75", "--delta", "1e-6", "--privacy-unit", "user")
    asked = ["--privacy-unit", "user", "--mechanism", "gaussian", "--delta", "1e-7", "--max-items-per-user", "1"]
    for number in range(before):
        said_by(*arguments(f"{number}", *with_ledger(url, "--privacy-unit", "user", "--epsilon", "1")))
    run = arguments("a", *with_ledger(url, *asked, "--epsilon", "0.3"), weeks=6)
    said = []
    for words in ([*run, "--dry-run"], run):
        done = said_by(*words)
        said += re.findall(r"(?:run fits and costs|to dataset plays:) (.*?); ", done.out + done.err)
    history = said_by("budget", "history", "--ledger", url).out
    charges = [line for line in history.splitlines() if " gaussian " in line]
    *_, epsilon, rho, delta, _, _ = charges[-1].split()
    by_epsilon = f"epsilon {epsilon} added up, or rho {rho} by zCDP, delta {delta}"
    assert said == 2 * [by_epsilon if before else f"rho {rho}"], said
    assert not before or float(epsilon) > 0.3


@pytest.mark.parametrize(
    ("unit", "epsilon"),
    [
        ("user-window", "0.3"),
        ("user", "0.30000000000000001"),
        ("user", "0.3000001"),
        ("user-window", "1.2999999999999999999"),
    ],
)
def test_no_number_states_less_than_was_spent(place: Path, unit: str, epsilon: str) -> None:
    """In the manifest, on the terminal and on the page; and what was given as a decimal stays one."""
    url = "sqlite:///budget.db"
    create(url, "--epsilon", "1.4", "--privacy-unit", unit)
    run = arguments("a", *with_ledger(url, "--epsilon", epsilon, "--privacy-unit", unit))
    said = [re.findall(r"epsilon (\S+?),? ", said_by(*run, "--dry-run").out)[0]]
    said_by(*run)
    manifest = (place / "a.manifest.json").read_text()
    said.append(str(json.loads(manifest, parse_float=str)["privacy"]["epsilon"]))
    for words in (["budget", "show"], ["budget", "history"]):
        shown = json.loads(said_by(*words, "--ledger", url, "--json").out, parse_float=str)
        said.append(shown["budgets"][0]["spent"]["epsilon"] if "budgets" in shown else shown["charges"][0]["epsilon"])
    said.append(re.findall(r"spent +epsilon (\S+),", said_by("budget", "show", "--ledger", url).out)[0])
    said_by("show", "a.csv", "--html", "page.html")
    said.append(re.findall(r"e\^([0-9.]+) ", (place / "page.html").read_text())[0])
    assert all(Fraction(number) >= Fraction(epsilon) for number in said), said
    assert all(Fraction(number) <= Fraction(epsilon) * Fraction("1.00001") for number in said), said
    assert epsilon != "0.3" or said == ["0.3"] * 6


@pytest.mark.parametrize(
    "mechanism",
    [
        ["--mechanism", "gaussian", "--max-items-per-user", "1"],
        ["--mechanism", "oneshot", "--noise", "laplace", "--publish-counts", "0.25", "--publish-counts-delta", "1e-7"],
    ],
    ids=lambda words: words[1],
)
def test_runs_of_a_horizon_fill_the_ledger_exactly(place: Path, mechanism: list[str]) -> None:
    url = "sqlite:///budget.db"
    epsilon, delta = ("1.25", "1.1e-6") if "--publish-counts" in mechanism else ("1", "1e-6")
    create(url, "--epsilon", epsilon, "--delta", delta, "--privacy-unit", "user")
    total = ["--privacy-unit", "user", "--epsilon", "1", "--delta", "1e-6", "--horizon", "12", *mechanism]
    for name, used in (("first six", "50.0%"), ("next six", "100.0%")):
        done = said_by(*arguments(name, *with_ledger(url, *total), weeks=6))
        assert f"{used} of the budget is used" in done.err
    assert "does not suffice" in said_by(*arguments("one more", *with_ledger(url, *total)), status=2).err


@pytest.mark.long
def test_show_history_and_plot(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "sqlite:///budget.db"
    create(url, "--epsilon", "2", "--delta", "1e-6")
    create(url, "--epsilon", "8", "--privacy-unit", "user")
    said_by(*arguments("weekly", *with_ledger(url, "--epsilon", "0.5"), weeks=2))
    shown = said_by("budget", "show", "--ledger", url, "--plot", "spent.svg").out
    assert "25.0% used" in shown and "12.5% used by 1 charge\n" in shown
    assert (place / "spent.svg").read_text().startswith("<?xml")
    charged = [(datetime.fromisoformat("2026-01-05T09:52Z") + timedelta(minutes=5 * n), n / 4) for n in range(3)]
    monkeypatch.setattr(spending, "_course", lambda *_: charged)
    said_by("budget", "show", "--ledger", url, "--plot", "spent.svg")
    drawn = (place / "spent.svg").read_text()
    assert "<!-- 2026-Jan-05 -->" in drawn and "<!-- 09:55 -->" in drawn, "the axis of one hour tells the day too"
    head, row = said_by("budget", "history", "--ledger", url, "--dataset", "plays").out.splitlines()
    assert head.split()[:5] == ["charged", "(UTC)", "dataset", "unit", "report"]
    assert "2 windows of 7 days, 2026-01-05 to 2026-01-19 UTC  " in row and row.endswith("released")


def test_a_preview_without_counts_prints_every_accounting() -> None:
    weekly = ["preview", "--epsilon=1", "--delta=1e-6", "--privacy-unit=user", "--horizon=52", "--mechanism"]
    printed = said_by(*weekly, "joint", "--k", "10").out
    rows = {line.split()[0]: line for line in printed.splitlines() if line.startswith("  ")}
    assert rows["zcdp"].split()[1] == "0.0612133183" and "<- tightest" in rows["zcdp"]
    assert rows["basic"].split()[1].startswith("0.0192307")
    assert "where all noise is Gaussian" in rows["gaussian"]
    printed = said_by(*weekly, "gaussian", "--max-items-per-user", "3").out
    parts = {line.split("  ")[1]: line.split() for line in printed.splitlines() if line.startswith("  ")}
    assert parts["gaussian"][1:4] == ["0.1206507912", "1e-06", "6.27"] and parts["zcdp"][1] == "0.1119462381"
    printed = said_by(*weekly, "oneshot,laplace").out
    assert re.search(r"\n  optimal .*<- tightest\n", printed) and printed.count("In a run: ") == 2


@pytest.mark.parametrize(
    ("more", "share", "rankings"),
    [
        (["--mechanism=joint", "--groups-per-user=2"], 1 / 4, "2 rankings"),
        (["--mechanism=joint", "--neighbours=replace-one", "--groups-per-user=1"], 1 / 2, "1 ranking"),
        (
            [
                *("--mechanism=limit-domain", "--unknown-domain", "--max-items-per-user=3"),
                *("--delta=1e-6", "--neighbours=replace-one", "--groups-per-user=1"),
            ],
            1 / 4,
            "2 rankings",
        ),
    ],
)
def test_a_preview_counts_the_rankings_of_groups(more: list[str], share: float, rankings: str) -> None:
    """As a run shares its budget: over what a user who comes, goes or is replaced can change."""
    asked = ["preview", "--epsilon=1", "--privacy-unit=user", "--horizon=4", "--publish-counts=1", "--k=9"]
    printed = said_by(*asked, *more).out
    basic = next(line.split() for line in printed.splitlines() if line.startswith("  basic"))
    assert float(basic[1]) == pytest.approx(share) and f"{rankings} in each" in printed
    assert "epsilon of a ranking" in printed and more[-1].replace("=", " ") in printed.partition("In a run: ")[2]
    if "joint" in more[0]:
        swapped = "--neighbours=replace-one" in more
        noise = noise_of_counts(9, share / 2, None, None, "replace-one" if swapped else "add-remove", 1, moving=swapped)
        assert f"(standard deviation {noise.stddev():g})" in printed


def test_a_budget_is_not_evaded_by_reading_the_rows_otherwise(place: Path) -> None:
    """By another column of times the same rows lie in weeks that have spent nothing; by another of users they are
    other people's."""
    rows = (place / "rows.csv").read_text().splitlines()
    added = ["added", *(row.rpartition(",")[2].replace("2026-", "2027-") for row in rows[1:])]
    (place / "rows.csv").write_text("".join(f"{row},{time}\n" for row, time in zip(rows, added, strict=True)))
    url = "sqlite:///budget.db"
    create(url, "--epsilon", "1")

    def run(report: str, *more: str, status: int = 0) -> str:
        return said_by(*arguments(report, *with_ledger(url, "--epsilon", "1"), *more), status=status).err

    run("a")
    for more, said in [
        (["--time-column", "added"], "--time-column must be time for dataset plays, as in its charge of "),
        (["--time-unit", "ms"], "--time-unit must be s for dataset plays, as in its charge of "),
        (["--user-column", "added"], "--user-column must be user for dataset plays, as in its charge of "),
        (["--user-column", "item"], "--user-column must be another column than --item-column"),
    ]:
        assert said in run("b", *more, status=2)
        assert not list(place.glob("b.*"))
    assert len(Ledger(url).read().charges) == 1
