"""docs/api.md: every name is there, and its example runs."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "api.md").read_text()


def test_every_name_is_where_the_page_says() -> None:
    rows = re.findall(r"^\| (`private_topk[^|]*) \| ([^|]*) \|", PAGE, re.M)
    checked = 0
    for places, names in rows:
        module = import_module(re.findall(r"`([\w.]+)`", places)[0])
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(module, name) or name in ("Source", "Sink"), (module.__name__, name)
            checked += 1
    assert checked > 40


def test_the_example_runs(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("user,item,time\na,tea,2026-01-06\nb,cake,2026-01-14\n")
    example = PAGE.partition("```python\n")[2].partition("```")[0]
    subprocess.run([sys.executable, "-c", example], cwd=tmp_path, check=True, timeout=120)
    assert len((tmp_path / "ranking.csv").read_text().splitlines()) == 1 + 4 * 3
