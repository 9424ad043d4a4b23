"""Published rankings of every kind, hostile ones among them, to make pages of; and files with their manifests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product, zip_longest
from pathlib import Path
from typing import Any

import msgspec

from private_topk.pipelines.question import Question
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.release.formats import RankingSchema, format_of, ranking_rows
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.store import publish
from private_topk.pipelines.show.published import PublishedReport
from private_topk.transforms.release import Ranking, Release, ReleaseKey
from private_topk.transforms.windows import Period, WindowBounds
from tests.pipelines import support

ITEMS = ["0", "1", "2"]
START = datetime(2026, 1, 5, tzinfo=UTC)
HOSTILE = [
    *("<script>alert(1)</script>", "</style><script>x</script>", '" onmouseover="alert(1)', "' onload='x", "&amp;"),
    *("]]>", "<!--", "a\u202eb", "a\x00b", "line\nline", "\ud800", "<svg/onload=x>", "javascript:alert(1)", ""),
    *("–" * 300,),
]


def manifest(weeks: int, **changes: Any) -> Manifest:  # noqa: ANN401
    ends = [START + timedelta(weeks=n) for n in range(weeks + 1)]
    return support.manifest(
        **{
            "report": "weekly <b>plays</b>",
            "key_id": "0123",
            "runner": "direct",
            "mechanism": "joint",
            "answer": "sequence",
            "parameters": {"epsilon": 1.0, "neighbours": "add-remove"},
            "k": 5,
            "max_items_per_user": 3,
            "privacy": {
                "epsilon": 1.5,
                "delta": 1e-6,
                "neighbours": "add-remove",
                "unit": "one user's rows within one window",
                "guarantee": "approximate",
            },
            "all_windows": {"epsilon": 1.5 * weeks, "delta": 1e-6 * weeks} if weeks > 1 else None,
            "domain": {"kind": "public", "size": 900, "sha256": "00"},
            "versions": {"python": "3.11"},
            "windows": [{"start": a.isoformat(), "end": b.isoformat(), "returned": 5} for a, b in pairwise(ends)],
            **changes,
        }
    )


def rows(windows: int, items: list[str], k: int = 5, counts: bool = True, groups: tuple[str, ...] = ()) -> list[dict]:
    draw, found = random.Random(5), []
    for group in groups or (None,):
        for window in range(windows):
            chosen = draw.sample(items, min(k, len(items)))
            for place, item in enumerate(chosen, 1):
                found.append(
                    {
                        "window_start": START + timedelta(weeks=window),
                        "window_end": START + timedelta(weeks=window + 1),
                        "rank": place,
                        "item": item,
                        "noisy_count": draw.randrange(-50, 5000) if counts else None,
                        "noise_stddev": 9.5 if counts else None,
                        "noise_95": 20 if counts else None,
                        "k": k,
                        "returned": len(chosen),
                        "release_id": "weekly",
                        **({"group": group} if group else {}),
                    }
                )
    return found


def bare(answer: str = "sequence") -> list[dict]:
    """All rows together, no counts."""
    null = {"window_start": None, "window_end": None, "noisy_count": None, "k": 2, "returned": 2, "release_id": "once"}
    return [{**null, "rank": n if answer == "sequence" else None, "item": f"item {n}"} for n in (1, 2)]


def day(number: int) -> dict[str, Any]:
    return {"period": Period.of(f"2026-01-{number:02}", f"2026-01-{number + 1:02}", "1d")}


def asked(release: str = "weekly", **more: Any) -> Question:  # noqa: ANN401
    of = Release(ReleaseKey.parse("file:key"), release)
    return Question.of(**{"k": 2, "mechanism": "joint", "domain": ITEMS, "epsilon": 1.0, "release": of, **more})


def answered(
    question: Question, dataset: str | None = None, counts: Sequence[tuple[int, ...]] = ()
) -> tuple[Manifest, list[Ranking]]:
    """What is published of a question whose every ranking is of the first k items, without a pipeline.

    Args:
        counts: the noisy counts of each ranking.
    """
    its, k = question.asked, question.asked.max_items
    windows = [WindowBounds()] if question.period is None else list(question.period.windows())
    names = [None] if its.groups is None else its.groups.labels.load().to_pylist()
    items = tuple(map(str, range(k)))
    noise = question.top_k.noise(k)
    rankings = [
        Ranking(window, items, k, "sequence", noisy, noise, group=name, group_number=number)
        for (window, (number, name)), noisy in zip_longest(product(windows, enumerate(names)), counts)
    ]
    columns = {"user": "user", "item": "item"} | ({"time": "time"} if question.period else {})
    manifest = manifest_of(question, columns=columns, dataset=dataset).with_answer(rankings)
    return msgspec.structs.replace(manifest, key_id=question.release.key.key_id(), runner="direct"), rankings


def published(
    path: str,
    question: Question,
    dataset: str | None = None,
    apart: bool = False,
    counts: Sequence[tuple[int, ...]] = (),
) -> Manifest:
    """A ranking file with its manifest; or a file for each window, in the folder of that name."""
    manifest, rankings = answered(question, dataset, counts)
    schema = RankingSchema.of(manifest)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    parts = {f"{path}/{each.window.label()}.csv": [each] for each in rankings} if apart else {path: rankings}
    for place, some in parts.items():
        rows = ranking_rows(some, question.release.id, schema)
        publish(place, format_of(place).encode(rows, schema), manifest.with_answer(some), overwrite=True)
    return manifest


def shown(*words: str) -> str:
    """What `show` prints, on one line."""
    done = support.command("show", *words)
    assert done.status == 0, done
    return " ".join(done.out.split())


PAGES = {
    "weeks": PublishedReport(rows(6, [f"item {n}" for n in range(12)]), manifest(6)),
    "a year": PublishedReport(rows(53, [f"item {n}" for n in range(40)], 40, counts=False), manifest(53)),
    "hostile items": PublishedReport(rows(3, HOSTILE), manifest(3)),
    "hostile groups": PublishedReport(rows(2, HOSTILE, groups=tuple(HOSTILE[:4])), manifest(2, report=HOSTILE[0])),
    "one window": PublishedReport(bare(), manifest(0, windows=[{"start": None, "end": None, "returned": 2}])),
    "a set": PublishedReport(bare("set"), manifest(0, answer="set", windows=[])),
    "no manifest": PublishedReport(bare()),
    "nothing released": PublishedReport([], manifest(1, domain={"kind": "unknown"})),
    "not private": PublishedReport(bare(), manifest(0, private=False, privacy=None, windows=[])),
    "a total, swapped": PublishedReport(
        rows(2, ["a", "b"]),
        manifest(
            2,
            all_windows=None,
            privacy={
                "epsilon": 20.0,
                "delta": 0.0,
                "neighbours": "replace-one",
                "unit": "one user's rows in all windows",
                "windows": 52,
                "accounting": "zcdp",
                "guarantee": "pure",
                "share_of_a_window": {"epsilon": 1.0, "delta": 0.0, "ranking": {}, "noisy_counts": None},
            },
        ),
    ),
}
