"""Benchmarks that nobody runs die silently: all of them start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks

FOLDER = Path(benchmarks.__path__[0])
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text("utf-8"))


@pytest.mark.nightly
@pytest.mark.parametrize("module", MODULES)
def test_every_benchmark_starts(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", f"benchmarks.{module}", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("usage: "), done.stderr
