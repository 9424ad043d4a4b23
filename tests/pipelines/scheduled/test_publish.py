"""Scheduled reports on real pipelines and ledgers: once, again, after a crash, missed, corrected; and the examples."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
from pathlib import Path

import polars as pl
import pytest

from private_topk.pipelines import process
from private_topk.pipelines.budget.ledger import Ledger
from private_topk.pipelines.cli import main, publish
from tests.pipelines.scheduled.support import CHARGED, called, folder, report, told
from tests.pipelines.support import WEEKLY, command, when_charged

__all__ = ["folder"]

ROOT = Path(__file__).resolve().parents[3]


def outcomes(folder: Path) -> list[str]:
    return [entry.outcome for entry in Ledger(f"sqlite:///{folder}/budget.db").read().charges]


def outputs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("out/*.csv"))}


def test_missed_periods_are_listed_and_caught_up(folder: Path) -> None:
    assert report(folder, "--window-end", "2026-01-19") == 0
    assert called(folder, "--missed", "--until", "2026-01-27").out.splitlines() == [
        "weekly, 2026-01-05 to 2026-01-12: missed",
        "weekly, 2026-01-19 to 2026-01-26: missed",
    ]
    assert report(folder, "--backfill", "--until", "2026-01-27") == 0
    assert list(outputs(folder)) == ["weekly-2026-01-05.csv", "weekly-2026-01-12.csv", "weekly-2026-01-19.csv"]
    assert called(folder, "--missed", "--until", "2026-01-27").out == "weekly: no period is left to publish\n"
    assert called(folder, "--backfill", "--until", "2026-01-27")[1:] == ("", "")
    done = command("report", folder / "weekly.yaml", "--backfill", "--json")
    assert "weekly, 2026-01-26 to 2026-02-02: backfill, period 4 of 4\n" in done.err
    assert len(outputs(folder)) == 4, "the horizon ends the report"


def test_a_horizon_that_has_ended_is_told(folder: Path) -> None:
    """By the call that publishes its last period, and by all once a later period has ended: cron mails it."""
    (folder / "weekly.yaml").write_text(CHARGED.replace("horizon: 4", "horizon: 2"))
    ended = "the last of the 2 periods of its horizon ended on 2026-01-19: decide on the next horizon"
    last = "weekly, 2026-01-12 to 2026-01-19: this is the last of the 2 periods of its horizon: decide on"
    assert "horizon" not in told(folder, "--window-end", "2026-01-12")
    assert last in told(folder, "--backfill", "--until", "2026-01-25")
    assert called(folder, "--backfill", "--until", "2026-01-25")[1:] == ("", ""), "no later period has ended"
    for until in ((), ("--until", "2026-01-26")):
        called_again = called(folder, "--backfill", *until)
        assert called_again.err.startswith(f"weekly: {ended}") and called_again.err.count("\n") == 1
        assert called(folder, "--missed", *until).err.startswith(f"weekly: {ended}")
    assert f" {ended}" in called(folder, "--dry-run").out
    refused = called(folder, "--window-end", "2026-01-26", status=2).err
    assert "the last of the 2 periods of its horizon ends on 2026-01-19: decide on the next horizon" in refused


@pytest.mark.parametrize("place", ["out/{report}-{start}.csv", "out/\n  format: csv"])
@pytest.mark.parametrize("charged", [True, False])
def test_another_ending_in_mid_horizon_is_refused_with_its_reason(folder: Path, place: str, charged: bool) -> None:
    """Before anything is published under it, so that the same file with the old ending goes on."""
    text = CHARGED if charged else CHARGED.partition("ledger:")[0]
    text = text.replace("out/{report}-{start}.csv", place)
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, "--window-end", "2026-01-12") == 0
    (folder / "weekly.yaml").write_text(text.replace("csv", "jsonl").replace("rows.jsonl", "rows.csv"))
    for words in (["--dry-run"], ["--missed"], ["--backfill"], ["--window-end", "2026-01-19"]):
        said = called(folder, *words, status=2)
        assert not said.out and ": sink.output " in said.err and said.err.count("\n") == 1
        assert "manifest.json exists and is kept: it is the manifest of " in said.err
        assert said.err.endswith(".csv: keep its ending, or give another name\n"), said.err
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, "--window-end", "2026-01-19") == 0


def test_what_holds_of_all_periods_of_a_backfill_is_told_once(folder: Path) -> None:
    """A weak promise, also by the next call; and why several are refused, with the first of them."""
    text = CHARGED.replace("epsilon: 1", "epsilon: 48\n  privacy_unit: user").replace("dataset: plays", "dataset: year")
    (folder / "weekly.yaml").write_text(text)
    words = f"budget create --ledger sqlite:///{folder}/budget.db --dataset year --epsilon 24 --privacy-unit user"
    assert main(words.split()) == 0
    first, second = "2026-01-19 to 2026-01-26", "2026-01-26 to 2026-02-02"
    said = called(folder, "--backfill", "--quiet", status=2).err
    assert len(outputs(folder)) == 2 and said.count("is a weak promise") == 1, said
    assert f"private-topk: {first}: " in said and "24 spent + 12 asked = 36, over 24" in said, said
    assert f"private-topk: {second}: the same as is said of {first}\n" in said and said.count("= 36, over") == 1, said
    assert "weak promise" not in called(folder, "--backfill", "--quiet", status=2).err


def test_a_signal_in_a_backfill_tells_what_the_call_had_published(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apart from the period at work, of which nothing is."""
    monkeypatch.setattr(process, "_RECEIVED", received := [])

    def stop(*_: object) -> None:
        received.extend([signal.SIGTERM] * (len(outputs(folder)) == 2))

    monkeypatch.setattr(publish, "tell_operator", stop)
    said = (
        "earlier periods that this call has published: 2; of 2026-01-19 to 2026-01-26, this run has charged and "
        "published nothing"
    )
    assert f"private-topk: terminated; {said}" in called(folder, "--backfill", status=143).err
    assert len(outputs(folder)) == 2


def test_a_signal_while_a_published_period_is_shown_says_that_it_is_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise process.Stopped

    monkeypatch.setattr("private_topk.pipelines.cli.publish.tell_operator", stop)
    said = "all is done, only the printing of it was cut short\n"
    for words, before in (
        (("--window-end", "2026-01-12"), ""),
        (("--backfill",), "earlier periods that this call has published: 0; of 2026-01-12 to 2026-01-19, "),
    ):
        assert f"private-topk: interrupted; {before}{said}" in called(folder, *words, status=130).err
    assert len(outputs(folder)) == 2


@pytest.mark.long
def test_a_period_that_fails_keeps_no_later_one_from_being_published(folder: Path) -> None:
    """Its input is not there: nothing is charged for it, and the call says which it was. Its status is that of a
    refusal, unless another one failed: only that may succeed if it is called again at once.
    """
    text = CHARGED.replace("input: rows.csv", "input: rows/{start}.csv")
    (folder / "weekly.yaml").write_text(text)
    (folder / "rows").mkdir()
    for start in ("2026-01-05", "2026-01-19"):
        shutil.copy(folder / "rows.csv", folder / "rows" / f"{start}.csv")
    (folder / "rows" / "2026-01-26.csv").write_text("who,what\n")
    first = folder / "rows" / "2026-01-05.csv"
    with when_charged(folder / "budget.db", lambda: first.write_text("user,item,time\n")):
        assert report(folder, "--backfill") == 1
    assert outcomes(folder) == ["failed", "released"]
    shutil.copy(folder / "rows.csv", first)
    err = called(folder, "--backfill", status=2).err
    assert list(outputs(folder)) == ["weekly-2026-01-05.csv", "weekly-2026-01-19.csv"]
    assert outcomes(folder) == ["released"] * 2
    assert "2026-01-12 to 2026-01-19: " in err and "matches no file" in err and "weekly.yaml:3: source.input" in err
    assert "2 of 4 periods are not published, as said above: 2026-01-12 to 2026-01-19, 2026-01-26 to 2026-02-02" in err
    for start in ("2026-01-12", "2026-01-26"):
        shutil.copy(folder / "rows.csv", folder / "rows" / f"{start}.csv")
    assert report(folder, "--backfill") == 0
    assert len(outputs(folder)) == 4 and outcomes(folder) == ["released"] * 4


def test_what_refuses_every_period_is_told_once_and_none_is_called_unpublished(folder: Path) -> None:
    """All are published, and the ledger is gone: first with its file, then with all that it knew."""
    budget = f"--ledger sqlite:///{folder}/budget.db --dataset plays --epsilon"
    (folder / "weekly.yaml").write_text(CHARGED.replace("epsilon: 1", "epsilon: 2\n  privacy_unit: user"))
    create = ["budget", "create", *budget.split(), "2", "--privacy-unit", "user"]
    (folder / "budget.db").unlink()
    assert main(create) == 0 and report(folder, "--backfill") == 0
    (folder / "budget.db").unlink()
    for why in (
        f"open one with `private-topk {budget} 2".replace("topk", "topk budget create"),
        "has no charge of weekly",
    ):
        loud = command("report", folder / "weekly.yaml", "--backfill", "--until", "2026-02-02")
        assert loud.status == 2 and loud.err.count(why) == 1 and "not published" not in loud.err, loud.err
        assert loud.err.count("weekly.yaml:") == 1 and "\nprivate-topk: 4 of 4 periods could not be checked" in loud.err
        if "open" in why:
            assert main(create) == 0


def test_a_folder_holds_all_periods_and_a_watched_one_is_read_to_the_period_s_end(folder: Path) -> None:
    """The sinks and the sources of `stream` serve a report too, with the same rankings."""
    assert report(folder, "--window-end", "2026-01-12") == 0
    one = outputs(folder)["weekly-2026-01-05.csv"]
    # One row of afterwards ends the horizon by the rows' own clock.
    with open(folder / "rows.csv", "a") as sink:
        sink.write("late,item 1,2026-03-01\n")
    text = WEEKLY.replace("out/{report}-{start}.csv", "windows/\n  format: csv")
    text = text.replace("input: rows.csv", "input: ./rows*.csv\n  watch: true\n  clock: event\n  poll: 1s")
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, "--window-end", "2026-01-12") == 0
    again = command("report", folder / "weekly.yaml", "--window-end", "2026-01-12")
    assert again.status == 0 and "published before" in again.out
    assert called(folder, "--window-end", "2026-01-12")[1:] == ("", "")
    [written] = (folder / "windows").glob("*.csv")
    assert written.name == "20260105T000000Z--20260112T000000Z.csv" and written.read_bytes() == one


def test_a_quiet_call_says_nothing_where_all_goes_well(folder: Path) -> None:
    """What a scheduler would mail: neither the charge nor the mechanism, nor that it was charged before."""
    (folder / "weekly.yaml").write_text(CHARGED.replace("  name: joint\n", ""))
    for period in (("--window-end", "2026-01-12"), ("--backfill", "--until", "2026-01-19")):
        assert called(folder, *period)[1:] == called(folder, *period)[1:] == ("", "")
    (folder / "out" / "weekly-2026-01-12.csv").unlink()
    assert called(folder, "--window-end", "2026-01-19")[1:] == ("", "")
    said = command("report", folder / "weekly.yaml", "--window-end", "2026-01-26").err
    assert said.startswith("mechanism: ") and "\nledger: charged weekly/" in said


@pytest.mark.long
def test_each_period_equals_that_window_of_one_batch_run(folder: Path) -> None:
    """The same key, id and parameters give the same ranking, whichever command asks."""
    assert report(folder, "--backfill") == 0
    for place, name in enumerate(outputs(folder)):
        path = folder / "out" / name
        manifest = json.loads(path.with_suffix(".manifest.json").read_text())
        window = manifest["windows"][0]
        run = [
            *(
                f"run --input {folder}/rows.csv --domain {folder}/items.txt --mechanism joint --k 3 --epsilon 1 "
                f"--window 7d --from 2026-01-05 --to 2026-02-02 --quiet --release-key file:{folder}/key --release-id"
            ).split(),
            manifest["report"],
            "--output",
            f"{folder}/batch{place}.csv",
        ]
        assert main(run) == 0
        whole = pl.read_csv(folder / f"batch{place}.csv", infer_schema=False)
        mine = pl.read_csv(path, infer_schema=False)
        theirs = whole.filter(pl.col("window_start") == mine["window_start"][0])
        assert mine["item"].to_list() == theirs["item"].to_list() and len(mine) == 3
        assert window["start"][:10] == name.removeprefix("weekly-").removesuffix(".csv")


def test_noise_is_forecast_for_each_period_and_only_for_rows_that_are_there(folder: Path) -> None:
    noisy = CHARGED.replace("epsilon: 1", "epsilon: 0.001") + "preview:\n  like: users=300,rank1=60%,rank3=30%\n"
    (folder / "weekly.yaml").write_text(noisy.replace("source:\n", "source:\n  success_file: _SUCCESS\n"))
    late = ["--backfill", "--until", "2026-01-26"]
    waits = "2026-01-05 to 2026-01-12, 2026-01-12 to 2026-01-19, 2026-01-19 to 2026-01-26"
    waits = f"private-topk: 3 of 3 periods wait for their input: {waits}"
    waits += f"; of the first: {folder}/weekly.yaml:3: source.success_file {folder}/_SUCCESS is not there yet, so the"
    waits += " input may still be on its way: nothing was done; call it again\n"
    assert called(folder, *late, status=3)[1:] == ("", waits), "one line, and no warning at every call"
    loud = command("report", folder / "weekly.yaml", *late)
    assert [loud.err.count(text) for text in ("_SUCCESS is not there yet", "the same as is said of")] == [
        1,
        2,
    ] and loud.out.count("backfill, period") == 3
    (folder / "_SUCCESS").touch()
    said = command("report", folder / "weekly.yaml", *late).err
    named = re.findall("^weekly, (.*) to .*: close to noise", said, re.M)
    assert named == ["2026-01-05", "2026-01-12", "2026-01-19"] and said.index("close to noise") < said.index("charged")
    assert len(outputs(folder)) == 3
    (folder / "weekly.yaml").write_text(noisy + "  on_noise: refuse\n")
    assert "refuses what is close to noise" in called(folder, "--backfill", "--until", "2026-02-02", status=2).err
    assert len(outputs(folder)) == 3


def test_published_counts_take_the_place_of_declared_ones(folder: Path) -> None:
    """The next period is judged by what was published, not by what was declared, and refused if that is noise."""
    shape = "preview:\n  like: users=1e6,rank1=40%,rank3=20%\n"
    counts = CHARGED.replace("epsilon: 1\n", "epsilon: 0.02\n  publish_counts: 0.4\n") + shape

    def told(*end: str) -> str:
        words = ("--window-end", *end) if end else ()
        return json.loads(called(folder, *words, "--dry-run", "--json").out)["recall"]

    (folder / "weekly.yaml").write_text(counts)
    assert told("2026-01-12").startswith(
        "judging by 10 items and 1,000,000 users, of whom 40% hold the item of rank 1 and 20% that of rank 3"
    )
    assert told() == f"of the missed 2026-01-05 to 2026-01-12: {told('2026-01-12')}"
    assert report(folder, "--window-end", "2026-01-12", "--quiet") == 0
    said = told("2026-01-19")
    assert (
        "judging by" in said and "weekly-2026-01-05.csv: 3 noisy counts" in said and said.startswith("close to noise")
    )
    fit = re.search(r"joint finds \S+ of the top 3 on average \(([\d.]+)%\)", said)
    compared = re.search(r"\. From the declared counts (\d+)% was forecast, from the published counts (\d+)%", said)
    assert fit and compared and compared[1] == "100" and abs(int(compared[2]) - float(fit[1])) <= 0.5, said
    assert told() == f"of the missed 2026-01-12 to 2026-01-19: {said}"
    for words in (("--window-end", "2026-01-19"), ()):
        done = called(folder, *words, "--dry-run")
        assert (done.out + done.err).count("close to noise") == 1, done
    (folder / "weekly.yaml").write_text(counts + "  on_noise: refuse\n")
    for words in (("--window-end", "2026-01-19"), ("--dry-run",)):
        refused = called(folder, *words, status=2).err
        assert "refuses what is close to noise" in refused
        assert "the input of that last period, or the declaration, may be wrong: if it was the input" in refused
    (folder / "weekly.yaml").write_text(counts.replace("horizon: 4", "horizon: 9") + "  on_noise: refuse\n")
    done = called(folder, "--backfill", "--until", "2026-03-09", "--json", status=2)
    outcomes = [each["outcome"] for each in json.loads(done.out)["periods"]]
    assert outcomes.count("refused") == 8, "however many were refused before"
    assert len(outputs(folder)) == 1
    # Which is judged by what was declared, and not by the counts that it corrects.
    assert told("2026-01-12", "--correction", "1").startswith("judging by 10 items and 1,000,000 users")
    assert report(folder, "--window-end", "2026-01-12", "--correction", "1") == 0


def test_a_period_without_a_count_above_zero_says_that_the_next_is_noise(folder: Path) -> None:
    """Rather than be passed over for an older one."""
    counts = WEEKLY.replace("epsilon: 1\n", "epsilon: 9\n  publish_counts: 60\n")
    (folder / "weekly.yaml").write_text(counts)
    weeks = [("--window-end", end) for end in ("2026-01-12", "2026-01-19", "2026-01-26")]
    assert report(folder, *weeks[0]) == 0
    assert "close to noise" not in called(folder, *weeks[1], "--dry-run").out
    (folder / "rows.csv").write_text("user,item,time\n")
    assert "Most of this is noise" in command("report", folder / "weekly.yaml", *weeks[1]).out
    said = called(folder, *weeks[2], "--dry-run").out
    assert "close to noise" in said and "2026-01-12.csv: 3 noisy counts, none of them above 0, joint finds" in said


def test_a_backfill_judges_a_period_by_the_one_that_it_has_just_published(folder: Path) -> None:
    (folder / "weekly.yaml").write_text(WEEKLY.replace("epsilon: 1\n", "epsilon: 0.02\n  publish_counts: 0.4\n"))
    said = called(folder, "--backfill", "--until", "2026-01-19").err
    assert re.findall("^weekly, (.*) to .*: close to noise", said, re.M) == ["2026-01-12"], said


def test_a_period_is_judged_by_one_of_an_earlier_horizon(folder: Path) -> None:
    text = CHARGED.partition("ledger:")[0].replace("epsilon: 1\n", "epsilon: 9\n  publish_counts: 6\n")
    text = text.replace("budget:\n", "budget:\n  privacy_unit: user\n")
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, "--backfill", "--until", "2026-01-19") == 0
    (folder / "weekly.yaml").write_text(text.replace("first: 2026-01-05", "first: 2026-01-26"))
    for words in (("--window-end", "2026-02-02"), ()):
        said = json.loads(called(folder, *words, "--dry-run", "--json").out)["recall"]
        assert "weekly-2026-01-12.csv: 3 noisy counts" in said, said


def test_a_new_group_leaves_the_others_judged_by_the_last_period(folder: Path) -> None:
    """By `like` only what was not published."""
    head, *rows = (folder / "rows.csv").read_text().splitlines()
    (folder / "rows.csv").write_text("\n".join([f"{head},country", *(f"{row},DE" for row in rows)]) + "\n")
    text = WEEKLY.replace("epsilon: 1\n", "epsilon: 2\n  publish_counts: 1\n") + "groups:\n  file: countries.txt\n"
    text = text + "  column: country\npreview:\n  like: users=1e6 each,rank1=40%,rank3=20%\n  on_noise: warn\n"

    def told(countries: str) -> str:
        (folder / "countries.txt").write_text(countries.replace(" ", "\n"))
        return json.loads(called(folder, "--window-end", "2026-01-19", "--dry-run", "--json").out)["recall"]

    (folder / "weekly.yaml").write_text(text)
    assert "1,000,000 users" in told("DE FR")
    assert report(folder, "--window-end", "2026-01-12") == 0
    for countries, number in (("DE FR", 2), ("DE FR PL", 3), ("PL FR", 2)):
        said = told(countries)
        assert said.startswith(f"close to noise: 1 of {number} groups (FR); the worst, judging by "), said
        assert "weekly-2026-01-05.csv: 3 noisy counts" in said
    (folder / "weekly.yaml").write_text(text.replace("1e6", "1"))
    assert told("DE FR PL").startswith("close to noise: 2 of 3 groups (PL, FR)")


@pytest.mark.parametrize(("users", "told"), [("1e6,1e6", True), ("1e6 each", True), ("1e6,1", False)])
@pytest.mark.parametrize("overall", ["", "  overall: true\n"])
def test_the_input_of_a_group_is_doubted_that_only_its_published_counts_call_noise(
    folder: Path, users: str, told: bool, overall: str
) -> None:
    head, *rows = (folder / "rows.csv").read_text().splitlines()
    (folder / "rows.csv").write_text("\n".join([f"{head},country", *(f"{row},DE" for row in rows)]) + "\n")
    (folder / "countries.txt").write_text("DE\nFR\n")
    text = WEEKLY.replace("epsilon: 1\n", "epsilon: 4\n  publish_counts: 2\n") + "groups:\n  file: countries.txt\n"
    text += f"  column: country\n{overall}preview:\n  like: users={users},rank1=40%,rank3=20%\n"
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, "--window-end", "2026-01-12") == 0
    said = json.loads(called(folder, "--window-end", "2026-01-19", "--dry-run", "--json").out)["recall"]
    assert said.startswith("close to noise: ") and "(FR)" in said
    assert ("By the declared counts it would be no noise, so the input of that last" in said) is told, said


def test_a_horizon_that_no_longer_fits_is_told_before_the_charge(folder: Path) -> None:
    """A correction costs what a later period needs."""
    year = CHARGED.replace("horizon: 4", "horizon: 2").replace("epsilon: 1", "epsilon: 2\n  privacy_unit: user")
    year = year.replace("dataset: plays", "dataset: year") + "groups:\n  column: country\n  file: countries.txt\n"
    (folder / "weekly.yaml").write_text(year)
    (folder / "countries.txt").write_text("DE\nFR\n")
    head, *rows = (folder / "rows.csv").read_text().splitlines()
    (folder / "rows.csv").write_text("\n".join([f"{head},country", *(f"{row},DE" for row in rows)]) + "\n")
    first = ["--window-end", "2026-01-12"]

    rule, line, _ = told(folder, *first, "--dry-run", status=2).split("`")
    assert "ledger.dataset year has no budget in this ledger, which knows plays: open one with " in rule
    assert line.endswith(" --dataset year --epsilon 2 --privacy-unit user") and main(shlex.split(line)[1:]) == 0
    (folder / "weekly.yaml").write_text(year.replace("country\n", "contry\n"))
    said = told(folder, *first, "--dry-run", status=2)
    assert "weekly.yaml:23: groups.column 'contry' is no column of " in said, said
    assert "rows.csv, whose first line has 4 values, user, item, time among them (only a terminal shows it)" in said
    (folder / "weekly.yaml").write_text(year)
    left = "1 of 2 periods remain after this run; with them "
    fit = f"horizon  fits: {left}100.0% of the user budget would be used (epsilon 2); reports that were never "
    fit += "charged are not counted; the periods left of this one cost epsilon 1 of the 2 that the budget holds"
    said = told(folder, *first, "--dry-run")
    assert f"{fit}\n" in said
    assert "out/weekly-2026-01-05.csv: can be written" in said
    assert (
        "time from time (UTC where it has no zone), group from country" in said and "groups   2, a ranking each" in said
    )
    assert "periods remain" not in told(folder, *first)
    assert ".csv: published before" in (said := told(folder, *first, "--dry-run"))
    assert f"{fit}\n" in said
    said = told(folder, *first, "--correction", "1", "--dry-run")
    assert f"{left}150.0% of the user budget would be used (epsilon 3), so none of them fits; the periods" in said
    assert "can be written" in said
    assert f"{left}150.0%" in told(folder, *first, "--correction", "1")
    said = told(folder, "--window-end", "2026-01-19", status=2)
    assert "\n  adding up epsilon: 2 spent + 1 asked = 3, over 2\n" in said


def test_a_changed_report_is_told_what_it_does_to_its_series(folder: Path) -> None:
    """Another k, epsilon or mechanism, and not another list of items; once, and no more."""
    ends = ["2026-01-12", "2026-01-19", "2026-01-26"]

    def of(number: int, *words: str) -> str:
        return told(folder, "--window-end", ends[number], *words)

    assert "series" not in of(0, "--dry-run") + of(0) + of(1, "--dry-run")
    changes = [
        ("k: 3", "k: 2", "with k 3 (now 2)"),
        ("epsilon: 1", "epsilon: 2", "with epsilon 1 (now 2)"),
        ("name: joint", "name: peeling", "with mechanism joint (now peeling): `show`"),
    ]
    for old, new, said in changes:
        (folder / "weekly.yaml").write_text(CHARGED.replace(old, new))
        for number in (1, 2):
            assert f"weekly/20260105T000000Z--20260112T000000Z was published {said}" in of(number, "--dry-run")
    (folder / "items.txt").write_text("item 1\nitem 2\nitem 3\nitem 4\n")
    (folder / "weekly.yaml").write_text(CHARGED)
    said = of(1, "--dry-run")
    assert "series" not in said and "20260112T000000Z was drawn from another list, of 10 items" in said
    (folder / "weekly.yaml").write_text(CHARGED.replace("k: 3", "k: 2"))
    assert "weekly, 2026-01-12 to 2026-01-19: weekly/20260105T" in of(1)
    said = of(0, "--dry-run")  # as the call, which leaves what is published
    assert "published before; drawing it again would be refused: " in said and "k 3 (now 2)" in said, said
    assert said.endswith("published before: nothing to do\n") and of(0) == ""
    files = sorted(map(str, folder.glob("out/*.csv")))
    assert main(["show", *files, "--html", str(folder / "page.html")]) == 0
    assert "The windows before that of 2026-01-12 were asked otherwise: k 3 (now 2)." in (
        page := (folder / "page.html").read_text()
    )
    assert page.count('class="mark"') == 1 and "<title>From 2026-01-12: k 3 (now 2)</title>" in page
    assert "series" not in of(2, "--dry-run")


GROUPS = ("budget:", "groups:\n  column: kind\n  file: kinds.txt\nbudget:")


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (("", ""), ("epsilon: 1", "epsilon: 1\n  neighbours: replace-one"), "neighbours add-remove (now replace-one)"),
        (("", ""), GROUPS, "no group column (now group)"),
        (GROUPS, ("", ""), "group column group (now none)"),
        (
            ("", ""),
            ("  input: rows", "  item_column: [item, kind]\n  input: rows"),
            "item column item (now item, kind)",
        ),
    ],
)
def test_what_show_could_not_draw_as_one_series_is_refused(
    folder: Path, was: tuple[str, str], now: tuple[str, str], said: str
) -> None:
    """Published it would stay unshown for good, wherever in the series. With no ledger, which would refuse other
    neighbours by itself.
    """
    header, *rows = (folder / "rows.csv").read_text().splitlines()
    (folder / "rows.csv").write_text("\n".join([f"{header},kind", *(f"{row},a" for row in rows)]) + "\n")
    (folder / "pairs.csv").write_text("".join(["item,kind\n", *(f"item {n},a\n" for n in range(10))]))
    (folder / "kinds.txt").write_text("a\n")

    def write(old: str, new: str) -> None:
        text = CHARGED.partition("ledger:")[0]
        text = text.replace(old, new) if old else text
        (folder / "weekly.yaml").write_text(text.replace("items.txt", "pairs.csv") if "item_column" in text else text)

    write(*was)
    assert report(folder, "--window-end", "2026-01-19") == 0
    write(*now)
    ends = (["--window-end", f"2026-01-{day}", *more] for day in (12, 26) for more in (["--dry-run"], []))
    for words in (["--dry-run"], *ends, ["--missed"]):
        found = called(folder, *words, status=0 if words == ["--missed"] else 2)
        refusal = f"was published with {said}: that is another series: give a changed"
        assert (found.out + found.err).count(refusal) == 1 and "is a valid report" not in found.out
        assert words != ["--missed"] or ": every call is refused: " in found.out
    write(*was)
    assert report(folder, "--window-end", "2026-01-12") == main(["show", str(folder / "out")]) == 0


UTC_WEEK = "weekly/20260105T000000Z--20260112T000000Z"
OTHER_PERIODS = (
    "window.first, window.every and window.time_zone make the period {}--{}, which overlaps the published " + UTC_WEEK
)
OTHER_ZONE = f"window.time_zone must stay UTC, with which {UTC_WEEK} was published: the period {{}}--{{}} overlaps that"


@pytest.mark.parametrize(
    ("old", "new", "said", "period", "charged"),
    [
        ("every", "time_zone: Europe/Berlin\n  every", OTHER_ZONE, ("20260104T230000Z", "20260111T230000Z"), False),
        ("every", "time_zone: America/New_York\n  every", OTHER_ZONE, ("20260105T050000Z", "20260112T050000Z"), True),
        ("week\n", "14d\n", OTHER_PERIODS, ("20260105T000000Z", "20260119T000000Z"), False),
        *(
            (
                "week\n  first: 2026-01-05",
                "7d\n  first: 2026-01-10",
                OTHER_PERIODS,
                ("20260110T000000Z", "20260117T000000Z"),
                charged,
            )
            for charged in (True, False)
        ),
    ],
    ids=["a zone ahead", "a zone behind", "another length", "another start", "another start, and no ledger"],
)
def test_periods_that_overlap_published_ones_are_refused(
    folder: Path, old: str, new: str, said: str, period: tuple[str, str], charged: bool
) -> None:
    """By every call, which would publish rows a second time, or say to move a ranking that is paid for."""
    text = CHARGED if charged else CHARGED.partition("ledger:")[0]
    (folder / "weekly.yaml").write_text(text)
    assert report(folder, "--window-end", "2026-01-12") == 0
    (folder / "weekly.yaml").write_text(text.replace(old, new))
    end = ("--window-end", "2026-01-17" if "-10" in new else "2026-01-19")
    before = outputs(folder)
    for words in (
        ("--dry-run",),
        (*end, "--dry-run"),
        end,
        (*end, "--correction", "1"),
        ("--missed",),
        ("--backfill",),
    ):
        found = called(folder, *words, status=2)
        assert said.format(*period) in found.err and found.err.count("overlaps") == 1 and not found.out
    assert outputs(folder) == before


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [
        ("joint", "epsilon: 2"),
        ("cdp-peeling", "epsilon: 2\n  delta: 1e-6"),
        pytest.param("gaussian\n  max_items_per_user: 1", "epsilon: 2\n  delta: 1e-6", marks=pytest.mark.long),
    ],
)
def test_the_budget_that_is_asked_for_pays_for_the_horizon(mechanism: str, budget: str, folder: Path) -> None:
    """Two periods fit, and by adding up no third."""
    text = CHARGED.replace("horizon: 4", "horizon: 2").replace("name: joint", f"name: {mechanism}")
    text = text.replace("epsilon: 1", f"{budget}\n  privacy_unit: user")
    (folder / "weekly.yaml").write_text(text.replace("dataset: plays", "dataset: year"))
    line = called(folder, "--window-end", "2026-01-12", "--dry-run", status=2).err.split("`")[1]
    assert "--epsilon 2 " in line and main(shlex.split(line)[1:]) == 0
    ends = ["2026-01-12", "2026-01-19"]
    assert [report(folder, "--window-end", end) for end in ends] == [0, 0]
    if mechanism == "joint":
        assert (
            "adding up epsilon: 2 spent + 1 asked = 3, over 2"
            in called(folder, "--window-end", ends[0], "--correction", "1", status=2).err
        )


def test_another_release_in_the_output_s_place_is_kept(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "weekly-2026-01-05.csv").write_text("mine")
    assert "weekly.yaml:17: " in called(folder, "--window-end", "2026-01-12", status=2).err
    assert outputs(folder) == {"weekly-2026-01-05.csv": b"mine"} and outcomes(folder) == []


def test_a_period_that_is_not_over_is_refused(folder: Path) -> None:
    (folder / "weekly.yaml").write_text(CHARGED.replace("2026-01-05", "2126-01-07"))
    assert "is not over yet" in called(folder, "--window-end", "2126-01-14", status=3).err


def example(name: str, folder: Path) -> Path:
    """An example, set up in a folder by the very commands that its comment names."""
    shutil.copy(ROOT / "examples" / "reports" / name, folder)
    (folder / "release.key").write_text("the key of the examples' test")
    lines = [
        line.removeprefix("#").strip() for line in (folder / name).read_text().splitlines() if line.startswith("#")
    ]
    script = "\n".join(lines).replace("\\\n", " ").splitlines()
    commands = [line.split() for line in script if line.startswith("private-topk")]
    assert [words[1] for words in commands if words[1] != "sample"][0] == "budget"
    for words in commands:
        assert main([*words[1:], *(["--quiet"] if words[1] == "report" else [])]) == 0
    return folder / "published"


@pytest.mark.long
def test_example_weekly_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    published = example("weekly-plays.yaml", tmp_path)
    assert len(list(published.glob("weekly-plays/*.avro"))) == 4
    assert outcomes(tmp_path) == ["released"] * 4


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("items.txt", None, "weekly.yaml:5: domain.file items.txt does not exist: give a public list, with one item"),
        ("items.txt", "one\ntwo\n", "mechanism.k must be at most the number of items"),
        ("groups.csv", None, "groups.file groups.csv does not exist: give a public list, with one item or group per"),
        ("groups.csv", "name\nx\n", "groups.column 'land' is no column of groups.csv: it has name: give groups.column"),
    ],
)
@pytest.mark.parametrize("charged", [True, False])
def test_a_check_reads_the_lists(folder: Path, name: str, content: str | None, message: str, charged: bool) -> None:
    """And not the rows, as it says; nor a key that is not there."""
    text = f"{CHARGED if charged else CHARGED.partition('ledger:')[0]}groups:\n  column: land\n  file: groups.csv\n"
    (folder / "weekly.yaml").write_text(text)
    (folder / "groups.csv").write_text("land\nDE\n")
    for absent in ("key", "rows.csv"):
        (folder / absent).unlink()
    said = called(folder, "--dry-run").out
    assert "a valid report; its input is not looked at without --window-end\n" in said
    absent = f"file:{folder}/key cannot be read: No such file or directory"
    assert re.search(rf"^key +{absent}, so not checked: whether a run can read it$", said, re.MULTILINE), said
    (folder / "key").write_text("7 bytes")
    for words in (["--dry-run"], ["--backfill"]):
        err = called(folder, *words, status=2).err
        assert f"release_key file:{folder}/key must have at least 16 bytes, got 7: make one" in err
    (folder / "key").unlink()
    remote = text.replace("file:key", "gcp-secret:projects/p/secrets/s/versions/1")
    (folder / "weekly.yaml").write_text(remote)
    assert re.search(r"^key +not read here, so not checked: whether a run can", called(folder, "--dry-run").out, re.M)
    (folder / "weekly.yaml").write_text(text)
    (folder / name).unlink() if content is None else (folder / name).write_text(content)
    said = called(folder, "--dry-run", status=2)
    assert message in said.err.replace(f"{folder}/", "") and "valid" not in said.out, said


def test_a_check_of_an_example_says_that_it_is_valid_or_what_it_lacks(folder: Path) -> None:
    assert report(folder, "--dry-run") == 0
    for example in (ROOT / "examples" / "reports").glob("*.yaml"):
        said = command("report", example, "--dry-run")
        assert (f"{example} is a valid report" in said.out) is (said.status == 0), "nothing is said before a refusal"
        unopened = "open one with `private-topk budget create" in said.err
        assert said.status == 0 or unopened, "nobody has opened its ledger"
