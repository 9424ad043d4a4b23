"""A ledger that was restored from a backup learns from manifests what it has forgotten, and refuses until it has."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from private_topk.pipelines.budget import Budget, Ledger, Request, Windows
from private_topk.pipelines.budget.accounting import Entry
from private_topk.pipelines.budget.ahead import reports_ahead, told_ahead
from private_topk.pipelines.budget.rows import row_of
from private_topk.pipelines.budget.statement import statement
from private_topk.pipelines.cli import main, parser_of
from private_topk.pipelines.cli.arguments import options_of
from private_topk.pipelines.question import Question, asked_by
from private_topk.pipelines.release.adopting import entries_of
from private_topk.pipelines.release.describe import charge_of, manifest_of, planned
from private_topk.pipelines.release.manifest import Manifest
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.windows import Period
from tests.pipelines.charged import arguments, create, place, with_ledger
from tests.pipelines.scheduled.support import folder, report
from tests.pipelines.support import options

__all__ = ["folder", "place"]

URL = "sqlite:///budget.db"
URLS = "sqlite:///before.db", "sqlite:///after.db"
ASKED = {
    "input": "rows.csv",
    "output": "out.csv",
    "domain_range": "0:50",
    "mechanism": "joint",
    "k": 3,
    "epsilon": "0.3",
    "window": "7d",
    "from": "2026-01-05",
    "to": "2026-02-02",
}


def horizon_of(entry: Entry) -> int | None:
    return json.loads(entry.question or "{}").get("asked", {}).get("horizon")


def asked(**more: object) -> Question:
    words = options(**{**ASKED, **more})
    arguments, _ = parser_of("run", *words).read(words)
    return Question.of(**asked_by(options_of(arguments)))


def published(question: Question, **facts: object) -> Manifest:
    columns = {"user": "who", "item": "what", "time": "when"}
    reading, facts = {"time_unit": "ms"}, {"key_id": "k", "dataset": "plays", **facts}
    manifest = planned(manifest_of(question, columns=columns, reading=reading), question, question.period)
    return msgspec.structs.replace(manifest, **facts)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"window": None, "from": None, "to": None},
        {"mechanism": "gaussian", "delta": 1e-6, "privacy_unit": "user", "horizon": 9, "max_items_per_user": 2},
        {"publish_counts": 1, "privacy_unit": "user", "delta": 1e-6, "max_windows_per_user": 2},
        {"slide": "1d", "epsilon": 1},
        {"group_column": "group", "groups": "groups", "groups_per_user": 2},
        {"window": "month", "from": "2026-01-01", "to": "2026-04-01", "time_zone": "Europe/Berlin"},
        {"neighbours": "replace-one"},
    ],
    ids=str,
)
def test_a_manifest_tells_exactly_what_the_ledger_was_charged(
    more: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "groups").write_text("a\nb\n")
    question = asked(**more)
    rows = {"user_column": "who", "time_column": "when", "time_unit": "ms"}
    charged = question.request(dataset="plays", key_id="k", fingerprint="f", rows=rows).entry()
    [entry] = entries_of([Manifest.decode(published(question).encode())] * 2, "plays")
    unknown = {"fingerprint": "", "question": entry.question, "charged": entry.charged, "outcome": "released"}
    assert row_of(entry) == {**row_of(charged), **unknown}
    assert horizon_of(entry) == horizon_of(charged), "by which the periods that a report has left are told"
    assert charged.pays_for(entry)
    less = replace(charged.cost, epsilon=charged.cost.epsilon * Fraction(999, 1000))
    later = Windows.of(Period(datetime(2026, 7, 6, tzinfo=UTC), datetime(2026, 8, 3, tzinfo=UTC), timedelta(7)))
    others = {"release_id": "other"}, {"key_id": "other"}, {"windows": later}, {"cost": less}, {"dataset": "heard"}
    for other in others:
        assert not replace(charged, **other).pays_for(entry)
    [uncharged] = entries_of([published(question, dataset=None)], "plays")
    assert not charged.pays_for(uncharged), "the charge is of another answer, whose manifest names the dataset"
    assert all(replace(charged, outcome="adopted").pays_for(each) for each in (entry, uncharged))


WHOLE = {"window": None, "from": None, "to": None}


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_charges_is_restored(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From no backup, and from one of each moment; also of Gaussian noise that was charged by epsilon and delta since a
    pure release came before it.
    """
    monkeypatch.chdir(tmp_path)
    before, after = URLS
    drawn = random.Random(seed)
    budget = Budget.of("plays", 3, 1e-6, drawn.choice([5e-7, 8e-7, 1e-6]), unit="user")
    Ledger(before).create(budget)
    for number in range(5):
        shutil.copy("before.db", f"{number}.db")
        epsilon, delta = drawn.choice([0.1, 0.4, 1.2]), drawn.choice([None, 1e-7, 4e-7])
        more = {"mechanism": "oneshot"} if delta is None else {"mechanism": "gaussian", "delta": delta}
        question = asked(**more, epsilon=epsilon, max_items_per_user=20, privacy_unit="user", **WHOLE)
        columns = {"user": "who"}
        request = question.request(dataset="plays", key_id="k", fingerprint="0" * 32, rows={"user_column": "who"})
        request = Ledger(before).as_charged(replace(request, release_id=f"{drawn.random()}"))
        with suppress(InvalidArgument):  # what does not fit
            Ledger(before).charge(request)
            told = published(question, release_id=request.release_id, charge=charge_of(request), columns=columns)
            Path(f"{number}.manifest.json").write_bytes(told.encode())
    lost = Ledger(before).read()
    Ledger(after).create(budget)
    for url in (after, *(f"sqlite:///{number}.db" for number in range(5))):
        assert main(["budget", "adopt", ".", *with_ledger(url)]) == 0
        there = Ledger(url).read()
        assert {each.release_id: each.cost for each in there.charges} == {
            each.release_id: each.cost for each in lost.charges
        }
        assert statement(budget, there) == statement(budget, lost)


@pytest.mark.parametrize(("pure", "fits"), [(0.5, True), (1.2, False)])
def test_a_charge_that_slips_in_changes_no_reading_that_a_manifest_tells_already(
    pure: float, fits: bool, tmp_path: Path
) -> None:
    """Beside nothing else Gaussian noise is charged by its rho, and beside a pure release by its epsilon and delta."""
    ledger, other = (Ledger(f"sqlite:///{tmp_path}/budget.db") for _ in range(2))
    ledger.create(Budget.of("plays", 3, 1e-6, unit="user"))

    def request(name: str, **more: object) -> Request:
        question = asked(**more, max_items_per_user=20, privacy_unit="user", **WHOLE)
        return replace(question.request(dataset="plays", key_id="k", fingerprint="0" * 32), release_id=name)

    noise = request("noise", mechanism="gaussian", epsilon=1, delta=4e-7)
    told = ledger.as_charged(noise)
    other.charge(request("pure", mechanism="oneshot", epsilon=pure))
    assert other.as_charged(noise).cost.rho > told.cost.rho, "who asks now is told another"
    between = r"another charge came in between: .* nothing was charged: call it again"
    with nullcontext() if fits else pytest.raises(InvalidArgument, match=between):
        ledger.charge(told)
    assert [each.cost.rho for each in ledger.read().charges[1:]] == [told.cost.rho] * fits


def test_noise_that_no_ledger_was_charged_for_fits_a_budget_without_rho(tmp_path: Path) -> None:
    ledger, budget = Ledger(f"sqlite:///{tmp_path}/budget.db"), Budget.of("plays", 1, *[Fraction("1e-6")] * 2)
    ledger.create(budget)
    noise = published(asked(mechanism="gaussian", delta=1e-6, max_items_per_user=2), dataset=None)
    [adopted] = ledger.adopt(entries_of([noise], "plays"))
    assert budget.binding(adopted.cost) == (Fraction(1), "delta")


def test_a_report_says_what_its_restored_ledger_lacks(folder: Path, capsys: pytest.CaptureFixture) -> None:
    """A budget of 3 pays for two weeks and a correction; with a copy after the first week it would pay for more."""
    text = (folder / "weekly.yaml").read_text()
    (folder / "weekly.yaml").write_text(text.replace("epsilon: 1", "epsilon: 4\n  privacy_unit: user"))
    (folder / "budget.db").unlink()
    url = f"sqlite:///{folder}/budget.db"
    create(url, "--epsilon", "3", "--privacy-unit", "user")
    assert report(folder, "--window-end", "2026-01-12") == 0
    shutil.copy(folder / "budget.db", folder / "backup.db")
    assert report(folder, "--window-end", "2026-01-12", "--correction", "1") == 0
    assert report(folder, "--window-end", "2026-01-19") == 0
    spent, files = Ledger(url).read(), sorted(folder.glob("out/*"))
    shutil.copy(folder / "backup.db", folder / "budget.db")
    adopt = ["budget", "adopt", "--ledger", url, "--dataset", "plays"]
    first = "weekly/20260105T000000Z--20260112T000000Z/correction-1"
    second = "weekly/20260112T000000Z--20260119T000000Z"
    for lacks, words in {
        first: (["2026-01-26"], ["2026-01-26", "--dry-run"], ["2026-01-19"], ["2026-01-12", "--correction", "1"]),
        second: (["2026-01-26"], ["2026-01-19"]),
    }.items():
        before = Ledger(url).read()
        for each in words:
            capsys.readouterr()
            assert report(folder, "--window-end", *each) == 2
            said = capsys.readouterr().err
            assert f"ledger.url has no charge of {lacks}, which is published: the report ran without this" in said
            assert (
                "ledger, or the ledger was restored from a backup: let `private-topk budget adopt FOLDER --led" in said
            )
            assert f"--ledger {url} --dataset plays` write down all that is published" in said
        assert report(folder, "--dry-run") == 2
        assert f"has no charge of {lacks}, which" in capsys.readouterr().err
        assert report(folder, "--missed", "--until", "2026-01-12") == 0, "where a correction alone is forgotten too"
        said = capsys.readouterr().out
        assert "weekly: every call is refused: " in said and f"has no charge of {lacks}, which" in said, said
        assert Ledger(url).read() == before and sorted(folder.glob("out/*")) == files
        if lacks == first:
            [manifest] = folder.glob("out/*correction-1*.manifest.json")
            assert main([*adopt, str(manifest)]) == 0
    capsys.readouterr()
    assert main([*adopt, str(folder / "out")]) == 0
    told = capsys.readouterr().out
    assert f"adopted {second}: 2026-01-12 to 2026-01-19 UTC\n1 of 3 releases adopted; the others were" in told
    assert "100.0% used by 3 charges" in told
    there = Ledger(url).read()
    for one, other in zip(spent.charges, there.charges, strict=True):
        assert (one.windows, one.cost, one.unit, one.rows) == (other.windows, other.cost, other.unit, other.rows)
    assert main([*adopt, "--json", str(folder / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["adopted"] == []
    assert report(folder, "--window-end", "2026-01-26") == 2
    assert "3 spent + 1 asked = 4, over 3" in capsys.readouterr().err
    for done in (["2026-01-12"], ["2026-01-19"], ["2026-01-12", "--correction", "1"]):
        assert report(folder, "--window-end", *done) == 0, "it is published: nothing is to be done"
    assert Ledger(url).read() == there and sorted(folder.glob("out/*")) == files


def test_what_other_keys_have_drawn_is_adopted_counts_in_each_promise_and_is_told_where_it_is_too_much(
    folder: Path, capsys: pytest.CaptureFixture
) -> None:
    """Of machines with a copy each, on which a week of the horizon comes out once more and again."""
    text = (folder / "weekly.yaml").read_text()
    (folder / "weekly.yaml").write_text(text.replace("epsilon: 1", "epsilon: 4\n  privacy_unit: user"))
    (folder / "budget.db").unlink()
    url = f"sqlite:///{folder}/budget.db"
    create(url, "--epsilon", "4", "--privacy-unit", "user")
    for end in ("2026-01-12", "2026-01-19"):
        assert report(folder, "--window-end", end) == 0
    first, _ = sorted(folder.glob("out/*.manifest.json"))

    def told(*words: str) -> tuple[str, str]:
        capsys.readouterr()
        assert main(list(words)) == 0
        found = capsys.readouterr()
        return " ".join(found.out.split()), found.err

    for times, key in enumerate(("one", "other", "last"), 1):
        copy = folder / f"{key}.manifest.json"
        copy.write_text(json.dumps(json.loads(first.read_text()) | {"key_id": key}))
        _, warned = told("budget", "adopt", str(copy), "--ledger", url, "--dataset", "plays", "--json")
        exceeded = times > 2
        said = "ledger: more than the user budget of plays is charged: nothing more fits, and a user is "
        assert warned == (f"{said}protected by what is spent, not by its total\n" if exceeded else ""), warned
        sheet, _ = told("show", str(folder / "out"), "--sign-off", "--ledger", url)
        assert f"budget epsilon {4 + times}, delta 0. Epsilon" in sheet, sheet
        assert ("all that it lets through stays within that." in sheet) != exceeded
        more = ", and it holds more than that, since more was adopted: 125.0% is used. So far 5 charges have spent"
        assert (more in sheet) == exceeded
        for end in ("2026-01-12", "2026-01-19", "2026-01-26")[: 4 - times]:
            said, _ = told("report", str(folder / "weekly.yaml"), "--window-end", end, "--dry-run")
            assert f"privacy epsilon {4 + times} for one user's rows" in said, said


def test_a_repeat_finds_its_release_that_the_ledger_lacks(place: Path, capsys: pytest.CaptureFixture) -> None:
    create(URL, "--epsilon", "1")
    words = arguments("a", *with_ledger(URL, "--epsilon", "1"), weeks=2)
    assert main(words) == 0
    ranking, fingerprint = (place / "a.csv").read_bytes(), Ledger(URL).read().charges[0].fingerprint
    manifest = place / "a.manifest.json"
    assert fingerprint not in manifest.read_text(), "it would tell whether the input of two releases differs"
    (place / "budget.db").unlink()
    create(URL, "--epsilon", "0.5")
    for more in ([], ["--dry-run"], ["--overwrite"]):
        capsys.readouterr()
        assert main([*words, *more]) == 2
        assert "--ledger has no charge of a, which is published" in capsys.readouterr().err
        assert Ledger(URL).read().charges == []
    adopt = ["budget", "adopt", "a.csv", *with_ledger(URL)]
    assert main(adopt) == 0
    assert "200.0% used by 1 charge" in capsys.readouterr().out, "a fact, whatever the limit is"
    assert [entry.outcome for entry in Ledger(URL).read().charges] == ["adopted"]
    assert main(["budget", "show", *with_ledger(URL)]) == 0
    assert "not finished" not in capsys.readouterr().out
    assert main([*words, "--overwrite"]) == 2
    assert "--release-id a was adopted on " in capsys.readouterr().err
    assert main(arguments("b", *with_ledger(URL, "--epsilon", "0.1"))) == 2
    assert "1 spent + 0.1 asked = 1.1, over 0.5" in capsys.readouterr().err
    assert (place / "a.csv").read_bytes() == ranking and not list(place.glob("b.*"))


def test_only_what_can_be_charged_to_the_dataset_is_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    question = asked()
    privacy, charge = published(question).privacy, published(question).charge
    swapped = {"parameters": published(question).parameters | {"neighbours": "replace-one"}}
    for name, facts in {
        "good": {"release_id": "good"},
        "other": {"release_id": "other", "dataset": "songs"},
        "old": {"release_id": "old", "charge": None},
        "keyless": {"release_id": "keyless", "key_id": None},
        "swapped": {"release_id": "swapped", "privacy": msgspec.structs.replace(privacy, neighbours="replace-one")}
        | swapped,
        "user": {"release_id": "user"},
        "less": {"release_id": "less", "charge": msgspec.structs.replace(charge, epsilon="-1")},
        "when": {"release_id": "when", "charge": msgspec.structs.replace(charge, windows="[1, 2]")},
    }.items():
        of = asked(privacy_unit="user") if name == "user" else question
        (tmp_path / f"{name}.manifest.json").write_bytes(published(of, **facts).encode())
    (tmp_path / "above" / "below").mkdir(parents=True)
    (tmp_path / "above" / "below" / "good.manifest.json").write_bytes(published(question).encode())
    (tmp_path / "none.manifest.json").write_text("{}")
    (tmp_path / "bare.csv").touch()
    Ledger(URL).create(Budget.of("plays", 1))
    for name, said in {
        "other": "--dataset of other is songs, got plays",
        "old": "the manifest of old does not tell what a ledger is charged",
        "keyless": "the manifest of keyless does not tell",
        "swapped": "--neighbours must be add-remove",
        "user": "got user: give the ledger that was charged; if that is lost, open one with its old total by "
        "`private-topk budget create --ledger sqlite:///another.db --dataset plays --epsilon EPSILON --delta DELTA "
        "--privacy-unit user`, and adopt into it",
        "less": "less.manifest.json contradicts itself",
        "when": "when.manifest.json contradicts itself",
        "none": "none.manifest.json is no manifest of a ranking",
        "missing": "missing has no manifest",
        "bare.csv": "bare.csv has no manifest: bring it back from a copy; without it, open a budget that is smaller by",
        "above": "above has no manifest: give a folder of rankings with their manifests, a ranking, or a file that "
        "ends with .manifest.json; subfolders are not searched, but for corrections: give each, as above/*",
    }.items():
        one = f"{name}.manifest.json" if name not in ("missing", "bare.csv", "above") else name
        assert main(["budget", "adopt", "good.manifest.json", one, *with_ledger(URL)]) == 2
        assert said in capsys.readouterr().err
        assert Ledger(URL).read().charges == [], name
    assert main(["budget", "adopt", "good.manifest.json", *with_ledger(URL)]) == 0
    assert [entry.release_id for entry in Ledger(URL).read().charges] == ["good"]


def test_the_corrections_in_a_folder_are_adopted_with_it_as_they_are_shown_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Of a report whose place is a folder, they lie in folders within it."""
    monkeypatch.chdir(tmp_path)
    for name, release in (("week", "week"), ("correction-late/week", "week/correction-late"), ("other/week", "other")):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / f"{name}.manifest.json").write_bytes(published(asked(), release_id=release).encode())
    Ledger(URL).create(Budget.of("plays", 1))
    assert main(["budget", "adopt", "out/", *with_ledger(URL)]) == 0
    assert [entry.release_id for entry in Ledger(URL).read().charges] == ["week", "week/correction-late"]
    capsys.readouterr()
    assert main(["budget", "history", "--ledger", URL]) == 0
    assert "\nadopted releases have the time of the adoption, and their manifests the day" in capsys.readouterr().out


def test_two_answers_under_one_id_are_both_charged(folder: Path, capsys: pytest.CaptureFixture) -> None:
    """Of two machines with copies of a ledger, one of which has a row more; a copy of an answer costs nothing."""
    url, other = f"sqlite:///{folder}/budget.db", folder.parent / "other"
    shutil.copytree(folder, other)
    with (other / "rows.csv").open("a") as rows:
        rows.writelines(f"late {n},item 9,2026-01-05T10:00:00\n" for n in range(500))
    for machine in (folder, other):
        assert report(machine, "--window-end", "2026-01-12") == 0
    shutil.copytree(folder / "out", folder / "copy")
    spent, given = Ledger(url).read().charges, [str(each) for each in (folder / "out", folder / "copy", other / "out")]
    adopt = ["budget", "adopt", "--ledger", url, "--dataset", "plays", *given]
    assert main([*adopt, "--dry-run"]) == 0 and Ledger(url).read().charges == spent
    dry = capsys.readouterr()
    assert "1 of 2 releases would be adopted" in dry.out and "100.0% used by 2 charges" in dry.out
    first = "weekly/20260105T000000Z--20260112T000000Z"
    told = f"{first} has 2 different answers here under one key: each is charged\n"
    for adopted in (f"adopted {first}: 2026-01-05 to 2026-01-12 UTC\n{told}1 of 2 releases adopted;", f"{told}0 of 2 "):
        capsys.readouterr()
        assert main(adopt) == 0
        assert adopted in (said := capsys.readouterr().out) and "100.0% used by 2 charges" in said, said
    assert report(folder, "--window-end", "2026-01-12") == 0, "it is published: nothing is to be done"
    assert [(each.release_id, each.cost) for each in Ledger(url).read().charges] == [(first, spent[0].cost)] * 2
    (folder / "budget.db").unlink()
    create(url, "--epsilon", "2")
    assert main(adopt) == 0 and "2 of 2 releases adopted\n" in capsys.readouterr().out


@pytest.mark.parametrize("last", ["0.7", "0.9"])
def test_what_a_correction_names_is_adopted_with_it(last: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    """Exactly at the price of the correction, else as it is stated; not where the ledger knows it under any key."""
    (folder / "budget.db").unlink()
    url, words = f"sqlite:///{folder}/budget.db", ("--window-end", "2026-01-12")
    text = (folder / "weekly.yaml").read_text().replace("horizon: 4", "horizon: 3")
    budget = ("--epsilon", "3", "--privacy-unit", "user")
    create(url, *budget)
    for epsilon, more in (("0.7", ()), ("0.7", ("--correction", "1")), (last, ("--correction", "2"))):
        (folder / "weekly.yaml").write_text(text.replace("epsilon: 1", f"epsilon: {epsilon}\n  privacy_unit: user"))
        assert report(folder, *words, *more) == 0
    lost = Ledger(url).read()
    spent = {each.release_id: each for each in lost.charges}
    adopt = ["budget", "adopt", "--ledger", url, "--dataset", "plays"]
    for path in [path for path in (folder / "out").iterdir() if "correction-2" not in path.name]:
        path.unlink()
    assert main([*adopt, str(folder / "out")]) == 0
    assert "0 of 1 releases adopted; the others" in capsys.readouterr().out, "the ledger knows them"
    (folder / "budget.db").unlink()
    create(url, *budget)
    assert main([*adopt, str(folder / "out")]) == 0
    assert "3 of 3 releases adopted\n" in capsys.readouterr().out
    there = Ledger(url).read()
    [(_, _, before)], [(_, _, ahead)] = (reports_ahead(books.budgets[0], books) for books in (lost, there))
    assert (before.left, before.horizon, before.fitting) == (ahead.left, ahead.horizon, ahead.fitting) == (2, 3, 2)
    assert float(ahead.used) == pytest.approx(float(before.used))
    [told] = told_ahead(there.budgets, there)
    assert f"(adopted {there.charges[-1].charged[:10]}) remain" in told, "not the day of the release"
    found = {each.release_id: each for each in there.charges}
    assert found.keys() == spent.keys()
    for name, charge in found.items():
        assert (charge.windows, charge.rows) == (spent[name].windows, spent[name].rows)
        excess = charge.cost.epsilon / spent[name].cost.epsilon - 1
        assert excess == 0 if last == "0.7" else 0 <= excess < 1e-12
    assert main([*adopt, str(folder / "out")]) == 0 and "0 of 1 " in capsys.readouterr().out
