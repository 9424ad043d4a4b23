"""README and mechanisms.md name what the code has; links of all pages hold. tests/documents types the rest."""

from __future__ import annotations

import re

import pytest

from private_topk.runners import RUNNERS
from private_topk.transforms.mechanisms import MECHANISMS
from tests.documents.reading import PAGES, ROOT

README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "mechanisms.md").read_text()


def test_the_table_of_mechanisms_matches_the_code() -> None:
    told: dict[str, list[str]] = {}
    for mechanism in MECHANISMS.values():
        proved = mechanism.guarantee
        a_set = ", a set" if proved.answer == "set" else ""
        kind = f"{proved.domain}, {'pure' if proved.privacy == 'pure' else 'with a delta'}"
        told.setdefault(kind, []).append(f"`{mechanism.about.name}` (`{mechanism.__name__}`{a_set})")
    rows = [f"| {kind} | {', '.join(each)} |" for kind, each in told.items()]
    assert [line for line in PAGE.splitlines() if line.startswith("|")][2:] == rows, "\n".join(rows)


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
