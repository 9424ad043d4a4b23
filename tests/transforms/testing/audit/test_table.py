"""The table of the audits of all mechanisms."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.audits import table
from private_topk.pipelines.audit import Check
from private_topk.transforms.testing.audit.datasets import cases_of


def test_every_bound_stands_in_its_cell() -> None:
    cases = cases_of(["laplace"])
    checks = [Check(case, bound=n / 10, through_beam=0.25 if n == 0 else None) for n, case in enumerate(cases)]
    checks += [Check(cases[2], bound=0.0, where="noise of counts", of_noise=True), Check(fault="one too many")]
    checks[4] = replace(checks[4], bound=2.5)
    lines = table({"laplace": [check.as_json() for check in checks]}).splitlines()
    assert (
        lines[2]
        == "| laplace | 0.00 / 0.25, 2.50, 0.10 | 0.20, 0.50, 0.30 | 0.60, 0.90 | 0.70, 1.00 | 0.80, 1.10 | 0.00 |"
    )
    assert lines[-1] == "14 checks, 2 that do not hold"
