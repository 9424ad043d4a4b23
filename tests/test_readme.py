"""The README and the page of mechanisms have the code's own tables; their commands are typed by tests/documents."""

from __future__ import annotations

import re
from pathlib import Path

from private_topk.runners import RUNNERS
from private_topk.transforms.mechanisms import MECHANISMS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
TABLE = (ROOT / "docs" / "mechanisms.md").read_text()


def test_the_table_of_mechanisms_matches_the_code() -> None:
    for mechanism in MECHANISMS.values():
        a, proved = mechanism.about, mechanism.guarantee
        row = f"| `{a.name}` | {proved.privacy} | {proved.domain} | {proved.answer} | {a.when} |"
        assert row in TABLE, f"the row of {a.name} in docs/mechanisms.md should be\n{row}"


def test_every_runner_and_document_is_named() -> None:
    for runner in RUNNERS:
        assert f"`{runner}`" in README
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in README
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", README):
        assert (ROOT / link).exists(), link
