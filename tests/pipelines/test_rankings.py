"""What `rank` returns: rows for other tools, a picture, a page, files."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from private_topk import Joint, Period, Rankings, rank
from private_topk.pipelines.rankings import Picture
from private_topk.pipelines.sinks.formats import FORMATS
from private_topk.transforms.errors import Refusal
from private_topk.transforms.testing import fixed_release

HOSTILE = "<script>alert(1)</script>"
ROWS = pl.DataFrame(
    {"user": [f"u{n}" for n in range(90)], "item": [HOSTILE, "tea", "cake"] * 30, "time": [0, 1, 90_000] * 30}
)


def ranked(periodic: bool = False, counts: float | None = None) -> Rankings:
    period = Period.of("1970-01-01", "1970-01-03", "1d") if periodic else None
    return rank(
        ROWS, 2, Joint(1.0), [HOSTILE, "tea", "cake"], period=period, publish_counts=counts, release=fixed_release()
    )


def test_rows_for_other_tools() -> None:
    found = ranked(periodic=True, counts=0.5)
    frame = found.to_polars()
    assert frame.height == 4 and frame["rank"].to_list() == [1, 2] * 2
    assert (
        found.to_pandas()["item"].tolist() == frame["item"].to_list() == [i for window in found for i in window.items]
    )
    assert len(found) == 2 and found[0] == found.windows[0] and found[:1] == found.windows[:1]
    assert ranked().items == ranked()[0].items
    with pytest.raises(
        Refusal, match=r"items are those of one window, and there are 2: take one, such as rankings\[0\]"
    ):
        _ = found.items


def test_a_notebook_shows_table_guarantee_and_chart() -> None:
    shown = ranked(periodic=True, counts=0.5)._repr_html_()
    assert shown.count("<table") == 2 and shown.count("<svg viewBox") == 1 and "not private" in shown
    assert HOSTILE not in shown and "&lt;script&gt;" in shown
    assert "<svg" in ranked(counts=0.5)._repr_html_() and "<svg" not in ranked()._repr_html_()


def test_two_pictures_of_a_notebook_have_identifiers_of_their_own() -> None:
    first, second = (ranked(periodic=periodic, counts=0.5)._repr_html_() for periodic in (False, True))
    assert {part.split('"')[0] for part in first.split('id="')[1:]}.isdisjoint(
        {part.split('"')[0] for part in second.split('id="')[1:]}
    )


@pytest.mark.long
def test_a_picture_is_a_file_of_its_own(tmp_path: Path) -> None:
    picture = ranked(counts=0.5).plot()
    assert isinstance(picture, Picture) and isinstance(ranked(periodic=True).plot(), Picture)
    picture.save(str(tmp_path / "counts.svg"))
    written = (tmp_path / "counts.svg").read_text()
    assert written.startswith("<svg") and "<style>" in written and HOSTILE not in written
    with pytest.raises(Refusal, match="nothing to draw but its order: give publish_counts, or a period"):
        ranked().plot()


def test_files_are_those_of_a_run(tmp_path: Path) -> None:
    found, path = ranked(), str(tmp_path / "ranking.csv")
    found.write(path)
    assert FORMATS[".csv"].decode(Path(path).read_bytes()) == found.rows()
    found.write(path)  # the same again is no overwriting
    with pytest.raises(Refusal, match="exists and is kept"):
        ranked(counts=0.5).write(path)
    ranked(counts=0.5).write(path, overwrite=True)
    with pytest.raises(Refusal, match="must end with one of"):
        found.write(str(tmp_path / "ranking.txt"))


def test_printed_it_is_what_a_terminal_shows() -> None:
    assert str(ranked()).startswith("All rows\n  1  ") and "What it promises" in str(ranked())
