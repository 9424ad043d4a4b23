"""Whoever is named as a source in the code is in the bibliography, with a title and a place to find it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "bibliography.md").read_text()
NAME = r"[A-Z][A-Za-zñ]+"
CITED = re.compile(rf"({NAME}(?:, {NAME})*(?: (?:&|and) {NAME}| et al\.)) ((?:19|20)\d\d)")


def test_every_source_that_code_and_documents_name_is_listed() -> None:
    cited = {}
    for path in [
        *(ROOT / "transforms").rglob("*.py"),
        *(ROOT / "pipelines").rglob("*.py"),
        *(ROOT / "docs").glob("*.md"),
    ]:
        for names, year in CITED.findall(path.read_text().replace("\n    ", " ")):
            cited[f"{names} {year}"] = path.name
    assert len(cited) > 20
    for source, where in cited.items():
        last = source.replace("and", "&")
        assert source in PAGE or last in PAGE or is_listed_in_full(source), f"{source}, named in {where}"


def is_listed_in_full(source: str) -> bool:
    """Whether all names and the year stand in one entry."""
    words = re.findall(rf"{NAME}|\d{{4}}", source)
    return any(all(word in entry for word in words) for entry in PAGE.split("\n- **"))


def test_every_entry_has_a_title_and_a_place() -> None:
    for entry in PAGE.split("\n- **")[1:]:
        assert re.search(r"\*[^*].*?\*", entry.partition("**")[2], re.S), entry
        assert re.search(r"arXiv:\d{4}\.\d{4,5}|doi:10\.|UAI|Workshop|Manuscript", entry), entry
