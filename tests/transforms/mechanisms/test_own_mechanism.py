"""The checks of the example of docs/own-mechanism.md see mistakes. That they pass, tests/documents type."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
MODULE = (EXAMPLES / "winner_first.py").read_text()


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("step / winner", "1 / (2 * winner)", "chi-square"),
        ("step / other", "step / (winner if counts[0] - counts[-1] > 10 else other)", "chi-square"),
        ("lane=1", "lane=0", "lane must be another for every noise"),
        ("rho=first.rho + ", "rho=", "exceeds"),
        ("np.delete(np.arange(len(counts)), chosen)", "np.arange(len(counts))", "must answer with"),
    ],
)
def test_the_checks_find_a_mistake_in_an_own_mechanism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, said: str
) -> None:
    assert right in MODULE
    (tmp_path / "winner_first.py").write_text(MODULE.replace(right, wrong))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("winner_first", None)
    try:
        with pytest.raises((AssertionError, ValueError), match=said):
            runpy.run_path(str(EXAMPLES / "check_winner_first.py"), run_name="__main__")
    finally:
        sys.modules.pop("winner_first", None)
