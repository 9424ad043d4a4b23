"""The audit says so where the path has a defect: each is planted in the product itself, at the seam where it would be.

With the seed used here every defect is found; a right path fails an audit at the default confidence for one seed in a
thousand at most.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from private_topk.pipelines import audit as auditing
from private_topk.transforms.testing.audit.datasets import Asked, cases_for, cases_of
from tests.nightly import nightly
from tests.pipelines.support import command
from tests.transforms.testing.audit.planted import DEFECTS

NIGHTLY = {"no labels in the digest", "counts bounded by one"}
"""The digest is seen without its seed too, and a bound where the limit is one more."""


@pytest.mark.parametrize("defect", [nightly(each) if each in NIGHTLY else each for each in DEFECTS])
def test_a_planted_defect_is_found(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the audit's checks only the one that sees it is run here, which saves time and nothing else."""
    plant, check, _, _, mechanism, draws, said, _ = DEFECTS[defect]
    case = DEFECTS[defect].case(mechanism)
    monkeypatch.setattr(auditing, "cases_of", lambda names: [case])
    if check != "counts":
        monkeypatch.setattr(auditing, "wrong_counts", lambda sampler: iter(()))
    plant(monkeypatch)
    done = command(
        "audit", f"--mechanism={mechanism}", f"--draws={draws}", "--beam-draws=0", "--seed=planted", "--stop"
    )
    assert done.status == 1 and "checks failing: see the lines marked" in done.err, done
    assert said in done.out and sum("EXCEEDED" in line or "WRONG" in line for line in done.out.splitlines()) == 1, (
        done.out
    )


@pytest.mark.long
def test_the_audit_passes_a_correct_mechanism_through_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users, amounts with counts, and groups of which two change: three cases of thirteen, and a test of the noise."""
    whole = cases_of(["laplace"])
    wanted = [("users", "add-remove", True), ("amounts", "replace-one", True), ("groups", "replace-one", False)]
    some = [next(case for case in whole if (case.of, case.neighbours, case.counted) == one) for one in wanted]
    monkeypatch.setattr(auditing, "cases_of", lambda names: some)
    done = command("audit", "--mechanism=laplace", "--draws=40", "--beam-draws=20", "--seed=right")
    assert done.status == 0 and "no bound is above what is declared, in 4 checks" in done.out, done
    lines = [line for line in done.out.splitlines() if line.startswith("laplace")]
    assert [line.split()[3] for line in lines] == ["users", "users", "amounts", "groups"] and len(whole) == 12
    assert all(line.split()[8] == "0.00" for line in lines[1:]), "bounds of so few draws"


def test_the_audit_of_a_report_attacks_its_question(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its mechanism with its parameters, its neighbours, its counts and groups; nothing that it does not ask for."""
    file = tmp_path / "r.yaml"
    file.write_text("""report: r
source: {input: rows.csv}
domain: {file: items.txt}
window: {every: week, first: 2026-01-05}
mechanism: {name: joint, k: 10, skew: 0.7}
groups: {column: of, file: groups.txt}
budget: {epsilon: 1, neighbours: replace-one, publish_counts: 1}
release_key: env:KEY
sink: {output: 'out-{start}.csv'}
""")
    asked: list[Asked] = []
    monkeypatch.setattr(auditing, "cases_for", lambda its: asked.append(its) or cases_for(its)[:1])
    monkeypatch.setattr(auditing, "wrong_counts", lambda sampler: iter(()))
    assert command("audit", "--report", str(file), "--draws=20", "--beam-draws=0").status == 0
    cases = cases_for(asked[0])
    assert {(case.neighbours, case.of, case.counted) for case in cases} == {
        ("replace-one", "users", False),
        ("replace-one", "users", True),
        ("replace-one", "groups", False),
    }
    assert all(case.spec.mechanism.parameter("skew") == Fraction(7, 10) for case in cases)
    few = "--draws=20", "--beam-draws=0"
    assert "not attacked" not in command("audit", "--report", str(file), *few).out
    file.write_text(file.read_text().replace("{file: items.txt}", "{unknown: true, remember: true}"))
    assert command("audit", "--report", str(file), *few).out.splitlines()[-1:] == [
        "not attacked: items that are listed beside an unknown domain",
    ]
    both = command("audit", "--report", str(file), "--mechanism", "joint")
    assert both.status == 2 and "--report does not go with --mechanism" in both.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--draws=3"], "--draws must be at least 20, got 3"),
        (["--beam-draws=3"], "--beam-draws must be 0 or at least 20"),
        (["--confidence=1"], "--confidence must be between 0 and 1"),
        (["--mechanism=jiont"], "did you mean joint?"),
        (["--draw=3"], "did you mean --draws?"),
    ],
)
def test_invalid_options_of_an_audit_are_refused(words: list[str], said: str) -> None:
    done = command("audit", *words)
    assert done.status == 2 and said in done.err and done.out == "", done
