"""Rankings under a given key and id stay what they were: by every execution, whatever is rebuilt between."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from private_topk.transforms import CountBudget, PrivateTopK, UnknownDomain
from private_topk.transforms.mechanisms import MECHANISMS, Joint
from tests.nightly import nightly_but
from tests.transforms.streams import (
    DOMAIN,
    RELEASE,
    Collect,
    Row,
    events_of,
    period_of,
    some_rows,
    stamped,
    streaming,
)

LIMITED = MECHANISMS["limit-domain"](epsilon=1.0, delta=0.1)
JOINT = Joint(epsilon=0.05)
WEIGHTED = MECHANISMS["weighted-gaussian"](epsilon=0.1, delta=0.1, max_items_per_user=4, whole_items=2)

CASES: dict[str, tuple[str | None, dict[str, Any]]] = {
    "one window": (None, {"mechanism": JOINT, "domain": DOMAIN}),
    "whole": ("whole", {"mechanism": JOINT, "domain": DOMAIN}),
    "fixed": ("fixed", {"mechanism": JOINT, "domain": DOMAIN}),
    "day": ("day", {"mechanism": JOINT, "domain": DOMAIN}),
    "sliding": ("sliding", {"mechanism": JOINT, "domain": DOMAIN, "max_items_per_user": 2}),
    "counts": ("fixed", {"mechanism": JOINT, "domain": DOMAIN, "publish_counts": CountBudget(1.0)}),
    "unknown": ("fixed", {"mechanism": LIMITED, "domain": UnknownDomain()}),
    "weights": (None, {"mechanism": WEIGHTED, "domain": UnknownDomain()}),
    "weights, sliding": ("sliding", {"mechanism": WEIGHTED, "domain": UnknownDomain()}),
    "unknown, bounded": ("sliding", {"mechanism": LIMITED, "domain": UnknownDomain(), "max_items_per_user": 3}),
}

PINNED = {
    "one window": "1 237ea436f500301f",
    "whole": "1 502265d348a4d071",
    "fixed": "11 3a260da3f161e079",
    "day": "3 a44852bef3b991d9",
    "sliding": "16 acfb032fb53ede6f",
    "counts": "11 821952108f237fd9",
    "unknown": "11 c281287d49027bdb",
    "unknown, bounded": "16 2bb4496bbe9845e1",
    "weights": "1 ba0bb8b98b68b158",
    "weights, sliding": "16 5d0fbb79ba7f8fe3",
}


def digest(found: Sequence[Any]) -> str:
    """One name for all rankings of a run: windows, items and counts."""
    facts = sorted([r.window.label(), list(r.items), r.noisy_counts and list(r.noisy_counts)] for r in found)
    return f"{len(facts)} {hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}"


def released(pipeline: beam.Pipeline, rows: Any, case: str, shards: int = 4) -> str:  # noqa: ANN401
    cut, settings = CASES[case]
    period = period_of(cut) if cut else None
    with pipeline as p:
        transform = PrivateTopK(5, release=RELEASE, period=period, shards=shards, **settings)
        _ = p | rows | transform | beam.ParDo(Collect("pinned"))
    return digest(Collect.found["pinned"])


def many_rows() -> list[Row]:
    """Enough for items to pass an unknown domain's threshold; some users hold more items than any bound."""
    return [(f"u{n % 499}" if n % 3 else "busy", *row[1:]) for n, row in enumerate(some_rows(11, 72, 6_000))]


@pytest.mark.parametrize("case", nightly_but(CASES, "one window", "sliding", "unknown"))
def test_batch(case: str) -> None:
    rows = many_rows()
    np.random.RandomState(1).shuffle(rows)
    given = beam.Create(stamped(rows), reshuffle=False)
    assert released(beam.Pipeline(runner=FnApiRunner()), given, case, shards=64) == PINNED[case]


@pytest.mark.parametrize(
    "case", nightly_but((case for case in CASES if CASES[case][0]), "day", "unknown, bounded", "weights, sliding")
)
def test_streams(case: str) -> None:
    rows = many_rows()
    assert released(streaming("direct"), events_of(rows, 72, 1500), case, shards=1) == PINNED[case]
