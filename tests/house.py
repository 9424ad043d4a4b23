"""The Python files of the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FRONT = ROOT / "src" / "private_topk"
ROOMS = tuple(sorted(path.name for path in FRONT.iterdir() if path.is_symlink()))
PRODUCT = sorted([FRONT / "__init__.py", *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))])
PYTHON = PRODUCT + sorted((ROOT / "tests").rglob("*.py"))
