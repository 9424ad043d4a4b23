"""The site: built without a warning, whole, its links and its search without a server or a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from private_topk.transforms.mechanisms import MECHANISMS
from tests.documents.reading import ROOT

pytestmark = [pytest.mark.long, pytest.mark.nightly]

WANTED = (
    "docs/five-minutes docs/choosing docs/run docs/privacy docs/windows docs/budget docs/flink docs/dataflow "
    "docs/mechanisms api/index search"
).split()


class Page(HTMLParser):
    """The links of a page, what it loads, and the places in it that a link may name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {str(given[name]) for name in ("id", "name") if name in given}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag in ("script", "img") and given.get("src"):
            self.loads.append(str(given["src"]))
        if tag == "link" and given.get("rel") == "stylesheet":
            self.loads.append(str(given["href"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "html"
    words = [sys.executable, str(ROOT / "docs/site/build.py"), str(folder), "--draws", "10"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return folder


def test_every_page_is_there_and_every_mechanism_has_its_preview(site: Path) -> None:
    for name in WANTED + [f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")]:
        assert (site / f"{name}.html").exists(), name
    contents = (site / "index.html").read_text("utf-8")
    for name in MECHANISMS:
        page = (site / "mechanisms" / f"{name}.html").read_text("utf-8")
        assert "In a run:" in page and f"mechanisms/{name}.html" in contents


def test_links_hold_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    assert len(pages) > 50
    for path, page in pages.items():
        for link in page.loads + page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert link in page.links, f"{path}: loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids | {""}, f"{path}: {link}"


def test_the_search_knows_every_mechanism_without_a_server(site: Path) -> None:
    """The index is a script, which a browser loads from a file too."""
    text = (site / "searchindex.js").read_text("utf-8")
    index = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)\s*", text, re.S)[1])
    assert {"peel", "canon", "ledger", "epsilon"} <= set(index["terms"]) and "docs/five-minutes" in index["docnames"]


def test_the_reference_has_every_promised_name(site: Path) -> None:
    found = "".join(path.read_text("utf-8") for path in (site / "api").glob("*.html"))
    named = re.findall(
        r"`(\w+)`",
        re.search(r"(?m)^\| `private_topk` \| `PrivateTopK`.*$", (ROOT / "docs/api.md").read_text("utf-8"))[0],
    )
    for name in {*named, "rank", "preview", "Joint", "Ledger"} - {"private_topk", "__version__"}:
        assert re.search(rf'id="private_topk[\w.]*\.{name}"', found), name
