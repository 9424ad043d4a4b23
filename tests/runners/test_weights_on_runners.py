"""Mechanisms that weigh users, by every runner here: the bytes of the direct one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runners.conftest import Published, Report

BOUND = ("--delta", "1e-3", "--max-items-per-user", "30", "--whole-items", "3", "--epsilon", "2")
ASKED = {
    "weighted-order": BOUND,
    "candidates-then-rank": BOUND,
    "weighted-gaussian": (*BOUND, "--unknown-domain"),
}


@pytest.fixture(scope="module", params=ASKED)
def weighed(request: pytest.FixtureRequest) -> list[str]:
    return ["--mechanism", request.param, *ASKED[request.param]]


@pytest.fixture(scope="module")
def of_direct(report: Report, weighed: list[str]) -> Published:
    return report.publish("direct", *weighed)


def test_repeated_bundles(report: Report, weighed: list[str], of_direct: Published) -> None:
    assert len(of_direct.items()) == 5 * 5 or "--unknown-domain" in weighed and of_direct.items(), "of five weeks"
    assert (b"noisy_weight" in of_direct.ranking) == ("--unknown-domain" in weighed)
    assert report.publish("direct", *weighed, "--direct_runner_bundle_repeat=1", "--shards", "2") == of_direct


def test_prism(report: Report, weighed: list[str], of_direct: Published, prism_binary: Path) -> None:
    assert report.publish("prism", *weighed) == of_direct


def test_flinks_mini_cluster(report: Report, weighed: list[str], of_direct: Published, flink_home: Path) -> None:
    assert report.publish("flink", *weighed, timeout=900) == of_direct
