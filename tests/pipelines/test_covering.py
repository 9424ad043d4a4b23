"""Whole runs over every kind of domain and every measure, in batch and as a stream: what plain Python counts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from private_topk.transforms import metric, user_shards
from tests.nightly import nightly_but
from tests.pipelines.plays import DOMAINS, MEASURES, NO_NOISE, ROWS, asked, check, lay_out, published, write

CASES = [*product(DOMAINS, MEASURES)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lay_out()
    for number in range(3):
        write(f"three-{number}.csv", ROWS[number::3])


@pytest.mark.parametrize(
    ("domain", "measure"), nightly_but(CASES, ("range", "groups"), ("unknown", "plain"), ("unknown", "amounts"))
)
def test_runs_and_streams_publish_what_plain_python_counts(domain: str, measure: str, folder: None) -> None:
    check(published("run", "one.csv", asked(domain, measure, NO_NOISE)), asked(domain, measure, NO_NOISE))
    words = {**asked(domain, measure, "8" if domain == "unknown" else "1"), "max_items_per_user": 3}
    batch = published("run", "three-?.csv", words, shards=64, cores=2)
    assert batch and published("stream", "./stream.csv", words) == batch


def uncapped(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = metric.sorted_sums
    monkeypatch.setattr(metric, "sorted_sums", lambda *columns: sound(*columns[:3], 2**60))


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
