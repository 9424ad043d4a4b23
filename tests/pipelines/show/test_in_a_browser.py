"""The page in a browser, where there is one: nothing is loaded, nothing runs, and it fits a phone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from private_topk.pipelines.show.charts import Picture, bump_chart
from private_topk.pipelines.show.page import page
from private_topk.pipelines.show.templates import STYLE
from tests.pipelines.show.rankings import PAGES

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(BROWSER is None and not os.environ.get("CI"), reason="no chromium here"),
]

_NAMES = ["weeks", "hostile groups", "a year", "not private"]
_PROBE = """<pre id="out"></pre><pre id="size"></pre><script>
const sizes = (d, w) => [...d.querySelectorAll('.axes text')].map(e => w.getComputedStyle(e).fontSize);
const s = document.createElement('iframe'); s.src = 'places.svg';
s.onload = () => { size.textContent = [...new Set(sizes(s.contentDocument, s.contentWindow))]; };
document.body.append(s);
for (let n = 0; n < %d; n++) {
  const f = document.createElement('iframe');
  f.width = 360; f.height = 800; f.src = n + '.html';
  f.onload = () => { const d = f.contentDocument, w = f.contentWindow;
    d.querySelectorAll('details').forEach(e => e.open = true);
    const wide = [...d.querySelectorAll('.wide')].filter(e => e.getBoundingClientRect().right > 361).length;
    out.textContent += [d.documentElement.scrollWidth <= 360, wide, d.scripts.length, w.ran === undefined,
      w.performance.getEntriesByType('resource').length, d.querySelectorAll('main').length,
      sizes(d, w).every(e => e == '13px')].join(' ') + ';'; };
  document.body.append(f); }</script>"""


def test_pages_fit_a_phone_and_load_nothing(tmp_path: Path) -> None:
    for n, name in enumerate(_NAMES):
        (tmp_path / f"{n}.html").write_text(page(PAGES[name]))
    Picture(bump_chart(PAGES["weeks"].by_group()[None], "places"), STYLE).save(tmp_path / "places.svg")
    (tmp_path / "probe.html").write_text(_PROBE % len(_NAMES))
    assert BROWSER is not None
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    words += ["--virtual-time-budget=5000", f"--user-data-dir={tmp_path}/profile", f"file://{tmp_path}/probe.html"]
    done = subprocess.run([BROWSER, *words], capture_output=True, text=True, timeout=120)
    assert f'<pre id="out">{"true 0 0 true 0 1 true;" * len(_NAMES)}</pre>' in done.stdout, done.stdout[-500:]
    assert '<pre id="size">13px</pre>' in done.stdout, "a saved picture has the letters of the page"
