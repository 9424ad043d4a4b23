"""Groups, weights and bounded windows by other runners: the bytes that the direct one publishes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.nightly import nightly, nightly_but
from tests.runners.conftest import Published, Report

COUNTRIES = ["FR", "DE", "BR"]
WEIGHTED = ["--delta", "1e-3", "--max-items-per-user", "30", "--whole-items", "3", "--epsilon", "2"]
QUESTIONS = {
    "groups": [
        *(
            "--group-column country --groups countries.txt --groups-per-user 2 --domain lists.csv --domain-column "
            "title --domain-group-column"
        ).split(),
        "sold in",
        *"--neighbours replace-one --publish-counts 1".split(),
    ],
    "weighted order": ["--mechanism", "weighted-order", *WEIGHTED],
    "weights": ["--mechanism", "weighted-gaussian", *WEIGHTED, "--unknown-domain"],
    "bounded windows": ["--privacy-unit", "user", "--max-windows-per-user", "2"],
}
"""Groups have each a list of items of its own, two of them a user, users who are replaced, and counts."""


@pytest.fixture(scope="module", params=nightly_but(QUESTIONS, "groups", "bounded windows"))
def asked(request: pytest.FixtureRequest, report: Report) -> list[str]:
    folder = report.folder
    items = (folder / "catalogue.txt").read_text().splitlines()
    with open(folder / "lists.csv", "w", newline="") as sink:
        rows = csv.writer(sink)
        rows.writerow(["title", "sold in"])
        rows.writerows((item, land) for number, land in enumerate(COUNTRIES) for item in items[number :: number + 1])
    (folder / "countries.txt").write_text("\n".join(COUNTRIES) + "\n")
    return [str(folder / word) if word in ("lists.csv", "countries.txt") else word for word in QUESTIONS[request.param]]


@pytest.fixture(scope="module")
def of_direct(report: Report, asked: list[str]) -> Published:
    return report.publish("direct", *asked)


def test_repeated_bundles_publish_the_same(
    report: Report, direct: Published, asked: list[str], of_direct: Published
) -> None:
    assert of_direct.items() and of_direct != direct
    assert (b"noisy_weight" in of_direct.ranking) == ("weighted-gaussian" in asked)
    assert len(of_direct.items()) == 75 or "--groups" not in asked, "of three groups in five weeks"
    assert report.publish("direct", *asked, "--direct_runner_bundle_repeat=1", "--shards", "2") == of_direct


@pytest.mark.parametrize("asked", ["groups", nightly("weights")], indirect=True)
def test_prism_publishes_the_same_as_direct(
    report: Report, asked: list[str], of_direct: Published, prism_binary: Path
) -> None:
    assert report.publish("prism", "--prism_location", str(prism_binary), *asked) == of_direct


@pytest.mark.nightly
@pytest.mark.parametrize("asked", ["groups"], indirect=True)
def test_flinks_mini_cluster_publishes_the_same_as_direct(
    report: Report, asked: list[str], of_direct: Published, flink_home: Path
) -> None:
    assert report.publish("flink", *asked, timeout=400) == of_direct
