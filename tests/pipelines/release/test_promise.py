"""Every place that states what published windows promise has the same numbers, and they are what the windows cost."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from private_topk import Period, UnknownDomain
from private_topk.pipelines.budget.accounting import Budget
from private_topk.pipelines.budget.composition import ACCOUNTINGS, UNITS
from private_topk.pipelines.budget.sharing import cost_of, over_windows
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.question import Question, asked_by
from private_topk.pipelines.release.agreement import check_agrees
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.release.formats import RankingSchema, format_of, ranking_rows
from private_topk.pipelines.release.manifest import Manifest, PeriodFacts, Publication, series_change, series_difference
from private_topk.pipelines.release.place import manifest_path
from private_topk.pipelines.release.promise import charged_otherwise, cost_of_a_window, promise_of
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS, Gaussian, Joint, LimitDomain, RestrictedLaplace
from private_topk.transforms.mechanisms.exact.accounting import epsilon_within
from private_topk.transforms.release import Ranking, Release, ReleaseKey
from private_topk.transforms.stated import number, stated
from tests.pipelines.support import command, options, question_of, write

TOTAL, DELTA = Fraction(60), Fraction(1, 10**6)  # at such an epsilon costs are least where they add up
KEY = ReleaseKey.fresh()
DAYS = {1: ("2026-01-05", "2026-01-06"), 4: ("2026-01-05", "2026-01-09")}
NEXT = {1: ("2026-01-06", "2026-01-07"), 4: ("2026-01-09", "2026-01-13")}


class Case(NamedTuple):
    unit: str
    windows: int
    sliding: bool
    groups: int
    delta: bool

    def asked(self, days: tuple[str, str], horizon: int | None = None) -> dict[str, Any]:
        """What a report asks, as options of Python."""
        slides = self.sliding and self.windows > 1
        groups = {"group_column": "of", "groups": "groups.txt", "groups_per_user": self.groups}
        asked = {
            "mechanism": "joint",
            "k": 1,
            "epsilon": TOTAL * 3 / 4,
            "publish_counts": TOTAL / 4,
            "publish_counts_delta": DELTA if self.delta else None,
            "neighbours": "replace-one" if self.sliding and self.groups else "add-remove",
            "domain": "items.txt",
            "privacy_unit": self.unit,
            "horizon": horizon,
            "period_from": datetime.fromisoformat(days[0]),
            "period_to": datetime.fromisoformat(days[1]),
            "window": timedelta(2 if slides else 1),
            "slide": timedelta(1) if slides else None,
            **(groups if self.groups else {}),
        }
        return {name: value for name, value in asked.items() if value is not None}

    def words(self, days: tuple[str, str]) -> list[str]:
        """The same, as options of the command line."""
        asked = self.asked(days)
        asked |= {"from": asked.pop("period_from"), "to": asked.pop("period_to")}
        asked |= {name: f"{value.days}d" for name, value in asked.items() if isinstance(value, timedelta)}
        asked |= {name: str(float(value)) for name, value in asked.items() if isinstance(value, Fraction)}
        return options(**asked, input="rows.csv", output="new.csv")

    def question(self, name: str, days: tuple[str, str], horizon: int | None = None) -> Question:
        return replace(Question.of(**asked_by(self.asked(days, horizon))), release=Release(KEY, name))

    def release(self, name: str, days: tuple[str, str], horizon: int | None = None) -> Manifest:
        question = self.question(name, days, horizon)
        return manifest_of(question).with_answer(rankings(question))


CASES = [Case(*each) for each in product(UNITS, (1, 4), (False, True), (0, 2), (False, True))]
CASES = [case for case in CASES if case.windows > 1 or case.groups or not case.sliding]  # one window slides nowhere


def rankings(question: Question) -> list[Ranking]:
    assert question.period is not None
    groups = ["a", "b"] if question.top_k.groups else [None]
    noise = question.top_k.noise(1)
    return [
        Ranking(window, ("tea",), 1, "sequence", (5,), noise, group, group_number=number)
        for window in question.period.windows()
        for number, group in enumerate(groups)
    ]


def publish(question: Question, path: str, corrects: tuple[Publication, ...] = ()) -> Manifest:
    """The files that a run writes."""
    manifest = manifest_of(question, corrects=corrects).with_answer(rankings(question))
    schema = RankingSchema.of(manifest)
    content = format_of(path).encode(ranking_rows(rankings(question), question.release.id, schema), schema)
    Path(path).write_bytes(content)
    Path(manifest_path(path)).write_bytes(manifest.at(path, content).encode())
    return manifest


def of_days(name: str, days: tuple[str, str], **asked: Any) -> Manifest:  # noqa: ANN401
    """Of a release with a window for each of these days."""
    period = Period.of(*days, "1d")
    asked = {"k": 1, "domain": ["a", "b"], "privacy_unit": "user", **asked}
    question = Question.of(**asked, period=period, release=Release(KEY, name))
    windows = [Ranking(window, ("a",), asked["k"], "sequence") for window in period.windows()]
    return manifest_of(question).with_answer(windows)


def plainly(unit: str, releases: Sequence[Sequence[Any]], horizon: int) -> tuple[Fraction, Fraction | None]:
    """How many windows' shares of a budget of 1 the unit costs, and a user in all windows. A window that the budget
    is shared over and that is not among these is paid for too.

    Args:
        releases: the windows of each.
        horizon: of the unit `user`, over how many windows the budget is shared; 0 for those of the first release.
    """
    windows = [window for each in releases for window in each]

    def met(window: Any, those: Sequence[Any]) -> int:  # noqa: ANN401 - bounds
        return sum(window.start < other.end and other.start < window.end for other in those)

    once = {(window.start, window.end): window for window in windows}.values()
    if unit == "user":
        covered = horizon or len(releases[0])
        return Fraction(len(windows) + max(covered - len(once), 0), covered), None
    covered = max(met(window, releases[0]) for window in releases[0])
    most = max(met(window, windows) + max(covered - met(window, once), 0) for window in once)
    return Fraction(most, covered), Fraction(len(windows), covered) if len(once) > 1 else None


def budget(epsilon: float | Fraction, delta: float | Fraction) -> Any:  # noqa: ANN401 - nearly these two
    return pytest.approx((float(epsilon), float(delta)), rel=2e-6)


def read(text: str) -> tuple[float, float]:
    """A budget in words."""
    found = re.search(r"epsilon ([\d.e+-]+)(?:(?:,| and) delta ([\d.e-]+))?", text)
    assert found, text
    return float(found[1]), float((found[2] or "0").rstrip("."))


def formula(text: str) -> list[tuple[float, float]]:
    found = re.findall(r"≤ e\^([\d.]+) · P\(A\(D′\) ∈ S\)(?: \+ ([\d.e-]+))?", " ".join(text.split()))
    return [(float(epsilon), float(delta or 0)) for epsilon, delta in found]


def everywhere(*places: str) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """What each place states: for the unit, and where it says so for a user in all windows."""
    manifest = json.loads(command("show", *places, "--json").out)["manifest"]
    both = [manifest["privacy"], *([manifest["all_windows"]] if manifest.get("all_windows") else [])]
    yield "JSON", [(each["epsilon"], each["delta"]) for each in both]
    shown = " ".join(command("show", *places).out.split())
    yield "formula on the terminal", formula(shown)
    factor = re.search(r"more than (\S+) times as likely", shown)
    several = re.search(r"a person in all of them is protected by (.*?\d)\. ", shown)
    assert factor and factor[1].startswith("e^"), shown
    less = re.search(r"but for an added probability of at most (\S+)\. ", shown)
    of_unit = float(factor[1].removeprefix("e^")), float(less[1]) if less else 0
    yield "words", [of_unit, *([read(several[1])] if several else [])]
    sheet = " ".join(command("show", *places, "--sign-off").out.split())
    yield "formula on the sheet", formula(sheet)
    parts = re.findall(r"(?: budget| of a person in all windows) (epsilon \S+ delta \S+)", sheet)
    yield "sheet", [read(each) for each in parts]
    loss = yaml.safe_load(command("show", *places, "--registry").out)["deployment"]["privacy_loss"]
    given, details = loss["privacy_parameters"], loss["privacy_parameters_details"]
    entry = [(given["epsilon"], given.get("delta", 0))]
    yield "registry", entry + [read(each) for each in re.findall("A person in all windows: (.*?\\d)\\. ", details)]
    assert command("show", *places, "--html", "page.html", "--overwrite").status == 0
    page = html.unescape(Path("page.html").read_text())
    yield "formula on the page", formula(page)
    short = re.search(r"What it promises</h2> (.*?)</summary>", page)
    assert short, page
    yield "page", [read(each) for each in short[1].split(";")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", [{"user": "u", "item": "tea", "time": "2026-01-05", "of": "a"}])
    write(tmp_path / "items.txt", "tea\ncake\n")
    write(tmp_path / "groups.txt", "a\nb\n")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_place_states_what_one_release_costs(case: Case) -> None:
    question = case.question("r", DAYS[case.windows])
    publish(question, "r.csv")
    assert question.period is not None
    of_unit, of_all = plainly(case.unit, [question.period.windows()], 0)
    expected = [budget(each * TOTAL, each * DELTA * case.delta) for each in (of_unit, of_all) if each is not None]
    for place, said in everywhere("r.csv"):
        assert said == expected, place
    done = command("run", "--dry-run", *case.words(DAYS[case.windows]))
    told = re.search(r"privacy +(.*)\n", done.out)
    assert told, done
    promised, _, shared = told[1].partition(" composition over ")
    assert [read(each) for each in promised.split("; ") if " for " in each] == expected
    assert len(question.period) == 1 or case.unit == "user-window" or f"{len(question.period)} windows" in shared


@pytest.mark.parametrize(
    ("case", "horizon"), [(case, horizon) for case in CASES for horizon in {False, case.unit == "user"}], ids=str
)
def test_every_place_adds_up_over_files_and_releases(case: Case, horizon: bool) -> None:
    """Two files of one id cost what two releases do: the windows are others. The id is one in that half of the
    cases of which each two differ in two things at least.
    """
    ids = "r", "rs"[sum(map(bool, (case.windows > 1, *case[2:], horizon))) % 2]
    days = (DAYS[case.windows], NEXT[case.windows])
    first = case.question("r", days[0])
    of = 2 * len(first.period or ()) if horizon else 0
    questions = [case.question(name, each, of or None) for name, each in zip(ids, days, strict=True)]
    for place, question in enumerate(questions):
        publish(question, f"{place}.csv")
    of_unit, of_all = plainly(case.unit, [question.period.windows() for question in questions if question.period], of)
    expected = [budget(each * TOTAL, each * DELTA * case.delta) for each in (of_unit, of_all) if each is not None]
    for place, said in everywhere("0.csv", "1.csv"):
        assert said == expected, place


@pytest.mark.parametrize("case", CASES, ids=str)
def test_windows_that_are_published_again_cost_again(case: Case) -> None:
    """As by a correction, which has an id of its own; the same release in two formats costs once."""
    days = DAYS[case.windows]
    once, again = case.release("r", days), case.release("r-corrected", days)
    assert promise_of([once, once]) == promise_of([once])
    period = case.question("r", days).period
    assert period is not None
    of_unit, of_all = plainly(case.unit, [period.windows()] * 2, 0)
    privacy, everything = promise_of([once, again])
    cost = cost_of_a_window(once)
    before = Publication(release_id="r", epsilon=stated(cost.epsilon), delta=stated(cost.delta))
    alone = msgspec.structs.replace(again, corrects=(before,), zcdp_of_a_window=None)
    for published in ([alone], [alone, once], [once, alone]):  # the first publication is named, shown, or both
        assert promise_of(published) == (privacy, everything)
    assert (privacy.epsilon, privacy.delta) == budget(of_unit * TOTAL, of_unit * DELTA * case.delta)
    assert (everything is None) is (of_all is None)
    if everything is not None and of_all is not None:
        assert (everything.epsilon, everything.delta) == budget(of_all * TOTAL, of_all * DELTA * case.delta)


def test_a_correction_counts_what_it_corrects_in_every_place() -> None:
    question = question_of(1, Joint(30.0), ["tea"], period=Period.of(*DAYS[4], "1d"), release=Release(KEY, "r/again"))
    publish(question, "r.csv", (Publication(release_id="r", epsilon=20.0, delta=0.0),))
    for place, said in everywhere("r.csv"):
        assert said == [(50, 0), (200, 0)], place
    words = " ".join(command("show", "r.csv").out.split())
    assert "Published more than once: the windows of 2026-01-05 (2 times), 2026-01-06 (2 times), 2026-01-07" in words


@pytest.mark.parametrize("shown", ["C", "1C", "12C", "2C", "1234C"])
def test_a_correction_adds_to_the_whole_horizon(shown: str) -> None:
    """Whichever of its windows are shown, or published yet, and in every place."""
    places = [f"{each}.csv" for each in shown]
    for name, day, corrects in (
        *((str(day), day, ()) for day in range(1, 5)),
        ("C", 1, (Publication(release_id="1", epsilon=15.0, delta=0.0),)),
    ):
        period = Period.of(f"2026-01-0{day + 4}", f"2026-01-0{day + 5}", "1d")
        asked = {"period": period, "privacy_unit": "user", "horizon": 4, "release": Release(KEY, name)}
        publish(question_of(1, Joint(60.0), ["tea"], **asked), f"{name}.csv", corrects)
    for place, said in everywhere(*places):
        assert said == [(75, 0)], place
    told = " ".join(command("show", *places).out.split())
    assert "in all 4 windows together" in told
    sheet = " ".join(command("show", *places, "--sign-off").out.split())
    for each in (told, sheet):
        assert "a correction or a lost period that is not shown adds to these numbers" in each, "of a pipeline's own"


@pytest.mark.parametrize("of_the_next", [1, 3, 4])
def test_an_earlier_horizon_comes_on_top_of_all_windows_of_the_next(of_the_next: int) -> None:
    """Three of four windows were published; whatever there is of the next four by now, all of them count."""
    parts = []
    for day in (5, 6, 7, *range(9, 9 + of_the_next)):
        period = Period.of(f"2026-01-{day:02}", f"2026-01-{day + 1:02}", "1d")
        asked = {"period": period, "privacy_unit": "user", "horizon": 4, "release": Release(KEY, f"r/{day}")}
        first = datetime.fromisoformat("2026-01-05T00:00Z" if day < 9 else "2026-01-09T00:00Z")
        horizon = PeriodFacts(start=first, end=first + timedelta(4))
        question = question_of(1, Joint(60.0), ["tea"], **asked)
        parts.append(msgspec.structs.replace(manifest_of(question).with_answer(rankings(question)), horizon=horizon))
    privacy, _ = promise_of(parts[::-1])
    assert (privacy.epsilon, privacy.windows) == (3 * 15 + 60, 7)


def _of_a_year(question: Question) -> tuple[Fraction, Fraction]:
    cost = cost_of(question.top_k)
    return over_windows(52 * cost, cost.delta)


def test_a_series_says_that_what_was_corrected_counts_beside_its_windows() -> None:
    """How the budget adds up, as its epsilon has it: two windows, of which one was published twice."""
    asked = {"privacy_unit": "user", "horizon": 2}
    for place, (days, corrects) in enumerate(
        ((DAYS[1], ()), (NEXT[1], (Publication(release_id="1", epsilon=1.0, delta=0.0),)))
    ):
        period = Period.of(*days, "1d")
        release = Release(KEY, f"{place}/again")
        publish(question_of(1, Joint(2.0), ["tea"], period=period, release=release, **asked), f"{place}.csv", corrects)
    said = " ".join(command("show", "0.csv", "1.csv", "--sign-off").out.split())
    assert "budget epsilon 3, delta 0" in said
    assert "basic composition over 2 windows, and over one correction" in said


@pytest.mark.parametrize("shown", [["again.csv"], ["again.csv", "next.csv"]])
def test_one_window_that_was_corrected_is_not_called_two(shown: list[str]) -> None:
    """A unit of one window is in one, whose rows were published twice."""
    case = Case("user-window", 1, False, 2, False)
    first = case.release("first", DAYS[1])
    assert first.privacy is not None
    corrects = (Publication(release_id="first", epsilon=first.privacy.epsilon, delta=0.0),)
    publish(case.question("again", DAYS[1]), "again.csv", corrects)
    publish(case.question("next", NEXT[1]), "next.csv")
    said = " ".join(command("show", *shown, "--sign-off").out.split())
    assert "budget epsilon 120, delta 0" in said
    assert "basic composition over 2 rankings of each of 2 publications of the same rows" in said
    assert "2 windows" not in said.partition("how the budget adds up")[2]


def test_many_windows_are_stated_as_a_ledger_states_them() -> None:
    """By zCDP where that is less, and as one Gaussian where they are: to the digit."""
    year = Period.of("2026-01-05", "2027-01-04", "7d")
    for mechanism in (Joint(1.0), Gaussian(0.5, 1e-7), LimitDomain(0.25, 1e-7)):
        domain = ["tea", "cake"] if mechanism.guarantee.domain == "public" else UnknownDomain()
        question = question_of(1, mechanism, domain, period=year, release=Release(KEY, "r"))
        epsilon, delta = _of_a_year(question)
        everything = manifest_of(question).all_windows
        assert everything is not None and number(everything.epsilon) == number(epsilon) < number(52)
        assert everything.delta == float(number(delta)) > 0
    assert _of_a_year(question_of(1, Joint(1.0), ["tea"], period=year))[0] < 52


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_manifest_states_the_total_that_was_declared_and_the_cost_that_was_charged(mechanism: str) -> None:
    """Of every mechanism, unit and budget that it takes: as one window of a year, by any reading of its cost."""
    found = 0
    week = Period.of("2026-01-05", "2026-01-12", "7d")
    domain = {"unknown_domain": True} if MECHANISMS[mechanism].guarantee.domain == "unknown" else {"domain": ["a", "b"]}
    units = [{"privacy_unit": "user", "horizon": 52}, {"privacy_unit": "user-window"}]
    budgets = [{}, {"delta": 1e-6}, {"publish_counts": 0.3}, {"delta": 1e-6, "publish_counts": 0.3}]
    for unit, budget, neighbours, bound in product(
        units, budgets, ("add-remove", "replace-one"), ({}, {"max_items_per_user": 1})
    ):
        asked = {"mechanism": mechanism, "k": 1, "epsilon": 1.0, "neighbours": neighbours, "period": week}
        try:
            question = Question.of(**asked, **domain, **unit, **budget, **bound, release=Release(KEY, "r"))
        except InvalidArgument:
            continue
        manifest = manifest_of(question).with_answer(rankings(question))
        charge = question.request(dataset="d", key_id="k", fingerprint="0" * 64)
        assert manifest.privacy is not None
        assert promise_of([manifest])[0].epsilon == manifest.privacy.epsilon
        check_agrees(manifest, "manifest")
        for cost in charge.cost.readings():
            assert not charged_otherwise(manifest, cost)
        found += 1
    assert found >= 2 or mechanism == "correlated-gaussian", "of windows to date alone"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_manifest_that_states_less_than_its_draw_costs_contradicts_itself(mechanism: str) -> None:
    """Of every mechanism, with groups, amounts, windows to date or that share a total, and all kinds of counts: what
    nobody has edited is no such manifest, and one with less of a cost in all places is.
    """
    found = 0
    days = ("2026-01-05", "2026-01-09", "1d")
    unknown = MECHANISMS[mechanism].guarantee.domain == "unknown"
    domain = {"unknown_domain": True} if unknown else {"domain": ["a", "b", "c"]}
    spans = [
        {"period": Period.of(*days, slide="12h")},
        {"period": Period.of(*days), "privacy_unit": "user", "horizon": 52},
        {"period": Period.of(*days, to_date=True), "privacy_unit": "user"},
    ]
    counts = [{}, {"publish_counts": "drawn"}, {"publish_counts": 0.3}]
    counts.append({"publish_counts": 0.3, "publish_counts_delta": 1e-7})
    scores: list[dict[str, Any]] = [{}, {"max_value": 2.5, "value_resolution": 0.5}]
    scores.append({"groups": ["x", "y", "z"], "groups_per_user": 2, "overall": True, "max_items_per_user": 2})
    budgets = [{"epsilon": 1.0, "delta": 1e-6}, {"epsilon": Fraction(1, 3), "neighbours": "replace-one"}]
    for place, asked in enumerate(product(spans, counts, scores)):
        facts: dict[str, Any] = {name: value for each in asked for name, value in each.items()}
        for budget in (budgets[place % 2], budgets[place % 2 - 1]):  # of which not each is taken with all else
            with suppress(InvalidArgument):
                question = Question.of(2, mechanism, **domain, **facts, **budget, release=Release(KEY, "r"))
                break
        else:
            continue
        manifest = manifest_of(question).with_answer(rankings(question))
        check_agrees(manifest, "manifest")
        assert manifest.zcdp_of_a_window and manifest.charge
        less = msgspec.structs.replace(
            manifest,
            zcdp_of_a_window=msgspec.structs.replace(
                manifest.zcdp_of_a_window, rho=manifest.zcdp_of_a_window.rho * 0.99
            ),
            charge=msgspec.structs.replace(manifest.charge, rho=str(Fraction(manifest.charge.rho) * Fraction("0.99"))),
        )
        with pytest.raises(InvalidArgument, match="manifest contradicts itself"):
            check_agrees(less, "manifest")
        found += 1
        assert manifest.privacy
        half = msgspec.structs.replace(manifest.privacy, epsilon=manifest.privacy.epsilon / 2)
        for accounting in (*ACCOUNTINGS, "another", None) if half.windows else ():  # the tightest was taken
            edited = msgspec.structs.replace(half, accounting=accounting)
            with pytest.raises(InvalidArgument, match="manifest contradicts itself"):
                check_agrees(msgspec.structs.replace(manifest, privacy=edited), "manifest")
    assert found


def test_windows_are_the_same_however_they_are_listed() -> None:
    """Of calendars, over a change of clocks, sliding, with gaps."""
    for period in (
        Period.of("2026-01-01", "2027-01-01", "month"),
        Period.of("2026-03-01", "2026-04-15", "day", time_zone="Europe/Berlin"),
        Period.of("2026-01-05", "2026-01-12", "2d", slide="6h"),
    ):
        bounds = [(window.start, window.end) for window in period.windows()]
        found = Windows.at(reversed(bounds))
        assert [each.tolist() for each in found.bounds()] == [each.tolist() for each in Windows.of(period).bounds()]
        odd = Windows.union([Windows.at(bounds[::2]), Windows.at(bounds[1::2]), Windows.at(bounds[:2])])
        assert odd.number == len(bounds) and sorted(odd.bounds()[1].tolist()) == sorted(period.ends.tolist())
    assert Windows.at([(None, None)]) == Windows.of(None) == Windows.at([])


def test_a_bound_on_the_windows_of_a_user_is_of_a_release_and_not_of_a_file() -> None:
    """Of four windows with a file each a user counts in two; two releases bound their users apart."""
    period = Period.of(*DAYS[4], "1d")

    def parts(name: str) -> list[Manifest]:
        more = {"period": period, "privacy_unit": "user", "max_windows_per_user": 2}
        question = question_of(1, Joint(1.0), ["tea"], release=Release(KEY, name), **more)
        whole = manifest_of(question).with_answer(rankings(question))
        return [msgspec.structs.replace(whole, windows=(window,)) for window in whole.windows]

    for published, epsilon in ((parts("r"), 1), (parts("r") + parts("s"), 2), (parts("r")[:1], 1)):
        assert promise_of(published)[0].epsilon == epsilon


@pytest.mark.parametrize("unit", UNITS)
def test_a_budget_that_changed_is_promised_at_its_dearest_or_as_the_sum(unit: str) -> None:
    """Whichever is shown first; also where an epsilon stays and a mechanism comes whose rho is larger."""
    shared: dict[str, Any] = {"privacy_unit": unit, "horizon": 4 if unit == "user" else None}
    before = of_days("a", DAYS[1], mechanism="joint", epsilon=1.0, **shared)
    for mechanism, epsilon in (("joint", 2.0), ("laplace", 1.0)):
        after = of_days("b", NEXT[1], mechanism=mechanism, epsilon=epsilon, **shared)
        costs = [cost_of_a_window(each) for each in (before, after)]
        least = (
            over_windows(costs[0] + costs[1], Fraction(0))[0] if unit == "user" else max(each.epsilon for each in costs)
        )
        for order in ((before, after), (after, before)):
            privacy, everything = promise_of(order)
            assert privacy.epsilon >= float(least) * (1 - 1e-6), (mechanism, privacy)
            if unit == "user":
                assert privacy.windows == 4 and everything is None
                assert promise_of([*order[:1], *order])[0] == privacy


@pytest.mark.parametrize("mechanism", ["gaussian", "peeling"])
def test_a_correction_is_not_seen_to_lower_the_declared_total(mechanism: str) -> None:
    """A total that zCDP has shared out at half of its delta may be more than what is composed at all of it."""
    asked = {"mechanism": mechanism, "epsilon": 4.0, "delta": 1e-6, "horizon": 8}
    once, again = (of_days(name, DAYS[1], **asked) for name in ("1", "1/correction-1"))
    assert promise_of([once])[0].epsilon == 4 <= promise_of([again, once])[0].epsilon < 4.5


@pytest.mark.parametrize("mechanism", ["peeling", "limit-domain"])
def test_a_correction_is_promised_at_the_delta_that_was_declared(mechanism: str) -> None:
    """Which is less than 1e-6, and of which single rankings may take a part."""
    held, unknown = Budget.of("plays", 1.5, 5e-7, unit="user").total, mechanism == "limit-domain"
    listed = {"unknown_domain": True, "domain": None} if unknown else {}
    asked = {"mechanism": mechanism, "epsilon": 1.2, "delta": 4e-7, "held": held, "max_items_per_user": 1}
    manifest = of_days("r/correction-1", ("2026-01-05", "2026-01-17"), **asked, **listed)
    cost = cost_of_a_window(manifest)
    first = msgspec.structs.replace(manifest, release_id="r")
    last = msgspec.structs.replace(manifest, windows=manifest.windows[-1:], corrects=(Publication.of("r", cost),))
    told, spent = promise_of([first, last])[0], 13 * cost
    assert (spent.zcdp_delta > 0) is unknown and told.delta == 4e-7
    assert number(told.epsilon) == number(epsilon_within(spent.rho, Fraction("4e-7") - spent.zcdp_delta))


def test_a_question_that_comes_to_ask_for_less_states_no_less_than_was_declared() -> None:
    """Their totals were shared out at half of the ledger's delta. Of a correction alone nothing tells how the others
    were asked.
    """
    held = Budget.of("plays", 10, 1e-5, unit="user").total

    def made(name: str, k: int, days: tuple[str, str] = DAYS[1]) -> Manifest:
        asked = {"mechanism": "peeling", "k": k, "epsilon": 0.9, "delta": 1e-6, "domain": ["a", "b", "c"], "held": held}
        return of_days(name, days, **asked, horizon=26)

    corrects = (Publication.of("1", cost_of_a_window(made("1", 3))),)
    assert promise_of([msgspec.structs.replace(made("1/correction-1", 1), corrects=corrects)])[0].epsilon == 0.9
    assert promise_of([made("2", 1, NEXT[1]), made("1", 3)])[0].epsilon == 0.9


def test_a_group_more_is_a_change_of_a_series_and_no_other_series() -> None:
    def made(groups: list[str], **more: object) -> Manifest:
        asked = {"k": 1, "mechanism": "joint", "epsilon": 1.0, "domain": ["a", "b"], "groups": groups, **more}
        return manifest_of(Question.of(**asked, release=Release(KEY, "a")))

    before, after = made(["AT", "CH"]), made(["AT", "CH", "DE"])
    assert series_change(before, after) == "number of groups 2 (now 3)" and series_change(before, before) is None
    assert series_difference(before, after) is None
    assert series_change(before, made(["AT", "DE"])) == "another list of groups"
    swapped = made(["AT", "CH"], neighbours="replace-one")
    assert series_difference(before, swapped) == "neighbours add-remove (now replace-one)"
    assert series_difference(before, made(["AT", "CH"], max_value=5)) == "another amounts"


@pytest.mark.parametrize("delta", [1e-6, None])
def test_two_kinds_of_proof_are_promised_by_the_sum_that_all_have_declared(delta: float | None) -> None:
    """The rhos of Gaussian noise and of a pure draw add up, and so do their epsilons and deltas; but whoever takes the
    lesser of both by the answers spends two deltas. A pure declaration is by epsilons.
    """
    shared: dict[str, Any] = {"epsilon": 1.0, "horizon": 8}
    parts = [
        of_days("a", DAYS[4], mechanism="gaussian", delta=1e-6, **shared),
        of_days("b", NEXT[4], mechanism="joint", delta=delta, **shared),
    ]
    costs = [cost_of_a_window(each) for each in parts]
    assert [cost.adds_up for cost in costs] == [False, True]
    spent = 4 * costs[0] + 4 * costs[1]
    micro = Fraction(1, 10**6)
    by_rho, by_epsilon = (epsilon_within(spent.rho, micro), micro), (spent.epsilon, spent.delta)
    assert by_rho[0] < by_epsilon[0]
    for each in (parts, parts[::-1]):
        told = promise_of(each)[0]
        assert (told.epsilon, told.delta) == pytest.approx([float(x) for x in (by_rho if delta else by_epsilon)], 1e-5)
        assert told.accounting == ("zcdp" if delta else "basic")


@pytest.mark.parametrize("delta", [1e-6, 3.7e-7, 1 / 3e6])
@pytest.mark.parametrize("unit", UNITS)
def test_the_deltas_of_several_rankings_stay_of_the_kind_that_their_mechanism_proves(unit: str, delta: float) -> None:
    """Three times a decimal and the decimal of three times it differ in the last bits, and are one probability."""
    for mechanism in (RestrictedLaplace(1.0, delta, 2), LimitDomain(1.0, delta)):
        asked = {"groups": ["a", "b", "c"], "groups_per_user": 2, "overall": True, "unknown_domain": True}
        question = Question.of(
            1, mechanism, max_items_per_user=2, privacy_unit=unit, release=Release(KEY, "r"), **asked
        )
        exact, read = cost_of(question.top_k), cost_of_a_window(manifest_of(question))
        assert read.adds_up is exact.adds_up is isinstance(mechanism, RestrictedLaplace)
        assert all(getattr(read, name) >= getattr(exact, name) * (1 - Fraction(1, 10**15)) for name in ("delta", "rho"))
