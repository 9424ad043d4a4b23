"""A ranking whose manifest was changed by anybody is shown, or refused in one sentence: never a failure of ours."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from private_topk.pipelines.release.manifest import Manifest
from tests.nightly import nightly
from tests.pipelines.support import command, manifest, options, write

KINDS: dict[str, dict[str, object]] = {
    "of a range, counted": {"domain_range": "0:9", "publish_counts": 1},
    "of groups and windows": {
        "domain": "items.txt",
        "group_column": "of",
        "groups": "groups.txt",
        "window": "1d",
        "from_": "2026-01-05",
        "to": "2026-01-07",
        "privacy_unit": "user",
        "max_items_per_user": 2,
    },
}


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", [{"user": "u", "item": "1", "time": "2026-01-05", "of": "a"}])
    write(tmp_path / "items.txt", "1\n2\n3\n")
    write(tmp_path / "groups.txt", "a\nb\n")
    more = options(input="rows.csv", mechanism="joint", k=2, epsilon=1, output="r.csv", **KINDS[request.param])
    done = command("run", "--quiet", *more)
    assert done.status == 0, done.err
    return json.loads(Path("r.manifest.json").read_text())


def changed(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each fact, and each within one, missing or of another kind."""
    inner = [(name, own) for name, value in manifest.items() if isinstance(value, dict) for own in value]
    inner += [("windows", own) for own in manifest["windows"][0]]
    for path in [(name,) for name in manifest if name != "ranking_sha256"] + inner:
        for value in (None, "x", [1], {"a": 1}, 0, True, -1.5, ...):
            found = copy.deepcopy(manifest)
            place = found if len(path) == 1 else found[path[0]]
            place = place[0] if isinstance(place, list) else place
            if value is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            yield found


WAYS = ["--sign-off"], ["--registry"], [], ["--html", "page.html", "--overwrite"]


@pytest.mark.parametrize("at_once", [1, nightly(len(WAYS))])
@pytest.mark.parametrize("made", KINDS, indirect=True)
def test_a_changed_manifest_is_shown_or_refused(made: dict[str, Any], at_once: int) -> None:
    """By day in one way each, in turn."""
    shown = refused = 0
    for number, facts in enumerate(changed(made)):
        Path("r.manifest.json").write_text(json.dumps(facts))
        for more in (*WAYS, *WAYS)[number % len(WAYS) :][:at_once]:
            done = command("show", "r.csv", *more)
            assert done.status in (0, 2) and done.err.count("\n") == (done.status == 2), (facts, done.err)
        shown, refused = shown + (done.status == 0), refused + (done.status == 2)
    assert shown > 50 and refused > 50, "both have been met"


@pytest.mark.parametrize("content", ["[1]", '{"windows": [1]}', '{"privacy": {"epsilon": NaN}}'])
def test_an_unreadable_manifest_is_refused(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "r.jsonl", "")
    write(tmp_path / "r.manifest.json", content)
    done = command("show", "r.jsonl")
    assert done.status == 2 and "r.manifest.json is no manifest of a ranking: copy" in done.err


@pytest.mark.parametrize("made", [next(iter(KINDS))], indirect=True)
def test_a_manifest_that_an_editor_has_saved_is_called_so(made: dict[str, Any]) -> None:
    place = Path("r.manifest.json")
    text = place.read_text()
    place.write_text(text, newline="\r\n")
    assert command("show", "r.csv").status == 0, "ends of lines say nothing"
    marked = "r.manifest.json is a manifest and was changed: an editor saved it in another encoding, or with a"
    for content, said in (
        *((text.encode(encoding), marked) for encoding in ("utf-8-sig", "utf-16")),
        (text.replace(",", ",,", 1).encode(), "in double quotes: line 2 column "),
        (b"[" * 100_000, "r.manifest.json is no manifest of a ranking, being no JSON: "),
    ):
        place.write_bytes(content)
        done = command("show", "r.csv")
        assert done.status == 2 and said in done.err and "cop" in done.err, done


def test_the_page_on_formats_has_every_field() -> None:
    page = Path(__file__).parents[3] / "docs" / "formats.md"
    section = page.read_text().partition("## The manifest\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(Manifest.__struct_encode_fields__)


def test_a_contradictory_manifest_is_refused() -> None:
    """A promise that is missing, a total without a share, a list of no size: nothing is filled in."""
    total = {"epsilon": 1, "delta": 0, "neighbours": "replace-one", "unit": "x", "guarantee": "pure", "windows": 3}
    for facts in ({"privacy": None}, {"private": False}, {"privacy": total}, {"domain": {"kind": "public"}}, {"k": 0}):
        with pytest.raises(ValueError):
            manifest(**facts)
    assert manifest(private=False, privacy=None).decode(manifest().encode()) == manifest()


def test_a_release_id_keeps_its_key_in_the_file() -> None:
    """In Python it is no report: that is a run. Manifests that were written under the key are read as before."""
    one = manifest(report="weekly/2026-01-05")
    assert one.release_id == "weekly/2026-01-05" and one.to_json()["report"] == one.release_id
    assert Manifest.decode(one.encode()) == one
