"""A ranking and its manifest: one whole pair, whoever else writes, and whenever the process is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_topk.pipelines.release import store
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.place import Bounds, Lying, Pair, manifest_path, what_lies
from private_topk.pipelines.release.store import publish
from private_topk.pipelines.run_state import RunState
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.faults import attempt, kill, leftovers, pair, pair_at, race
from tests.pipelines.support import Done, command, manifest, write
from tests.runners.cloud import BUCKET, bucket_serving

ROWS = [{"user": f"u{n}", "item": f"i{n % 7}"} for n in range(60)]


@pytest.mark.long
def test_two_runs_at_the_same_moment_leave_one_whole_pair(tmp_path: Path) -> None:
    """The loser is refused unless it overwrites."""
    found = race(60, tmp_path)
    assert sum(found.values()) == 60 and found["published/refused"] == 32


@pytest.mark.long
@pytest.mark.parametrize(("before", "overwrite"), [(None, False), ("old", True)])
def test_killed_at_any_step_it_is_resumed(tmp_path: Path, before: str | None, overwrite: bool) -> None:
    states = kill(tmp_path, before, overwrite)
    assert sum(states.values()) > 40 and states["manifest alone"] and states["new"]


def test_files_of_others_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "r.avro"
    for name in ("r.avro.incomplete", "r.avro.mine", "r.manifest.json.bak", "s.avro.0a.incomplete"):
        (tmp_path / name).write_bytes(b"precious")
    (tmp_path / "r.manifest.json").write_bytes(b'{"version": 1}')
    assert attempt(path, "new", False) == "refused"
    (tmp_path / "r.manifest.json").unlink()
    (tmp_path / f"r.avro.{'0' * 16}.incomplete").write_bytes(b"of a run that was killed")
    assert attempt(path, "new", False) == "published" and pair_at(path) == "new"
    assert sorted(leftovers(path)) == ["r.avro.incomplete", "s.avro.0a.incomplete"]
    assert attempt(path, "other", False) == "refused" and pair_at(path) == "new"
    assert attempt(path, "other", True) == "published" and pair_at(path) == "other"


@pytest.mark.parametrize("place", ["r", "out/"])
def test_a_ranking_in_another_format_does_not_take_the_manifest(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rankings whose names differ in their endings would share one: the older would be left without any."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", ROWS)
    write(tmp_path / "key", "a key of the tests, which is no secret")

    def run(ending: str, *more: str) -> Done:
        output = (
            [f"--output={place}", f"--output-format={ending}"]
            if place.endswith("/")
            else [f"--output={place}.{ending}"]
        )
        return command(
            *(
                "run --quiet --input=rows.csv --domain-range=0:9 --mechanism=joint --k=2 --epsilon=1 "
                "--release-key=file:key"
            ).split(),
            *output,
            *more,
        )

    assert run("csv", "--release-id=week").status == 0
    before = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for name in ("week", "other"):
        refused = run("avro", f"--release-id={name}")
        assert refused.status == 2 and ".manifest.json exists and is kept: it is the manifest of" in refused.err
    assert run("csv", "--release-id=week").status == 0, "a repeat is none"
    assert {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    next(tmp_path.rglob("*.manifest.json")).with_suffix("").with_suffix(".csv").unlink()
    assert run("avro", "--release-id=other").status == 2, "the manifest proves what week was asked"
    assert run("avro", "--release-id=other", "--overwrite").status == 0


def test_what_lies_at_a_place_is_told_by_id_key_and_question(tmp_path: Path) -> None:
    path, windows = f"{tmp_path}/r.csv", [{"start": None, "end": None, "returned": 1}]
    asked = manifest(report="week", key_id="key", k=3, windows=windows)
    everything: list[Bounds] = [(None, None)]

    def lying(name: str = "week", key: str | None = "key", question: Manifest | None = asked) -> Lying:
        return what_lies(path, name, key, question, everything)

    assert lying().of == "nothing" and lying().obstacle(False) is None
    ranking = b"release_id\nweek\n"
    publish(path, ranking, asked, False)
    assert lying().of == "this release" and lying().windows == 1 and lying().obstacle(False) is None
    assert lying(key=None).of == "this release", "where the key is not known, an id tells"
    of_another_key = lying(key="other")
    for other, said in ((lying("other"), "exists and is kept"), (of_another_key, "under another release key")):
        assert other.of == "another release" and other.release == "week" and other.windows == 0
        assert said in str(other.obstacle(False)) and (other.obstacle(True) is None) == (other is not of_another_key)
    for lost in (None, path):  # whether or not the ranking is still there
        if lost is not None:
            Path(lost).unlink()
        assert lying().of == "this release" and lying().windows == (lost is None)
        changed = lying(question=manifest(report="week", key_id="key", k=4, windows=windows))
        assert changed.of == "another question" and changed.windows == 0
        for overwrite in (False, True):
            assert "release_id is taken" in str(changed.obstacle(overwrite))
            assert "with k 3 (now 4): ask the same again" in str(changed.obstacle(overwrite))
    publish(path, ranking, asked, False)
    Path(manifest_path(path)).unlink()
    assert lying().of == "this release" and lying().lost_manifest and not lying().windows
    assert lying("other").of == "another release"
    with pytest.raises(InvalidArgument, match="holds another ranking of week, whose manifest is lost"):
        publish(path, b"release_id\nweek\nweek\n", asked, False)
    publish(path, ranking, asked, False)
    assert lying().windows == 1, "the same ranking brings its manifest back"
    Path(path).write_bytes(b"release_id\nelse\n")
    with pytest.raises(InvalidArgument, match="was changed after it was published"):
        lying()


@pytest.mark.parametrize("overwrite", [False, True])
def test_one_release_has_one_answer_at_a_place(tmp_path: Path, overwrite: bool) -> None:
    """Whatever may be overwritten: another question, and other rows, are another release."""
    path, windows = f"{tmp_path}/r.csv", [{"start": None, "end": None, "returned": 1}]
    publish(path, b"item\na\n", manifest(report="week", key_id="key", k=3, windows=windows), False)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for ranking, k, said in ((b"item\na\n", 4, "with k 3"), (b"item\nb\n", 3, "holds another ranking of week")):
        with pytest.raises(InvalidArgument, match=said):
            publish(path, ranking, manifest(report="week", key_id="key", k=k, windows=windows), overwrite)
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    Path(path).unlink()
    asked = manifest(report="week", key_id="key", k=3, windows=windows)
    with pytest.raises(InvalidArgument, match="is lost, and was another ranking of week, as its manifest tells"):
        publish(path, b"item\nb\n", asked, overwrite)
    assert {file.name for file in tmp_path.iterdir()} == {"r.manifest.json"}
    publish(path, b"item\na\n", asked, overwrite)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before, "the same brings itself back"


def test_a_write_that_fails_leaves_neither_file(tmp_path: Path) -> None:
    (tmp_path / "r.avro").mkdir()
    with pytest.raises(OSError):
        publish(str(tmp_path / "r.avro"), *pair("new"), True)
    assert [path.name for path in tmp_path.iterdir()] == ["r.avro"]
    publish(str(tmp_path / "a" / "b" / "r.avro"), *pair("new"), False)
    assert pair_at(tmp_path / "a" / "b" / "r.avro") == "new"


def test_after_a_stop_nothing_more_is_published(tmp_path: Path) -> None:
    run = RunState()
    run.close()
    with pytest.raises(RuntimeError, match="nothing more is published"):
        publish(str(tmp_path / "r.avro"), *pair("new"), False, live=run)
    assert not list(tmp_path.iterdir())


def test_a_link_that_leads_nowhere_is_something(tmp_path: Path) -> None:
    path = tmp_path / "r.avro"
    path.symlink_to(tmp_path / "nowhere")
    assert attempt(path, "new", False) == "refused"
    assert attempt(path, "new", True) == "published" and pair_at(path) == "new"


@pytest.mark.long
def test_publishing_to_a_bucket_keeps_what_stands_and_detects_races(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without locks: what stands is looked at before, and whether the pair is whole afterwards."""
    with bucket_serving(tmp_path) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        path = f"gs://{BUCKET}/out/r.avro"
        for name, overwrite, winner in (("a", False, "a"), ("a", False, "a"), ("c", True, "c")):
            publish(path, *pair(name), overwrite)
            assert bucket.get("out/r.avro") == pair(winner)[0]
        with pytest.raises(InvalidArgument, match="exists and is kept"):
            publish(path, *pair("d"), False)
        assert bucket.names() == ["out/r.avro", "out/r.manifest.json"] and bucket.get("out/r.avro") == pair("c")[0]
        monkeypatch.setattr(store, "pair_at", lambda path: Pair(None, None))
        with pytest.raises(RuntimeError, match="another run has published"):
            publish(path, *pair("e"), True)
