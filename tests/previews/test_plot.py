"""Pictures of previews: a line for every mechanism, against what differs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from private_topk.previews import PublicCounts, Setting, Zipf, preview_of
from private_topk.previews.plot import plot
from private_topk.transforms.refusal import Refusal

SHAPE = Zipf(1.0, 100, 1000, 5)
NAMES = ("joint", "peeling", "canonical")
SETTING = Setting(4, 1.0)


def drawn(path: Path) -> str:
    text = path.read_text()
    return " ".join(re.findall(r"<!-- (.*?) -->", text))


def test_one_setting_by_its_ranks(tmp_path: Path) -> None:
    plot([preview_of(SHAPE, SETTING, NAMES, 5)], str(tmp_path / "one.svg"))
    said = drawn(tmp_path / "one.svg")
    assert all(name in said for name in (*NAMES, "rank", "l_1 error, in users", "Zipf 1: 100 items"))


@pytest.mark.parametrize(("what", "said"), [("k", "k: how many items"), ("epsilon", "epsilon"), ("items", "there are")])
def test_several_settings_by_what_differs(tmp_path: Path, what: str, said: str) -> None:
    found = [
        preview_of(replace(SHAPE, items=number) if what == "items" else SHAPE,
                   SETTING if what == "items" else replace(SETTING, **{what: number}), NAMES, 5)  # type: ignore[arg-type]
        for number in (6, 8, 60)
    ]  # fmt: skip
    plot(found, str(tmp_path / "several.svg"))
    comments = drawn(tmp_path / "several.svg")
    assert said in comments and "recall of the top k" in comments and all(name in comments for name in NAMES)
    assert {"6", "8", "60"} <= set(comments.split())
    plot(found, str(tmp_path / "again.svg"))
    assert len(drawn(tmp_path / "again.svg")) == len(comments)


@pytest.mark.long
def test_mechanisms_that_answer_some_settings_only(tmp_path: Path) -> None:
    found = [preview_of(PublicCounts([5, 3, 1]), replace(SETTING, k=2, epsilon=1.0 + n, delta=(1e-6, None)[n]),
                        ("joint", "gaussian"), 5) for n in (0, 1)]  # fmt: skip
    plot(found, str(tmp_path / "some.pdf"))
    assert (tmp_path / "some.pdf").read_bytes().startswith(b"%PDF")


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    one = preview_of(SHAPE, SETTING, NAMES, 2)
    with pytest.raises(Refusal, match="plot .*one.txt must end with one of .png, .svg, .pdf"):
        plot([one], str(tmp_path / "one.txt"))
    with pytest.raises(Refusal, match="cannot be written"):
        plot([one], str(tmp_path / "nowhere" / "one.svg"))
    other = preview_of(SHAPE, replace(SETTING, k=5, epsilon=2.0), NAMES, 2)
    with pytest.raises(Refusal, match="takes several values of one of k, epsilon and items"):
        plot([one, other], str(tmp_path / "two.svg"))
