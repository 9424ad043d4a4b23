"""`WriteRankings`: what a `PrivateTopK` publishes is shown, signed and adopted like what a command has published."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.testing import test_stream as streams
from apache_beam.transforms.window import TimestampedValue

from private_topk import Period, PrivateTopK, Release, ReleaseKey, UnknownDomain, WriteRankings
from private_topk.pipelines.beam_yaml import RankRows
from private_topk.pipelines.budget import Budget, Ledger, Request, charge
from private_topk.pipelines.process import RunFailed
from private_topk.pipelines.question import Question
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.stated import number
from private_topk.transforms.testing import TrueTopK
from tests.pipelines.support import command
from tests.refusals import refused

ITEMS = list("abcdef")
DAYS = Period.of("2026-01-05", "2026-01-08", "1d")
SLIDING = Period.of("2026-01-05", "2026-01-08", "2d", slide="1d")
LEDGER = "sqlite:///budget.db"
NOT_SHOWN = "a correction or a lost period that is not shown adds to these numbers"
OF_OTHER_IDS = "a correction that is still to come, or that is lost and has an id that begins otherwise, adds to these"
ROWS = [
    TimestampedValue((f"u{n % 30}", ITEMS[n * n % 6], ("DE", "FR")[n % 2]), DAYS.start.timestamp() + 86_400 * (n % 3))
    for n in range(300)
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("key").write_text("a key of enough bytes")
    return tmp_path


def top(id: str = "top/1", **asked: object) -> PrivateTopK:
    release = Release(ReleaseKey.parse("file:key"), id)
    return PrivateTopK(**{"k": 2, "domain": ITEMS, "period": DAYS, "release": release, "epsilon": 1.0} | asked)


def write(
    output: str, rank: PrivateTopK, request: Request | None = None, *, rows: list[Any] = ROWS, **more: object
) -> None:
    kinds = tuple[str, str, str] if rank.top_k.groups else tuple[str, str]
    width = len(kinds.__args__)
    with beam.Pipeline() as pipeline:
        values = pipeline | beam.Create(rows) | beam.Map(lambda row: row[:width]).with_output_types(kinds)
        if rank.user_column:
            values |= beam.Map(lambda row: beam.Row(user=row[0], item=row[1]))
        _ = values | rank | WriteRankings(output, rank, request, **more)


def paying(rank: PrivateTopK, unit: str = "user-window", **more: object) -> Request:
    return Request.of(rank, dataset="plays", fingerprint="ab" * 16, unit=unit, **more)


def publish(output: str, rank: PrivateTopK, unit: str = "user-window", **more: object) -> None:
    with charge(request := paying(rank, unit), LEDGER):
        write(output, rank, request, **more)


def sheet_of(path: str, *words: str) -> str:
    done = command("show", path, "--sign-off", *words)
    assert done.status == 0, done
    return " ".join((done.out + done.err).split())


def manifest(path: str) -> dict[str, Any]:
    return json.loads(Path(path).with_suffix(".manifest.json").read_text())


def opened(unit: str = "user-window", url: str = LEDGER) -> Ledger:
    ledger = Ledger(url)
    ledger.create(Budget.of("plays", 90, 1e-5, unit=unit))
    return ledger


GROUPS: dict[str, Any] = {"groups": ["DE", "FR"], "overall": True, "mechanism": "peeling", "publish_counts": 0.5}


@pytest.mark.parametrize("unit", ["user-window", "user"])
def test_the_manifest_states_and_repays_what_is_charged(unit: str) -> None:
    """Each of the two rankings of a user has the whole budget, of each of three windows: 3 and 9 by hand."""
    ledger, again = opened(unit), opened(unit, "sqlite:///again.db")
    publish("top.avro", top(**GROUPS), unit)
    assert manifest("top.avro")["privacy"]["epsilon"] == (3 if unit == "user-window" else 9)
    for words in ([], ["--sign-off"], ["--registry"], ["--json"]):
        done = command("show", "top.avro", "--ledger", LEDGER, *words)
        assert done.status == 0 and "has not charged" not in done.out + done.err, done
    assert command("budget", "adopt", "top.avro", "--ledger", "sqlite:///again.db", "--dataset", "plays").status == 0
    (charged,), (adopted,) = ledger.read().charges, again.read().charges
    for name in ("release_id", "key_id", "windows", "cost", "unit", "mechanism", "k"):
        assert getattr(charged, name) == getattr(adopted, name), name


@pytest.mark.parametrize(
    ("built", "paid"), [("inside", ["top/1"]), ("before", ["other/1"]), ("before", ["top/1", "other/1"])]
)
def test_a_charge_that_was_forgotten_draws_nothing(built: str, paid: list[str]) -> None:
    """Each rank of a pipeline is charged, also by nested charges, or none is drawn, and noted so."""
    ledger = opened()
    other = {"k": 1, "epsilon": 1.0, "domain": ITEMS, "release_key": "file:key", "release_id": "other/1"}
    ranks = {"top/1": top(period=None), "other/1": RankRows(**other)}

    def build() -> beam.Pipeline:
        pipeline = beam.Pipeline()
        rows = pipeline | beam.Create(["ab", "cd"]) | beam.Map(lambda row: beam.Row(user=row[0], item=row[1]))
        _ = rows | "top" >> ranks["top/1"] | WriteRankings("top.jsonl", ranks["top/1"])
        _ = rows | "other" >> ranks["other/1"]
        return pipeline

    before, missing = build() if built == "before" else None, "".join({*ranks} - {*paid})
    said = f"{missing} is not charged by the open `with charge(...)`, so this pipeline draws nothing: give charge_all"
    with refused("release", said) if missing else nullcontext(), ExitStack() as charges:
        for id in paid:
            rank = ranks[id] if id == "top/1" else ranks[id].rank
            charges.enter_context(charge(paying(rank), LEDGER))
        (before or build()).run().wait_until_finish()
    assert Path("top.jsonl").exists() != bool(missing)
    outcomes = {each.outcome for each in ledger.read().charges}
    assert outcomes <= {"started", "failed"} if missing else outcomes == {"released"}
    build().run().wait_until_finish()  # of a charge that is over nothing is left


def test_a_charge_of_another_rank_of_the_id_draws_nothing() -> None:
    """A request of one's own tells only its id, and pays for that."""
    ledger, asked = opened(), paying(top())
    said = "top/1 was charged for another rank, so this pipeline draws nothing: run the rank that was"

    def run(request: Request, **drawn: object) -> None:
        with charge(request, LEDGER), beam.Pipeline() as pipeline:
            values = pipeline | beam.Create([("ann", "a")]).with_output_types(tuple[str, str])
            _ = values | top(request.release_id, **drawn) | beam.ParDo(lambda _: Path("drawn").touch())

    for drawn in ({"epsilon": 3.0}, {"k": 1}, {"period": None}):
        with refused("release", said):
            run(asked, **drawn)
    assert not Path("drawn").exists() and [each.outcome for each in ledger.read().charges] == ["started"]
    run(replace(asked, release_id="own/1", parameters={"mechanism": "mine"}), k=1)
    assert Path("drawn").exists()


def test_a_job_that_failed_in_a_charge_does_not_look_refused() -> None:
    """As runners end it whose refusals come from workers: an answer may be out."""
    opened()
    with pytest.raises(RuntimeError, match="the job has failed"), charge(paying(top()), LEDGER):
        raise RuntimeError("the job has failed") from InvalidArgument("", "a worker has refused")


def test_what_a_worker_refuses_ends_the_charge_in_its_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """As one error, which does not say that nothing was drawn; the ledger advises no repeat that ends likewise."""
    ledger, rank = opened(), top(publish_counts=1.0)
    publish("top.avro", rank)
    with pytest.raises(RunFailed) as caught:
        publish("top.avro", rank, rows=ROWS[:9])
    said = "the job failed after its start: output top.avro holds another ranking of top/1: its input has changed since"
    assert str(caught.value).startswith(said) and "Traceback" not in str(caught.value)
    assert caught.value.__suppress_context__ and caught.value.__cause__ is None
    assert "the charge stays" not in capsys.readouterr().err
    assert [each.outcome for each in ledger.read().charges] == ["released"]


def test_a_request_that_no_open_charge_pays_for_draws_nothing() -> None:
    """Where `with` is forgotten, or the whole charge, or another budget pays."""
    ledger, rank = opened(), top()
    request = paying(rank)
    for around in (nullcontext(), charge(replace(request, parameters=request.parameters | {"more": 1}), LEDGER)):
        charge(request, LEDGER)
        with refused("request", "for release top/1 is paid for by no open charge: nothing is drawn: run "), around:
            write("top.avro", rank, request)
    assert not Path("top.avro").exists() and len(ledger.read().charges) == 1


def test_overlapping_windows_add_up_and_a_bound_on_windows_is_that_of_a_user() -> None:
    assert WriteRankings("top.avro", top(period=SLIDING)).manifest.privacy.epsilon == 2  # rows are in both
    rank = top(max_windows_per_user=2)  # pure: its epsilons add up
    stated = WriteRankings("top.avro", rank, paying(rank, "user")).manifest.privacy
    assert (stated.epsilon, stated.windows, stated.windows_of_a_user) == (2, 3, 2)


@pytest.mark.parametrize(
    ("asked", "accounting", "epsilon"),
    [
        ({"mechanism": "gaussian"}, "gaussian", 0.508434),  # by a bisection of the Gaussian's tails, with scipy
        ({"mechanism": "gaussian", "groups": ["DE", "FR"], "overall": True}, "gaussian", 0.710141),
        ({"domain": UnknownDomain(), "mechanism": "restricted-gumbel"}, "basic", 0.9),
        ({"mechanism": "gaussian", "period": None}, "basic", 0.3),
    ],
)
def test_a_users_total_over_windows_is_the_least_at_its_delta(
    asked: dict[str, Any], accounting: str, epsilon: float
) -> None:
    """No larger delta than as they add up; and pages and the ledger agree with it."""
    rank = top(**{"epsilon": 0.3, "delta": 1e-7} | asked)
    windows, each = 3 if rank.period else 1, 2 if "groups" in asked else 1
    stated = WriteRankings("top.avro", rank, paying(rank, "user")).manifest.privacy
    assert (stated.accounting, stated.windows) == (accounting, windows)
    assert stated.delta == pytest.approx(windows * each * 1e-7, rel=1e-12)
    assert stated.epsilon == pytest.approx(epsilon, rel=1e-5)
    opened("user")
    publish("top.avro", rank, "user")
    sheet = sheet_of("top.avro", "--ledger", LEDGER)
    assert f"epsilon {number(stated.epsilon)}, delta" in sheet, sheet
    assert "has not charged" not in sheet and OF_OTHER_IDS in sheet, sheet
    again = top("top/1/correction-1", **{"epsilon": 0.3, "delta": 1e-7} | asked)
    with charge(paying(again, "user"), LEDGER):
        pass  # and its files are lost
    told = sheet_of("top.avro", "--ledger", LEDGER)
    assert f"All that is shown here counts, and what else of it the ledger has charged: {OF_OTHER_IDS}" in told, told


def test_a_job_that_runs_again_keeps_its_files_and_another_release_is_refused() -> None:
    write("top/", top(), format="jsonl")
    files = {path: path.read_bytes() for path in Path("top").iterdir()}
    assert len(files) == 6
    first = min(path for path in files if path.suffix == ".jsonl")
    first.unlink()
    write("top/", top(), format="jsonl")
    assert {path: path.read_bytes() for path in Path("top").iterdir()} == files
    with refused("output", "holds another draw"):
        write("top/", top("top/2"), format="jsonl")
    write("top/", top("top/2"), format="jsonl", overwrite=True)
    assert {path: path.read_bytes() for path in Path("top").iterdir()} != files


def test_what_is_not_private_says_so() -> None:
    write("top.avro", top(mechanism=TrueTopK(), epsilon=None))
    shown = command("show", "top.avro").out
    assert "This ranking is not private" in shown and "noise" not in shown.partition("How to read it")[2]
    Path("top.manifest.json").unlink()
    shown = command("show", "top.avro").out
    assert "nothing can be said of what it promises" in shown and "noise" not in shown


def test_a_stream_has_a_file_for_each_window_and_keeps_it_over_other_rows(caplog: pytest.LogCaptureFixture) -> None:
    start = DAYS.start.timestamp()
    options = PipelineOptions()
    options.view_as(StandardOptions).streaming = True
    otherwise = (
        "20260105T000000Z--20260106T000000Z.avro is kept as it was published: this release would rank it otherwise"
    )
    for output, item, runs in (("top.avro", "a", False), *(("top/", item, True) for item in "aab")):
        assert otherwise not in caplog.text
        rank, stream = top(mechanism=TrueTopK(), epsilon=None), streams.TestStream()
        stream.advance_watermark_to(start).add_elements([TimestampedValue(("u1", item), start)])
        stream.advance_watermark_to_infinity()
        pipeline = beam.Pipeline(options=options)
        rankings = pipeline | stream | rank
        with nullcontext() if runs else refused("output", "must be a folder, with / at its end"):
            _ = rankings | WriteRankings(output, rank)
        if runs:
            pipeline.run().wait_until_finish()
    assert len(list(Path("top").glob("*.avro"))) == 3 and caplog.text.count("is kept as it was published") == 1
    assert otherwise in caplog.text


@pytest.mark.parametrize(("output", "period", "kept"), [("top.csv", DAYS, 2), ("top/", DAYS, 2), ("top/", None, 0)])
def test_rankings_that_are_lost_on_their_way_fail_the_job(output: str, period: Period | None, kept: int) -> None:
    """Also all of them, of which no step would hear: the books would say that they were released."""
    ledger, rank = opened(), top(period=period)
    request = paying(rank)
    pipeline = beam.Pipeline()
    rankings = pipeline | beam.Create(ROWS) | beam.Map(lambda row: row[:2]).with_output_types(tuple[str, str]) | rank
    left = rankings | beam.Filter(lambda ranking: ranking.window.start and ranking.window.start.day < 5 + kept)
    _ = left | WriteRankings(output, rank, request)
    with pytest.raises(Exception, match="a transform behind the rank left some out"), charge(request, LEDGER):
        pipeline.run().wait_until_finish()
    assert [each.outcome for each in ledger.read().charges] == ["failed"] and not Path("top.csv").exists()


def test_rankings_of_another_transform_are_refused() -> None:
    """A slip of one word, where a pipeline has two: it would state the promise of the other."""
    large, small = top(epsilon=3.0, k=3), top("top/2", epsilon=0.1)
    pipeline = beam.Pipeline()
    rows = pipeline | beam.Create([("u1", "a")]).with_output_types(tuple[str, str])
    drawn = [rows | each.release.id >> each | f"All of {each.top_k.k}" >> beam.Filter(bool) for each in (large, small)]
    with refused("rank", "has not drawn these rankings"):
        _ = drawn[0] | WriteRankings("top.avro", small)
    with refused("rank", "has not drawn these rankings"):
        _ = drawn | beam.Flatten() | "Both" >> WriteRankings("top.avro", small)
    _ = drawn[1] | "Its own" >> WriteRankings("top.avro", small)
    with refused("output", "top.avro is written by another WriteRankings of this pipeline: give each an output"):
        _ = drawn[0] | "There too" >> WriteRankings("top.avro", large)
    unnamed = top(release=None, period=None)
    _ = rows | "first" >> unnamed | "its first" >> WriteRankings("first.avro", unnamed)
    with refused("rank", "without release, only its first input is written"):
        _ = rows | "second" >> unnamed | "its second" >> WriteRankings("second.avro", unnamed)


@pytest.mark.parametrize("output", ["tops/top.jsonl", "tops/"])
def test_a_correction_is_shown_in_place_of_what_it_corrects_and_both_count(output: str) -> None:
    corrected = output.replace("top.jsonl", "top.correction-1.jsonl") if output.endswith("l") else "tops/correction-1/"
    write(output, top())
    write(corrected, top("top/1/correction-1", epsilon=2.0), corrects=output)
    third, before = corrected.replace("-1", "-2"), manifest_bytes()
    write(third, top("top/1/correction-2"), corrects=output)  # by the first again, which the second corrects already
    for path in [each for each in Path("tops").rglob("*") if "correction-1" in str(each) and each.is_file()]:
        path.unlink()
    write(corrected, top("top/1/correction-1", epsilon=2.0), corrects=output)  # what is lost knew nothing of the third
    assert before.items() <= manifest_bytes().items()
    shown = json.loads(command("show", "tops", "--json").out)
    assert {row["release_id"] for row in shown["rows"]} == {"top/1/correction-2"}
    assert shown["manifest"]["privacy"]["epsilon"] == 4
    sheet = sheet_of("tops")
    assert NOT_SHOWN in sheet, sheet
    assert "of each window, each time rho 0.462118 (zCDP) 6 times, rho 1.52319 (zCDP) 3 times " in sheet, sheet
    Ledger("sqlite:///again.db").create(Budget.of("plays", 90))
    adopted = command("budget", "adopt", "tops", "--ledger", "sqlite:///again.db", "--dataset", "plays")
    assert adopted.status == 0, adopted
    assert sorted(each.cost.epsilon for each in Ledger("sqlite:///again.db").read().charges) == [1, 1, 2]


def manifest_bytes() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path("tops").rglob("*.manifest.json")}


@pytest.mark.parametrize("output", ["tops/top.jsonl", "tops/"])
def test_only_a_whole_ranking_is_corrected(output: str) -> None:
    """By the windows, groups and columns of it, and under another id: pages leave out what is corrected."""
    write(output, top())
    day = Period.of("2026-01-06", "2026-01-07", "1d")
    several = {"domain": [("a", "b")], "item": ["country", "title"], "k": 1}
    corrected = output.replace("top.", "top.correction-1.") if output.endswith("l") else "tops/correction-1/"
    write(corrected, top("top/0/v2"), corrects=output)  # is read before the first
    new = corrected.replace("-1", "-2")
    days = "period 20260105T000000Z--20260106T000000Z to 20260107T000000Z--20260108T000000Z (3 windows) (now 20260106T"
    for changed, said in (
        ({"period": day}, days),
        ({"groups": ["DE"]}, "number of groups 0 (now 1), other groups"),
        (several, "item columns item (now country, title)"),
    ):
        with refused("corrects", f"{output} has {said}", "rank again all that it has, in the same way") as told:
            WriteRankings(new, top("top/1/correction-1", **changed), corrects=output)
        assert "v2" not in str(told.value)
    rank = top("top/1/correction-1")
    with refused("corrects", "has unit one user's rows within one window (now one user's rows in all windows)"):
        WriteRankings(new, rank, paying(rank, "user"), corrects=output)
    with refused("corrects", "is of the same release", "give the rank another id"):
        WriteRankings(new, top(epsilon=2.0), corrects=output)
    with refused("rank", "topping/2 does not begin with top/, by which pages find it", "such as top/1/correction-1"):
        WriteRankings(new, top("topping/2"), corrects=output)
    with refused("corrects", "has no manifest", "give the ranking that is corrected"):
        WriteRankings("new.avro", top("top/2"), corrects="nothing.avro")


@pytest.mark.parametrize(
    ("output", "elsewhere", "right"),
    [
        ("i/", ["i.correction-1/", "i/again/", "i/correction-1/correction-1/", "i1.avro"], "i/correction-1/"),
        ("g/top.avro", ["g1/top.avro", "top.avro", "g.correction-1/", "g/in/top.avro"], "g/top.correction-1.avro"),
    ],
)
def test_a_correction_lies_where_the_next_one_looks(output: str, elsewhere: list[str], right: str) -> None:
    """One that lies elsewhere is not found, and sheets would state less than it all has cost."""
    write(output, top("first"))
    assert NOT_SHOWN in sheet_of(output)
    for place in elsewhere:
        with refused("output", "does not lie beside what it corrects", f"give a place such as {right}"):
            WriteRankings(place, top("first/a"), corrects=output)
    write(right, top("first/a"), corrects=output)
    shutil.copytree(output.removesuffix("top.avro"), "far")
    if output == "g/top.avro":
        lost = Path(right).with_suffix(".manifest.json").rename("lost")
        write("g/b.avro", top("first/b"), corrects=output)
        lost.rename(Path(right).with_suffix(".manifest.json"))
        again = WriteRankings("g/c.avro", top("first/c"), corrects=right).manifest.corrects  # b does not tell of a
        assert {each.release_id for each in again} == {"first", "first/a", "first/b"}
    for first in [each for each in Path("far").glob("*") if "correction-1" not in each.name]:
        first.unlink()
    moved = f"far/{right.partition('/')[2]}"
    with refused(
        "corrects", f"{moved} corrects first, which does not lie beside it", "give the ranking that came first"
    ):
        WriteRankings(f"{moved}correction-1/" if moved.endswith("/") else "far/b.avro", top("first/b"), corrects=moved)


@pytest.mark.parametrize(
    ("output", "asked", "paid", "field", "said"),
    [
        ("top", {}, None, "output", "must end with one of"),
        ("kafka://h:1/t", {}, None, "output", "must be a file or a folder"),
        ("t.avro", {"period": None, "reveal_active_windows": True}, None, "reveal_active_windows", "has no"),
        ("t.avro", {}, top("top/2"), "request", "of the same rank"),
        ("t.avro", {"epsilon": 3.0}, top(), "request", "of the same rank"),
        ("t.avro", {"max_items_per_user": 1, "period": SLIDING}, None, "neighbours", "replace-one"),
    ],
)
def test_what_cannot_be_published_is_refused(
    output: str, asked: dict[str, Any], paid: PrivateTopK | None, field: str, said: str
) -> None:
    with refused(field, said):
        WriteRankings(output, top(**asked), paid and paying(paid))
    with refused("rank", "must be the PrivateTopK"):
        WriteRankings(output, "rank")


def opened_by_a_report() -> Ledger:
    """A dataset whose users are known, as a report's first charge has told them."""
    ledger = opened("user")
    report = Question.of(k=1, epsilon=0.1, domain=ITEMS, mechanism="joint", privacy_unit="user", horizon=1)
    ledger.charge(report.request(dataset="plays", key_id="k", fingerprint="cd" * 16, rows={"user_column": "user"}))
    return ledger


@pytest.mark.parametrize(
    ("asked", "rows", "column"),
    [
        ({"user": "session"}, {}, "session"),
        ({"user": "user"}, {}, "user"),
        ({"item": "dish"}, {}, "user"),
        ({"user": "uid"}, {"user_column": "user"}, "user"),
        ({}, {"user_column": "session"}, "session"),
        ({}, {}, None),
    ],
    ids=str,
)
def test_a_user_is_what_the_field_of_users_says_and_the_dataset_keeps_to_it(
    asked: dict[str, str], rows: dict[str, str], column: str | None
) -> None:
    """Sessions that are charged as if they were users would make every sentence of a sheet false of persons."""
    ledger, rank = opened_by_a_report(), top(epsilon=0.1, **asked)
    request = paying(rank, "user", rows=rows)
    written = WriteRankings("top.avro", rank, request).manifest
    assert (written.columns or {}).get("user") == request.rows.get("user_column") == column
    if column == "session":
        with refused("user_column", "must be user for dataset plays", 'Request.of rows={"user_column": "user"}'):
            ledger.charge(request)
    else:
        ledger.charge(request)
        assert ledger.read().charges[-1].rows.get("user_column") == column


@pytest.mark.parametrize("named", [True, False])
def test_the_sheet_says_what_a_user_is_or_has_a_blank_for_it(named: bool) -> None:
    opened("user")
    rank = top(**({"user": "user"} if named else {}))
    publish("top.avro", rank, "user")
    filled, _, blank = sheet_of("top.avro", "--ledger", LEDGER).partition("To be filled in")
    assert ("a user is" in filled, "a user is" in blank) == (named, not named)
    assert OF_OTHER_IDS in filled, "corrections of a pipeline have any id"
    write("unpaid.avro", rank)
    assert ("user" in (manifest("unpaid.avro").get("columns") or {})) is named
    if named:  # the ledger knows what was taken out of the manifest
        facts = manifest("top.avro")
        del facts["columns"]
        Path("top.manifest.json").write_text(json.dumps(facts))
        assert "user column (none, charged user)" in sheet_of("top.avro", "--ledger", LEDGER)
    else:
        # The next version's charge of the same, by a pipeline that names its fields: a repeat, also over its file.
        again = paying(rank, "user", rows={"user_column": "user"})
        with charge(again, LEDGER) as receipt:
            write("top.avro", rank, again)
        assert receipt.outcome == "released"


def test_what_ran_without_a_ledger_is_adopted_by_a_budget_of_whole_users_with_all_its_windows() -> None:
    """As the same job costs that asks for this unit; and no word says that somebody has changed it."""
    ledger = opened("user")
    write("top.avro", top())
    adopt = ("budget", "adopt", "top.avro", "--ledger", LEDGER, "--dataset", "plays")
    for adopted in ("1 of 1 releases adopted", "0 of 1 releases adopted"):
        assert adopted in command(*adopt).out
    asked = paying(top("top/2"), "user").entry()
    [charged] = ledger.read().charges
    for name in ("unit", "windows", "windows_of_a_user", "cost"):
        assert getattr(charged, name) == getattr(asked, name), name
    assert ledger.read().charges[0].cost.epsilon * charged.reached() == 3
    assert "one was changed" not in sheet_of("top.avro", "--ledger", LEDGER)


@pytest.mark.parametrize("unit", ["user-window", "user"])
def test_a_window_of_a_folder_that_is_lost_counts_by_the_ledger(unit: str) -> None:
    """Though other windows of its release are here: of three days with epsilon 1, and with 1/2 for a correction."""
    opened(unit)
    publish("tops/", top(), unit)
    for folder, total in (("tops/", 3), ("tops/correction-1/", 4.5)):
        if corrected := folder != "tops/":
            publish(folder, top("top/2", epsilon=0.5), unit, corrects="tops/")
        lost = [(file, file.read_bytes()) for file in Path(folder).glob("20260105*")]
        for file, _ in lost:
            file.unlink()
        sheet = sheet_of("tops", "--ledger", LEDGER)
        of_all = "budget" if unit == "user" else "of a person in all windows"
        assert f"{of_all} epsilon {total}, delta 0" in sheet, sheet
        told = " too, with windows that are not here, lost or not published yet: these numbers count them"
        assert (told in sheet) == (corrected or unit == "user-window"), sheet
        for file, content in lost:
            file.write_bytes(content)
