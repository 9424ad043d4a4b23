"""The audit says so where the path has a defect: each is planted in the product itself, at the seam where it would be.

With the seed used here every defect is found; a right path fails an audit at the default confidence for one seed in a
thousand at most.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks.audit import __main__ as command
from benchmarks.audit import whole_path as auditing
from benchmarks.audit.__main__ import main
from benchmarks.audit.datasets import cases_of
from tests.audit.planted import DEFECTS
from tests.nightly import nightly_but

BY_DAY = ("noise for one unit", "the limit and one more")
"""One of chance and one of counts."""


@pytest.mark.parametrize("defect", nightly_but(DEFECTS, *BY_DAY))
def test_a_planted_defect_is_found(
    defect: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the audit's checks only the one that sees it is run here, which saves time and nothing else."""
    plant, check, _, _, mechanism, draws, said, _ = DEFECTS[defect]
    case = DEFECTS[defect].case(mechanism)
    monkeypatch.setattr(command, "cases_of", lambda names: [case])
    if check != "counts":
        monkeypatch.setattr(auditing, "wrong_counts", lambda sampler: iter(()))
    plant(monkeypatch)
    words = [f"--mechanism={mechanism}", f"--draws={draws}", "--beam-draws=0", "--seed=planted", "--stop"]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert said in out and sum("EXCEEDED" in line or "WRONG" in line for line in out.splitlines()) == 1, out


def test_what_a_trial_run_would_warn_of_is_no_line_of_the_audit(capsys: pytest.CaptureFixture[str]) -> None:
    """Of many windows, each with the whole budget, which no report asks for."""
    case = cases_of(["laplace"])[0]
    [(_, (dataset,), _), *_] = case.pairs
    release = auditing.Release(auditing.Sampler(b"quiet").key(4), "trial")
    assert len(auditing._published(case, dataset, 20, release)) == 20 and 20 * case.epsilon > 10
    assert capsys.readouterr() == ("", "")


def test_an_audit_says_which_epsilon_so_many_draws_could_show() -> None:
    """A sure guess, right in n fair draws, shows log(p / (1 - p)) where p**n is the risk."""
    case = cases_of(["laplace"])[0]
    plain, beam = auditing.most_shown([case], auditing.Audit(draws=2000, beam_draws=300))
    p = (0.001 / 2) ** (1 / 2400)
    assert case.delta == 0 and plain == pytest.approx(math.log(p / (1 - p)), rel=1e-6)
    assert 3 < beam < plain < 6


@pytest.mark.nightly
def test_the_audit_passes_a_correct_mechanism_through_beam(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users, amounts with counts, and groups of which two change: three cases of thirteen, and a test of the noise."""
    whole = cases_of(["laplace"])
    wanted = [("users", "add-remove", True), ("amounts", "replace-one", True), ("groups", "replace-one", False)]
    some = [next(case for case in whole if (case.of, case.neighbours, case.counted) == one) for one in wanted]
    monkeypatch.setattr(command, "cases_of", lambda names: some)
    assert main(["--mechanism=laplace", "--draws=40", "--beam-draws=20", "--seed=right"]) == 0
    out = capsys.readouterr().out
    assert "4 checks, 0 that do not hold" in out and "so many draws can show an epsilon of at most " in out, out
    lines = [line for line in out.splitlines() if line.startswith("laplace")]
    assert [line.split()[3] for line in lines] == ["users", "users", "amounts", "groups"] and len(whole) == 14
    assert all(line.split()[8] == "0.00" for line in lines[1:]), "bounds of so few draws"


def test_the_audit_of_a_report_attacks_its_question(tmp_path: Path) -> None:
    """Its mechanism with its budget and parameters, its neighbours, its counts and groups; nothing else."""
    file = tmp_path / "r.yaml"
    file.write_text("""report: r
source: {input: rows.csv}
domain: {file: items.txt}
window: {every: week, first: 2026-01-05}
mechanism: {name: joint, k: 10, skew: 0.7}
groups: {column: of, file: groups.txt}
budget: {epsilon: 3, neighbours: replace-one, publish_counts: 1.5}
release_key: env:KEY
sink: {output: 'out-{start}.csv'}
""")
    (tmp_path / "items.txt").write_text("".join(f"{n}\n" for n in range(20)))
    (tmp_path / "groups.txt").write_text("a\nb\n")
    cases = command._cases_of_report(str(file))
    assert {(case.neighbours, case.of, case.counted) for case in cases} == {
        ("replace-one", "users", False),
        ("replace-one", "users", True),
        ("replace-one", "groups", False),
    }
    assert all(case.spec.mechanism.parameter("skew") == Fraction(7, 10) for case in cases)
    assert {case.epsilon for case in cases} == {3.0, 4.5}, "with counts, whose epsilon comes on top"
    assert {case.spec.k for case in cases} == {3, 9}, "its k, where so many items are there"


@pytest.mark.parametrize("words", [["--mechanism=jiont"], ["--mechanism=joint", "--report=r.yaml"]])
def test_invalid_options_of_an_audit_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
