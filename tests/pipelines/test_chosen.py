"""A ranking without a mechanism: which is chosen, the same by every door, told with its reason, and never by rows."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from private_topk.pipelines.beam_yaml import RankRows
from private_topk.pipelines.budget.ledger import Ledger
from private_topk.pipelines.rank import rank
from private_topk.pipelines.show.noise import of_draws
from private_topk.transforms import PrivateTopK
from private_topk.transforms.domain import RangeDomain, UnknownDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.metric import Amounts
from private_topk.transforms.release import Release, ReleaseKey
from private_topk.transforms.windows import Period
from tests.nightly import nightly, nightly_but
from tests.pipelines.support import WEEKLY, command, options

ITEMS = 5000
CELLS: list[tuple[dict[str, Any], str]] = [
    ({"k": 10, "epsilon": 1}, "oneshot"),
    ({"k": 100, "epsilon": 1, "delta": 1e-6}, "cdp-peeling"),
    ({"k": 1, "epsilon": 3, "delta": 1e-6}, "oneshot"),
    ({"k": 100, "epsilon": 1, "max_items_per_user": 5}, "laplace"),
    ({"k": 100, "epsilon": 0.3, "delta": 1e-6, "max_items_per_user": 5}, "gaussian"),
    ({"k": 100, "epsilon": 0.3, "delta": 1e-6, "max_items_per_user": 1000}, "weighted-order"),
    ({"k": 100, "epsilon": 0.3, "delta": 1e-6, "max_items_per_user": 1000, "publish_counts": 1}, "cdp-peeling"),
    ({"k": 100, "epsilon": 0.3, "delta": 1e-6, "max_items_per_user": 1000, "max_value": 9}, "cdp-peeling"),
    ({"k": 10, "epsilon": 1, "delta": 1e-6, "unknown_domain": True}, "restricted-gumbel"),
    ({"k": 10, "epsilon": 1, "delta": 1e-6, "unknown_domain": True, "max_items_per_user": 5}, "weighted-gaussian"),
    ({"k": None, "epsilon": 1, "delta": 1e-6, "unknown_domain": True, "max_items_per_user": 5}, "weighted-gaussian"),
]
"""What is asked of a window, and what is chosen for it."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"user": f"u{n % 40}", "item": n * n % 9, "value": n % 5, "time": "2026-01-06"} for n in range(200)]
    frame = pl.DataFrame(rows)
    frame.write_csv("rows.csv")
    frame.with_columns(item=pl.col("item") + 3).head(3).write_csv("others.csv")
    Path("items.txt").write_text("\n".join(map(str, range(9))) + "\n")
    Path("key").write_text("0123456789abcdef0123456789abcdef")
    return tmp_path


def words(asked: Mapping[str, Any], **more: object) -> list[str]:
    """The arguments of a run."""
    given = {"input": "rows.csv", "output": "top.csv", **asked, **more}
    listed = any(given.get(name) for name in ("unknown_domain", "domain"))
    given |= {} if listed else {"domain_range": f"0:{ITEMS}"}
    given |= {"value_column": "value"} if "max_value" in given else {}
    return options(**given)


def facts(asked: Mapping[str, Any], **more: object) -> dict[str, str]:
    """What `--dry-run` says."""
    done = command("run", *words(asked, **more), "--dry-run", "--json")
    assert done.status == 0, done.err
    return json.loads(done.out)


def as_arguments(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The same in Python."""
    given = dict(asked)
    unknown, most = given.pop("unknown_domain", False), given.pop("max_value", None)
    domain = UnknownDomain() if unknown else RangeDomain(0, ITEMS)
    return {**given, "domain": domain, **({} if most is None else {"amounts": Amounts(most)})}


@pytest.mark.parametrize(("asked", "name"), CELLS)
def test_every_interface_chooses_the_same_mechanism(asked: dict[str, Any], name: str) -> None:
    told = facts(asked)
    assert told["mechanism"].startswith(f"{name} (") and told["draw"].startswith(f"{name} ")
    assert facts(asked, mechanism="auto") == told
    given = as_arguments(asked)
    assert PrivateTopK(**given).display_data()["mechanism"] == name
    assert PrivateTopK(**given, mechanism="auto").display_data()["mechanism"] == name
    found = rank(pl.read_csv("rows.csv"), **given)
    assert found.manifest.mechanism == name
    # What is paid for is what is drawn with: a delta that nothing needs is not spent.
    assert (found.manifest.privacy.delta > 0) == ("delta" in asked and name != "oneshot")
    assert told["mechanism"].endswith("; no delta is spent)") == ("delta" in asked and name == "oneshot")
    # Who reads the ranking is told how far counts were moved as who runs it is.
    far = re.search("about 998 of 1,000 [^;)]*", told["mechanism"])
    assert far is None or of_draws([found.manifest]) == far[0]


def test_the_noise_is_told_in_users_or_in_what_the_amounts_are() -> None:
    """A resolution is a choice of ours: minutes are told as minutes, however finely they are counted."""
    assert facts({"epsilon": 1, "k": 10})["mechanism"] == (
        "oneshot (least noise here: about 998 of 1,000 counts change by less than 62 users)"
    )
    for resolution in (1, 0.1):
        told = facts({"epsilon": 1, "k": 10, "max_value": 10}, value_resolution=resolution)["mechanism"]
        assert told == "oneshot (least noise here: about 998 of 1,000 sums change by less than 621)"


@pytest.mark.parametrize(
    ("asked", "name"), [cell for cell in CELLS if {"publish_counts", "max_value"}.isdisjoint(cell[0])]
)
def test_beam_yaml_chooses_the_same(asked: dict[str, Any], name: str) -> None:
    given = dict(asked)
    domain = {} if given.pop("unknown_domain", False) else {"domain_range": f"0:{ITEMS}"}
    parameters = {"delta": given.pop("delta")} if "delta" in given else {}
    for more in ({}, {"mechanism": "auto"}):
        made = RankRows(**given, **domain, **more, parameters=parameters)
        assert made.rank.display_data()["mechanism"] == name
    with pytest.raises(ValueError, match="kbar needs mechanism"):
        RankRows(**given, **domain, parameters=parameters | {"kbar": 9})


WEEKS = {"window": "7d", "from": "2026-01-05", "to": "2026-02-16"}
SHARED = [
    ({"epsilon": 4, "k": 10}, "oneshot"),
    ({"epsilon": 4, "delta": 1e-6, "k": 10}, "peeling"),
    ({"epsilon": 2, "delta": 1e-6, "k": 50, "max_items_per_user": 4}, "gaussian"),
    ({"epsilon": 2, "delta": 1e-6, "k": 100, "max_items_per_user": 1000}, "weighted-order"),
    ({"epsilon": 2, "delta": 1e-6, "k": 100, "max_items_per_user": 1000, "publish_counts": 1}, "cdp-peeling"),
    ({"epsilon": 2, "delta": 1e-6, "k": 10, "unknown_domain": True}, "limit-domain"),
    ({"epsilon": 2, "delta": 1e-6, "k": 50, "unknown_domain": True}, "restricted-gumbel"),
]


@pytest.mark.parametrize(("asked", "name"), nightly_but(SHARED, SHARED[0], SHARED[2], *SHARED[5:]))
def test_the_share_of_a_window_decides_and_a_preview_says_so(asked: dict[str, Any], name: str) -> None:
    told = facts(asked, **WEEKS, privacy_unit="user")
    assert told["mechanism"].startswith(f"{name} (")
    shared = options(**asked, privacy_unit="user", horizon=6)
    planned = command("preview", *shared)
    assert f"mechanism: {name} (" in planned.out and f"In a run: --mechanism {name} " in planned.out, planned.err
    plain = json.loads(command("preview", *shared, "--json").out)["budget"]
    assert plain["mechanism"] == name
    assert told["mechanism"].partition(". With a delta")[0] == f"{name} ({plain['chosen_since']})"
    named = json.loads(command("preview", *shared, *options(mechanism=name), "--json").out)["budget"]
    assert named == {each: value for each, value in plain.items() if each != "chosen_since"}


def charged(release: str, output: str, **more: object) -> list[str]:
    paid = {"ledger": "sqlite:///b.db", "dataset": "d", "release_key": "file:key", "release_id": release}
    return words({"k": 3, "epsilon": 1, "domain": "items.txt"}, output=output, **paid, **more)


@pytest.mark.parametrize("unit", ["user-window", nightly("user")])
def test_the_name_spelt_out_asks_the_same_question(unit: str) -> None:
    """A repeat costs nothing, and publishes the same with the same manifest, whichever came first."""
    delta = {} if unit == "user-window" else {"delta": 1e-6}
    total = options(ledger="sqlite:///b.db", dataset="d", epsilon=3, privacy_unit=unit, **delta)
    assert command("budget", "create", *total).status == 0
    more = {**WEEKS, "privacy_unit": unit, **delta}
    first = command("run", *charged("r", "a.csv", **more))
    told = re.fullmatch(r"mechanism: ([a-z-]+) \(least noise .+\)", first.err.splitlines()[0])
    assert first.status == 0 and told, first.err
    for output, name in (("b.csv", told[1]), ("c.csv", "auto"), ("d.csv", None)):
        again = command("run", *charged("r", output, **more, mechanism=name))
        assert again.status == 0 and again.out.splitlines()[:-2] == first.out.splitlines()[:-2], again.err
        assert ("mechanism: " in again.err) == (name != told[1])
    manifests = [json.loads(Path(f"{name}.manifest.json").read_text()) for name in "abcd"]
    for each in manifests:
        assert each["mechanism"] == told[1]
        each.pop("output")
    assert all(each == manifests[0] for each in manifests)
    assert len(Ledger("sqlite:///b.db").read("d").charges) == 1
    other = command("run", *charged("r", "e.csv", **more, mechanism="pnf-peeling"))
    assert other.status == 2 and f"mechanism {told[1]} (now pnf-peeling): ask" in other.err
    other = command("run", *charged("s", "e.csv", **more, mechanism="pnf-peeling"))
    assert other.status == 0 and len(Ledger("sqlite:///b.db").read("d").charges) == 2


@pytest.mark.parametrize("delta", [0, 1.2e-6])
def test_a_choice_that_takes_most_of_a_ledger_by_rho_is_told_with_what_would_take_less(delta: float) -> None:
    """Before the charge, and not of a mechanism that was named, nor of a ledger that adds up epsilons alone."""
    total = options(ledger="sqlite:///b.db", dataset="d", epsilon=1.2, delta=delta, privacy_unit="user")
    assert command("budget", "create", *total).status == 0
    asked = charged("r", "a.csv", privacy_unit="user", epsilon=0.2)
    named = command("run", *asked, *options(mechanism="oneshot"), "--dry-run")
    checked, made = command("run", *asked, "--dry-run"), command("run", *asked)
    again = command("run", *asked, "--dry-run")
    for done, tells in ((named, False), (checked, bool(delta)), (made, bool(delta)), (again, False)):
        assert done.status == 0, done
        assert ("users, 5.1% would be used and not 16.7%" in f"{done.out}{done.err}") == tells, done


def test_what_takes_less_of_a_ledger_is_told_by_what_a_run_adds() -> None:
    """And not by what is used then, which half of a budget hides that was used before."""
    total = options(ledger="sqlite:///b.db", dataset="d", epsilon=1.2, delta=1.2e-6, privacy_unit="user")
    assert command("budget", "create", *total).status == 0
    before = command("run", *charged("r", "a.csv", privacy_unit="user", epsilon=0.5, mechanism="peeling"))
    assert "31.8% of the budget is used" in before.err, before
    checked = command("run", *charged("s", "b.csv", privacy_unit="user", epsilon=0.2), "--dry-run")
    assert "users, 36.9% would be used and not 58.3%" in checked.out, checked
    # Where only that fits, a refusal names no dearer way out alone.
    for words in (["--dry-run"], []):
        asked = charged("t", "c.csv", privacy_unit="user", epsilon=0.72)
        much = command("run", *asked, *words)
        assert much.status == 2 and "does not suffice" in much.err, much
        assert "ledger: by `peeling`, where about" in much.err and "would be used, and it would fit" in much.err
    assert command("run", *asked, *options(mechanism="peeling")).status == 0
    assert "peeling" not in command("run", *charged("u", "d.csv", privacy_unit="user", epsilon=1.2), "--dry-run").err


def test_a_notebook_is_charged_once() -> None:
    assert command("budget", "create", *options(ledger="sqlite:///b.db", dataset="d", epsilon=1)).status == 0
    release = Release(ReleaseKey.parse("file:key"), "a cell")
    asked = {"k": 3, "domain": [str(n) for n in range(9)], "epsilon": 1, "release": release}
    paid = {"ledger": "sqlite:///b.db", "dataset": "d"}
    rows = pl.read_csv("rows.csv").cast({"item": pl.String})
    assert rank(rows, **asked, **paid) == rank(rows, mechanism="oneshot", **asked, **paid)
    assert len(Ledger("sqlite:///b.db").read("d").charges) == 1


def test_the_choice_of_mechanism_does_not_depend_on_the_rows() -> None:
    for asked, _ in CELLS:
        one, other = facts(asked), facts(asked, input="others.csv")
        assert one["mechanism"] == other["mechanism"] and one["draw"] == other["draw"]
    asked = as_arguments(CELLS[3][0])
    found = [rank(pl.read_csv(name), **asked).manifest for name in ("rows.csv", "others.csv")]
    assert found[0].mechanism == found[1].mechanism == "laplace"


def test_a_mechanism_given_by_name_is_not_reported_as_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run tells how far its noise reaches, as of a chosen one, where that is known."""
    named = {"k": 3, "epsilon": 1, "mechanism": "oneshot"}
    far = "oneshot (about 998 of 1,000 counts change by less than 19 users)"
    assert facts(named)["mechanism"] == far and "mechanism" not in facts({**named, "mechanism": "joint"})
    assert "mechanism:" not in command("run", *words(named)).err
    assert (
        "mechanism:"
        not in command("preview", *options(epsilon=1, privacy_unit="user", horizon=3, mechanism="joint")).out
    )
    rank(pl.read_csv("rows.csv"), **as_arguments(named))
    assert "mechanism:" not in capsys.readouterr().err


def test_a_pipeline_s_author_is_told_the_choice_and_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    """Once, when the transform is made, and on the runner's page; nothing where a mechanism was named."""
    given: dict[str, Any] = {"k": 3, "epsilon": 1.0, "domain": RangeDomain(0, ITEMS)}
    with caplog.at_level(logging.INFO, "private_topk"):
        made = PrivateTopK(**given)
        reason = made.display_data()["mechanism_chosen_since"]
        assert [record.getMessage() for record in caplog.records] == [f"mechanism: oneshot ({reason})"]
        assert "mechanism_chosen_since" not in PrivateTopK(**given, mechanism="oneshot").display_data()
        assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"k": 3}, "epsilon must be given: it is the privacy budget, such as 1$"),
        ({"k": 3, "epsilon": 1, "domain": UnknownDomain()}, "delta must be given where the domain is unknown"),
        (
            {"k": None, "epsilon": 1},
            "k must be given: how many items to publish; with unknown_domain, delta and max_items_per_user it may be",
        ),
        (
            {"k": 3, "epsilon": 1, "period": Period.of("2026-01-05", "2026-01-19", "7d", to_date=True)},
            "delta must be given for correlated-gaussian, as max_items_per_user must: .*, for all windows to date",
        ),
        ({"k": 3, "epsilon": 1, "domain": None}, "domain must be a list of items or UnknownDomain"),
    ],
)
def test_invalid_choices_are_refused_in_python(asked: dict[str, Any], said: str) -> None:
    given = {"domain": RangeDomain(0, ITEMS), **asked}
    with pytest.raises(InvalidArgument, match=said):
        rank(pl.read_csv("rows.csv"), **given)
    with pytest.raises(InvalidArgument, match=said):
        PrivateTopK(**given)


@pytest.mark.parametrize("named", ["", nightly("  name: auto\n")])
def test_a_report_file_without_a_mechanism(named: str) -> None:
    Path("r.yaml").write_text(WEEKLY.replace("  name: joint\n", named))
    week = "--window-end", "2026-01-12"
    told = json.loads(command("report", "r.yaml", *week, "--dry-run", "--json").out)
    assert told["mechanism"].startswith("oneshot (least noise here: ")
    done = command("report", "r.yaml", *week)
    assert done.status == 0 and done.err.startswith("mechanism: oneshot (least noise here: "), done.err
    Path("r.yaml").write_text(WEEKLY.replace("name: joint", "name: oneshot"))
    assert "published before" in command("report", "r.yaml", *week).out
    Path("r.yaml").write_text(WEEKLY.replace("  name: joint\n", named + "  skew: 0.6\n"))
    refused = command("report", "r.yaml", *week, "--dry-run")
    assert refused.status == 2 and "mechanism.skew needs mechanism.name: " in refused.err
