"""Rows of a few days, every kind of domain and every measure to rank by, and what plain Python counts of them."""

from __future__ import annotations

import csv
import json
import random
import shutil
from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.fuzz_questions import Question, expected
from tests.pipelines.support import command, options

ITEMS, LANDS = [str(n) for n in range(6)], ["fr", "de", "é ü", "7"]
FIRST = datetime(2026, 1, 5, tzinfo=UTC)
NO_NOISE = "1000000"
Row = dict[str, Any]

DOMAINS: dict[str, Row] = {
    "public": {"domain": "items.txt", "mechanism": "laplace"},
    "range": {"domain_range": "0:6", "mechanism": "laplace"},
    "unknown": {"unknown_domain": True, "mechanism": "limit-domain", "delta": "0.01"},
}
MEASURES: dict[str, Row] = {
    "plain": {},
    "groups": {"group_column": "group", "groups": "lands.txt", "groups_per_user": 1},
    "amounts": {"value_column": "amount", "max_value": "60", "value_resolution": "0.5"},
}
AMOUNTS = {
    "4611686018427387904": 2.0**62,
    "-0.0": 0.0,
    "-7": -7.0,
    "nan": None,
    "": None,
    "1e999": 2.0**999,
    "60.24": 60.24,
    "0.25": 0.25,
    "0.75": 0.75,
    "much": None,
    "12.5": 12.5,
}
"""Of a column of amounts: texts, and what they are."""


def made() -> list[Row]:
    """Five days of 60 users, each most often in one land a day; one more has much of everything every day."""
    draw = random.Random(6)
    rows = []
    for user, day in product(range(60), range(5)):
        lands = [draw.choice(LANDS[:3])] * 4 + [draw.choice(["mars", "fr"])]
        for land in lands[: 5 if user % 3 else 3]:
            item = ITEMS[min(draw.randrange(6), draw.randrange(6))] if draw.random() < 0.9 else "elsewhere"
            rows.append(
                {
                    "user": f"ü{user}",
                    "item": item,
                    "group": land,
                    "text": draw.choice(list(AMOUNTS)),
                    "time": int(FIRST.timestamp()) + day * 86_400 + draw.randrange(86_400),
                }
            )
    rows += [
        {
            **rows[0],
            "user": "everywhere",
            "item": item,
            "group": land,
            "text": "59",
            "time": int(FIRST.timestamp()) + day * 86_400,
        }
        for item, day, land in product(ITEMS, range(5), [*LANDS, LANDS[1]])
    ]
    draw.shuffle(rows)
    return [{**row, "amount": AMOUNTS.get(row["text"], 59.0)} for row in rows]


ROWS = made()


def lay_out() -> None:
    """Rows, lists and a key in the working folder."""
    for name, lines in (("items.txt", ITEMS), ("lands.txt", LANDS), ("key", ["a key of enough bytes"])):
        Path(name).write_text("\n".join(lines) + "\n")
    write("one.csv", ROWS)
    write("stream.csv", [*ROWS, {**ROWS[0], "time": ROWS[0]["time"] + 30 * 86_400}])  # the last closes all windows


def write(name: str, rows: list[Row]) -> None:
    with open(name, "w", newline="") as sink:
        writer = csv.DictWriter(sink, ["user", "item", "time", "group", "amount"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**row, "amount": row["text"]} for row in rows)


def asked(domain: str, measure: str, epsilon: str) -> Row:
    words = {"k": 6, "epsilon": epsilon, "window": "1d", "from_": "2026-01-06", "to": "2026-01-09"}
    words["publish_counts"] = epsilon
    return {**words, **DOMAINS[domain], **MEASURES[measure]}


def published(verb: str, source: str, words: Row, **more: object) -> list[Row]:
    places = {
        "input": source,
        "output": "out" if verb == "stream" else "out.jsonl",
        "release_key": "file:key",
        "release_id": "r",
    }
    shutil.rmtree("out", ignore_errors=True)  # where an earlier question under the same id was answered
    for name in ("out.jsonl", "out.manifest.json"):
        Path(name).unlink(missing_ok=True)
    more |= {"clock": "event", "poll": "1s", "output_format": "jsonl"} if verb == "stream" else {"quiet": True}
    done = command(verb, *options(**places, **words, **more))
    assert done.status == 0, done.err
    paths = sorted(Path("out").glob("*.jsonl")) if verb == "stream" else [Path("out.jsonl")]
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def check(found: list[Row], words: Row, windows: int = 3) -> None:
    """Rankings of so many windows against plain Python's scores. Raises AssertionError."""
    unknown, grouped = "unknown_domain" in words, "groups" in words
    truth = expected(Question(ROWS, None if unknown else ITEMS, LANDS if grouped else None, words, True, {}))
    assert truth is not None, "no hash has a say in it"
    rankings: defaultdict[tuple[int, str | None], list[Row]] = defaultdict(list)
    for row in found:
        start = datetime.fromisoformat(row["window_start"]).timestamp()
        rankings[int(start), row.get("group")].append(row)
    assert len(rankings) >= windows * (3 if grouped and unknown else len(LANDS) if grouped else 1)
    for place, rows in rankings.items():
        scores = truth.get(place, Counter())
        held = [scores[row["item"]] for row in rows]
        assert held == sorted((scores[item] for item in (scores if unknown else ITEMS)), reverse=True)[: len(held)]
        assert len(held) == 6 or unknown
        assert [row["noisy_count"] for row in rows] == held or "publish_counts" not in words
