"""One id, one answer: whatever of a published report is lost, changed or corrected, with a ledger and without."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from private_topk.pipelines.budget.ledger import Ledger
from private_topk.pipelines.cli import main
from private_topk.pipelines.show.reading import read_published
from private_topk.pipelines.show.words import in_text, promise, shared_by
from private_topk.transforms.mechanisms import Cost
from private_topk.transforms.mechanisms.exact.accounting import epsilon_within, gaussian_epsilon
from private_topk.transforms.release import ReleaseKey
from tests.nightly import nightly_but
from tests.pipelines.scheduled.support import CHARGED, called, folder, report, told
from tests.pipelines.support import WEEKLY, command, costing

__all__ = ["folder"]

FIRST, SECOND = ("--window-end", "2026-01-12"), ("--window-end", "2026-01-19")
RANKING = "out/weekly-2026-01-05.csv"
MANIFEST = "out/weekly-2026-01-05.manifest.json"
LAST = "out/weekly-2026-01-19.csv"
SECOND_YEAR = "horizon: 2\n  every: week\n  first: 2026-01-12"
CHANGES = {
    "k": ("k: 3", "k: 4", "k 3 (now 4)"),
    "epsilon": ("epsilon: 1", "epsilon: 0.5", "epsilon 1 (now 0.5)"),
    "mechanism": ("name: joint", "name: peeling", "mechanism joint (now peeling)"),
    "list": ("", "", "another domain"),
}


def all_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "out").iterdir()}


def charges(folder: Path) -> list[tuple[str, str]]:
    entries = Ledger(f"sqlite:///{folder}/budget.db").read().charges
    return [(entry.release_id.partition("Z--")[2].partition("/")[2], entry.outcome) for entry in entries]


def test_what_was_missed_says_what_a_call_will_do(folder: Path) -> None:
    """Of a lost ranking that can be drawn again, and not, since the question, the rows or the key are others."""

    def missed(*more: str) -> str:
        found = called(folder, "--missed", "--until", "2026-01-19", *more)
        assert "weekly, 2026-01-12 to 2026-01-19: missed\n" in found.out or more
        return found.err if more else found.out.partition("\n")[0]

    assert report(folder, *FIRST) == 0
    (folder / RANKING).unlink()
    again = f"{RANKING}; it was begun before, and a call draws the same ranking at no further cost"
    assert "missed, and belongs in " in (said := missed()) and said.endswith(again), said
    lacking = "periods that were begun or published and lack files: 1; --missed names each\n"
    for words, other in (((), ""), (SECOND, "other "), (FIRST, None)):
        said = called(folder, *words, "--dry-run").out
        assert f" {other}{lacking}" in said if other is not None else lacking not in said, said
    rows = (folder / "rows.csv").read_text()
    (folder / "rows.csv").write_text(rows + "late,item 1,2026-01-06\n")
    assert f"{RANKING}; a call is refused: " in (said := missed()) and "for other input (dataset plays)" in said, said
    assert ": if users were erased, leave what is published as it is, and bring lost rankings" in said, said
    assert "; if files or rows came later, give only the earlier ones (free; docs/reports.md), of a" in said, said
    (folder / "rows.csv").write_text(rows)
    (folder / "weekly.yaml").write_text(CHARGED.replace("k: 3", "k: 4"))
    for said in (missed(), missed("--json")):
        assert "2026-01-05 to 2026-01-12: missed, and" in said and f"{RANKING}; a call is refused: " in said, said
        assert "with k 3 (now 4): ask the same again, or bring its ranking, which is lost, back from a copy" in said
    (folder / MANIFEST).unlink()
    assert "with k 3 (now 4): ask" in missed(), "by the ledger"
    assert not (folder / RANKING).exists() and charges(folder) == [("", "released")]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("key", "another key of enough bytes", " was published under key "),
        (
            "weekly.yaml",
            CHARGED.replace("plays", "other"),
            " was charged to dataset plays, and other is to pay now",
        ),
        ("weekly.yaml", WEEKLY, " was charged to dataset plays, and no ledger is to pay now: no budget counts both"),
    ],
    ids=["key", "dataset", "no ledger"],
)
def test_a_report_whose_key_or_dataset_changed_says_so(folder: Path, file: str, text: str, said: str) -> None:
    """The file alone, the dry run of the next period and its run, and no call after that."""
    budget = ("--ledger", f"sqlite:///{folder}/budget.db", "--dataset", "other", "--epsilon", "2")
    assert main(["budget", "create", *budget]) == 0
    assert report(folder, *FIRST) == 0
    said = f"weekly/20260105T000000Z--20260112T000000Z{said}"
    assert said not in told(folder, "--dry-run") + told(folder, *SECOND, "--dry-run")
    (folder / file).write_text(text)
    for words in (("--dry-run",), (*SECOND, "--dry-run"), SECOND):
        assert said in (found := told(folder, *words)), found
    assert said not in told(folder, "--dry-run"), "once is enough"
    (folder / "key").unlink()
    assert said not in told(folder, "--dry-run"), "nobody can say"


@pytest.mark.parametrize("unit", ["user", "user-window"])
def test_a_dry_run_promises_what_the_folder_will(folder: Path, unit: str) -> None:
    """Of a period and of its correction, while others were corrected and asked at another price."""
    text = CHARGED.partition("ledger:")[0].replace("epsilon: 1", f"epsilon: 1\n  privacy_unit: {unit}")
    corrected = ("--correction", "1")
    for epsilon, words in ((1, FIRST), (1, (*FIRST, *corrected)), (2, SECOND), (3, (*SECOND, *corrected))):
        (folder / "weekly.yaml").write_text(text.replace("epsilon: 1", f"epsilon: {epsilon}"))
        said = json.loads(called(folder, *words, "--dry-run", "--json").out)["privacy"]
        assert report(folder, *words) == 0
        shown = read_published(str(folder / "out")).manifest
        assert said.partition(":")[0].startswith(promise(shown)), (words, said, promise(shown))
        assert shown is not None and shared_by(shown) in said


@pytest.mark.parametrize("unit", ["user", "user-window"])
def test_whatever_is_lost_counts_where_a_ledger_tells_of_it(folder: Path, unit: str) -> None:
    """Of a week with two corrections, and of the newest, which asks for more: on sheet, entry and dry run. More is
    stated where what is left had declared it.
    """
    ledger = f"sqlite:///{folder}/budget.db"
    budget = ("--dataset", "plays", "--epsilon", "90", "--privacy-unit", unit)
    (folder / "budget.db").unlink()
    assert main(["budget", "create", "--ledger", ledger, *budget]) == 0
    text = CHARGED.replace("epsilon: 1", f"epsilon: 1\n  privacy_unit: {unit}")
    corrections = [(*FIRST, "--correction", number) for number in "12"]
    for epsilon, words in zip((1, 1, 1, 7), (FIRST, *corrections, SECOND), strict=True):
        (folder / "weekly.yaml").write_text(text.replace("epsilon: 1", f"epsilon: {epsilon}"))
        assert report(folder, *words) == 0

    def stated() -> list[float]:
        coming = re.findall(
            r"^privacy +epsilon (\S+) ", called(folder, "--window-end", "2026-01-26", "--dry-run").out, re.M
        )
        entry = command("show", str(folder / "out"), "--registry", "--ledger", ledger).out
        sheet = command("show", str(folder / "out"), "--sign-off", "--ledger", ledger).out
        found = re.findall("^  (?:budget|of a person in all windows) +epsilon (.*), delta", sheet, re.M)
        return [*map(float, (*coming, *found, *re.findall("^ +epsilon: (.*)$", entry, re.M)))]

    kept, whole = all_files(folder), stated()
    assert whole == ([6, 6, 6] if unit == "user" else [7, 7, 10, 7])
    files = ("2026-01-05*", "2026-01-05.correction-1*", "2026-01-05.correction-2*", "2026-01-12*")
    for file, end in product(files, (".csv", ".manifest.json", "")):
        for path in (folder / "out").glob(f"weekly-{file}{end}"):
            path.unlink()
        found = stated()
        assert len(all_files(folder)) < len(kept) and len(found) == len(whole), (file, end)
        assert all(now >= was for now, was in zip(found, whole, strict=True)), (file, end, found)
        for name, content in kept.items():
            (folder / "out" / name).write_bytes(content)
    newest = folder / "out" / "weekly-2026-01-12.manifest.json"
    newest.write_text(costing(newest.read_bytes(), Fraction(1, 10)))
    assert stated() == whole, "of the ledger and a manifest that was edited the larger counts"


def test_every_call_names_a_correction_whose_files_are_lost(folder: Path) -> None:
    """Of which the manifest is lost, or all, also where a later correction counts it."""
    base, until = "weekly/20260105T000000Z--20260112T000000Z", ("--until", "2026-01-12")
    calls = [(*SECOND, "--dry-run"), ("--dry-run",), ("--missed", *until), ("--backfill", *until), FIRST, SECOND]

    def named(*words: str) -> int:
        said = told(folder, *words)
        where = f"{folder}/out/weekly-2026-01-05.correction-1.csv"
        why = (
            ": this promise counts that"
            if words == calls[0]
            else f", of which the ranking or its manifest is not here: {where}"
        )
        return said.count(f"The ledger has charged {base}/correction-1 too{why}.\n")

    (folder / "weekly.yaml").write_text(CHARGED.replace("epsilon: 1", "epsilon: 0.5"))
    assert report(folder, *FIRST) == report(folder, *FIRST, "--correction", "1") == 0
    assert [named(*words) for words in calls[:-1]] == [0] * 5
    for lost, those in ((".manifest.json", calls[:-1]), ("", calls)):
        for path in (folder / "out").glob(f"*.correction-1*{lost}"):
            path.unlink()
        assert [named(*words) for words in those] == [1] * len(those), lost
    (folder / MANIFEST).unlink()  # that of a first publication is told by itself
    assert named("--missed", *until) == 1
    assert report(folder, *FIRST, "--correction", "2") == 0 and named(*SECOND) == named("--dry-run") == 1


@pytest.mark.parametrize(
    ("change", "lost", "ledger"),
    nightly_but(
        product(CHANGES, ("ranking", "both"), (True, False)),
        *(("k", "ranking", False), ("epsilon", "both", True), ("list", "ranking", False), ("list", "both", True)),
    ),
)
def test_an_old_period_is_drawn_with_its_own_question_or_not_at_all(
    folder: Path, change: str, lost: str, ledger: bool
) -> None:
    """By its manifest, whether or not its ranking is there, or by the ledger: the differing field is named, nothing is
    charged, and the manifest that proves the first answer stays. Without either nobody can know.
    """
    text = CHARGED if ledger else WEEKLY
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, *FIRST) == 0
    before, charged = all_files(folder), charges(folder)
    old, new, said = CHANGES[change]
    (folder / "weekly.yaml").write_text(text.replace(old, new))
    if change == "list":
        (folder / "items.txt").write_text("item 1\nitem 2\nitem 3\nitem 4\n")
    for name in (RANKING, MANIFEST)[: 2 if lost == "both" else 1]:
        (folder / name).unlink()
    left = all_files(folder)
    known = ledger or lost == "ranking"
    for words in (FIRST, ("--backfill", "--until", "2026-01-12"), (*FIRST, "--dry-run")):
        if not known:
            continue
        assert said in (err := called(folder, *words, status=2).err), err
        assert "weekly.yaml:1: report " in err and "release id" not in err, "none was given"
        assert "take another report name or --correction, which costs" in err, err
        assert all_files(folder) == left and charges(folder) == charged
    (folder / "weekly.yaml").write_text(text)
    if change != "list":
        assert report(folder, *FIRST) == 0, "its own question draws the same again"
        assert all_files(folder)[Path(RANKING).name] == before[Path(RANKING).name] and charges(folder) == charged


def test_what_decides_a_budget_is_told_before_one_is_opened(folder: Path) -> None:
    """The promise, how far counts are off and what is known of the quality, as without a ledger."""
    text = CHARGED.replace("epsilon: 1", "epsilon: 2\n  privacy_unit: user\n  publish_counts: 1")
    (folder / "weekly.yaml").write_text(text.replace("budget.db", "none.db"))
    refused = called(folder, "--dry-run", status=2)
    assert "none.db does not exist: open one with" in refused.err
    (folder / "weekly.yaml").write_text(text.partition("ledger:")[0])
    free = called(folder, "--dry-run").out
    for said in (refused.out, free):
        assert re.search(r"^privacy .*\ncounts .*\nrecall ", said, re.MULTILINE), said
    told = [re.sub("the first one|the missed .*? to [^:]*", "it", said) for said in (refused.out, free)]
    assert all(line in told[1].splitlines() for line in told[0].splitlines() if not line.startswith("ended"))
    assert report(folder, *FIRST) == 0
    [width] = {row["noise_95"] for row in read_published(str(folder / RANKING)).rows}
    assert f"within ± {width:,} of the one without noise" in free


def test_a_folder_of_another_report_is_told_before_anything_is_published_there(folder: Path) -> None:
    """In dry runs and at the first call, by its name; of its own publications and corrections nothing is said."""
    assert report(folder, *FIRST) == report(folder, *FIRST, "--correction", "1") == 0
    assert "folder " not in called(folder, "--dry-run").out + called(folder, *SECOND, "--dry-run").out
    other = CHARGED.replace("report: weekly", "report: other").partition("ledger:")[0]
    (folder / "weekly.yaml").write_text(other.replace("{report}", "other"))
    rule = f"{folder}/out has rankings of weekly too, and `show` takes a folder of one report"
    for words in ((), FIRST):
        assert rule in called(folder, "--dry-run", *words).out
    assert rule in called(folder, *FIRST).err and rule not in called(folder, *SECOND).err
    assert "show them apart" in command("show", str(folder / "out")).err


def test_two_reports_that_share_a_folder_are_not_shown_as_one(folder: Path) -> None:
    """The budget of the one would stand for the windows of both that are still to come."""
    text = CHARGED.partition("ledger:")[0].replace("epsilon: 1", "epsilon: 2\n  privacy_unit: user")
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, *FIRST) == 0
    other = text.replace("report: weekly", "report: other").replace("epsilon: 2", "epsilon: 0.2")
    (folder / "weekly.yaml").write_text(other)
    assert report(folder, *SECOND) == 0
    for form in ((), ("--sign-off",), ("--registry",), ("--html", str(folder / "page.html"))):
        done = command("show", str(folder / "out"), *form)
        assert done.status == 2 and not (folder / "page.html").exists(), done
        assert "is of the report " in done.err and "each promises for a horizon of its own: show them apart" in done.err
    for name, epsilon in (("weekly-2026-01-05", "2"), ("other-2026-01-12", "0.2")):
        assert f"e^{epsilon} " in command("show", str(folder / "out" / f"{name}.csv")).out


def test_a_file_that_is_checked_is_told_what_its_ledger_says(folder: Path) -> None:
    """What was charged, what is left, and that the next period is refused; nothing is written, and no row is read."""
    text = CHARGED.replace("epsilon: 1", "epsilon: 2\n  privacy_unit: user").replace("plays", "heard")
    (folder / "weekly.yaml").write_text(text)
    assert "heard has no budget in this ledger" in called(folder, "--dry-run", status=2).err
    words = f"budget create --ledger sqlite:///{folder}/budget.db --dataset heard --epsilon 2 --privacy-unit user"
    assert main(words.split()) == 0 and report(folder, *FIRST) == 0
    (folder / "rows.csv").unlink()
    books = (folder / "budget.db").read_bytes()
    (folder / "weekly.yaml").write_text(text.replace("budget.db", "none.db"))
    for words in ((), FIRST):
        err = called(folder, "--dry-run", *words, status=2).err
        assert "none.db does not exist: open one with `private-topk budget create --ledger" in err
        assert "; but bring a lost one back from its backup, or open it with its old total, then let `private-" in err

    def checked(old: str = "", new: str = "", status: int = 0) -> str:
        (folder / "weekly.yaml").write_text(text.replace(old, new))
        said = told(folder, "--dry-run", status=status)
        assert (folder / "budget.db").read_bytes() == books and len(all_files(folder)) == 2
        return said

    said = checked()
    cost = "epsilon 0.5 added up, or rho 0.03125 by zCDP"
    fits = f"the missed 2026-01-12 to 2026-01-19 fits and costs {cost}; 50.0% of the user budget would be used\n"
    assert f"ledger   dataset heard, periods charged: 1; {fits}" in said
    assert "\nprivacy  with the missed 2026-01-12 to 2026-01-19: epsilon 2 for one user's rows in all windows" in said
    never = "; reports that were never charged are not counted; the periods left of this one cost epsilon 1.5 of the 2 "
    never += "that the budget holds\n"
    fit = f"with them 100.0% of the user budget would be used (epsilon 2){never}"
    assert f"horizon  fits: 3 of 4 periods remain; {fit}" in said
    fit = "with them 137.5% of the user budget would be used (epsilon 2.75), so 2 of them fit and 1 will be "
    fit += "refused"
    fit += never.replace("1.5", "2.25")
    assert f"horizon  does not fit: 3 of 4 periods remain; {fit}" in (said := checked("epsilon: 2", "epsilon: 3", 2))
    little = (
        "ledger.dataset has too little budget: 1 of the periods left will be refused: take a smaller budget.epsilon, "
        "or let it be renewed in time; or open a new ledger like this one with at least epsilon 2.75, and adopt what is"
    )
    assert little in said, "with all of it told before"
    assert (
        "\nprivacy  with the missed 2026-01-12 to 2026-01-19: epsilon 2.75 for one user's rows in all windows" in said
    )
    said = checked("first: 2026-01-05", "first: 2026-01-12", 2)
    assert "periods charged: 0;" in said
    assert "horizon  does not fit: 4 of 4 periods remain; with them 125.0% of the user budget" in said
    assert "the user budget of dataset heard does not suffice" in checked("epsilon: 2", "epsilon: 7", 2)
    assert "with user column user (now who): that is another" in checked("source:", "source:\n  user_column: who", 2)
    assert "dataset heard, periods charged: 1, and none is left\n" in checked("horizon: 4", "horizon: 1")


def test_whoever_charges_the_budget_of_a_report_is_told_what_that_still_needs(folder: Path) -> None:
    """By its newest charge; in a dry run, at the charge and in `budget show`, and nowhere without a report."""
    text = CHARGED.replace("epsilon: 1", "epsilon: 2\n  privacy_unit: user").replace("plays", "heard")
    url = f"sqlite:///{folder}/budget.db"
    account = f"--ledger {url} --dataset heard --privacy-unit user"

    def said(words: str, status: int = 0) -> str:
        done = command(*words.split())
        assert done.status == status, done
        return done.out + done.err

    def once(name: str, epsilon: str) -> str:
        return (
            f"run --input {folder}/rows.csv --domain {folder}/items.txt --mechanism joint --k 3 --quiet --epsilon "
            f"{epsilon} --output {folder}/{name}.csv --release-key file:{folder}/key --release-id {name} {account}"
        )

    said(f"budget create {account} --epsilon 2")
    for words in (f"{once('before', '0.1')} --dry-run", once("before", "0.1"), f"budget show --ledger {url}"):
        assert "of report" not in said(words)
    (folder / "weekly.yaml").write_text(text)
    assert "of report" not in said(f"report {folder}/weekly.yaml --window-end 2026-01-12 --dry-run")
    assert "of report" not in said(f"report {folder}/weekly.yaml --window-end 2026-01-12")
    day = Ledger(url).read().charges[-1].charged[:10]
    left = f"does not fit: 3 of 4 periods of report weekly (last charged {day}) remain after this; "
    left += "with them 150.0% of the user budget "
    left += "would be used (epsilon 3), so 1 of them fit and 2 will be refused\n"
    assert f"\nreports  {left}" in said(f"{once('ad/hoc', '0.9')} --dry-run")
    assert f"\nledger: {left}" in said(once("adhoc", "0.9"))
    assert f"\n  ahead     {left.replace(' after this', '')}" in said(f"budget show --ledger {url}")
    [of] = json.loads(said(f"budget show --ledger {url} --dataset heard --json"))["budgets"]
    assert of["reports"] == [{"report": "weekly", "charged": day, "horizon": 4, "left": 3, "fitting": 1}]
    (folder / "weekly.yaml").write_text(text.replace("horizon: 4", "horizon: 20").replace("k: 3", "k: 2"))
    assert report(folder, *SECOND) == 0
    left = f"does not fit: 18 of 20 periods of report weekly (last charged {day}) remain; "
    left += "with them 170.0% of the user budget "
    assert f"{left}would be used (epsilon 3.4), so 4 of them fit and 14 will" in said(f"budget show --ledger {url}")
    assert "of report" not in said(f"report {folder}/weekly.yaml --dry-run", 2)


def test_a_first_try_that_leaves_nothing_by_rho_is_told_so_and_which_ledger_holds_both(folder: Path) -> None:
    """A pure try of 0.9 is small beside an epsilon of 1.2, and more than all that its rho holds."""
    report = "epsilon: 1\n  delta: 1e-6\n  privacy_unit: user"
    text = CHARGED.replace("epsilon: 1", report).replace("plays", "heard").replace("horizon: 4", "horizon: 60")
    (folder / "weekly.yaml").write_text(text)
    tried = f"run --input {folder}/rows.csv --domain {folder}/items.txt --k 3 --epsilon 0.9 --mechanism joint"
    assert main([*tried.split(), "--privacy-unit", "user", "--output", f"{folder}/try.csv", "--quiet"]) == 0

    def opened(name: str, epsilon: str) -> str:
        account = f"--ledger sqlite:///{folder}/{name}.db --dataset heard"
        create = f"budget create {account} --epsilon {epsilon} --delta 2e-6 --privacy-unit user"
        assert main(create.split()) == 0
        told = [command("budget", "adopt", f"{folder}/try.csv", *account.split(), *dry) for dry in (["--dry-run"], [])]
        shown = [line for each in told for line in each.out.splitlines() if "fits now" in line]
        assert len({*shown}) == 1 and shown[0] in command("budget", "show", *account.split()).out
        (folder / "weekly.yaml").write_text(text.replace("budget.db", f"{name}.db"))
        return shown[0]

    (folder / "budget.db").unlink()
    fits = "  fits now  one release of epsilon 0.3; none by rho: 0.10125 of 0.0342168 is spent"
    assert opened("budget", "1.2") == fits
    said = told(folder, "--dry-run", status=2)
    [needed] = re.findall(r"a new ledger like this one with at least epsilon (\S+), and adopt what is", said)
    assert "by rho" not in opened("enough", needed)
    assert "horizon  fits: 60 of 60 periods remain" in told(folder, "--dry-run")
    opened("less", f"{float(needed) * 0.999}")
    assert "horizon  does not fit: 60 of 60 periods" in told(folder, "--dry-run", status=2)
    opened("none", "0.9")
    said = told(folder, "--dry-run", status=2)
    assert "60 of 60 periods remain; " in said and ", so none of them fits; " in said and "does not suffice" in said
    assert re.search(rf"\n  For all: take a smaller budget.epsilon, .* with at least epsilon {needed}, ", said)


def test_two_reports_are_added_up_before_the_first_charge(folder: Path) -> None:
    """By the rhos that each dry run tells; once one is charged, the other is told the same of both, and the epsilon."""
    text = CHARGED.replace("epsilon: 1", "epsilon: 1\n  delta: 1e-7\n  privacy_unit: user").replace("plays", "heard")
    (folder / "weekly.yaml").write_text(text)
    (folder / "other.yaml").write_text(text.replace("report: weekly", "report: other").replace("out/", "others/"))
    account = f"--ledger sqlite:///{folder}/budget.db --dataset heard --privacy-unit user --epsilon 2 --delta 1e-6"
    assert main(["budget", "create", *account.split()]) == 0
    budget, rho = Ledger(f"sqlite:///{folder}/budget.db").budget("heard", "user"), Fraction(0)
    for name in ("weekly", "other"):
        said = command("report", str(folder / f"{name}.yaml"), "--dry-run").out
        [(one, of)] = re.findall(r"the periods left of this one cost rho (\S+) of the (\S+) that", said)
        rho += Fraction(one)
    assert float(of) == pytest.approx(float(budget.rho), rel=1e-5)
    assert report(folder, *FIRST) == 0
    told = budget.guarantee(Cost(Fraction(9), Fraction(0), rho))
    said = command("report", str(folder / "other.yaml"), "--dry-run").out
    [(used, epsilon)] = re.findall(r"all reports (\S+)% would be used \(epsilon (\S+)\)", said)
    assert float(used) == pytest.approx(100 * float(rho / budget.rho), abs=0.06)
    assert float(epsilon) == pytest.approx(float(told.epsilon), rel=1e-4)


def test_a_report_whose_first_period_was_moved_has_its_new_periods_left(folder: Path) -> None:
    """What was charged before is none of them, in the ledger and in one that is rebuilt; and no answer changes."""
    url, other = (f"sqlite:///{folder}/{name}.db" for name in ("budget", "rebuilt"))
    text = CHARGED.replace("epsilon: 1", "epsilon: 1\n  privacy_unit: user").replace("plays", "heard")
    beside = text.replace("report: weekly", "report: other").replace("out/", "others/")
    moved = text.replace("horizon: 4", "horizon: 2").replace("first: 2026-01-05", "first: 2026-01-19")
    for ledger in (url, other):
        account = f"--ledger {ledger} --dataset heard --privacy-unit user --epsilon 2.5"
        assert main(["budget", "create", *account.split()]) == 0
    (folder / "other.yaml").write_text(beside)
    (folder / "weekly.yaml").write_text(text.replace("horizon: 4", "horizon: 2"))
    assert report(folder, "--backfill", "--until", "2026-01-19") == 0
    assert command("report", str(folder / "other.yaml"), *FIRST).status == 0
    (folder / "weekly.yaml").write_text(moved)
    together = "with all periods of all reports 120.0% would be used (epsilon 3), so some will be refused"
    charged = command("report", str(folder / "weekly.yaml"), "--window-end", "2026-01-26", "--quiet")
    assert charged.status == 0 and charged.err.count(f"ledger: does not fit: {together}\n") == 1
    adopted = command("budget", "adopt", "--ledger", other, "--dataset", "heard", f"{folder}/out", f"{folder}/others")
    for said in (command("budget", "show", "--ledger", url), adopted):
        assert re.search(
            r"  ahead     fits: 1 of 2 periods of report weekly .* remain; with them 90.0% of", said.out
        ), said
        assert re.search(
            r"  ahead     fits: 3 of 4 periods of report other .* remain; with them 100.0% of", said.out
        ), said
        assert f"  ahead     does not fit: {together}\n" in said.out
    done = command("report", str(folder / "other.yaml"), "--dry-run")
    assert "\nreports  fits: 1 of 2 periods of report weekly " in done.out
    assert f"\nhorizon  does not fit: {together}; this one alone fits: " in done.out
    assert done.out.count(together) == 1 and f"{together}; this one alone " in told(folder, "--dry-run", status=0)
    path = folder / "out/weekly-2026-01-19.csv"
    drawn, books = path.read_bytes(), Ledger(url).read().charges
    path.unlink()
    (folder / "weekly.yaml").write_text(moved.replace("2026-01-19", "2026-01-12"))
    assert report(folder, "--window-end", "2026-01-26") == 0
    assert path.read_bytes() == drawn and Ledger(url).read().charges == books


def test_a_folder_that_lacks_charged_periods_says_so_where_no_ledger_is_asked(folder: Path) -> None:
    """Not of a single file, nor of one in which nothing before is missing; and with the ledger they count."""
    url = f"sqlite:///{folder}/budget.db"
    words = f"budget create --ledger {url} --dataset heard --epsilon 2 --privacy-unit user"
    text = CHARGED.replace("epsilon: 1", "epsilon: 2\n  privacy_unit: user").replace("plays", "heard")
    (folder / "weekly.yaml").write_text(text)
    assert main(words.split()) == 0 and report(folder, "--backfill", "--until", "2026-01-26") == 0

    def said(*more: str) -> list[str]:
        found = [command("show", place, *more) for place in (str(folder / "out"), str(folder / LAST))]
        assert all(each.status == 0 for each in found), found
        return [" ".join(f"{each.out} {each.err}".split()) for each in found]

    told = "Of the horizon {} to 18 January 2026 (UTC) is not shown here: if dataset heard, "
    told += "which the manifests name, was charged for it, `--ledger` counts that."
    assert "not shown here: if" not in "".join(said())
    for start in ("12", "05"):
        for file in (folder / "out").glob(f"weekly-2026-01-{start}.*"):
            file.unlink()
        for form in ((), ("--json",), ("--sign-off",), ("--registry",)):
            whole, single = said(*form)
            assert told.format(int(start)) in whole and "here: if" not in single, (form, whole)
        assert "here: if" not in said("--ledger", url)[0]
        [lost] = json.loads(command("show", str(folder / "out"), "--json").out)["lost"]
        assert told.format(int(start)) in lost


def test_periods_that_another_dataset_was_charged_for_do_not_remain(folder: Path) -> None:
    text = CHARGED.replace("epsilon: 1", "epsilon: 2\n  privacy_unit: user")
    for name in ("heard", "since"):
        words = f"budget create --ledger sqlite:///{folder}/budget.db --dataset {name} --epsilon 2 --privacy-unit user"
        assert main(words.split()) == 0
        (folder / "weekly.yaml").write_text(text.replace("dataset: plays", f"dataset: {name}"))
        assert name != "heard" or report(folder, *FIRST) == 0
    for words, left in (((), "3 of 4 periods remain;"), (SECOND, "2 of 4 periods remain after this run;")):
        assert left in called(folder, "--dry-run", *words).out


def test_a_report_of_units_in_one_window_is_told_what_the_budget_of_whole_users_leaves(folder: Path) -> None:
    """Every release is charged to both budgets of a dataset, and here the other one carries two periods of four."""
    text = CHARGED.replace("epsilon: 1", "epsilon: 1\n  privacy_unit: user-window").replace("plays", "heard")
    (folder / "weekly.yaml").write_text(text)
    for unit, epsilon in (("user-window", "1"), ("user", "2.5")):
        words = f"budget create --ledger sqlite:///{folder}/budget.db --dataset heard --epsilon {epsilon}"
        assert main([*words.split(), "--privacy-unit", unit]) == 0
    for words, left in (((), "4 of 4 periods remain;"), (FIRST, "3 of 4 periods remain after this run;")):
        said = told(folder, "--dry-run", *words, status=0 if words else 2)  # a run of one that fits is not refused
        fitting = 2 - bool(words)
        assert "; 100.0% of the user-window budget would be used" in said
        assert left in said and f"so {fitting} of them fit and 2 will be refused" in said


def test_another_privacy_unit_in_the_middle_of_a_horizon_is_told_as_that(folder: Path) -> None:
    """Not as a budget that is missing beside the one that was charged; of one with no charge, as a mistake."""
    other = CHARGED.replace("epsilon: 1", "epsilon: 1\n  privacy_unit: user")
    (folder / "weekly.yaml").write_text(other)
    said, line, rest = called(folder, "--dry-run", status=2).err.split("`")
    assert said.endswith(
        "got user: nothing is charged yet, so give another dataset name or ledger file: open one with "
    )
    assert "; user-window is another promise, and a second budget of this dataset is charged for all" in rest
    assert main(shlex.split(line)[1:]) == 0
    (folder / "weekly.yaml").write_text(other.replace("dataset: plays", "dataset: plays-user"))
    assert report(folder, "--dry-run") == 0
    (folder / "weekly.yaml").write_text(CHARGED)
    assert report(folder, *FIRST) == 0
    (folder / "weekly.yaml").write_text(other)
    for words in (SECOND, (*SECOND, "--dry-run"), ("--dry-run",), ("--missed",)):
        found = called(folder, *words, status=0 if words == ("--missed",) else 2)
        [said] = (
            line for line in (found.out + found.err).splitlines() if not line.endswith(("stop these calls", ": missed"))
        )
        assert (
            said.startswith("weekly: every call is refused: ") and said in found.out
            if words == ("--missed",)
            else not found.out or words == ("--dry-run",) and said not in found.out
        )
        assert (
            "weekly.yaml:15: budget.privacy_unit must be user-window, as in the budget of dataset plays and its" in said
        )
        assert ", got user: give user-window; a budget for user too would have to hold all that this dataset" in said
        assert "budget create" not in said
        assert len(charges(folder)) == 1


def test_a_manifest_alone_that_is_lost_is_told_and_stops_nothing(folder: Path) -> None:
    """The ranking counts as published, even by a report that has changed since."""
    assert report(folder, *FIRST) == 0
    (folder / MANIFEST).unlink()
    (folder / "weekly.yaml").write_text(CHARGED.replace("k: 3", "k: 4"))
    ranking = (folder / RANKING).read_bytes()
    assert (
        "periods that were begun or published and lack files: 1; --missed names each\n"
        in called(folder, "--dry-run").out
    )
    for _ in range(2):
        assert "weekly, 2026-01-05 to 2026-01-12: the manifest of " in (
            err := called(folder, "--backfill", "--until", "2026-01-19").err
        )
        assert f"{RANKING} is lost: bring it back from a copy, or move the ranking away and call" in err
        assert "with the key and report file of that time" in err
        assert (folder / RANKING).read_bytes() == ranking and not (folder / MANIFEST).exists()
        assert charges(folder) == [("", "released")] * 2


def test_a_lost_manifest_is_no_missed_period_under_a_rotated_key(folder: Path) -> None:
    """The ranking is there, so that neither it nor the key has to be brought back."""
    assert report(folder, *FIRST) == 0
    (folder / MANIFEST).unlink()
    (folder / "key").write_text("another key of enough bytes")
    said = called(folder, "--missed", "--until", "2026-01-12")
    assert said.out == "weekly: no period is left to publish\n"
    assert f"{RANKING} is lost: bring it back from a copy" in said.err
    for words in (("--missed", "--until", "2026-01-12"), (*SECOND, "--dry-run")):
        found = called(folder, *words, "--json")
        assert f"{RANKING} is lost: " in json.loads(found.out)["lost"] and found.err.count("is lost: ") == 1


def test_a_lost_manifest_is_brought_back_where_the_ledger_does_not_know_the_end(folder: Path) -> None:
    """As after a kill between publication and note: what is drawn again is what lies there, or it is refused."""
    assert report(folder, *FIRST) == 0
    before = all_files(folder)
    (folder / MANIFEST).unlink()
    with sqlite3.connect(folder / "budget.db") as books:
        books.execute("update private_topk_charges set outcome = 'started', finished = null")
    books.close()
    assert report(folder, *FIRST) == 0
    assert all_files(folder).keys() == before.keys() and charges(folder) == [("", "released")]
    assert all_files(folder)[Path(RANKING).name] == before[Path(RANKING).name]


def test_a_lost_correction_that_is_drawn_again_corrects_no_later_one(folder: Path) -> None:
    """Two that name each other would both be taken for corrected, and count in no promise."""
    (folder / "weekly.yaml").write_text(CHARGED.replace("epsilon: 1", "epsilon: 0.5"))
    for more in ((), ("--correction", "1"), ("--correction", "2")):
        assert report(folder, *FIRST, *more) == 0
    before, promised = all_files(folder), read_published(str(folder / "out")).manifest
    for path in (folder / "out").glob("*.correction-1.*"):
        path.unlink()
    assert report(folder, *FIRST, "--correction", "1") == 0
    assert all_files(folder) == before and read_published(str(folder / "out")).manifest == promised


def test_what_only_a_correction_tells_of_is_not_drawn_again(folder: Path) -> None:
    """It names the id and the cost of what it corrects, and not the question: a second answer would go by one id."""
    text = CHARGED.partition("ledger:")[0].replace("epsilon: 1", "epsilon: 0.5")
    (folder / "weekly.yaml").write_text(text)
    for more in ((), ("--correction", "1"), ("--correction", "2")):
        assert report(folder, *FIRST, *more) == 0
    promised = read_published(str(folder / "out")).manifest
    for path in (*(folder / "out").glob("*05.manifest*"), *(folder / "out").glob("*05.csv")):
        path.unlink()
    (folder / "weekly.yaml").write_text(text.replace("epsilon: 0.5", "epsilon: 0.25"))
    before = all_files(folder)
    lost = f"{RANKING} is lost, and its correction stands for it: bring it back from a copy\n"
    for words in (FIRST, (*FIRST, "--dry-run"), ("--backfill", "--until", "2026-01-12"), ("--missed",)):
        assert lost in called(folder, *words).err, words
    for path in (folder / "out").glob("*.correction-1.*"):
        path.unlink()
    for more in ((), ("--dry-run",)):
        assert "correction-1, which was corrected: bring them back" in " ".join(
            called(folder, *FIRST, "--correction", "1", *more, status=2).err.split()
        )
    assert all_files(folder).items() <= before.items()
    assert read_published(str(folder / "out")).manifest == promised


@pytest.mark.parametrize(("lost", "what"), [(".manifest.json", "the manifest of"), (".csv", "the ranking")])
def test_a_correction_that_has_lost_a_file_is_told_without_a_ledger(folder: Path, lost: str, what: str) -> None:
    (folder / "weekly.yaml").write_text(CHARGED.partition("ledger:")[0])
    for more in ((), ("--correction", "1")):
        assert report(folder, *FIRST, *more) == 0
    for path in (folder / "out").glob(f"*.correction-1{lost}"):
        path.unlink()
    said = called(folder, "--dry-run").out
    assert "and lack files: 1; --missed names each. What a lost manifest has cost is in no number here" in said
    assert (
        f"{what} {folder}/out/weekly-2026-01-05.correction-1.csv is lost"
        in called(folder, "--missed", "--until", "2026-01-12").err
    )
    [sentence] = json.loads(command("show", str(folder / "out"), "--json").out)["lost"]
    assert "weekly-2026-01-05.correction-1" in sentence
    said = command("report", folder / "weekly.yaml", *FIRST, "--correction", "1").out  # a lost ranking is drawn again
    assert lost == ".csv" or "published before, in" in said and "correction-1.csv" in said


def test_a_correction_is_a_publication_of_its_own(folder: Path) -> None:
    """What it corrects stays where it is, as it was; its manifest names it, with what both have cost."""
    assert (
        "nothing tells that it was published" in called(folder, *FIRST, "--correction", "1", "--dry-run", status=2).err
    )
    assert report(folder, *FIRST) == 0
    before = all_files(folder)
    base = "weekly/20260105T000000Z--20260112T000000Z"
    said = f"budget would be used; the rows are those of {base}, so only the noise and what is asked otherwise"
    assert said in called(folder, *FIRST, "--correction", "1", "--dry-run").out
    with open(folder / "rows.csv", "a") as sink:
        sink.write("late,item 1,2026-01-06\n")
    assert "the rows are those" not in called(folder, *FIRST, "--correction", "1", "--dry-run").out
    assert report(folder, *FIRST, "--correction", "1") == 0
    after = all_files(folder)
    assert {name: after[name] for name in before} == before
    corrected = "weekly-2026-01-05.correction-1"
    assert set(after) - set(before) == {f"{corrected}.csv", f"{corrected}.manifest.json"}
    manifest = json.loads(after[f"{corrected}.manifest.json"])
    assert manifest["report"] == f"{base}/correction-1"
    zcdp = {"rho": manifest["zcdp_of_a_window"]["rho"], "delta": 0.0}
    assert manifest["corrects"] == [{"report": base, "epsilon": 1.0, "delta": 0.0, "zcdp": zcdp}]
    assert charges(folder) == [("", "released"), ("correction-1", "released")]
    for words in (("--backfill", "--until", "2026-01-12"), (*FIRST, "--correction", "1")):
        assert report(folder, *words) == 0, "neither is published again"
    assert all_files(folder) == after and len(charges(folder)) == 2
    shown = read_published(str(folder / "out"))
    assert shown.manifest is not None and [each.release_id for each in shown.manifest.corrects] == [base]
    assert len(shown.listings()) == 1 and shown.rows[0]["release_id"] == manifest["report"]
    assert shown.manifest.privacy is not None and shown.manifest.privacy.epsilon == 2, "what both cost"
    said = " ".join("\n".join(in_text(shown)).split())
    assert "Published more than once: the window of 2026-01-05 (2 times). The last is shown, and all of these" in said
    rows = (folder / "rows.csv").rename(folder / "moved.csv")
    assert report(folder, *FIRST, "--correction", "1") == 0, "rows that are gone are no others"
    (folder / "rows.csv").write_text(rows.read_text() + "later,item 1,2026-01-06\n")
    for words in ((), ("--dry-run",)):
        said = called(folder, *FIRST, "--correction", "1", *words, status=2).err
        assert "for other input" in said and "or take another --correction, which costs" in said, said
    assert report(folder, *FIRST) == 0 and len(charges(folder)) == 2
    rows.rename(folder / "rows.csv")
    for file in (f"{corrected}.csv", f"{corrected}.manifest.json"):
        (folder / "out" / file).unlink()
    assert report(folder, *FIRST, "--correction", "1") == 0
    assert all_files(folder)[f"{corrected}.csv"] == after[f"{corrected}.csv"] and len(charges(folder)) == 2


def test_a_call_says_what_its_dry_run_does_before_its_charge(folder: Path) -> None:
    """That a correction has the same rows; and how weak the promise is of all that is published, by then and later."""
    url = f"sqlite:///{folder}/budget.db"
    words = f"budget create --ledger {url} --dataset heard --epsilon 30 --privacy-unit user"
    text = CHARGED.replace("epsilon: 1", "epsilon: 8\n  privacy_unit: user").replace("plays", "heard")
    (folder / "weekly.yaml").write_text(text)
    assert main(words.split()) == 0 and report(folder, *FIRST) == 0
    rows = "the rows are those of weekly/20260105T000000Z--20260112T000000Z"
    for asked, epsilon, same in (
        ((*FIRST, "--correction", "1"), 10, rows),
        ((*FIRST, "--correction", "2"), 12, f"{rows}/correction-1"),
        (SECOND, 12, ""),
    ):
        dry = called(folder, *asked, "--dry-run").out
        real = command("report", folder / "weekly.yaml", *asked).err
        for said in (dry, real):
            told = [str(epsilon)] if said is dry or same else []  # which a scheduler would mail every week
            assert re.findall(r"Epsilon (\S+) is a weak promise", said) == told, said
            assert said.count(f"{same}, so only the noise and what is asked otherwise will differ") == bool(same)
        assert real.index(f"ledger: {same}") < real.index("charged")
    with open(folder / "rows.csv", "a") as sink:
        sink.write("late,item 1,2026-01-06\n")
    assert "the rows are those" not in called(folder, *FIRST, "--correction", "3").err


def test_corrections_are_numbered_in_their_order(folder: Path) -> None:
    """So that a slip of the finger draws none; with a ledger, and without one by what lies there."""
    charged = CHARGED.replace("epsilon: 1", "epsilon: 0.5")
    for text in (charged, charged.partition("ledger:")[0]):
        (folder / "weekly.yaml").write_text(text)
        shutil.rmtree(folder / "out", ignore_errors=True)
        assert report(folder, *FIRST) == 0
        for known, slips in ((0, ("2", "11")), (1, ("3", "11")), (2, ("4", "11"))):
            for slip, words in product(slips, ((), ("--dry-run",))):
                said = called(folder, *FIRST, "--correction", slip, *words, status=2).err
                assert f"--correction must be {known + 1}, the next one of this period, got {slip}: " in said
            if known < 2:
                assert report(folder, *FIRST, "--correction", str(known + 1)) == 0
        (folder / "out" / "weekly-2026-01-05.correction-1.csv").unlink()
        assert report(folder, *FIRST, "--correction", "1") == 0, "drawn again"
    for wrong in ("late", "0", "-1"):
        assert "must be a whole number" in called(folder, *FIRST, "--correction", wrong, status=2).err


def test_a_correction_is_judged_by_earlier_periods_and_says_what_it_asks_otherwise(folder: Path) -> None:
    """By the latest publication of these, and not by what it corrects, whose input may have been wrong; its promise is
    of all that is published.
    """
    text = CHARGED.partition("ledger:")[0].replace("horizon: 4", "horizon: 6")
    text = text.replace("epsilon: 1", "epsilon: 9\n  publish_counts: 3\n  privacy_unit: user")
    (folder / "weekly.yaml").write_text(text)
    for words in (FIRST, SECOND, (*FIRST, "--correction", "1"), (*FIRST, "--correction", "2")):
        assert report(folder, *words) == 0
    (folder / "weekly.yaml").write_text(text.replace("k: 3", "k: 2"))

    def told(*words: str) -> dict[str, str]:
        found: dict[str, str] = json.loads(called(folder, *words, "--dry-run", "--json").out)
        return found

    base = "weekly/20260105T000000Z--20260112T000000Z"
    found = told(*FIRST, "--correction", "3")
    assert found["recall"].startswith("unknown: no earlier ranking has noisy counts")
    changed = f"{base}/correction-2 was published with k 3 (now 2): `show` marks where that changed"
    assert found["series"] == changed
    rises = "epsilon 18 for one user's rows in all windows, and epsilon 16 without this run"
    assert found["privacy"].startswith(f"{rises}; basic composition over 6 ")
    weak = "Epsilon 18 is a weak promise, a factor above 100: people who already know much may learn much from what is "
    assert found["privacy"].endswith(f"over 3 corrections: epsilon 2 each. {weak}published.")
    assert told()["series"].endswith("was published with k 3 (now 2): `show` marks where that changed")
    assert "weekly-2026-01-05.correction-2.csv" in told(*SECOND, "--correction", "1")["recall"]
    assert "weekly-2026-01-12.csv" in (third := told("--window-end", "2026-01-26"))["recall"]
    assert third["privacy"].startswith("epsilon 16 for one user's rows in all windows")
    assert third["privacy"].endswith(f"over 2 corrections: epsilon 2 each. {weak.replace('18', '16')}published.")
    (folder / "out" / "weekly-2026-01-12.csv").unlink()
    assert "weekly-2026-01-05.correction-2.csv" in told("--window-end", "2026-01-26")["recall"]
    assert changed in called(folder, *FIRST, "--correction", "3").err
    assert "without this run" not in told(*FIRST, "--correction", "3")["privacy"], "it has run"
    whole = told(*FIRST, "--correction", "4")["privacy"]
    (folder / "out" / "weekly-2026-01-05.correction-3.csv").unlink()
    assert told(*FIRST, "--correction", "4")["privacy"] == whole, "its manifest is there"


@pytest.mark.parametrize("name", ["peeling", "gaussian"])
def test_a_correction_of_a_changed_report_adds_up_as_its_ledger_does(folder: Path, name: str) -> None:
    """By the rhos of all that was published, also of what is named by the corrections' manifests alone, and of the
    six periods that will be.
    """
    text = CHARGED.replace("horizon: 4", "horizon: 8").replace("joint", name)
    text = text.replace("epsilon: 1", "epsilon: 1\n  delta: 1e-6\n  privacy_unit: user").replace("plays", "heard")
    budget = f"budget create --ledger sqlite:///{folder}/budget.db --dataset heard --epsilon 2 --delta 2e-6"
    assert main([*budget.split(), "--privacy-unit", "user"]) == 0
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, *FIRST) == 0
    declared = "in all windows, the declared total, of which this correction takes a part too; "
    said = called(folder, *FIRST, "--correction", "1", "--dry-run").out
    assert (declared in said) == (name == "gaussian"), "peeling needs more than that"
    (folder / "weekly.yaml").write_text(text.replace("epsilon: 1", "epsilon: 0.8"))
    for words in (SECOND, *((*FIRST, "--correction", number) for number in "123")):
        assert report(folder, *words) == 0
    charges = Ledger(f"sqlite:///{folder}/budget.db").read().charges
    spent = Cost.sum([*((1, charge.cost) for charge in charges), (6, charges[-1].cost)])
    shown = read_published(str(folder / "out")).manifest
    assert shown is not None and shown.privacy is not None
    within = gaussian_epsilon if name == "gaussian" else epsilon_within
    composed = float(within(spent.rho, Fraction(str(shown.privacy.delta))))
    assert shown.privacy.epsilon == pytest.approx(composed, rel=1e-4)
    assert shown.privacy.epsilon < spent.epsilon * 0.9


def test_a_correction_of_a_folder_lies_in_a_folder_of_its_own_and_counts_those_before(folder: Path) -> None:
    text = WEEKLY.replace("out/{report}-{start}.csv", "out/").replace("epsilon: 1", "epsilon: 0.5")
    assert text != WEEKLY
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, *FIRST) == 0
    for number in ("1", "2"):
        assert report(folder, *FIRST, "--correction", number) == 0
    names = sorted(str(path.relative_to(folder / "out")) for path in folder.glob("out/**/*.manifest.json"))
    label = "20260105T000000Z--20260112T000000Z.manifest.json"
    assert names == [label, f"correction-1/{label}", f"correction-2/{label}"]
    second = json.loads((folder / "out" / names[2]).read_text())
    assert [each["report"].rpartition("/")[2] for each in second["corrects"]] == [label[:-14], "correction-1"]
    assert [each["epsilon"] for each in second["corrects"]] == [0.5, 0.5]
    shown = read_published(str(folder / "out"))
    assert shown.rows[0]["release_id"].endswith("/correction-2") and len(shown.listings()) == 1
    assert shown.manifest is not None and shown.manifest.privacy is not None and shown.manifest.privacy.epsilon == 1.5


@pytest.mark.parametrize("charged", [True, False])
def test_a_correction_in_a_folder_is_one_of_its_period_alone(folder: Path, charged: bool) -> None:
    """Its name lies beside all periods, and none of the others has lost anything; what it loses itself is told."""
    text = CHARGED.replace("out/{report}-{start}.csv", "out/\n  format: csv").replace("epsilon: 1", "epsilon: 0.5")
    (folder / "weekly.yaml").write_text(text if charged else text.partition("ledger:")[0])
    for words in (FIRST, SECOND, (*FIRST, "--correction", "1")):
        assert report(folder, *words) == 0
    asked = (("--dry-run",), (*SECOND, "--dry-run"), (*FIRST, "--dry-run"), ("--missed", "--until", "2026-01-19"))
    for words in (*asked, ("--backfill", "--until", "2026-01-19")):
        said = told(folder, *words)
        assert "lack files" not in said and "is lost" not in said, (words, said)
    [ranking] = (folder / "out" / "correction-1").glob("*.csv")
    ranking.unlink()
    assert "periods that were begun or published and lack files: 1; " in told(folder, "--dry-run")
    assert sum("correction-1" in line for line in told(folder, *asked[-1]).splitlines()) == 1


def test_what_another_key_has_published_is_not_drawn_again_though_all_of_it_is_lost(folder: Path) -> None:
    """The ledger knows it: no call charges or writes anything. A correction is a publication, and counts both."""
    (folder / "weekly.yaml").write_text(CHARGED)
    assert report(folder, *FIRST) == 0
    key_id = ReleaseKey.parse(f"file:{folder}/key").key_id()
    (folder / "key").write_text("another key of enough bytes")
    for path in (folder / "out").iterdir():
        path.unlink()
    before = all_files(folder)
    for words in (FIRST, (*FIRST, "--dry-run"), ("--backfill", "--until", "2026-01-12")):
        said = called(folder, *words, status=2).err
        name = "weekly/20260105T000000Z--20260112T000000Z"
        assert f"release_key is not the one under which {name} is drawn, whose id is {key_id}" in said, said
        assert all_files(folder) == before
    assert report(folder, *SECOND) == 0 and report(folder, *FIRST, "--correction", "1") == 0
    assert called(folder, *SECOND, "--dry-run").out.endswith("published before: nothing to do\n")
    said = called(folder, "--missed", "--until", "2026-01-19")
    assert "no period is left to publish" in said.out
    assert f"{RANKING} is lost, and its correction stands for it" in said.err
    shown = command("show", str(folder / "out"), "--sign-off", "--ledger", f"sqlite:///{folder}/budget.db")
    assert shown.status == 0 and "3 charges have spent" in " ".join(shown.out.split()), shown.err


def test_a_period_whose_correction_is_published_is_not_missed(folder: Path) -> None:
    """It was charged and ended before it was published, and its rows have changed since."""
    (folder / "weekly.yaml").write_text(CHARGED)
    assert report(folder, *FIRST) == 0
    for path in (folder / "out").iterdir():
        path.unlink()
    with sqlite3.connect(folder / "budget.db") as books:
        books.execute("update private_topk_charges set outcome = 'started', finished = null")
    books.close()
    with (folder / "rows.csv").open("a") as rows:
        rows.write("late,item 1,2026-01-05T10:00:00\n")
    over = ("--until", "2026-01-12")
    assert "belongs in" in called(folder, "--missed", *over).out
    assert report(folder, "--backfill", *over) == 2
    assert report(folder, *FIRST, "--correction", "1") == 0
    before = all_files(folder)
    said = told(folder, "--backfill", *over) + told(folder, "--missed", *over)
    stands = "weekly, 2026-01-05 to 2026-01-12: is not here, and its correction stands for it\n"
    assert said == f"{stands}weekly: no period is left to publish\n" and all_files(folder) == before
    assert report(folder, *FIRST) == 2, "whoever means the period itself is told why"


@pytest.mark.parametrize("charged", [True, False])
def test_what_was_withdrawn_is_not_drawn_again_and_counts(folder: Path, charged: bool) -> None:
    """With a ledger also where its manifest was taken away. It can be corrected, and that withdrawn too."""
    text = CHARGED if charged else CHARGED.partition("ledger:")[0]
    listed = text.replace("first: 2026-01-05", "first: 2026-01-05\n  withdrawn: [2026-01-05]")
    over, who = ("--until", "2026-01-19"), "weekly, 2026-01-05 to 2026-01-12: "
    withdrawn = f"{who}withdrawn\nweekly: no period is left to publish\n"
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, "--backfill", *over) == 0
    first = (folder / RANKING).read_bytes()
    (folder / "weekly.yaml").write_text(listed)
    said = called(folder, "--missed", *over)
    assert said.out == withdrawn and f"{who}withdrawn, and {folder}/{RANKING} is still there: take it" in said.err
    (folder / RANKING).unlink()
    if charged:
        (folder / MANIFEST).unlink()

    def stays() -> None:
        before = all_files(folder)
        assert told(folder, "--backfill", *over) == "" and "lack files" not in told(folder, "--dry-run")
        for words in (FIRST, (*FIRST, "--dry-run")):
            said = told(folder, *words, status=2)
            assert (
                f"weekly.yaml:10: window.withdrawn has {who[8:-2]}: it is withdrawn, and is not drawn again: " in said
            )
            assert "publish a --correction, which costs, or take the period off this list" in said
        assert all_files(folder) == before

    stays()
    assert told(folder, "--missed", *over) == withdrawn
    document = json.loads(called(folder, "--missed", *over, "--json").out)
    assert [each["outcome"] for each in document["periods"]] == ["withdrawn", "published before"]
    assert report(folder, *FIRST, "--correction", "1") == 0
    stays()
    (folder / RANKING).write_bytes(first)
    said = called(folder, "--missed", *over)
    assert "is not here" not in said.out and f"{folder}/{RANKING} is still there: take it away" in said.err
    (folder / RANKING).unlink()
    assert f"{who}withdrawn, and its correction stands for it\n" in told(folder, "--missed", *over)
    document = json.loads(called(folder, "--missed", *over, "--json").out)
    assert document["periods"][0]["outcome"] == "withdrawn"
    (folder / "key").write_text("another key of enough bytes")
    stays()
    (folder / "key").write_text("a key of enough bytes")
    ledger = ("--ledger", f"sqlite:///{folder}/budget.db") * charged
    for _ in range(2):
        assert "epsilon: 2.0\n" in command("show", str(folder / "out"), "--registry", *ledger).out
        (folder / "out/weekly-2026-01-05.correction-1.csv").unlink(missing_ok=True)
    stays()
    assert told(folder, "--missed", *over) == withdrawn
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, *FIRST) == 0 and (folder / RANKING).read_bytes() == first


def test_what_was_withdrawn_and_is_counted_nowhere_is_told(folder: Path) -> None:
    text = CHARGED.partition("ledger:")[0].replace("2026-01-05", "2026-01-05\n  withdrawn: [2026-01-12]")
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, "--backfill", "--until", "2026-01-26") == 0
    told = "weekly, 2026-01-12 to 2026-01-19: withdrawn, and nothing here counts what was published: bring its manifest"
    for words in ("--backfill", "--missed"):
        assert told in called(folder, words, "--until", "2026-01-26").err
    assert len(all_files(folder)) == 4


def test_a_rotated_key_draws_no_old_period_again(folder: Path) -> None:
    assert report(folder, *FIRST) == 0
    before = all_files(folder)
    (folder / "key").write_text("another key of enough bytes")
    assert report(folder, "--backfill", "--until", "2026-01-12") == 0 and all_files(folder) == before
    assert "published before under another release key, in" in called(folder, *FIRST, "--dry-run").out
    (folder / RANKING).unlink()
    assert "is not the one under which weekly/" in called(folder, *FIRST, status=2).err
    first, second = called(folder, "--missed", "--until", "2026-01-19").out.splitlines()
    assert f"{RANKING}; a call is refused: " in first and "is not the one under which weekly/" in first, first
    assert second.endswith("missed")
    (folder / "key").unlink()
    said = called(folder, "--missed", "--until", "2026-01-19", status=2).err
    assert said.count("weekly.yaml:") == said.count(f"{folder}/weekly.yaml:15: release_key") == 1, said
    assert said.count("2026-01-12 to 2026-01-19: the same as is said of 2026-01-05 to 2026-01-12\n") == 1, said


def test_another_horizon_in_mid_series_is_told(folder: Path) -> None:
    """By the dry run: pages then state the promise for that one. A smaller one leaves out nothing published."""
    text = CHARGED.partition("ledger:")[0].replace("epsilon: 1", "epsilon: 1\n  privacy_unit: user")
    (folder / "weekly.yaml").write_text(text.replace("horizon: 4", "horizon: 1"))
    assert report(folder, *FIRST) == 0
    (folder / "weekly.yaml").write_text(text.replace("horizon: 4", "horizon: 2"))
    signed = "states the promise for 2 windows, also of what was signed for 1\n"
    assert signed in called(folder, *SECOND, "--dry-run").out
    for words, end in ((FIRST, 11), (SECOND, 18)):
        assert report(folder, *words) == 0
        page = command("show", str(folder / "out"), "--html", str(folder / "page.html"), "--overwrite")
        forms = [command("show", str(folder / "out"), *form).out for form in ((), ("--sign-off",), ("--registry",))]
        for form in ((folder / "page.html").read_text(), *forms):
            declared = f"The horizon, as the newest here declares it, is 5 to {end} January 2026 (UTC)."
            assert declared in " ".join(form.split()), (page, form)
    (folder / "weekly.yaml").write_text(text.replace("horizon: 4", "horizon: 1"))
    said = called(folder, "--dry-run").out
    assert "signed for" not in said
    assert "beyond the horizon of 1: 1; they count as before. Take a longer one only if this one was made" in said
    said = json.loads(called(folder, *FIRST, "--correction", "1", "--dry-run", "--json").out)["privacy"]
    assert report(folder, *FIRST, "--correction", "1") == 0
    assert said.startswith(promise(read_published(str(folder / "out")).manifest)), said


@pytest.mark.parametrize("charged", [True, False])
@pytest.mark.parametrize("output", ["out/{report}-{start}.csv", "out/\n  format: csv"])
def test_a_second_horizon_says_what_it_comes_to_with_the_first(folder: Path, charged: bool, output: str) -> None:
    """Before any of it is published, as the folder says once all of it is; also a correction, and without a ledger."""
    text = CHARGED.replace("epsilon: 1", "epsilon: 1\n  privacy_unit: user").replace("out/{report}-{start}.csv", output)
    text = text if charged else text.partition("ledger:")[0]
    (folder / "budget.db").unlink()
    budget = ("--ledger", f"sqlite:///{folder}/budget.db", "--dataset", "plays", "--epsilon", "9")
    assert main(["budget", "create", *budget, "--privacy-unit", "user"]) == 0
    (folder / "weekly.yaml").write_text(text.replace("horizon: 4", "horizon: 1"))
    assert report(folder, *FIRST) == report(folder, *FIRST, "--correction", "1") == 0
    (folder / "weekly.yaml").write_text(text.replace("horizon: 4\n  every: week\n  first: 2026-01-05", SECOND_YEAR))
    third = ("--window-end", "2026-01-26")
    said = "or charged before this horizon: 1; with all of this one they come to epsilon 3, asked as now"
    for words in (("--dry-run",), (*SECOND, "--dry-run"), SECOND, ("--dry-run",), (*third, "--dry-run"), third):
        told = called(folder, *words).out
        assert (said in told) is ("--dry-run" in words), told
        assert "epsilon 3 for one user's rows" in " ".join(told.split()) or len(words) < 3
    manifest = read_published(str(folder / "out")).manifest
    assert manifest is not None and promise(manifest).startswith("epsilon 3 for one user's rows")


def test_a_restored_ledger_is_noticed_in_the_next_horizon_too(folder: Path) -> None:
    text = CHARGED.replace("horizon: 4", "horizon: 1")
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, *FIRST) == 0
    (folder / "budget.db").unlink()
    ledger = ("--ledger", f"sqlite:///{folder}/budget.db", "--dataset", "plays")
    assert main(["budget", "create", *ledger, "--epsilon", "9"]) == 0
    (folder / "weekly.yaml").write_text(text.replace("first: 2026-01-05", "first: 2026-01-12"))
    said = "has no charge of weekly/20260105T000000Z--20260112T000000Z, which is published"
    for words in (("--dry-run",), (*SECOND, "--dry-run"), SECOND):
        assert said in called(folder, *words, status=2).err
    (folder / "key").rename(folder / "away")
    unchecked = "can read it, whether it is the key of what is published, whether the ledger has all charges under it"
    said = f"key cannot be read: No such file or directory, so not checked: whether a run {unchecked}\n"
    assert f"file:{folder}/{said}" in called(folder, "--dry-run").out
    (folder / "away").rename(folder / "key")
    assert main(["budget", "adopt", f"{folder}/out", *ledger]) == 0
    assert report(folder, *SECOND) == 0


def test_a_restored_ledger_may_not_know_what_is_drawn_a_second_time(folder: Path) -> None:
    assert report(folder, *FIRST) == report(folder, *SECOND) == 0
    for lost in (folder / "budget.db", *(folder / "out").glob("weekly-2026-01-05*")):
        lost.unlink()
    ledger = ("--ledger", f"sqlite:///{folder}/budget.db", "--dataset", "plays")
    assert main(["budget", "create", *ledger, "--epsilon", "9"]) == 0
    assert main(["budget", "adopt", f"{folder}/out", *ledger]) == 0
    said = "2026-01-12 to 2026-01-19 is published, so this one may have been too: if so, bring its files back"
    for words in (("--missed",), (*FIRST, "--dry-run"), FIRST):
        assert said in told(folder, *words)


def test_a_first_try_that_was_adopted_is_no_sign_of_a_restored_ledger(folder: Path) -> None:
    tried = f"run --input {folder}/rows.csv --domain {folder}/items.txt --k 3 --epsilon 0.5 --output {folder}/try.csv"
    tried += " --time-column time --window week --from 2026-01-26 --to 2026-02-02"
    assert main([*tried.split(), "--quiet"]) == 0
    adopt = f"budget adopt {folder}/try.csv --ledger sqlite:///{folder}/budget.db --dataset plays"
    assert main(adopt.split()) == 0 and report(folder, *SECOND) == 0
    for words in (("--missed",), (*FIRST, "--dry-run"), FIRST):
        assert "may have been" not in told(folder, *words)


def test_what_may_be_drawn_a_second_time_is_told_where_no_ledger_knows_it(folder: Path) -> None:
    """A period older than a published one of which nothing is left. With a ledger its charge tells."""
    (folder / "weekly.yaml").write_text(CHARGED.partition("ledger:")[0])
    said = "2026-01-12 to 2026-01-19 is published, so this one may have been too: if so, bring its files back"

    assert said not in told(folder, *FIRST) + told(folder, *SECOND) + told(folder, *SECOND, "--dry-run")
    lost = [*(folder / "out").glob("weekly-2026-01-05*")]
    lost[0].unlink()
    assert said not in told(folder, *FIRST, "--dry-run"), "the other one knows"
    lost[1].unlink()
    gaps = (
        "gaps     periods before the last published one of which nothing is here: 1, not counted; --missed names each\n"
    )
    assert gaps in told(folder, *SECOND, "--dry-run") and gaps in told(folder, "--dry-run")
    assert (
        said in told(folder, "--missed") and said in told(folder, *FIRST, "--dry-run") and said in told(folder, *FIRST)
    )
    assert "gaps" not in told(folder, "--dry-run")
    assert said not in told(folder, *FIRST), "it is there"
