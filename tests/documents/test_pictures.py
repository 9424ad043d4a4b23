"""Every picture of a page is there, and `python -m benchmarks.pictures` draws it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.pictures import PICTURES, main

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_pages_show_the_pictures_that_are_drawn() -> None:
    shown = {
        name: page.name
        for page in DOCS.glob("*.md")
        for name in re.findall(r"!\[[^\]]+\]\(pictures/(\w+)\.svg\)", page.read_text())
    }
    assert shown.keys() == PICTURES.keys() == {path.stem for path in (DOCS / "pictures").glob("*.svg")}
    for name in shown:
        assert (DOCS / "pictures" / f"{name}.svg").read_text().count("<svg") == 1


@pytest.mark.parametrize("name", ["counts", "to_date"])
def test_pictures_without_data_match_a_fresh_drawing(name: str, tmp_path: Path) -> None:
    main(["--picture", name, "--folder", str(tmp_path), "--draws", "2"])
    drawn = (tmp_path / f"{name}.svg").read_text()
    kept = (DOCS / "pictures" / f"{name}.svg").read_text()
    words = re.compile(r">([^<>\n]+)</text>")
    assert words.findall(drawn) == words.findall(kept), "draw the picture anew"
