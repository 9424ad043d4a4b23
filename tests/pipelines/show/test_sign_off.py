"""What somebody signs for says what the manifest says, and names every blank; items by their titles."""

from __future__ import annotations

import csv
import hashlib
import html
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from private_topk.pipelines.budget import Account, Budget, Ledger, charge
from private_topk.pipelines.budget.composition import UNITS
from private_topk.pipelines.question import Question
from private_topk.pipelines.release.manifest import BudgetFacts, Manifest
from private_topk.pipelines.show.published import PublishedReport
from private_topk.pipelines.show.sign_off import registry_entry, sheet
from private_topk.pipelines.show.words import corrections_of, guessed
from private_topk.transforms import stated
from private_topk.transforms.domain import UnknownDomain
from private_topk.transforms.mechanisms.exact.accounting import epsilon_within
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from private_topk.transforms.windows import Period
from tests.pipelines.show.rankings import PAGES, answered, asked, day, published, shown
from tests.pipelines.support import WEEKLY, command, costing, write

TITLES = "item,title\n0,tea\n1,cake\n2,cake\n"
TWO_DAYS = {"period": Period.of("2026-01-05", "2026-01-07", "1d")}
LEDGER = "sqlite:///budget.db"
NUMBERS = {"epsilon", "delta", "rho"}
BASIC = {"privacy_unit": "user", "horizon": 4}
OPTIMAL = {**BASIC, "horizon": 20, "mechanism": "oneshot", "delta": 1e-6}
ZCDP = {"privacy_unit": "user", "horizon": 100, "delta": 1e-6}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.csv", TITLES)
    write(tmp_path / "key", "0" * 32)
    return tmp_path


def charged(path: str, question: Question, url: str = LEDGER, dataset: str = "plays", user: str = "user") -> None:
    facts = {"key_id": question.release.key.key_id(), "fingerprint": hashlib.sha256(path.encode()).hexdigest()}
    facts["rows"] = {"time_column": "time", "time_unit": "s"} | ({"user_column": user} if user else {})
    with charge(question.request(dataset=dataset, **facts), url, tell=lambda line: None):
        published(path, question, dataset)


def charged_days(*numbers: int, **more: Any) -> None:  # noqa: ANN401
    for number in numbers:
        charged(f"days/{number}.csv", asked(f"weekly/{number}", **day(number), **more))


def charged_correction(**more: Any) -> None:  # noqa: ANN401
    """Of 6 January. Its manifest says what it corrects, as that of a report file does."""
    charged("days/6.correction-1.csv", asked("weekly/6/correction-1", **day(6), **more))
    place = Path("days/6.correction-1.manifest.json")
    corrects = [{"report": "weekly/6", "epsilon": 1.0, "delta": 0.0}]
    place.write_text(json.dumps(json.loads(place.read_text()) | {"corrects": corrects}))


def lose(pattern: str) -> None:
    for file in Path("days").glob(pattern):
        file.unlink()


def budget(url: str = LEDGER, dataset: str = "plays", **total: Any) -> None:  # noqa: ANN401
    Account(url, dataset).books.create(Budget.of(dataset, **{"epsilon": 10, **total}))


def signed(question: Question) -> tuple[str, dict[str, Any], Manifest]:
    counts = [(9,) * question.asked.max_items] if question.asked.publish_counts else ()
    manifest, _ = answered(question, counts=counts)
    report = PublishedReport([], manifest)
    return " ".join(" ".join(sheet(report)).split()), yaml.safe_load(registry_entry(report))["deployment"], manifest


@pytest.mark.parametrize(
    ("more", "on_the_sheet", "parameters", "variant"),
    [
        (
            TWO_DAYS,
            [
                "epsilon 1, delta 0",
                "rho 0.125 (zCDP)",
                "epsilon 2, delta 0",
                "right at most 73.2% of the time where they differ by one user's rows within one window, at most 88.1% "
                "of the time where they differ by one user's rows in all windows; without them, 50%",
            ],
            {"epsilon": 1.0},
            "Pure DP",
        ),
        (
            TWO_DAYS | {"privacy_unit": "user", "delta": 1e-6, "max_items_per_user": 1, "neighbours": "replace-one"},
            [
                "epsilon 1, delta 1e-06",
                "one user's rows in all windows",
                "add 1.08421e-19 to delta",
                "replacing one user",
            ],
            {"epsilon": 1.0, "delta": 1e-6},
            "Approximate DP",
        ),
    ],
)
def test_sheet_and_entry_say_what_the_manifest_says(
    more: dict[str, Any], on_the_sheet: list[str], parameters: dict[str, float], variant: str
) -> None:
    words, deployment, manifest = signed(asked(**more))
    assert all(said in words for said in on_the_sheet), words
    assert "computational" in words and "signed name, date" in words
    assert deployment["privacy_loss"]["privacy_parameters"] == parameters
    assert deployment["dp_variant"]["variant_name"] == variant
    assert deployment["basic"]["publication_date"] == manifest.released
    details, shared = deployment["privacy_loss"]["privacy_parameters_details"], "for every other user, add "
    assert (shared in words) is (f"Hash collisions: {shared}1.08421e-19 to delta." in details), details
    assert manifest.privacy and deployment["privacy_loss"]["privacy_unit"] == manifest.privacy.unit in words


@pytest.mark.parametrize(
    ("more", "on_the_sheet", "in_the_entry"),
    [
        ({"mechanism": "gaussian", "delta": 1e-6, "max_items_per_user": 1}, "rho 0.0", "None."),
        (
            {"publish_counts": 0.5, "round_counts": 10},
            "published counts ± 13 with a probability of at least 95%, for each item by itself",
            "Noisy counts are rounded to multiples of 10.",
        ),
        (
            {"mechanism": "laplace", "max_items_per_user": 1, "publish_counts": "drawn", "round_counts": 10},
            "published counts ± 9 with a probability of at least 95%, for all items of a ranking together",
            "multiples of 10. They come with the draw, and are too high on average.",
        ),
        ({"publish_counts": 0.25, "publish_counts_delta": 1e-6}, "published counts ± ", "multiples of 1."),
        (
            {
                "period": Period.of("2026-01-05", "2026-01-07", "1d", to_date=True),
                "mechanism": "correlated-gaussian",
                "delta": 1e-6,
                "max_items_per_user": 1,
            },
            "of one period, times",
            "None.",
        ),
    ],
)
def test_what_became_of_counts_and_what_a_window_costs(
    more: dict[str, Any], on_the_sheet: str, in_the_entry: str
) -> None:
    words, deployment, _ = signed(asked(**more))
    assert on_the_sheet in words, words
    bound = " what of a person counts One item of each person"
    assert (bound in words) is ("max_items_per_user" in more), words
    told = {0.5: "published too, with pure noise (Laplace or K-norm), for epsilon 0.5 of each ranking"}
    told[0.25] = "published too, with Gaussian noise, for epsilon 0.25 and delta 1e-06 of each ranking"
    told["drawn"] = "published too, those of the draw"
    counts = told.get(more.get("publish_counts", 0), "noisy counts")
    for said in (words, deployment["implementation"]["mechanisms"]):
        assert (counts in said) is ("publish_counts" in more), said
    assert ("published counts" in words) is ("publish_counts" in more), words
    assert in_the_entry in deployment["accounting"]["post_processing"]


def test_the_entry_says_what_a_row_is_who_is_trusted_and_how_many_releases_there_are() -> None:
    grouped = {"groups": ["x", "y", "z"]}
    for more, row, releases in (
        ({}, "a user, an item.", "One ranking of all rows."),
        (
            TWO_DAYS,
            "a user, an item, a time.",
            "One ranking in each of 2 windows, 5 to 6 January 2026 (UTC).",
        ),
        (
            TWO_DAYS | {"period": Period.of("2026-01-05", "2026-01-07")},
            "a user, an item, a time.",
            "One ranking in one window, 5 to 6 January 2026 (UTC).",
        ),
        (grouped, "a user, an item, a group.", "One ranking of all rows for each of 3 groups."),
        (
            grouped | TWO_DAYS,
            "a user, an item, a group, a time.",
            "One ranking for each of 3 groups in each of 2 windows, 5 to 6 January 2026 (UTC).",
        ),
    ):
        words, deployment, _ = signed(asked(**more))
        assert ("small groups which are too small for a ranking" in words) is ("groups" in more), words
        groups = " Groups: 3, a public list." if "groups" in more else ""
        assert deployment["dp_variant"]["data_domain"] == f"Rows of {row} Items: 3, a public list.{groups}"
        assert deployment["deployment_model"]["release_type_details"] == releases
        assert deployment["deployment_model"]["actors"].startswith(
            "A trusted curator runs private-topk over the rows, by Beam's runner direct. Readers"
        )


@pytest.mark.parametrize("more", [{}, TWO_DAYS, {**TWO_DAYS, "privacy_unit": "user"}], ids=str)
def test_every_blank_of_the_entry_is_named_and_no_other_field(more: dict[str, Any]) -> None:
    text = registry_entry(PublishedReport([], answered(asked(**more))[0]))
    heads = [line.removeprefix("# ").split(": ") for line in text.splitlines() if line.startswith("#")]
    named, added = ({name for head, name in heads if head.startswith(f"to be {how}")} for how in ("filled", "added"))
    deployment = yaml.safe_load(text)["deployment"]
    blank = {
        f"{section}.{field}"
        for section, fields in deployment.items()
        for field, value in fields.items()
        if "TO BE FILLED IN" in str(value)
    }
    assert added == {"basic.data_product_sector", "deployment_model.data_source_type"}, "a choice of words"
    assert blank == named and {"basic.data_curators", "administrative.registry_authors"} < blank


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.is_private and page.manifest])
def test_any_text_stays_a_text_on_the_sheet_and_in_the_entry(name: str) -> None:
    """Also one with the marks of YAML, of templates and of lines."""
    hostile = "a: | {{ b }} # 'c'\n- \u2028\u202e\x00"
    for heading in ("", hostile):
        report = msgspec.structs.replace(PAGES[name].manifest, dataset=heading or None)
        shown = PublishedReport(PAGES[name].rows, report, heading)
        _, *lines = "\n".join(sheet(shown)).split("\n")
        assert all(line.isprintable() and len(line) <= 100 for line in lines)
        deployment = yaml.safe_load(registry_entry(shown))["deployment"]
        assert deployment["basic"]["name"] == shown.title and deployment["privacy_loss"]["privacy_parameters"]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0), (1, 0), (2, 1e-6), (1, 0.3), (5, 0.01), (30, 0)])
def test_no_guess_is_right_more_often_than_the_sheet_says_and_one_is_as_often(epsilon: float, delta: float) -> None:
    """By the two laws of four answers from which all others of that guarantee follow by forgetting something."""
    told = guessed(BudgetFacts(epsilon=epsilon, delta=delta))
    one = (delta, (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon)), 0.0)
    assert one[1] == pytest.approx(math.exp(epsilon) * one[2])
    best = sum(map(max, one, reversed(one))) / 2
    found = re.search(r"at most (\S+)% of the time", told)
    assert (found and 0 <= float(found[1]) / 100 - best < 0.001) or (best > 0.999 and "nearly always" in told)


def test_nothing_is_signed_for_without_a_promise() -> None:
    published("r.csv", asked())
    Path("r.manifest.json").rename("moved.json")
    for flag, more in product(("--sign-off", "--registry"), ((), ("--ledger", LEDGER))):
        done = command("show", "r.csv", flag, *more)
        assert (
            done.status == 2 and "no manifest beside this ranking that promises anything" in done.err and not done.out
        )
        assert "if that is lost bring it back from a copy" in done.err


def test_a_ledger_fills_in_what_all_releases_have_spent() -> None:
    budget(delta=1e-6, unit="user", neighbours="replace-one")
    of_a_user = {**TWO_DAYS, "privacy_unit": "user", "neighbours": "replace-one"}
    for name, mechanism in (("r", "joint"), ("other", "pnf-peeling")):
        charged(f"{name}.csv", asked(name, mechanism=mechanism, **of_a_user))
    [found] = json.loads(command("budget", "show", "--ledger", LEDGER, "--json").out)["budgets"]
    said = (
        "The ledger's budget of dataset plays is epsilon 10, delta 1e-06 for one user's rows in all windows "
        "(neighbours: replace-one): all that it lets through stays within that. "
        f"So far 2 charges have spent epsilon {found['spent']['epsilon']:g}, delta 0, "
        "added up."
    )
    assert found["spent"]["epsilon"] == 2
    spent = "what releases of the same rows have spent"
    assert f"other releases {spent} (`private-topk budget show`) " in shown("r.csv", "--sign-off")
    published("alone.csv", asked("alone", **of_a_user))
    nobody = "other releases no ledger was charged for this: unless it was adopted, nobody adds up"
    assert f"{nobody} {spent} horizon " in shown("alone.csv", "--sign-off")
    words = shown("r.csv", "--sign-off", "--ledger", LEDGER)
    before, after = words.split("To be filled in")
    said += " Among these are charges of other, which no other number here counts."
    said += " The promise above is of these rankings, at its own delta; what is spent is of all these charges, at the"
    said += " ledger's: both hold."
    assert f"charged so far {said}" in before and "other releases" not in after
    entry = yaml.safe_load(command("show", "r.csv", "--registry", "--ledger", LEDGER).out)
    assert entry["deployment"]["accounting"]["composition"] == f"basic composition over 2 windows. {said}"


def test_the_rankings_that_one_user_can_change_are_counted_over_all_that_was_published(tmp_path: Path) -> None:
    """Also where the question has changed, which no sheet is written for: two days of two rankings, two of one."""

    def told(place: str) -> str | None:
        assert command("show", place, "--html", "page.html", "--overwrite").status == 0
        text = " ".join((tmp_path / "page.html").read_text().split())
        found = re.search("rankings one user can change</dt><dd>(.*?)</dd>", text)
        return found and found[1]

    for number, most in ((5, 2), (6, 2), (7, 1), (8, 1)):
        question = asked(str(number), **day(number), groups=["x", "y"], groups_per_user=most)
        published(f"days/{number}.csv", question)
    assert told("days") == "6 of all that is published here" and told("days/5.csv") == "2 of all that is published here"
    assert told("days/7.csv") is None
    sheet = shown("days/5.csv", "--sign-off")
    assert "rankings one user can change 2 of all that is published here" in sheet
    (tmp_path / "days" / "6.manifest.json").unlink()
    more = "; those that are lost, or only charged, come on top"
    assert told("days") == f"4 of all that is published here{more}", "nothing tells what became of that day"


def test_releases_are_counted_with_those_that_were_corrected_are_lost_or_have_no_item() -> None:
    """On the sheet and in the entry; what the ledger alone still knows of their windows is named with its sums."""
    budget()
    charged_days(5, 6, 7)
    charged_correction()

    def told() -> list[str]:
        return [shown("days", form, "--ledger", LEDGER) for form in ("--sign-off", "--registry")]

    Path("days/5.csv").unlink()
    sheet, entry = told()
    assert "4 releases, weekly/5 to weekly/7, 1 of them a correction" in sheet, sheet
    assert "in each of 3 windows, 5 to 7 January 2026 (UTC), beside one correction" in entry
    assert "url_slug: weekly status" in entry, entry
    assert "The ledger has charged" not in sheet + entry and "4 charges have spent" in sheet
    once_more = (
        "Published more than once: the window of 2026-01-06 (2 times). The last is shown, and all of these are counted."
    )
    assert f"corrections {once_more}" in sheet and once_more in entry and "of each window, each time rho " in sheet
    assert "6 January 2026 (UTC), corrected" in (words := command("show", "days").out)
    assert "7 January 2026 (UTC), corrected" not in words and once_more in " ".join(words.split())
    lose("6.correction-1.*")
    for each in told():
        assert "added up; together epsilon 4, delta 0" in each
        why = "of which no manifest is here: these numbers count that"
        assert f"The ledger has charged weekly/6/correction-1 too, {why}." in each, each
    sheet, _ = told()
    assert "budget epsilon 2, delta 0 of each" in sheet and "a person in all windows epsilon 4, delta 0" in sheet
    entry = command("show", "days", "--registry", "--ledger", LEDGER).out
    assert yaml.safe_load(entry)["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"] == 2
    assert "4 releases, weekly/5 to weekly/7, 1 of them a correction or only charged" in sheet
    last = "Charged more than once: the window of 2026-01-06 (2 times). The last that is here is shown, and all of"
    assert last in sheet and "Published more than once" not in sheet
    words = command("show", "days", "--ledger", LEDGER).out
    assert ", corrected" not in words and last in " ".join(words.split()), "what is shown is what was to be corrected"
    assert "what a ledger tells The ledger has" in sheet
    assert "3 of all that is published here; those that are lost, or only charged, come on top" in sheet
    alone = command("show", "days/7.csv", "--sign-off", "--ledger", LEDGER).out
    assert "The ledger has charged" not in alone, "of other windows"


@pytest.mark.parametrize("form", ["", "--json", "--sign-off"])
def test_a_ranking_that_was_corrected_since_names_its_correction(form: str) -> None:
    """Unless that is shown too."""
    budget()
    charged_days(6)
    files = ["days/6.csv", "days/6.correction-1.csv"]
    assert not command("show", files[0], *form.split()).err
    charged_correction()
    of_both = command("show", files[0], *form.split(), "--ledger", LEDGER)
    told = " ".join(f"{of_both.out} {of_both.err}".split())
    assert "/correction-1 too, beyond the files shown: these numbers" in told and "no manifest" not in told
    done = command("show", files[0], *form.split())
    assert done.err == f"{files[0]} was corrected: show {files[1]} instead, or the folder of both\n", done
    for shown_too in (files, ["days"], files[1:]):
        assert not command("show", *shown_too, *form.split()).err


def test_a_correction_by_another_epsilon_has_its_own_rho_on_the_sheet() -> None:
    """By hand: joint costs epsilon² / 8. Also of the correction alone, or where only a ledger tells of it."""
    budget()
    charged_days(5, 6, 7)
    charged_correction(epsilon=2.0)
    place = Path("days/6.correction-1.manifest.json")
    [first], facts = (facts := json.loads(place.read_text()))["corrects"], facts
    place.write_text(json.dumps(facts | {"corrects": [first | {"zcdp": {"rho": 0.125, "delta": 0.0}}]}))
    both = "of each window, each time rho 0.125 (zCDP) 3 times, rho 0.5 (zCDP) once "
    assert both in (sheet := shown("days", "--sign-off")), sheet
    alone = "of each window, each time rho 0.5 (zCDP) once, rho 0.125 (zCDP) once "
    assert alone in (sheet := shown(str(place.with_suffix("").with_suffix(".csv")), "--sign-off")), sheet
    for lost in ("6.correction-1.*", "5.*"):
        lose(lost)
        assert both in (sheet := shown("days", "--sign-off", "--ledger", LEDGER)), sheet


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("same_key", [False, True])
def test_a_release_that_two_have_drawn_counts_twice(corrected: bool, same_key: bool) -> None:
    """Under two keys, or from copies of a ledger under one; whether it lies there, or is lost and a correction tells of
    one of both.
    """
    budget()
    charged_days(5, 6)
    if corrected:
        charged_correction()
        for name in ("csv", "manifest.json"):
            Path(f"days/6.{name}").unlink()
    [drawn] = [each for each in Ledger(LEDGER).read().charges if each.release_id == "weekly/6"]
    other = drawn if same_key else replace(drawn, key_id="another")
    assert Ledger(LEDGER).adopt([drawn, other])
    sheet = shown("days", "--sign-off", "--ledger", LEDGER)
    many = 3 + corrected
    assert f"budget epsilon {many - 1}, delta 0 of" in sheet, sheet
    assert f"a person in all windows epsilon {many}, delta 0" in sheet and f"So far {many} charges have" in sheet
    assert f"{many} releases, weekly/5 to weekly/6" in sheet and f"2026-01-06 ({many - 1} times)" in sheet
    assert "The ledger has charged weekly/6 too" in sheet


def test_every_form_counts_what_a_ledger_alone_still_knows_and_says_where_none_is_asked(tmp_path: Path) -> None:
    """Of a budget of each window, as of one of all: a page tells how much it counts, and of the ledger its total."""
    budget()
    charged_days(5, 6)
    charged("days/6.correction-1.csv", asked("weekly/6/correction-1", **day(6)))
    lose("6.correction-1.*")

    def told(*more: str) -> list[str]:
        shown("days", "--html", "page.html", "--overwrite", *more)
        page = " ".join(Path("page.html").read_text().split())
        return [page, shown("days", *more), shown("days", "--sign-off", *more)]

    for said in told():
        unseen = "a correction or a lost period that is not shown adds to these numbers."
        assert f"All that is shown here counts: {unseen}" in said, said
    with_ledger = told("--ledger", LEDGER)
    total = "rows within one window (neighbours: add-remove): all that it lets through stays within that."
    for said in with_ledger:
        assert said.count(total) == 1
        assert "≤ e^2 · P(A(D′) ∈ S)" in said and "a correction that is still to come adds to these" in said, said
    for said in with_ledger[:2]:
        assert "These numbers also count one more publication that a ledger has charged" in said, said
        assert "in all of them is protected by epsilon 3." in said and "correction-1" not in said, said
    done = command("show", "days", "--json", "--ledger", LEDGER)
    assert json.loads(done.out)["manifest"]["privacy"]["epsilon"] == 2 and "weekly/6/correction-1 too" in done.err
    anew = ("--ledger", "sqlite:///anew.db")
    budget(anew[1])
    assert command("budget", "adopt", "days", *anew, "--dataset", "plays").status == 0
    adopted = (
        "In the ledger 2 of 2 charges were adopted once published (weekly/5, weekly/6): if a ledger was lost before,"
    )
    for said in (*told(*anew), shown("days", "--registry", *anew)):
        assert unseen in said and said.count(adopted) == 1, "it may lack what the lost one had charged"
    done = command("show", "days", "--json", *anew)
    assert (
        json.loads(done.out)["lost"] == [f"{adopted} what else that had charged is missing here."]
        and adopted in done.err
    )
    Path("days/5.manifest.json").unlink()
    lost = "5.csv has no manifest beside it: what was published there is not shown, and "
    for plain, counted in zip(told(), told("--ledger", LEDGER), strict=True):
        assert f"{lost}its cost may be missing from these numbers." in plain, plain
        assert f"{lost}counts in these numbers only as the ledger has charged it." in counted, counted


@pytest.mark.parametrize("dataset", [None, "searches"])
def test_a_release_that_a_ledger_has_not_charged_is_named_until_it_is_adopted(dataset: str | None) -> None:
    """Of a day that was published without the ledger, or under a dataset of another ledger."""
    budget(), budget("sqlite:///other.db", "searches")
    charged_days(5, 6, 7)
    published("days/8.csv", asked("weekly/8", **day(8)), dataset)
    lose("5.*")

    def told(form: str) -> tuple[str, str]:
        done = command("show", "days", *filter(None, [form]), "--ledger", LEDGER)
        assert done.status == 0, done
        return " ".join(done.out.split()), done.err

    lacks = "The ledger has not charged weekly/8: these numbers count that by its manifest, and the budget does not"
    for form in ("--sign-off", "--registry"):
        said, _ = told(form)
        assert lacks in said and "The ledger has charged weekly/5 too, of which no manifest" in said, said
        assert "So far 3 charges have spent" in said, said
    assert "of a person in all windows epsilon 4, delta 0" in (said := told("--sign-off")[0]), said
    assert "was charged when drawn" not in shown("days/6.csv", "--sign-off")
    every = ", searches of 1 release" if dataset else "; for 1 release none was charged when drawn"
    for told_by in (said, shown("days", "--sign-off")):
        assert f"dataset plays of 2 releases{every} released" in told_by, told_by
    for form in ("", "--json"):
        assert lacks in told(form)[1]
    assert lacks in told("")[0]
    adopted = command("budget", "adopt", "days", "--ledger", LEDGER, "--dataset", "plays")
    assert adopted.status == (2 if dataset else 0)
    assert (lacks in told("--sign-off")[0]) is bool(dataset)
    missing = "1 of 4 charges was adopted once published (weekly/8): if a ledger was lost before, what else that had"
    for form in ("--sign-off", "--registry"):
        assert (missing in told(form)[0]) is not bool(dataset), form
    unknown = "other releases what else a ledger that was lost had charged for the same rows, if one was"
    assert (unknown in told("--sign-off")[0]) is not bool(dataset)
    assert (f"adopted   {missing}" in command("budget", "show", "--ledger", LEDGER).out) is not bool(dataset)


@pytest.mark.parametrize(
    ("epsilon", "both"), [(1.0, "1.25"), (2.0, "2.25")], ids=["at the same cost", "at another cost"]
)
@pytest.mark.parametrize("beside", [False, True])
def test_another_answer_than_was_charged_is_not_taken_for_it(epsilon: float, both: str, beside: bool) -> None:
    """Published without the ledger, under an id that the ledger has charged for other rows; alone, or in a folder with
    a charged one. The charge counts too, and adoption pays for this answer.
    """
    budget(unit="user")
    charged("charged/5.csv", asked("weekly/5", **day(5), **BASIC))
    published("days/5.csv", asked("weekly/5", **day(5), **BASIC | {"epsilon": epsilon}))
    other = Path("days/5.csv").read_bytes().replace(b'1,"0"', b'1,"2"')
    there = Manifest.decode(Path("days/5.manifest.json").read_bytes())
    write(Path("days/5.csv"), other), write(Path("days/5.manifest.json"), there.at("days/5.csv", other).encode())
    assert there.ranking_sha256 != there.at("", other).ranking_sha256
    if beside:
        charged_days(6, **BASIC | {"epsilon": epsilon})

    def told() -> Iterator[str]:
        for form in ((), ("--json",), ("--sign-off",), ("--registry",), ("--html", "page.html", "--overwrite")):
            done = command("show", "days", *form, "--ledger", LEDGER)
            assert done.status == 0 and "state other costs" not in done.out + done.err, done
            yield " ".join((done.out if form and form[0] in ("--sign-off", "--registry") else done.err).split())

    for said in told():
        assert "has not charged this answer of weekly/5: these numbers count that by its manifest" in said, said
        assert "The ledger has charged weekly/5 too, of which no manifest is here: these numbers count that" in said
    sheet = shown("days", "--sign-off", "--ledger", LEDGER)
    assert f"budget epsilon {both}, delta 0" in sheet and f"So far {1 + beside} charge" in sheet, sheet
    assert f"≤ e^{both} ·" in shown("days", "--ledger", LEDGER)
    adopted = command("budget", "adopt", "days", "--ledger", LEDGER, "--dataset", "plays")
    assert adopted.status == 0 and f"1 of {1 + beside} releases adopted" in adopted.out, adopted
    for said in told():
        assert "has not charged" not in said and "has charged weekly/5 too" in said, said
    sheet = shown("days", "--sign-off", "--ledger", LEDGER)
    assert f"budget epsilon {both}, delta 0" in sheet and f"So far {2 + beside} charges" in sheet, sheet
    again = command("budget", "adopt", "days", "charged", "--ledger", LEDGER, "--dataset", "plays")
    assert f"0 of {2 + beside} releases adopted" in again.out, again
    assert "not charged" not in shown("charged", "--sign-off", "--ledger", LEDGER)


GROUPED = {"groups": ["DE", "FR"], "groups_per_user": 2, "overall": True, "max_items_per_user": 2}
SUMS = {"mechanism": "laplace", "max_value": 2.5, "value_resolution": 0.5, "max_items_per_user": 1}
LAPLACE = {"mechanism": "laplace", "max_items_per_user": 1}
DRAWN = LAPLACE | {"publish_counts": "drawn", "round_counts": 10}
TO_DATE = DRAWN | {"mechanism": "correlated-gaussian", "delta": 1e-6}
TO_DATE["period"] = Period.of("2026-01-05", "2026-01-07", "1d", to_date=True)


@pytest.mark.parametrize(
    "more",
    [
        *({}, BASIC, OPTIMAL, ZCDP, GROUPED, SUMS, ZCDP | {"mechanism": "gaussian", "max_items_per_user": 1}),
        DRAWN,
        {"publish_counts": 0.25, "publish_counts_delta": 1e-6, "neighbours": "replace-one"},
        {"mechanism": "limit-domain", "domain": UnknownDomain(), "delta": 1e-6, "max_items_per_user": 1},
    ],
)
def test_what_nobody_has_edited_is_not_disputed(more: dict[str, Any]) -> None:
    """By a charge, and by an adoption, which tells less."""
    facts = {"delta": 1e-3, "unit": more.get("privacy_unit", "user-window")}
    neighbours = more.get("neighbours", "add-remove")
    for url in (LEDGER, "sqlite:///other.db"):
        budget(url, neighbours=neighbours, **facts)
    charged_days(5, **more)
    command("budget", "adopt", "days", "--ledger", "sqlite:///other.db", "--dataset", "plays")
    for url in (LEDGER, "sqlite:///other.db"):
        done = command("show", "days", "--sign-off", "--ledger", url)
        assert done.status == 0 and "one was changed since" not in done.out + done.err, done


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ('"add-remove"', '"replace-one"', "neighbours (replace-one, charged add-remove)"),
        ('"mechanism": "joint"', '"mechanism": "shop.own"', "mechanism (shop.own, charged joint)"),
        ('"user": "user"', '"user": "session"', "user column (session, charged user)"),
        ('"time": "time"', '"time": "written"', "time column (written, charged time)"),
        ('"max_items_per_user": 2', '"max_items_per_user": 1', "max_items_per_user (1, charged 2)"),
        ('"size": 3', '"size": 9', "domain"),
        ('"size": 2', '"size": 5', "groups"),
        ('"windows": 4', '"windows": 3', "horizon"),
    ],
)
def test_a_manifest_that_states_another_question_than_was_charged_is_named(was: str, now: str, told: str) -> None:
    """On sheet and page, and when it is adopted: the promise or its accuracy rests on it."""
    budget(unit="user")
    charged_days(5, 6, **BASIC, **GROUPED)
    for number in (5, 6):
        place = Path(f"days/{number}.manifest.json")
        assert was in (text := place.read_text())
        shared = 2.0 ** (-63 if "replace-one" in now else -64)  # goes with the neighbours
        write(place, text.replace(was, now).replace(str(2.0**-64), str(shared)))
    said = f"The manifest and the ledger's charge of weekly/5, weekly/6 state other {told}: one was changed since, and "
    said += "these numbers count by the manifest: compare it with a copy."
    for form in ("--sign-off", "--registry"):
        assert said in " ".join(shown("days", form, "--ledger", LEDGER).replace("''", "'").split())
    assert command("show", "days", "--html", "page.html", "--ledger", LEDGER).status == 0
    assert html.unescape(Path("page.html").read_text()).count(said) == 1
    assert said in command("budget", "adopt", "days", "--ledger", LEDGER, "--dataset", "plays").err


def test_of_a_shorter_horizon_and_an_earlier_day_than_were_charged_the_ledgers_stand() -> None:
    budget(unit="user")
    charged_days(5, 6, **BASIC)
    [day] = {charge.charged[:10] for charge in Ledger(LEDGER).read().charges}
    for number in (5, 6):
        place = Path(f"days/{number}.manifest.json")
        facts = json.loads(place.read_text()) | {"released": "2026-01-02"}
        facts["privacy"]["windows"] = 3
        write(place, json.dumps(facts))
    sheet = shown("days", "--sign-off", "--ledger", LEDGER)
    assert f"state other horizon, released (2026-01-02, charged {day}): one was changed since" in sheet, sheet
    assert "each other one of the 4 windows once" in sheet, sheet


def test_versions_are_told_of_each_release_and_another_user_column_is_another_series() -> None:
    """A year has an upgrade, and the row that says who drew what must not vanish with it; nor may who is protected."""
    budget(unit="user")
    charged_days(5, 6, **BASIC)
    place = Path("days/6.manifest.json")
    drawn = json.loads(place.read_text())
    write(place, json.dumps(drawn | {"versions": {**drawn["versions"], "numpy": "99.0"}}))
    sheet = shown("days", "--sign-off")
    assert (
        "numpy 99.0" in sheet and sheet.count(" of 1 release") == 2 and "a user is a value of the column user" in sheet
    )
    write(place, json.dumps(drawn | {"columns": {**drawn["columns"], "user": "session"}}))
    done = command("show", "days", "--sign-off")
    assert done.status == 2 and "user column user (now session)" in done.err, done


def test_a_user_column_that_the_charge_does_not_name_is_told() -> None:
    """A pipeline whose elements have no names tells none, and its manifest may be edited; what was adopted tells it."""
    budget()
    place, said = Path("days/5.manifest.json"), "state other user column (user, charged none)"
    charged("days/5.csv", asked("weekly/5", **day(5)), user="")
    facts = json.loads(written := place.read_text())
    write(place, json.dumps(facts | {"columns": {"item": "item"}}))
    assert "a user is what the pipeline takes for one" in (sheet := shown("days", "--sign-off", "--ledger", LEDGER))
    assert "state other" not in sheet
    write(place, written)
    assert said in (sheet := shown("days", "--sign-off", "--ledger", LEDGER)), sheet
    budget("sqlite:///other.db")
    assert command("budget", "adopt", "days", "--ledger", "sqlite:///other.db", "--dataset", "plays").status == 0
    assert "state other" not in shown("days", "--sign-off", "--ledger", "sqlite:///other.db")


def test_the_rho_of_counts_is_told_apart_and_how_it_goes_with_the_deltas_beside_it() -> None:
    counted = {"publish_counts": 0.5, "publish_counts_delta": 1e-7, "mechanism": "laplace", "max_items_per_user": 1}
    words, _, manifest = signed(asked(**day(5), **counted, **ZCDP))
    assert manifest.privacy and manifest.privacy.share_of_a_window and manifest.zcdp_of_a_window
    counts = manifest.privacy.share_of_a_window.noisy_counts or {}
    own = CountBudget(Fraction(str(counts["epsilon"])), Fraction(str(counts["delta"]))).cost().rho
    rest = stated.number(manifest.zcdp_of_a_window.rho - own)
    assert f", {rest} of it the ranking's and {stated.number(own)} the counts'. Each mechanism's" in words, words
    assert "the deltas of windows do not add up to its delta" in words, words


@pytest.mark.parametrize(("name", "told"), [("noise_95", "3"), ("noise_stddev", "0.5")])
@pytest.mark.parametrize("more", [TWO_DAYS, GROUPED])
def test_a_manifest_of_another_noise_of_counts_than_its_ranking_is_refused(
    name: str, told: str, more: dict[str, Any]
) -> None:
    published("days/5.csv", asked("weekly/5", **more, publish_counts=1.0), counts=[(9, 8)] * 2)
    assert command("show", "days").status == 0
    place = Path("days/5.manifest.json")
    write(place, re.sub(rf'"{name}": [0-9.]+', f'"{name}": {told}', place.read_text()))
    done = command("show", "days")
    assert done.status == 2 and f"5.manifest.json states {name} {told}, and its ranking " in done.err, done


@pytest.mark.parametrize(("name", "told"), [("noise_95", 3), ("noise_stddev", 0.5)])
@pytest.mark.parametrize(
    "more",
    [
        *({"publish_counts": 0.5} | each for each in ({}, GROUPED, SUMS, LAPLACE | {"neighbours": "replace-one"})),
        {"publish_counts": 0.5, "publish_counts_delta": 1e-6, **ZCDP},
        DRAWN,
        TO_DATE,
    ],
)
def test_noise_that_was_edited_in_manifest_and_ranking_alike_is_held_against_the_budget(
    name: str, told: float, more: dict[str, Any]
) -> None:
    """With the SHA-256 of the ranking that was edited. What nobody has edited is shown."""
    published("r.csv", asked(**({} if "groups" in more else TWO_DAYS) | more), counts=[(9, 8)] * 2)
    assert command("show", "r.csv", "--sign-off").status == 0
    with Path("r.csv").open(newline="") as source:
        rows = list(csv.DictReader(source))
    with Path("r.csv").open("w", newline="") as target:
        writer = csv.DictWriter(target, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {name: str(told)} for row in rows)
    text = re.sub(rf'"{name}": [0-9.]+', f'"{name}": {told}', Path("r.manifest.json").read_text())
    edited = Manifest.decode(text.encode()).at("r.csv", Path("r.csv").read_bytes())
    Path("r.manifest.json").write_bytes(edited.encode())
    done = command("show", "r.csv", "--sign-off")
    assert done.status == 2 and "r.manifest.json contradicts itself: the noise of its counts" in done.err, done


def test_a_manifest_that_was_changed_is_called_one() -> None:
    """Where its ranking is there and where that is lost, and when it is adopted."""
    budget(unit="user")
    published("days/5.csv", asked("weekly/5", **day(5), **BASIC))
    text = Path("days/5.manifest.json").read_text()
    for _ in range(2):
        for facts, told in ((json.loads(text), "not private"), (json.loads(text), "`noisy_counts`")):
            if told == "not private":
                facts["private"] = False
            else:
                del facts["privacy"]["share_of_a_window"]["noisy_counts"]
            write(Path("days/5.manifest.json"), json.dumps(facts))
            for words in (("show", "days"), ("budget", "adopt", "days", "--ledger", LEDGER, "--dataset", "plays")):
                done = command(*words)
                assert done.status == 2 and "5.manifest.json is a manifest and was changed: " in done.err, done
                assert told in done.err and "bring it back from a copy" in done.err, done
        Path("days/5.csv").unlink(missing_ok=True)


def test_a_manifest_whose_windows_are_not_those_that_it_charges_contradicts_itself() -> None:
    """Nor may a total be of other windows than its horizon has: in weeks where a clock changes, in months and hours."""
    of_a_user = {"privacy_unit": "user"}
    of_a_month = of_a_user | {"period": Period.of("2026-02-01", "2026-03-01", "month"), "horizon": 12}
    summer = Period.of("2026-03-23", "2026-03-30", time_zone="Europe/Berlin")
    evening = Period.of("2026-01-02T12:00", "2026-01-03", "12h")
    for name, more, horizon in (
        ("days", TWO_DAYS | of_a_user, None),
        ("months", of_a_month, ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z")),
        ("weeks", of_a_user | {"period": summer, "horizon": 52}, ("2026-01-04T23:00:00Z", "2027-01-03T23:00:00Z")),
        ("halves", of_a_user | {"period": evening, "horizon": 6}, ("2026-01-02T00:00:00Z", "2026-01-05T00:00:00Z")),
    ):
        published(f"{name}.csv", asked(name, **more))
        place = Path(f"{name}.manifest.json")
        ends = horizon and {"start": horizon[0], "end": horizon[1]}
        facts = json.loads(place.read_text()) | {"horizon": ends}
        write(place, json.dumps(facts))
        assert command("show", f"{name}.csv", "--sign-off").status == 0, name
        half = {"windows": facts["privacy"]["windows"] // 2, "epsilon": facts["privacy"]["epsilon"] / 2}
        edits = [
            {"windows": facts["windows"][1:]},
            {"windows": [facts["windows"][0] | {"end": "2027-02-03T00:00:00Z"}, *facts["windows"][1:]]},
            {"privacy": facts["privacy"] | half},
        ]
        if ends:  # half of it, one period less or more, and the same number of periods that this is none of
            own, length = more["period"], more["period"].end - more["period"].start
            middle, last = own.end.isoformat(), datetime.fromisoformat(horizon[1])
            others = ({"end": middle}, {"start": own.start.isoformat()}, {"end": (last + length).isoformat()})
            edits += [{"horizon": ends | each} for each in (*others, {"end": (last - length).isoformat()})]
            away = {each: moment.replace("2026", "2025").replace("2027", "2026") for each, moment in ends.items()}
            edits.append({"horizon": away})
        for edit in edits:
            write(place, json.dumps(facts | edit))
            done = command("show", f"{name}.csv", "--sign-off")
            told = "lacks a window that its ranking has" if "windows" in edit else "contradicts itself: its unit, its"
            assert done.status == 2 and f"{name}.manifest.json {told}" in done.err, (edit, done)


def test_a_manifest_of_another_k_than_its_ranking_is_refused() -> None:
    budget()
    charged_days(5)
    place = Path("days/5.manifest.json")
    write(place, place.read_text().replace('"k": 2', '"k": 1'))
    done = command("show", "days")
    assert done.status == 2 and "5.manifest.json states k 1, and its ranking was asked for 2" in done.err, done
    Path("days/5.csv").unlink()
    said = "of weekly/5 state other k (1, charged 2)"
    assert said in " ".join(shown("days", "--sign-off", "--ledger", LEDGER).split())


@pytest.mark.parametrize(
    ("more", "part", "name", "value"),
    [
        *(({}, *edit) for edit in (("privacy", "epsilon", 0.1), ("privacy", "delta", 1e-3))),
        *(({}, *edit) for edit in (("zcdp_of_a_window", "rho", 0.0125), ("charge", "rho", "1/100000"))),
        *(({}, "parameters", *edit) for edit in (("epsilon", 2.0), ("noise", "exponential"))),
        *(({}, "charge", "epsilon", value) for value in ("1/0", "few", "1e999999999")),
        (BASIC, "privacy", "epsilon", 0.1),
        *((OPTIMAL, "privacy", *edit) for edit in (("epsilon", 0.1), ("delta", 1e-20), ("delta", 0.0))),
        *((ZCDP, "privacy", *edit) for edit in (("epsilon", 0.1), ("delta", 1e-9), ("delta", 0.0))),
        *((LAPLACE, "parameters", *edit) for edit in (("delta", 1e-6), ("epsilon", None), ("cap", 5))),
        *((each, "privacy", "neighbours", "replace-one") for each in ({}, LAPLACE, {"mechanism": "canonical"})),
        *((GROUPED, "groups", *edit) for edit in (("per_user", 1), ("rankings_of_a_user", 2), ("size", 1))),
        (GROUPED, "", "groups", None),
        (TWO_DAYS | {"privacy_unit": "user", "max_windows_per_user": 1}, "", "max_windows_per_user", 2),
        *((TWO_DAYS, "privacy", "unit", unit) for unit in (UNITS["user"], "one row")),
        (BASIC, "privacy", "unit", UNITS["user-window"]),
        *((TWO_DAYS | {"publish_counts": 0.5}, "windows", *edit) for edit in (("noise_95", 3), ("noise_stddev", None))),
        ({"publish_counts": 0.5}, "privacy", "noisy_counts", None),
        ({"max_items_per_user": 1}, "", "delta_of_a_shared_hash", 0),
        ({}, "", "report", "weekly/20260302T000000Z--20260309T000000Z"),
        ({}, "", "answer", "set"),
        (ZCDP, "privacy", "guarantee", "pure"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_neither_shown_nor_adopted(
    more: dict[str, Any], part: str, name: str, value: object
) -> None:
    """By the edit of a single field, where its ranking is there and where that is lost."""
    budget(delta=1e-5, unit=more.get("privacy_unit", "user-window"))
    for number in (5, 6):
        published(f"days/{number}.csv", asked(f"weekly/{number}", **day(number) | more))
    facts = json.loads(Path("days/6.manifest.json").read_text())
    edited = facts[part] if part else facts
    for place in edited if isinstance(edited, list) else [edited]:
        place[name] = value
    write(Path("days/6.manifest.json"), json.dumps(facts))
    for _ in range(2):
        for words in (("show", "days"), ("budget", "adopt", "days", "--ledger", LEDGER, "--dataset", "plays")):
            done = command(*words)
            assert done.status == 2 and "6.manifest.json contradicts itself" in done.err, (words, done)
        Path("days/6.csv").unlink(missing_ok=True)


@pytest.mark.parametrize("more", [{}, BASIC, ZCDP])
@pytest.mark.parametrize("edited", [(5, 6, 7), (5, 7)])
def test_of_a_manifest_and_a_ledger_that_state_other_costs_the_larger_counts(
    more: dict[str, Any], edited: tuple[int, ...]
) -> None:
    """Where manifests that agree with themselves state less, as if they had not been edited; the page says it too."""
    budget(delta=1e-5, unit=more.get("privacy_unit", "user-window"))
    charged_days(5, 6, 7, **more)
    texts = {number: Path(f"days/{number}.manifest.json").read_text() for number in edited}

    def told(factor: Fraction) -> list[dict[str, float]]:
        for number, text in texts.items():
            write(Path(f"days/{number}.manifest.json"), costing(text, factor))
        done = command("show", "days", "--json", "--ledger", LEDGER)
        assert command("show", "days", "--html", "page.html", "--overwrite", "--ledger", LEDGER).status == 0
        for said in (done.err, Path("page.html").read_text()):
            assert ("state other costs: one was changed since, and these numbers count the larger." in said) is (
                factor != 1
            )
        facts = json.loads(done.out)["manifest"]
        return [facts["privacy"], facts.get("all_windows") or {}, facts.get("zcdp_of_a_window") or {}]

    def within(some: list[dict[str, float]], others: list[dict[str, float]]) -> bool:
        pairs = [
            (one[name], two[name]) for one, two in zip(some, others, strict=True) for name in NUMBERS & {*one} & {*two}
        ]
        return all(one <= two * 1.0001 for one, two in pairs)

    whole, less, raised = (told(Fraction(factor)) for factor in (1, Fraction(1, 8), 2))
    assert within(whole, less) and within(less, whole), (whole, less)
    assert within(whole, raised) and raised[0]["epsilon"] > 1.4, raised


def test_a_series_that_was_charged_to_two_datasets_says_that_neither_budget_has_all() -> None:
    budget(), budget(dataset="searches")
    for number, dataset in ((5, "plays"), (6, "searches")):
        charged(f"days/{number}.csv", asked(f"weekly/{number}", **day(number)), dataset=dataset)
    lose("6.csv"), charged_days(7)
    lose("7.*")
    said = shown("days", "--sign-off", "--ledger", LEDGER)
    assert "charged to datasets plays, searches: none of their budgets counts all." in said, said
    for label in ("what is counted", "what is lost", "what a ledger tells"):
        assert said.count(f" {label} ") == 1, "a label for each, and one for all that a ledger tells"
    assert all(f"budget of dataset {dataset} is epsilon 10" in said for dataset in ("plays", "searches")), said


def test_a_sheet_names_what_its_dataset_was_charged_beside_it() -> None:
    """A correction under another name, or another ranking: nothing tells which."""
    budget()
    charged_days(5)
    others = "Among these are charges of"
    assert others not in shown("days", "--sign-off", "--ledger", LEDGER)
    charged("other.csv", asked("fix of weekly/5", **day(5)))
    sheet = shown("days", "--sign-off", "--ledger", LEDGER)
    assert f"{others} fix of weekly, which no other number here counts." in sheet, sheet
    assert "what a ledger tells" not in sheet


def test_words_name_every_repeat_that_the_sum_counts_of_a_release_of_several_windows() -> None:
    """Whose windows have files of their own, and of those of which all files are lost."""
    budget()
    parts = ("weekly/3", "03", "05"), ("weekly/5", "05", "07"), ("weekly/5/correction-1", "05", "07")
    for name, first, end in (*parts, ("weekly/3/correction-1", "03", "05")):
        question = asked(name, period=Period.of(f"2026-01-{first}", f"2026-01-{end}", "1d"))
        facts = {"key_id": question.release.key.key_id(), "fingerprint": "0" * 64}
        with charge(question.request(dataset="plays", **facts), LEDGER, tell=lambda line: None):
            published(f"all/{name.replace('/', '-')}", question, "plays", apart=True)
    kept = [f"all/weekly-{number}" for number in "35"]

    both = shown(*kept, "--sign-off", "--ledger", LEDGER)
    assert "4 releases, weekly/3 to weekly/5, 2 of them corrections" in both, both
    assert "budget epsilon 2, delta 0" in both, both
    days = ", ".join(f"2026-01-0{day} (2 times)" for day in (3, 4, 5, 6))
    assert f"Charged more than once: the windows of {days}. The last that is here is shown" in both
    second = shown(kept[1], "--sign-off", "--ledger", LEDGER)
    lost = ", ".join(f"2026-01-0{day} (2 times, and nothing of it is here)" for day in (3, 4))
    assert f"the windows of {lost}, 2026-01-05 (2 times), 2026-01-06 (2 times)." in second, second


def test_users_may_share_a_hash_under_every_key_of_a_series(tmp_path: Path) -> None:
    """Of two keys that a series has had, either may be the one under which two users share a hash."""

    for number in (5, 6):
        published(f"days/{number}.csv", asked(str(number), **day(number), max_items_per_user=1))
    assert "every other person adds 5.42102e-20 to delta." in shown("days")
    write(tmp_path / "key", "1" * 32)
    for number in (7, 8):
        published(f"days/{number}.csv", asked(str(number), **day(number), max_items_per_user=1))
    assert "every other person adds 1.08421e-19 to delta." in shown("days")
    published("days/9.csv", asked("9", **day(9)))
    assert "every other person adds 1.08421e-19 to delta." in shown("days"), (
        "also where one of them counts all rows of a user"
    )


@pytest.mark.parametrize("groups", [None, ["x", "y"]])
def test_what_is_published_beyond_the_horizon_is_stated_as_the_ledger_states_it(groups: list[str] | None) -> None:
    """Rhos add up, and are turned into an epsilon once, at the delta of one release and not of all."""
    budget(epsilon=10, delta=Fraction(2, 10**6), unit="user")
    shared = {"mechanism": "cdp-peeling", "epsilon": 2.0, "delta": 1e-6, "privacy_unit": "user", "horizon": 2}
    for number in range(5, 13):
        more = {} if groups is None else {"groups": groups, "groups_per_user": 2}
        charged(f"days/{number}.csv", asked(str(number), **day(number), **shared, **more))
    words = shown("days", "--sign-off", "--ledger", LEDGER)
    stated = re.search(r" budget epsilon (\S+), delta 1e-06\b", words)
    assert stated and f"8 charges have spent epsilon {stated[1]}, delta 1e-06, by zCDP." in words, words
    rho = re.search(r"rho (\S+) \(zCDP\)", words)
    assert rho and float(stated[1]) == pytest.approx(
        float(epsilon_within(8 * Fraction(rho[1]), Fraction(1, 10**6))), rel=1e-5
    )
    plain = shown("days")
    assert f"e^{stated[1]} · P(A(D′) ∈ S) + 1e-06 for every set S" in plain
    assert (
        "More windows are shown than one total was declared for" in plain
        and "each window that is still to come adds to these" in words
    )


def test_a_promise_of_all_windows_names_them_only_where_there_are_several() -> None:
    for more, reach in ((day(5), "the one window"), ({}, "the data"), (TWO_DAYS, "all 2 windows together")):
        published(f"{reach}.csv", asked(privacy_unit="user", **more))
        assert f"any one person in {reach} had been missing" in shown(f"{reach}.csv")


@pytest.mark.parametrize("delta", [1e-6, None])
def test_of_two_kinds_of_proof_the_sheet_says_where_only_epsilons_count(delta: float | None) -> None:
    of_a_user = {"privacy_unit": "user", "horizon": 8}
    published("days/5.csv", asked("5", **day(5), mechanism="gaussian", delta=1e-6, **of_a_user))
    published("days/6.csv", asked("6", **day(6), mechanism="joint", **({"delta": delta} if delta else {}), **of_a_user))
    bound = "composition over 8 windows. Not all here declared zCDP: each counts by its epsilon, an upper bound"
    assert (bound in shown("days", "--sign-off")) is (delta is None)
    assert "upper bound" not in shown("days/5.csv", "--sign-off") + shown("days/6.csv", "--sign-off")


def test_a_series_that_was_asked_otherwise_before_is_signed_for_with_all_that_it_cost() -> None:
    """The sheet and the entry state what is asked since, say so, and promise for both parts."""
    both = {"horizon": 2, "privacy_unit": "user"}
    published("days/5.csv", asked("5", **day(5), k=3, epsilon=1.0, groups=["x"], **both))
    published("days/6.csv", asked("6", **day(6), k=2, epsilon=3.0, groups=["x", "y"], domain=list("0123"), **both))
    change = "The windows before that of 2026-01-06 were asked otherwise: k 3 (now 2)"
    sheet, entry = (shown("days", flag) for flag in ("--sign-off", "--registry"))
    assert change in sheet and "below stands what is asked since" in sheet and change in entry
    assert "budget epsilon 2," in sheet and "epsilon: 2" in entry  # half of 1 and half of 3
    assert "of each window rho 0.03125 (zCDP) of 1, rho 0.28125 (zCDP) of 1 " in sheet, "0.5² / 8 and 1.5² / 8"
    assert "for each of 2 groups in each of 2 windows" in entry
    assert "items to choose from 4, a public list; other windows have other lists" in sheet, sheet
    assert "Items: 4, a public list; other windows have other lists." in entry


def test_of_a_group_that_came_later_nothing_is_said_of_windows_before() -> None:
    both = {"horizon": 2, "privacy_unit": "user", "mechanism": "oneshot"}
    published("days/5.csv", asked("5", **day(5), k=3, groups=["x"], **both))
    published("days/6.csv", asked("6", **day(6), k=2, groups=["x", "y"], **both))
    x, y = (" ".join(command("show", "days", "--group", group).out.split()) for group in "xy")
    assert "The windows before that of 2026-01-06 were asked otherwise: k 3 (now 2)" in x and "otherwise" not in y
    far = [said.partition("about 998 of 1,000 counts change by less than ")[2].partition(" ")[0] for said in (x, y)]
    assert int(far[0]) > int(far[1]), far
    sheet = " ".join(shown("days", "--sign-off").split())
    assert "about 998 of 1,000 counts change" in sheet, "of noise that reaches both ways, twice one in a thousand"


def test_of_two_changes_each_is_told_against_what_is_asked_since_the_newest() -> None:
    for number, k in ((5, 3), (6, 2), (7, 3)):
        published(f"days/{number}.csv", asked(str(number), **day(number), k=k))
    since = "k 2 (now 3); below stands what is asked since 2026-01-07"
    said = shown("days", "--sign-off")
    spans = "The window of 2026-01-06 was asked otherwise"
    assert f"{spans}: {since}" in said, said
    assert (
        "items asked for 3" in said and "windows before" not in said and "Daily top 3 or 2, 5 to 7 January" in said
    ), said
    for file in ("days/5.csv", "days/5.manifest.json"):
        Path(file).unlink()
    published("days/5.csv", asked("again", **day(5), k=1))
    said = shown("days", "--sign-off")
    assert "windows before that of 2026-01-06 were asked otherwise: k 1 (now 3)" in said and since in said, said


def test_a_parameter_that_only_one_of_two_mechanisms_has_is_no_change() -> None:
    """`no noise` would be read as that of a ranking. What both have is told, and all that differs in one mechanism."""
    for number, mechanism, more in (
        (5, "gaussian", {"delta": 1e-6, "max_items_per_user": 2}),
        (6, "joint", {"parameters": {"noise": "gumbel"}}),
        (7, "oneshot", {"parameters": {"noise": "exponential"}}),
    ):
        published(f"days/{number}.csv", asked(str(number), **day(number), mechanism=mechanism, **more))
    changed = "mechanism gaussian (now oneshot), max_items_per_user 2 (now none), delta 1e-06 (now 0)"
    for form in ((), ("--sign-off",), ("--registry",)):
        said = shown("days", *form)
        assert f"were asked otherwise: {changed}{';' if form else '.'}" in said, said
        assert "mechanism joint (now oneshot), noise gumbel (now exponential)" in said, said


def test_windows_that_were_asked_alike_are_told_in_one_sentence() -> None:
    """Those before and those after one that asks what is asked since. What a window costs is told as of one question,
    though shares of it differ in the last bit of a float.
    """
    for number, k in ((5, 3), (6, 2), (7, 3), (8, 2)):
        published(f"days/{number}.csv", asked(str(number), **day(number), k=k))
    said = shown("days", "--sign-off")
    assert said.count("asked otherwise before") == 1 and "2026-01-06 and the window of 2026-01-07 were asked" in said
    for number in (5, 7):
        lose(f"{number}.*")
    place = Path("days/6.manifest.json")
    content = json.loads(place.read_text())
    content["zcdp_of_a_window"]["rho"] *= 1 + 2**-52
    place.write_text(json.dumps(content))
    said = shown("days", "--sign-off")
    assert "of each window rho " in said and "asked otherwise" not in said, said


def test_a_series_names_all_its_keys_and_when_it_was_released(folder: Path) -> None:
    budget()
    keys = []
    for number, key in ((5, "0"), (6, "1")):
        write(folder / "key", key * 32)
        question = asked(str(number), **day(number))
        keys.append(question.release.key.key_id())
        charged(f"days/{number}.csv", question)
    place = folder / "days" / "5.manifest.json"
    content = json.loads(place.read_text())
    today, content["released"] = content["released"], "2026-01-12"
    place.write_text(json.dumps(content))
    said = shown("days", "--sign-off", "--ledger", LEDGER)
    both = f"{keys[0]} of 1 release, {keys[1]} of 1 release"
    assert f"key {both} run" in said and f"released 2026-01-12 to {today}" in said, said
    entry = shown("days", "--registry")
    assert f"of a cipher under a secret key (id {both})." in entry, entry
    one = shown("days/6.csv", "--sign-off")
    assert f"key {keys[1]} " in one and f"released {today} " in one


def test_a_share_of_an_epsilon_is_shown_to_six_digits_and_kept_exactly() -> None:
    published("r.csv", asked(period=Period.of("2026-01-05", "2026-01-09", "1d"), privacy_unit="user", epsilon=1.1))
    exact = json.loads(Path("r.manifest.json").read_text())["parameters"]["epsilon"]
    assert exact != 0.275 and exact == pytest.approx(0.275)
    for form in ("--sign-off", "--registry"):
        said = command("show", "r.csv", form).out
        assert "joint, epsilon 0.275," in " ".join(said.split()) and str(exact) not in said, said


def test_a_ledger_that_says_nothing_of_the_ranking_is_refused() -> None:
    other, same = "sqlite:///other.db", "sqlite:///same.db"
    budget(), budget(other, "searches"), budget(same)
    published("r.csv", asked())
    for words in (["--ledger", LEDGER], ["--sign-off", "--ledger", LEDGER]):
        done = command("show", "r.csv", *words)
        assert done.status == 2 and "no manifest here names a dataset that was charged" in done.err, done
        assert "let `private-topk budget adopt` charge them" in done.err and not done.out, done
    charged("r.csv", asked("charged"))
    done = command("show", "r.csv", "--registry", "--ledger", other)
    assert done.status == 2 and "has no budget of dataset plays" in done.err and not done.out, done
    assert "give the ledger that was charged; bring a lost one back from its backup, or open it" in done.err
    done = command("show", "r.csv", "--sign-off", "--ledger", same)
    assert done.status == 2 and "knows nothing of charged: give the ledger that was charged" in done.err, done
    adopt = f"`private-topk budget adopt r.csv --ledger {same} --dataset plays` charges"
    assert f"if that is lost, or the job ran outside `with charge(...)`, {adopt}" in done.err
    assert command("show", "r.csv", "--sign-off", "--ledger", LEDGER).status == 0


def test_items_are_shown_by_their_titles_unless_two_have_the_same() -> None:
    published("r.csv", asked(k=3))
    assert {line[5:] for line in command("show", "r.csv", "--item-titles", "items.csv").out.splitlines()[1:4]} == {
        "tea",
        "1",
        "2",
    }
    assert command("show", "r.csv", "--item-titles", "items.csv", "--html", "r.html").status == 0
    assert ">tea<" in Path("r.html").read_text("utf-8")
    for words, said in (
        (["--item-titles", "key"], "key must be a table with a column for items and one for titles"),
        (["--item-titles", "items.csv", "--title-column", "name"], "'name'"),
        (["--title-column", "title"], "--title-column needs --item-titles"),
        (["--item-titles", "none.csv"], "none.csv does not exist"),
        (["--sign-off", "--registry"], "--sign-off does not go with --registry"),
    ):
        done = command("show", "r.csv", *words)
        assert done.status == 2 and said in done.err and not done.out, done


REPORT = WEEKLY.replace("name: joint\n  k: 3\n", "name: peeling\n  k: 2\n")
PAID = f"ledger:\n  url: {LEDGER}\n  dataset: plays\n"
LANDS = "groups:\n  column: land\n  file: lands.txt\n  overall: true\n"
COUNTS = ("epsilon: 1\n", "epsilon: 1\n  publish_counts: 0.5\n")
OF_A_USER = ("epsilon: 1\n", "epsilon: 1\n  privacy_unit: user\n")
LAPLACE = ("name: peeling\n  k: 2\n", "name: laplace\n  k: 2\n  max_items_per_user: 1\n")
DRAWN = ("epsilon: 1\n", "epsilon: 1\n  publish_counts: drawn\n")
TO_DATE = ("first: 2026-01-05\n", "first: 2026-01-05\n  horizon: 4\n  to_date: true\n  state: state\n")
IN_STEPS = ("name: peeling\n  k: 2\n", "name: correlated-gaussian\n  k: 2\n  max_items_per_user: 1\n")
WITH_DELTA = ("epsilon: 1\n", "epsilon: 1\n  delta: 1e-6\n  publish_counts: drawn\n")


def horizon(weeks: int) -> tuple[str, str]:
    return "first: 2026-01-05\n", f"first: 2026-01-05\n  horizon: {weeks}\n"


def rows_of(sheet: str) -> dict[str, str]:
    """The rows of a sheet by their labels, its title too."""
    title, _, rest = sheet.partition("\n")
    rows, label = {"": title}, ""
    for line in rest.splitlines():
        label = line[:34].strip() or label
        rows[label] = f"{rows.get(label, '')} {line[34:].strip()}".strip()
    return rows


def files() -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(Path().rglob("*")) if file.is_file()}


def report_file(changes: tuple[tuple[str, str], ...], also: str) -> None:
    text = REPORT + also
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    write(Path("weekly.yaml"), text)
    write(Path("items.txt"), "0\n1\n2\n3\n")
    write(Path("lands.txt"), "DE\nFR\n")
    rows = [f"user {n},{n % 4},2026-01-{5 + n % 14:02}T10:00:00,{'DE' if n % 3 else 'FR'}" for n in range(99)]
    write(Path("rows.csv"), "\n".join(["user,item,time,land", *rows]) + "\n")
    if "ledger:" in also:
        unit = "user" if OF_A_USER in changes else "user-window"
        budget(delta=1e-5, unit=unit)


@pytest.mark.parametrize("paid", ["", PAID], ids=["no ledger", "ledger"])
@pytest.mark.parametrize(
    ("changes", "also"),
    [
        ((), ""),
        ((horizon(1),), ""),
        ((horizon(52), OF_A_USER), ""),
        ((horizon(1), OF_A_USER, COUNTS), ""),
        ((COUNTS,), ""),
        ((horizon(52), COUNTS), LANDS),
        ((horizon(52), OF_A_USER), LANDS),
        ((LAPLACE, DRAWN), ""),
        ((TO_DATE, IN_STEPS, WITH_DELTA), ""),
    ],
    ids=["plain", "one", "a year", "one with counts", "counts", "groups", "groups of a year", "drawn", "to date"],
)
def test_the_sheet_before_the_first_release_is_the_one_after_it(
    changes: tuple[tuple[str, str], ...], also: str, paid: str
) -> None:
    """But for what only the release tells; and that it is asked for charges, draws and writes nothing."""
    report_file(changes, also + paid)
    there = files()
    planned = [command("report", "weekly.yaml", "--dry-run", "--sign-off")]
    planned.append(command("report", "weekly.yaml", "--window-end", "2026-01-12", "--dry-run", "--sign-off"))
    assert files() == there and planned[0].out == planned[1].out and not any(each.status for each in planned)
    assert command("report", "weekly.yaml", "--window-end", "2026-01-12", "--quiet").status == 0
    check_planned(planned[0].out, paid)


def check_planned(planned: str, paid: str, place: str = "out") -> None:
    """That a sheet before a release is the one after it, but for what only the release tells."""
    before, released = rows_of(planned), ("released", "SHA-256 of the ranking")
    after = rows_of(command("show", place, "--sign-off", *(("--ledger", LEDGER) if paid else ())).out)
    if paid:
        told = after.pop("charged so far").replace("So far ", "Once this is published, ")
        told = re.sub(r"(charges?) (has|have) spent", r"\1 will have spent", told)
        after["charged once published"] = re.sub(r"last charged \d{4}-\d\d-\d\d", "last charged by this", told)
    assert before.pop("not published yet").startswith("this is what would be promised")
    for name in released:
        before.pop(name, None), after.pop(name, None)  # a series has no SHA-256
    assert before == after


@pytest.mark.parametrize("paid", ["", PAID], ids=["no ledger", "ledger"])
def test_the_sheet_of_a_later_period_counts_what_is_published_of_the_report(paid: str) -> None:
    """One that is asked otherwise, and a correction; of what is published it is refused."""
    report_file((), paid)
    first, second = (("--window-end", end) for end in ("2026-01-12", "2026-01-19"))
    for words, epsilon in ((first, 1), (second, 2), ((*first, "--correction", "1"), 2)):
        write(Path("weekly.yaml"), REPORT.replace("epsilon: 1", f"epsilon: {epsilon}") + paid)
        planned = command("report", "weekly.yaml", *words, "--dry-run", "--sign-off")
        assert planned.status == 0, planned
        assert command("report", "weekly.yaml", *words, "--quiet").status == 0
        check_planned(planned.out, paid)
    refused = command("report", "weekly.yaml", *second, "--dry-run", "--sign-off")
    assert (
        refused.status == 2 and not refused.out and "2026-01-12 to 2026-01-19 is published or charged" in refused.err
    ), refused


def test_the_sheet_of_a_later_step_counts_the_series_once() -> None:
    report_file((TO_DATE, IN_STEPS, WITH_DELTA), PAID)
    for words in (("--window-end", end) for end in ("2026-01-12", "2026-01-19")):
        planned = command("report", "weekly.yaml", *words, "--dry-run", "--sign-off")
        assert planned.status == 0, planned
        assert command("report", "weekly.yaml", *words, "--quiet").status == 0
        check_planned(planned.out, PAID)


def test_a_key_that_is_not_here_is_no_row_of_the_sheet() -> None:
    report_file((), PAID)
    with_key = rows_of(command("report", "weekly.yaml", "--dry-run", "--sign-off").out)
    Path("key").unlink()
    without = rows_of(command("report", "weekly.yaml", "--dry-run", "--sign-off").out)
    assert {**without, "key": with_key["key"]} == with_key and "key" not in without


@pytest.mark.parametrize("paid", ["", "ledger"])
def test_a_run_has_its_sheet_before_it_too(paid: str) -> None:
    report_file((), paid and PAID)
    words = ["run", "--input", "rows.csv", "--domain", "items.txt", "--k", "2", "--mechanism", "joint"]
    words += ["--epsilon", "1", "--output", "r.csv", "--release-id", "r", "--window", "7d", "--from", "2026-01-05"]
    words += [
        "--to",
        "2026-01-19",
        "--release-key",
        "file:key",
        *(["--ledger", LEDGER, "--dataset", "plays"] if paid else []),
    ]
    there = files()
    planned = command(*words, "--dry-run", "--sign-off")
    assert planned.status == 0 and files() == there, planned
    assert command(*words, "--quiet").status == 0
    check_planned(planned.out, paid, "r.csv")
    refused = command(*words, "--dry-run", "--sign-off")
    assert refused.status == 2 and not refused.out and "r.csv is published or charged" in refused.err, refused


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "--sign-off needs --dry-run"),
        (("--dry-run", "--json"), "--sign-off does not go with --json"),
        (("--dry-run",), "--sign-off needs --release-key"),
    ],
)
def test_a_sheet_before_a_run_is_for_a_dry_run_of_a_known_release(more: tuple[str, ...], said: str) -> None:
    report_file((), "")
    run = ("run", "--input", "rows.csv", "--domain", "items.txt", "--k", "2", "--epsilon", "1", "--output", "r.csv")
    done = command(*run, "--sign-off", *more)
    assert done.status == 2 and said in done.err and not done.out, done
    if more != ("--dry-run",):
        done = command("report", "weekly.yaml", "--window-end", "2026-01-12", "--sign-off", *more)
        assert done.status == 2 and said in done.err and not done.out, done


def test_a_correction_that_states_less_of_what_it_corrects_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest of that contradicts it; if that is lost, the ledger."""
    monkeypatch.chdir(tmp_path)
    budget()
    charged_days(6)
    charged_correction()
    place = Path("days/6.correction-1.manifest.json")
    place.write_text(place.read_text().replace('"epsilon": 1.0, "delta": 0.0}', '"epsilon": 0.001, "delta": 0.0}'))
    done = command("show", "days", "--sign-off", "--ledger", LEDGER)
    assert done.status == 2 and "states less of what it corrects than the manifest of that" in done.err, done
    lose("6.csv"), lose("6.manifest.json")
    sheet = " ".join(command("show", "days", "--sign-off", "--ledger", LEDGER).out.split())
    assert "weekly/6/correction-1 states less of what it corrects than the ledger" in sheet, sheet
    assert "budget epsilon 2, delta 0" in sheet, sheet


def test_repeats_of_windows_shorter_than_a_day_are_told_by_their_times() -> None:
    """The date alone named each window of ten seconds alike."""
    start = datetime(2026, 12, 1, 9, 30, 20, tzinfo=UTC)
    row = {"window_start": start, "window_end": start + timedelta(seconds=10), "rank": 1, "item": "a", "k": 1}
    told = PublishedReport([row | {"noisy_count": None, "returned": 1}], charged=["x"], charged_again={start: 2})
    assert "2026-12-01 09:30:20 (2 times" in " ".join(corrections_of(told))
