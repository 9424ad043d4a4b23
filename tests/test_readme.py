"""README and mechanisms.md have the code's own tables; links of all pages hold. tests/documents types the rest."""

from __future__ import annotations

import re

import pytest

from private_topk.runners import RUNNERS
from private_topk.transforms.mechanisms import MECHANISMS
from tests.documents.reading import PAGES, ROOT

README = (ROOT / "README.md").read_text()
TABLE = (ROOT / "docs" / "mechanisms.md").read_text()


def test_the_table_of_mechanisms_matches_the_code() -> None:
    for mechanism in MECHANISMS.values():
        a, proved = mechanism.about, mechanism.guarantee
        row = (
            f"| `{a.name}` | `{mechanism.__name__}` | {proved.privacy} | {proved.domain} | {proved.answer} | {a.when} |"
        )
        assert row in TABLE, f"the row of {a.name} in docs/mechanisms.md should be\n{row}"


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
        assert there.exists(), link
        if place:
            headings = re.findall(r"(?m)^#+ (.*)$", there.read_text("utf-8"))
            assert place in [re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings], link
