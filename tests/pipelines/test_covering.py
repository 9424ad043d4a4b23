"""Whole runs over every kind of domain and every measure, in batch and as a stream: plain Python's counts, one answer.

One release over one input has one ranking, whatever files and shards hold the rows, whichever windows are asked for,
and whether it is `run` or `stream` that asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from private_topk.transforms import user_shards
from tests.nightly import nightly_but
from tests.pipelines.plays import DOMAINS, LANDS, MEASURES, NO_NOISE, ROWS, asked, check, lay_out, published, write
from tests.pipelines.support import command

CASES = [pair for pair in product(DOMAINS, MEASURES) if pair != ("unknown", "risers")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lay_out()
    for number in range(3):
        write(f"three-{number}.csv", ROWS[number::3])


@pytest.mark.parametrize(
    ("domain", "measure"),
    nightly_but(CASES, ("public", "risers"), ("range", "groups"), ("unknown", "plain"), ("unknown", "amounts")),
)
def test_runs_and_streams_publish_what_plain_python_counts(domain: str, measure: str, folder: None) -> None:
    check(published("run", "one.csv", asked(domain, measure, NO_NOISE)), asked(domain, measure, NO_NOISE))
    words = {**asked(domain, measure, "8" if domain == "unknown" else "1"), "max_items_per_user": 3}
    batch = published("run", "three-?.csv", words, shards=64, cores=2)
    assert batch
    if measure == "risers":
        assert published("run", "one.csv", words, shards=1) == batch
    else:
        assert published("stream", "./stream.csv", words) == batch


def uncapped(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = user_shards.sorted_sums
    monkeypatch.setattr(user_shards, "sorted_sums", lambda *columns: sound(*columns[:3], 2**60))


def in_every_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_shards, "chosen", lambda users, *_: np.ones(len(users), bool))


@pytest.mark.parametrize(("measure", "plant"), [("amounts", uncapped), ("groups", in_every_group)])
def test_a_planted_defect_is_seen(
    measure: str, plant: Callable[[pytest.MonkeyPatch], None], folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    words = asked("public", measure, NO_NOISE)
    with pytest.raises(AssertionError):
        check(published("run", "one.csv", words), words)


LARGE, DAYS = 200_000, 24
KINDS = {
    "list": "--domain=many.txt --mechanism=joint --epsilon=0.01",
    "range": f"--domain-range=0:{LARGE} --mechanism=joint --epsilon=0.01",
    "groups": f"--domain-range=0:{LARGE} --mechanism=joint --epsilon=0.01 --group-column=group --groups=lands.txt",
    "unknown": "--unknown-domain --mechanism=limit-domain --epsilon=5 --delta=1e-2 --max-items-per-user=20",
}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    (folder / "many.txt").write_text("".join(f"{item}\n" for item in range(LARGE)))
    (folder / "lands.txt").write_text("fr\nde\n")
    (folder / "key").write_text("a key of the tests, thirty-two bytes and more")
    rng = np.random.default_rng(1)
    items = np.minimum(rng.zipf(1.3, (2, 300, 20)), LARGE) - 1
    items[:, :, 10:] = items[:, :, 10:] * 7919 % LARGE  # in all parts of the list
    rows = [
        f"u{user},{item},{LANDS[user % 2]},2026-01-0{1 + day}T08:00:00Z"
        for day, user in product((0, 1), range(300))
        for item in items[day, user]
    ]
    last = "u0,0,fr,2026-03-01T00:00:00Z"
    (folder / "rows.csv").write_text("\n".join(["user,item,group,time", *rows, last]) + "\n")
    return folder


@pytest.mark.parametrize("kind", nightly_but(KINDS, "list", "unknown"))
def test_among_many_items_in_many_windows_the_first_day_has_one_ranking(
    kind: str, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise decides among 200,000 items: with other noise the same ten come with probability below 1e-15."""
    monkeypatch.chdir(large)
    words = [
        *KINDS[kind].split(),
        "--k=10",
        "--release-key=file:key",
        "--release-id=one",
        "--input=./rows.csv",
        "--window=1d",
        "--from=2026-01-01",
    ]
    batch = [*words, f"--to=2026-01-{1 + DAYS}", "--cores=2", "--shards=16", f"--output={kind}.jsonl", "--quiet"]
    stream = [*words, "--to=2026-01-03", "--clock=event", "--poll=1s", "--output-format=jsonl", f"--output={kind}"]
    answers = []
    for verb, words in (("run", batch), ("stream", stream)):
        done = command(verb, *words)
        assert done.status == 0, done.err
        paths = [Path(f"{kind}.jsonl")] if verb == "run" else sorted(Path(kind).glob("*.jsonl"))
        answers.append(list(first_day(paths)))
    assert answers[0] and answers[0] == answers[1]
    assert kind == "unknown" or len(set(answers[0])) == (20 if kind == "groups" else 10)


def first_day(paths: list[Path]) -> Iterator[tuple[str | None, int | None, str]]:
    for path in paths:
        for row in map(json.loads, path.read_text().splitlines()):
            if row["window_start"].startswith("2026-01-01"):
                yield row.get("group"), row["rank"], row["item"]
