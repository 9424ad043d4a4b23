"""docs/own-mechanism.md does what it says: its code and its commands run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "own-mechanism.md").read_text()
MODULE, CHECKS, USE = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("own")
    (place / "winner.py").write_text(MODULE)
    return place


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        words, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120
    )


def test_the_checks_pass_on_the_page_s_mechanism(folder: Path) -> None:
    (folder / "checks.py").write_text(CHECKS)
    done = run(folder, sys.executable, "checks.py")
    assert done.returncode == 0, done.stderr
    for line, epsilon in zip(done.stdout.splitlines(), (1, 2), strict=True):
        name, spent = line.split(": ")
        assert name == "winner-first" and epsilon / 2 < float(spent.split(" of ")[0]) <= epsilon


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("step / winner", "1 / (2 * winner)", "chi-square"),
        ("lane=1", "lane=0", "chi-square"),
        ("rho=first.rho + ", "rho=", "exceeds"),
        ("np.delete(np.arange(len(counts)), chosen)", "np.arange(len(counts))", "AssertionError"),
    ],
)
def test_the_checks_see_a_mistake(folder: Path, tmp_path: Path, right: str, wrong: str, said: str) -> None:
    assert right in MODULE
    (tmp_path / "winner.py").write_text(MODULE.replace(right, wrong))
    (tmp_path / "checks.py").write_text(CHECKS)
    done = run(tmp_path, sys.executable, "checks.py")
    assert done.returncode == 1 and said in done.stderr


def test_the_commands_print_what_the_page_shows(folder: Path) -> None:
    shown = re.search(r"```\n(\$ printf.*?)```", PAGE, re.S)
    assert shown is not None
    commands = [line[2:] for line in shown[1].splitlines() if line.startswith("$ ")]
    printed = "".join(line + "\n" for line in shown[1].splitlines() if not line.startswith("$ "))
    done = run(folder, "sh", "-c", "\n".join(commands))
    assert (done.stdout, done.stderr) == (printed, "")


def test_the_python_lines_print_what_they_say(folder: Path) -> None:
    done = run(folder, sys.executable, "-c", USE)
    assert (done.stdout, done.stderr) == ("[0 1]\n", "")
