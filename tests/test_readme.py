"""README and mechanisms.md have the code's own tables; links of all pages hold. tests/documents types the rest."""

from __future__ import annotations

import re

import pytest

from private_topk.runners import RUNNERS
from private_topk.transforms.mechanisms import MECHANISMS
from tests.documents.reading import PAGES, ROOT

README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "mechanisms.md").read_text()


HEADINGS = {
    ("public", "pure"): "## Public items, pure",
    ("public", "approximate"): "## Public items, with a delta",
    ("unknown", "approximate"): "## Items that are not public, with a delta",
}


def test_the_tables_of_mechanisms_match_the_code() -> None:
    wanted: dict[str, list[str]] = {heading: [] for heading in HEADINGS.values()}
    for mechanism in MECHANISMS.values():
        a, proved = mechanism.about, mechanism.guarantee
        answer = "" if proved.answer == "sequence" else f" ({proved.answer})"
        row = f"| `{a.name}`{answer} | `{mechanism.__name__}` | {a.when} |"
        wanted[HEADINGS[proved.domain, proved.privacy]].append(row)
    for heading, rows in wanted.items():
        section = PAGE.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
        assert section.splitlines()[3:] == rows, f"{heading} in docs/mechanisms.md should have\n" + "\n".join(rows)


def test_every_runner_and_document_is_named() -> None:
    for runner in RUNNERS:
        assert f"`{runner}`" in README
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in README


@pytest.mark.parametrize("page", PAGES)
def test_links_hold(page: str) -> None:
    for link in re.findall(r"\]\((?!http)([^) ]+)\)", (ROOT / page).read_text("utf-8")):
        path, _, place = link.partition("#")
        there = (ROOT / page).parent / path if path else ROOT / page
        assert there.is_file(), f"{link}: the site links files, not folders"
        if place:
            headings = re.findall(r"(?m)^#+ (.*)$", there.read_text("utf-8"))
            assert place in [re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings], link
