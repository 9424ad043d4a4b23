"""`private-topk show`: a ranking read back on the terminal, as JSON and as a page; and what is no ranking."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from private_topk.pipelines.show.page import snippet
from private_topk.pipelines.show.reading import read_published
from private_topk.pipelines.show.words import in_text
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.windows import WindowBounds
from tests.pipelines.support import command

ITEMS = ["<script>alert(1)</script>", "tea", "cake"]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One ranking in every format, and one in a folder with a file for each of its two windows."""
    import polars as pl

    from private_topk import Joint, Period, rank
    from private_topk.pipelines.rank import Rankings
    from private_topk.pipelines.release.formats import RANKING_FORMATS

    folder = tmp_path_factory.mktemp("published")
    rows = pl.DataFrame({"user": [f"u{n}" for n in range(90)], "item": ITEMS * 30, "time": [0, 90_000, 1] * 30})
    period = Period.of("1970-01-01", "1970-01-03", "1d")
    ranked = rank(rows, 2, Joint(1.0), ITEMS, period=period, time_unit="s", publish_counts=0.5)
    for ending in RANKING_FORMATS:
        (folder / ending[1:]).mkdir()
        ranked.write(f"{folder}/{ending[1:]}/ranking{ending}")
    (folder / "weeks").mkdir()
    for n, each in enumerate(ranked.manifest.windows):
        window = Rankings(ranked.table.slice(2 * n, 2), replace(ranked.manifest, windows=(each,)))
        window.write(f"{folder}/weeks/{WindowBounds(each.start, each.end).label()}.csv")
    return folder


def test_every_format_tells_the_same(published: Path) -> None:
    told = [
        read_published(f"{published}/{kind}/ranking.{kind}") for kind in ("avro", "csv", "jsonl", "ndjson", "parquet")
    ]
    texts = {"\n".join(in_text(its)) for its in told}
    [text] = texts
    assert text.startswith("1 January 1970 (UTC)\n  1  ") and "e^1.5" in text


def test_a_folder_of_windows_is_one_ranking(published: Path) -> None:
    whole, parts = (list(in_text(read_published(f"{published}/{place}"))) for place in ("csv/ranking.csv", "weeks"))
    assert whole == parts
    assert command("show", f"{published}/weeks/").out == "\n".join(whole) + "\n"


def test_releases_of_one_question_are_a_series_as_files_and_as_a_folder(tmp_path: Path) -> None:
    """As a report that is published every day writes them: each has an id, a file and a manifest of its own."""
    import polars as pl

    from private_topk import Joint, Period, rank

    rows = pl.DataFrame({"user": [f"u{n}" for n in range(90)], "item": ITEMS * 30, "time": [0, 90_000] * 45})
    (tmp_path / "days").mkdir()
    files = [str(tmp_path / "days" / f"{n}.csv") for n in (1, 2)]
    for n, file in enumerate(files, 1):
        period = Period.of(f"1970-01-0{n}", f"1970-01-0{n + 1}", "1d")
        rank(rows, 2, Joint(1.0), ITEMS, period=period, time_unit="s").write(file)
    page = tmp_path / "days.html"
    assert command("show", f"{tmp_path}/days", "--html", page).status == 0
    folder = page.read_text()
    assert "<h1>Daily top 2, 1 to 2 January 1970 (UTC)</h1>" in folder
    assert "Places over 2 windows" in folder
    assert "of the 2 windows, the budgets add up" in folder.replace("several ", ""), folder
    assert "<dd>2 releases, " in folder
    assert command("show", *reversed(files), "--html", page, "--overwrite").status == 0 and page.read_text() == folder


def test_many_groups_have_pages_in_a_folder_of_their_own(tmp_path: Path) -> None:
    null = {"window_start": None, "window_end": None, "noisy_count": None, "k": 1, "returned": 1, "release_id": "x"}
    rows = [{**null, "rank": 1, "item": "tea", "group": group} for group in ("g0", "g1", "g2", "g3", "/")]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page, first = tmp_path / "r.html", tmp_path / "r-groups" / "g0.html"
    done = command("show", f"{tmp_path}/r.jsonl", "--html", page, "--title", "Drinks")
    assert done.out == f"page: {page}, and 5 in {tmp_path}/r-groups\n"
    assert "<h1>Drinks, top 1 of g0</h1>" in first.read_text() and "<h1>Drinks, top 1 of 5 groups<" in page.read_text()
    assert 'href="r-groups/%252F.html">/</a>' in page.read_text() and (tmp_path / "r-groups" / "%2F.html").exists()
    assert command("show", f"{tmp_path}/r.jsonl", "--group", "g1").out.startswith("g1, All rows\n  1  tea\n\nWhat it")
    assert (
        "--group G1 has no ranking there: did you mean g1?"
        in command("show", tmp_path / "r.jsonl", "--group", "G1").err
    )
    page.unlink()
    again = command("show", f"{tmp_path}/r.jsonl", "--html", page)
    assert again.status == 2 and "r-groups/g0.html exists and is kept" in again.err and not page.exists()
    assert command("show", f"{tmp_path}/r.jsonl", "--html", page, "--overwrite").status == 0


def test_a_page_is_written_once(published: Path, tmp_path: Path) -> None:
    page, ranking = tmp_path / "page.html", f"{published}/avro/ranking.avro"
    done = command("show", ranking, "--html", page)
    assert done == (0, f"page: {page}\n", "")
    text = page.read_text()
    assert ITEMS[0] not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text and text.count("<table") == 2
    again = command("show", ranking, "--html", page)
    assert (
        again.status == 2
        and "--html" in again.err
        and "exists and is kept: give another path, or --overwrite" in again.err
    )
    assert command("show", ranking, "--html", page, "--overwrite").status == 0 and page.read_text() == text


def test_a_page_that_cannot_be_written_whole_leaves_the_old_one(published: Path, tmp_path: Path) -> None:
    page, ranking = tmp_path / "page.html", f"{published}/avro/ranking.avro"
    page.write_text("the old one")
    words = f"{sys.executable} -m private_topk show {ranking} --html {page} --overwrite"
    done = subprocess.run(["bash", "-c", f"ulimit -f 4; {words}"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, f"private-topk: --html {page} cannot be written: File too large\n")
    assert page.read_text() == "the old one" and os.listdir(tmp_path) == ["page.html"]


def test_without_its_manifest_nothing_is_promised(published: Path, tmp_path: Path) -> None:
    (tmp_path / "ranking.csv").write_bytes((published / "csv" / "ranking.csv").read_bytes())
    told = read_published(f"{tmp_path}/ranking.csv")
    said = " ".join(" ".join(in_text(told)).split())
    assert told.manifest is None and "e^" not in said
    assert "There is no manifest beside this ranking, so nothing can be said of what it promises." in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show"], "RANKING must be given"),
        (["show", "none.avro"], "none.avro does not exist: check the path"),
        (["show", "plain.txt"], "plain.txt is no ranking"),
        (["show", "rows.csv"], "rows.csv is no ranking of ours: it has "),
        (["show", "broken.avro"], "broken.avro is no ranking of ours, or is damaged: its format"),
        (["show", "changed.csv"], "is not the file that its manifest is of: one of the two was changed"),
        (["show", "odd.csv"], "odd.manifest.json is no manifest"),
        (
            ["show", "two"],
            "two/b.csv has a window of 1 January 1970 (UTC) that two/a.csv has too: give one of "
            "them: a series has each window once; of two reports, show them apart, in a folder each or "
            "as `show FOLDER/NAME-*` without quotes; what a person has over all reports, their ledger adds up: "
            "--sign-off of each with --ledger says it, or `private-topk budget show`; "
            "if one is a correction, its manifest was changed: bring it back from a copy",
        ),
        (
            ["show", "ungrouped.csv"],
            "ungrouped.csv has 4 items of a window that has 2: a window has one ranking, or one of each group: "
            "RankingSchema(grouped=True) writes these",
        ),
        (
            ["show", "two/a.csv", "other.csv"],
            "other.csv is of another series than two/a.csv: answer sequence (now set): show them apart, in a folder "
            "each or as `show FOLDER/NAME-*` without quotes; what a person has over all reports, their ledger adds up: "
            "--sign-off of each with --ledger says it",
        ),
        (["show", "rows.csv", "--html", "x", "--json"], "--html does not go with --json"),
        (["show", "rows.csv", "--overwrite"], "--overwrite needs --html: give it too, or leave this out"),
        (["show", "good.csv", "--html", "good.csv/page.html"], "good.csv/page.html cannot be written: File exists"),
        (["show", "rows.csv", "--htm", "x"], "did you mean --html?"),
        (["show", "rows.csv", "--title", "x"], "--title needs --html"),
        (["show", "good.csv", "--html", "web"], "--html must end with .html, got web"),
        (["show", "two/a.csv", "apart.csv"], "user column user (now session): show them apart"),
    ],
)
def test_an_unshowable_file_or_option_is_refused(
    words: list[str], message: str, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ranking, manifest = ((published / "csv" / f"ranking.{end}").read_bytes() for end in ("csv", "manifest.json"))
    for name, content in {
        "plain.txt": b"",
        "rows.csv": b"user,item\na,b\n",
        "broken.avro": b"x",
        "good.csv": ranking,
        "ungrouped.csv": ranking + ranking.partition(b"\n")[2],
        "changed.csv": ranking.replace(b"tea", b"gin"),
        "changed.manifest.json": manifest,
        "odd.csv": ranking,
        "odd.manifest.json": b"[]",
    }.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "other.csv").write_bytes(ranking)
    facts = json.loads(manifest) | {"answer": "set", "mechanism": "joint-set"}
    facts["parameters"].pop("skew", None)
    (tmp_path / "other.manifest.json").write_text(json.dumps(facts))
    (tmp_path / "apart.csv").write_bytes(ranking)
    (tmp_path / "apart.manifest.json").write_bytes(manifest.replace(b'"user": "user"', b'"user": "session"'))
    (tmp_path / "two").mkdir()
    for name in ("a", "b"):
        other = json.loads(manifest) | {"report": name}
        (tmp_path / "two" / f"{name}.csv").write_bytes(ranking)
        (tmp_path / "two" / f"{name}.manifest.json").write_text(json.dumps(other))
    done = command(*words)
    assert done.status == 2 and message in done.err and done.out == ""


def test_other_kinds_of_files_refuse_in_a_sentence(tmp_path: Path) -> None:
    for ending in ("avro", "csv", "jsonl", "parquet"):
        for content in (b"", b"\x00" * 50, b"{}", b"\xff"):
            (tmp_path / f"x.{ending}").write_bytes(content)
            try:
                assert not read_published(f"{tmp_path}/x.{ending}").rows
            except InvalidArgument as refusal:
                assert str(refusal).startswith(str(tmp_path))


def test_empty_answers_are_named_with_the_reason_and_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 4,000 users of an item noise of a standard deviation below 20 hides it in no run; without a user it has none
    to be found.
    """
    monkeypatch.chdir(tmp_path)
    rows = [f"u{n},i{n % 3},DE" for n in range(4000)]
    base = (
        "run --input=rows.csv --unknown-domain --mechanism=weighted-gaussian --max-items-per-user=1 --k=5 "
        "--epsilon=1 --delta=1e-6 --group-column=land --groups=lands.txt --groups-per-user=1"
    ).split()
    (tmp_path / "lands.txt").write_text("DE\nFR\n")
    reason = "A list is short, or empty, if too few people have the same items"
    for name, content, empty in (("some", rows, ["FR"]), ("none", [], ["DE", "FR"])):
        (tmp_path / "rows.csv").write_text("\n".join(["user,item,land", *content]) + "\n")
        done = command(*base, f"--output={name}.csv")
        assert done.status == 0 and done.out.count(reason) == 1, done
        for said in (done.out, command("show", f"{name}.csv").out):
            assert [line for line in said.splitlines() if "no item was released" in line] == [
                f"{land}, All rows: no item was released" for land in empty
            ]
            words = " ".join(said.split())
            assert words.count(reason) == 1 and "a larger epsilon or delta, a smaller k, or a public list" in words
        as_json = json.loads(command(*base, f"--output={name}.json.csv", "--json").out)
        assert [each["group"] for each in as_json["empty"]] == empty and "All rows" not in str(as_json["empty"])
        assert command("show", f"{name}.csv", f"--html={name}.html").status == 0
        assert reason in (tmp_path / f"{name}.html").read_text()
        assert reason in snippet(read_published(f"{name}.csv"), "x")
    (tmp_path / "rows.csv").write_text("\n".join(["user,item,land", *rows]) + "\n")
    public = [word for word in base if not word.startswith(("--unknown", "--mechanism", "--delta"))]
    (tmp_path / "items.txt").write_text("i0\ni1\ni2\ni3\ni4\n")
    done = command(*public, "--mechanism=peeling", "--domain=items.txt", "--output=full.csv")
    assert done.status == 0 and reason not in done.out and "no item" not in done.out, done
