"""The page in a browser, where there is one: nothing is loaded, nothing runs, and it fits a phone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from private_topk.pipelines.show.page import page
from tests.pipelines.show.rankings import PAGES

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(BROWSER is None and not os.environ.get("CI"), reason="no chromium here"),
]

_PROBE = """<iframe id="f" src="page.html" width="360" height="800"></iframe><pre id="out"></pre><script>
f.onload = () => { const d = f.contentDocument, w = f.contentWindow;
  const wide = [...d.querySelectorAll('.wide')].filter(e => e.getBoundingClientRect().right > 361).length;
  out.textContent = [d.documentElement.scrollWidth <= 360, wide, d.scripts.length, w.ran === undefined,
    w.performance.getEntriesByType('resource').length, d.querySelectorAll('main').length].join(' '); }</script>"""


@pytest.mark.parametrize("name", ["weeks", "hostile groups", "a year", "not private"])
def test_a_page_fits_a_phone_and_loads_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page(PAGES[name]))
    (tmp_path / "probe.html").write_text(_PROBE)
    assert BROWSER is not None
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    words += ["--virtual-time-budget=5000", f"--user-data-dir={tmp_path}/profile", f"file://{tmp_path}/probe.html"]
    done = subprocess.run([BROWSER, *words], capture_output=True, text=True, timeout=120)
    assert '<pre id="out">true 0 0 true 0 1</pre>' in done.stdout, done.stdout[-500:]
