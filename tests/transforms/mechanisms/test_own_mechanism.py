"""The checks of docs/own-mechanism.md see mistakes. That they pass on the page's mechanism, tests/documents type."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "own-mechanism.md").read_text()
MODULE, CHECKS, _ = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("step / winner", "1 / (2 * winner)", "chi-square"),
        ("lane=1", "lane=0", "chi-square"),
        ("rho=first.rho + ", "rho=", "exceeds"),
        ("np.delete(np.arange(len(counts)), chosen)", "np.arange(len(counts))", "must answer with"),
    ],
)
def test_the_checks_find_a_mistake_in_an_own_mechanism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, said: str
) -> None:
    assert right in MODULE
    (tmp_path / "winner.py").write_text(MODULE.replace(right, wrong))
    (tmp_path / "checks.py").write_text(CHECKS)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("winner", None)
    try:
        with pytest.raises((AssertionError, ValueError), match=said):
            runpy.run_path(str(tmp_path / "checks.py"), run_name="__main__")
    finally:
        sys.modules.pop("winner", None)
