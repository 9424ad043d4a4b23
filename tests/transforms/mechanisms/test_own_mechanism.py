"""The checks of docs/own-mechanism.md see mistakes. That they pass on the page's mechanism, tests/documents type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quick import in_check

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "own-mechanism.md").read_text()
MODULE, CHECKS, _ = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        words, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=600
    )


@in_check("lane*")
@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("step / winner", "1 / (2 * winner)", "chi-square"),
        ("lane=1", "lane=0", "chi-square"),
        ("rho=first.rho + ", "rho=", "exceeds"),
        ("np.delete(np.arange(len(counts)), chosen)", "np.arange(len(counts))", "must answer with"),
    ],
)
def test_the_checks_see_a_mistake(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    assert right in MODULE
    (tmp_path / "winner.py").write_text(MODULE.replace(right, wrong))
    (tmp_path / "checks.py").write_text(CHECKS)
    done = run(tmp_path, sys.executable, "checks.py")
    assert done.returncode == 1 and said in done.stderr
