"""Pictures of previews: a line for every mechanism, over the ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from private_topk.pipelines.preview import Setting, Zipf, preview_of
from private_topk.pipelines.preview.plot import plot
from private_topk.transforms.errors import Refusal

SHAPE = Zipf(1.0, 100, 1000, 5)
NAMES = ("joint", "peeling", "canonical")
SETTING = Setting(4, 1.0)


def drawn(path: Path) -> str:
    text = path.read_text()
    return " ".join(re.findall(r"<!-- (.*?) -->", text))


def test_one_setting_by_its_ranks(tmp_path: Path) -> None:
    plot(preview_of(SHAPE, SETTING, NAMES, 5), str(tmp_path / "one.svg"))
    said = drawn(tmp_path / "one.svg")
    assert all(name in said for name in (*NAMES, "rank", "l_1 error, in users", "Zipf 1: 100 items"))


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    one = preview_of(SHAPE, SETTING, NAMES, 2)
    with pytest.raises(Refusal, match="plot .*one.txt must end with one of .png, .svg, .pdf"):
        plot(one, str(tmp_path / "one.txt"))
    with pytest.raises(Refusal, match="cannot be written"):
        plot(one, str(tmp_path / "nowhere" / "one.svg"))
