"""Random questions on every execution: all executions publish the same bytes, and what plain Python counts.

    python -m benchmarks.fuzz_executions --questions 300
    python -m benchmarks.fuzz_executions --questions 1 --seed 7 --first 123       # one of them again

An execution is a format (zipped or not, in several files, cut into small pieces), a number of cores, of user shards and
of workers. Limits that only large inputs meet (rows of a table that travels, counts at hand, items of a shard, cells,
windows of a group) are made so small that a few hundred rows meet them all. All executions have one release key and id.
Six in ten questions have so large an epsilon that nothing is noise: their answers are compared with plain Python's.
What differs is told with its seed, and the exit status is 1. Cost: about two seconds of a core a question.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import fastavro
import polars as pl

from benchmarks.fuzz_questions import Question, Rows, expected, question
from private_topk.pipelines import cli
from private_topk.pipelines.sources import avro, formats
from private_topk.transforms import combine, plan, user_shards

_TYPES = {"user": pl.String, "item": pl.String, "time": pl.Int64, "amount": pl.Float64, "group": pl.String}
_AVRO = {"user": "string", "item": "string", "time": "long", "amount": "double", "group": "string"}
_SCHEMA = fastavro.parse_schema(
    {"type": "record", "name": "Row", "fields": [{"name": n, "type": ["null", kind]} for n, kind in _AVRO.items()]}
)


class Execution(NamedTuple):
    """How a question is asked.

    Args:
        limits: of modules, by name.
    """

    endings: list[str]
    words: list[str]
    limits: dict[tuple[Any, str], int]

    def __str__(self) -> str:
        limits = {name: value for (_, name), value in self.limits.items()}
        return f"{self.endings} {self.words} {limits}"


class Answer(NamedTuple):
    """What came of a question on a number of executions.

    Args:
        told: what all refuse, in the place of rows.
    """

    number: int
    executions: int
    problem: str | None
    told: str = ""


def _execution(draw: random.Random) -> Execution:
    kinds = [".avro", ".csv", ".jsonl", ".parquet"]
    endings = [draw.choice(kinds) + draw.choice(["", "", ".gz"]) for _ in range(draw.choice([1, 1, 2, 5]))]
    limits = {
        (formats, "_MIN_PIECE"): draw.choice([100, 2000, 8 << 20]),
        (avro, "_ROWS"): draw.choice([20, 100_000]),
        (combine, "MAX_ROWS"): draw.choice([1, 3, 1 << 16]),
        (combine, "_ROWS_AT_HAND"): draw.choice([1, 10, 1 << 21]),
        (combine, "_MAX_CELLS"): draw.choice([0, 1 << 20]),
        (user_shards, "_MAX_ROWS"): draw.choice([1, 50, 1 << 22]),
    }
    words = [f"--shards={draw.choice([1, 1, 2, 8, 64, 1024])}", f"--cores={draw.choice([1, 2, 5])}"]
    words += draw.choices([[], ["--direct_runner_bundle_repeat=1"]], [6, 1])[0]
    return Execution(endings, words, limits)


def _told(asked: Question, execution: Execution, folder: Path, draw: random.Random) -> str:
    """What is published, or what is said in its place after "status"."""
    for old in [*folder.glob("rows-*"), *folder.glob("out.*")]:
        old.unlink()
    for number, (ending, rows) in enumerate(zip(execution.endings, _dealt(asked.rows, execution, draw), strict=True)):
        (folder / f"rows-{number}{ending}").write_bytes(_content(ending, rows, draw))
    said = io.StringIO()
    with contextlib.ExitStack() as stack:
        for (module, name), value in [
            *(((plan, own), n) for own, n in asked.limits.items()),
            *execution.limits.items(),
        ]:
            stack.enter_context(patch.object(module, name, value))
        stack.enter_context(contextlib.redirect_stderr(said))
        status = cli.main(["run", *_words(asked, folder), *execution.words])
    if status:
        return f"status {status}: {said.getvalue().strip()}".replace(str(folder), "")
    return (folder / "out.jsonl").read_text()


def _words(asked: Question, folder: Path) -> list[str]:
    places = {"input": "rows-*", "output": "out.jsonl", "release_key": "key"}
    words: dict[str, Any] = {
        name: f"{'file:' * (name == 'release_key')}{folder}/{place}" for name, place in places.items()
    }
    words |= asked.words | {"release_id": "r", "quiet": True}
    for name, listed, column in (("domain", asked.items, "item"), ("groups", asked.groups, "group")):
        if listed is not None and f"{name}_range" not in words:
            words[name] = f"{folder}/{name}.jsonl"
            Path(words[name]).write_text("".join(json.dumps({column: label}) + "\n" for label in listed))
    flags = {"--" + name.rstrip("_").replace("_", "-"): value for name, value in words.items()}
    return [flag if value is True else f"{flag}={value}" for flag, value in flags.items()]


def _dealt(rows: Rows, execution: Execution, draw: random.Random) -> list[Rows]:
    """The rows in another order, to as many files, of which some may get none."""
    dealt: list[Rows] = [[] for _ in execution.endings]
    for row in draw.sample(rows, len(rows)):
        draw.choice(dealt).append(row)
    return dealt


def _content(ending: str, rows: Rows, draw: random.Random) -> bytes:
    sink, frame = io.BytesIO(), pl.DataFrame(rows, schema=_TYPES)
    match ending.removesuffix(".gz"):
        case ".avro":
            codec, size = draw.choice(["null", "deflate", "bzip2"]), draw.choice([50, 500, 16000])
            fastavro.writer(sink, _SCHEMA, rows, codec=codec, sync_interval=size)
        case ".csv":
            frame.write_csv(sink, quote_style=draw.choice(["necessary", "always"]))
        case ".jsonl":
            sink.write("".join(json.dumps(row, ensure_ascii=draw.random() < 0.5) + "\n" for row in rows).encode())
        case _:
            frame.write_parquet(sink, row_group_size=draw.choice([7, 1000]))
    return gzip.compress(sink.getvalue()) if ending.endswith(".gz") else sink.getvalue()


def _wrong(asked: Question, told: str) -> str | None:
    """What is wrong with a ranking by plain Python's scores."""
    truth = expected(asked) if asked.exact else None
    if truth is None:
        return None
    rankings = defaultdict(list)
    for row in map(json.loads, told.splitlines()):
        rankings[_seconds(row["window_start"]), row.get("group")].append(row)
    for place, rows in rankings.items():
        scores = truth.get(place, Counter())
        held, published = [scores[row["item"]] for row in rows], [row["noisy_count"] for row in rows]
        if "publish_counts" in asked.words and published != held:
            return f"counts {published} in place of {held}"
        best = sorted((scores[item] for item in asked.items or scores), reverse=True)[: asked.words["k"]]
        if asked.items is None:
            best = sorted(held, reverse=True) if 0 not in held else best  # fewer may be returned
        if sorted(held, reverse=True) != best or (rows[0]["rank"] is not None and held != best):
            return f"scores {held} in place of {best}"
    return None


def _seconds(moment: str | None) -> int:
    return 0 if moment is None else int(datetime.fromisoformat(moment).timestamp())


def fuzz(questions: int, executions: int, seed: int, first: int = 0) -> Iterator[Answer]:
    """What comes of so many questions, each on so many executions."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "key").write_text("a key of enough bytes")
        for number in range(first, first + questions):
            draw = random.Random(f"{seed} {number}")
            asked, told = question(draw), {}
            for execution in [_execution(draw) for _ in range(executions)]:
                told[str(execution)] = _told(asked, execution, Path(folder), draw)
            yield _compared(number, asked, told)


def _compared(number: int, asked: Question, told: dict[str, str]) -> Answer:
    (execution, said), *others = told.items()
    other = next((other for other in others if other[1] != said), None)
    if other is not None:
        return Answer(number, len(told), f"{asked.words}{_apart(execution, said, other[1])}{_apart(*other, said)}")
    if said.startswith("status 2"):
        return Answer(number, 0, None, said)
    problem = said if said.startswith("status") else _wrong(asked, said)
    return Answer(number, len(told), problem and f"{asked.words}: {problem}")


def _apart(execution: str, told: str, other: str) -> str:
    """An execution, and what it has answered otherwise."""
    lines = [line for line in told.splitlines() if line not in other.splitlines()]
    return f"\n  {execution}\n  {len(lines)} lines, such as {lines[:5]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--executions", type=int, default=3, help="for each question")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first question")
    given = parser.parse_args()
    started, found, answers, refused = time.monotonic(), 0, 0, Counter[str]()
    for answer in fuzz(given.questions, given.executions, given.seed, given.first):
        answers += answer.executions
        refused[answer.told[:150]] += bool(answer.told)
        if answer.problem:
            found += 1
            print(f"seed {given.seed}, question {answer.number}: {answer.problem}", flush=True)
    for said, times in (+refused).most_common():
        print(f"{times} refused alike: {said}")
    print(f"{given.questions:,} questions, {answers:,} answers, {found} problems, {time.monotonic() - started:.0f} s")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
