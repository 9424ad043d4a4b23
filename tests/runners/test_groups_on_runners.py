"""Rankings of groups, each with a list of items of its own, by every runner here: the bytes of the direct one."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.runners.conftest import Published, Report

COUNTRIES = ["FR", "DE", "BR"]


@pytest.fixture(scope="module")
def grouped(report: Report, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two groups a user, replaced users, counts: the most that changes in a draw."""
    folder = tmp_path_factory.mktemp("groups")
    items = (report.folder / "catalogue.txt").read_text().splitlines()
    with open(folder / "lists.csv", "w", newline="") as sink:
        rows = csv.writer(sink)
        rows.writerow(["title", "sold in"])
        rows.writerows((item, land) for number, land in enumerate(COUNTRIES) for item in items[number :: number + 1])
    (folder / "countries.txt").write_text("\n".join(COUNTRIES) + "\n")
    return [
        "--group-column", "country", "--groups", f"{folder}/countries.txt", "--groups-per-user", "2",
        "--domain", f"{folder}/lists.csv", "--domain-column", "title", "--domain-group-column", "sold in",
        "--neighbours", "swap", "--publish-counts", "1",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def of_direct(report: Report, grouped: list[str]) -> Published:
    return report.publish("direct", *grouped)


@pytest.mark.long
def test_repeated_bundles(report: Report, grouped: list[str], of_direct: Published) -> None:
    assert len(of_direct.items()) == 5 * 5 * len(COUNTRIES), "of five weeks"
    assert report.publish("direct", *grouped, "--direct_runner_bundle_repeat=1", "--shards", "2") == of_direct


def test_prism(report: Report, grouped: list[str], of_direct: Published, prism_binary: Path) -> None:
    assert report.publish("prism", *grouped) == of_direct


def test_flinks_mini_cluster(report: Report, grouped: list[str], of_direct: Published, flink_home: Path) -> None:
    assert report.publish("flink", *grouped, timeout=400) == of_direct
