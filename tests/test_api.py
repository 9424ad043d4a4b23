"""docs/api.md: every name is there. Its example is run by tests/documents."""

from __future__ import annotations

import re
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
