from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from private_topk.transforms import release as module
from private_topk.transforms.release import Release, ReleaseKey, release_seed
from tests.refusals import refused

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> ReleaseKey:
    monkeypatch.setenv("PRIVATE_TOPK_TEST_KEY", SECRET)
    return ReleaseKey.parse("env:PRIVATE_TOPK_TEST_KEY")


def test_file_and_environment_give_the_same_key(key: ReleaseKey, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET + "\n")
    other = ReleaseKey.parse(f"file:{tmp_path / 'key'}")
    assert other.secret() == key.secret() == SECRET.encode() and other.key_id() == key.key_id()


def test_each_purpose_derives_a_key_of_its_own(key: ReleaseKey) -> None:
    purposes = ["user hash", "item hash", "release", "key id", "input fingerprint", "input record"]
    purposes += ["choice of items", "choice of windows", "choice of groups"]
    derived = {key.derive(purpose) for purpose in purposes}
    assert len(derived) == len(purposes) and all(len(value) == 32 and SECRET.encode() not in value for value in derived)


@pytest.mark.parametrize(("what", "other"), [("DRAWS", "release 0"), ("_package", lambda: "0.9")])
def test_a_worker_of_another_version_draws_nothing(
    key: ReleaseKey, monkeypatch: pytest.MonkeyPatch, what: str, other: object
) -> None:
    job = pickle.dumps(Release(key, "r"))
    here = pickle.loads(job)
    seed = release_seed(Release(key, "r"), "w", {}, b"")
    assert here == Release(key, "r") and release_seed(here, "w", {}, b"") == seed
    onwards = pickle.dumps(here)
    monkeypatch.setattr(module, what, other)
    for carried in (job, onwards):  # of the launcher, however many processes lie between
        with refused("", "a worker has private-topk", ", and the launcher private-topk", "install the same version"):
            release_seed(pickle.loads(carried), "w", {}, b"")
    assert (release_seed(Release(key, "r"), "w", {}, b"") == seed) is (what != "DRAWS")


def test_the_key_never_shows(key: ReleaseKey) -> None:
    release = Release(key, "weekly 2026-01")
    for shown in (repr(key), repr(release), key.key_id(), str(release), pickle.dumps(release).decode("latin-1")):
        assert SECRET not in shown
    fresh = ReleaseKey.fresh()
    assert fresh.secret().hex() not in repr(fresh) and repr(fresh.secret()) not in repr(fresh)


def test_a_fresh_release_is_a_new_one() -> None:
    first, second = Release.fresh(), Release.fresh()
    assert first.id != second.id and first.key.secret() != second.key.secret()
    assert pickle.loads(pickle.dumps(first)).key.secret() == first.key.secret()


@pytest.mark.parametrize(
    "text", [SECRET, "", "file:", "env:", "http://x", "gcp-secret:projects/p/secrets/s", "gcp-secret:x"]
)
def test_an_invalid_key_reference_is_refused_without_showing_it(text: str) -> None:
    with refused("release_key", "must") as caught:
        ReleaseKey.parse(text)
    with refused("release_key", "must"):
        ReleaseKey(text)
    assert not text or text.partition(":")[2] in ("", *str(caught.value).split()) or text not in str(caught.value)


def test_a_key_in_place_of_its_reference_is_refused_without_showing_it() -> None:
    secret: Any = b"abc"
    with refused("release_key", "must be a text such as file:PATH, got bytes: ReleaseKey.held(...) takes the key"):
        ReleaseKey(secret)


def test_unreadable_missing_and_short_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("release_key", "cannot be read: No such file"):
        ReleaseKey.parse(f"file:{tmp_path / 'none'}").secret()
    monkeypatch.delenv("PRIVATE_TOPK_NO_KEY", raising=False)
    with refused("release_key", "PRIVATE_TOPK_NO_KEY is not set"):
        ReleaseKey.parse("env:PRIVATE_TOPK_NO_KEY").secret()
    monkeypatch.setenv("PRIVATE_TOPK_SHORT", "hunter2")
    with refused("release_key", "at least 16 bytes") as caught:
        ReleaseKey.parse("env:PRIVATE_TOPK_SHORT").secret()
    assert "hunter2" not in str(caught.value)
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbfhunter2 in full length\n")
    with refused("release_key", "begins with a byte order mark", "tail -c +4") as caught:
        ReleaseKey.parse(f"file:{tmp_path / 'marked'}").secret()
    assert "hunter2" not in str(caught.value)
    with refused("release_key", "must have at most 65,536 bytes"):
        ReleaseKey.parse("file:/dev/zero").secret()


def test_a_key_of_any_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVATE_TOPK_BYTES", os.fsdecode(bytes(range(128, 160))))
    assert ReleaseKey.parse("env:PRIVATE_TOPK_BYTES").secret() == bytes(range(128, 160))


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 501, "\x1b[31m"])
def test_an_invalid_release_id_is_refused(key: ReleaseKey, name: str) -> None:
    with refused("release_id", "1 to 500 printable"):
        Release(key, name)


def test_everything_the_answer_depends_on_changes_the_seed(key: ReleaseKey) -> None:
    base = {"release": Release(key, "a"), "window": "w", "parameters": {"k": 1, "epsilon": 1.0}, "data": b"\1" * 32}
    changes = [
        {},
        {"release": Release(ReleaseKey.fresh(), "a")},
        {"release": Release(key, "b")},
        {"window": "v"},
        {"parameters": {"k": 2, "epsilon": 1.0}},
        {"parameters": {"k": 1, "epsilon": 1.5}},
        {"parameters": {"k": 1}},
        {"data": b"\2" * 32},
    ]
    seeds = [release_seed(**{**base, **change}) for change in changes]
    assert len(set(seeds)) == len(changes)
    assert seeds[0] == release_seed(**{**base, "parameters": {"epsilon": 1.0, "k": 1}}), "the order of names is nothing"
