"""polars is loaded when there is enough to do for it, however many steps it comes in, and sorts as numpy does."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from private_topk.transforms.polars_later import Spared

SORT = """
import sys
import numpy as np
from private_topk.transforms.sorting import sorted_words

words = np.random.Generator(np.random.PCG64(0)).integers(0, 2**64 - 1, {many}, np.uint64)
assert "polars" not in sys.modules
for _ in range({times}):
    assert np.array_equal(sorted_words(words), np.sort(words))
print("polars" in sys.modules)
"""


def test_so_much_is_spared_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "polars", raising=False)
    spared = Spared(10)
    assert [spared.for_these(many) for many in (4, 6, 0, 1, 0)] == [True, True, True, False, False]
    monkeypatch.setitem(sys.modules, "polars", sys)
    assert not Spared(10).for_these(1), "it is loaded"


def test_threads_share_what_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "polars", raising=False)
    spared, found = Spared(1000), []
    threads = [threading.Thread(target=lambda: found.extend(spared.for_these(1) for _ in range(500))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(found) == 1000 and len(found) == 4000


@pytest.mark.parametrize(("many", "times", "loaded"), [(8191, 200, False), (1 << 19, 2, False), (1 << 19, 3, True)])
def test_words_are_sorted_by_polars_from_a_million_on(many: int, times: int, loaded: bool) -> None:
    code = SORT.format(many=many, times=times)
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == f"{loaded}\n"
