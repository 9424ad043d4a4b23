"""What is said of runners, of Beam's options and of places that need credentials: before anything is looked at."""

from __future__ import annotations

import os
import time

import pytest

from private_topk.pipelines.launching import check_words, launch_of, reach_files
from private_topk.runners import UnknownArgument
from private_topk.transforms.errors import Refusal


@pytest.mark.parametrize("runner", ["", "flnk", "Direct Runner", "{k}"])
def test_a_runner_that_is_not_there(runner: str) -> None:
    with pytest.raises(
        Refusal, match=r"^runner must be one of direct, flink, prism, portable, dataflow, got "
    ) as caught:
        check_words(runner, [])
    assert runner in str(caught.value)
    assert str(caught.value).endswith("did you mean flink?") == (runner == "flnk")


def test_a_word_that_beam_does_not_know() -> None:
    with pytest.raises(UnknownArgument) as caught:
        check_words("direct", ["--direct_num_worker=2"])
    assert "--direct_num_workers" in caught.value.known


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--direct_num_workers=x", "Beam's options cannot be read: argument --direct_num_workers: invalid int value"),
        ("--direct_num_workers=-3", "--direct_num_workers must be 1 and --direct_running_mode in_memory"),
        ("--direct_num_workers=2", "listen on every address of this machine"),
        ("--direct_running_mode=multi_threading", "one fills the cores by itself, see --cores"),
        ("--direct_running_mode=x", "argument --direct_running_mode: invalid choice: 'x'"),
        ("--cores=0", "--cores must be at least 1, got 0"),
    ],
)
def test_beam_s_options_are_refused_in_one_sentence(word: str, said: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(Refusal) as caught:
        launch_of("direct", [word])
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")


def test_the_direct_runner_fills_the_cores_that_it_may_use() -> None:
    may_use = len(os.sched_getaffinity(0))
    assert launch_of("direct", []).cores == may_use
    assert launch_of("direct", ["--cores=3"]).cores == launch_of("direct", ["--cores", "3"]).cores == 3


@pytest.mark.parametrize(
    ("runner", "words", "told"),
    [
        ("direct", [], True),
        ("direct", ["--direct_runner_bundle_repeat=1"], False),
    ],
)
def test_rows_stay_where_they_are_only_with_one_worker_in_this_process_that_repeats_nothing(
    runner: str, words: list[str], told: bool
) -> None:
    launch = launch_of(runner, words)
    assert launch.by_reference is told and not launch.listening().by_reference


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # noqa: ANN001
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"NO_GCE_CHECK": "true", "HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("field", ["input", "domain", "output", "snapshot"])
def test_places_of_google_without_credentials_are_refused_at_once(no_credentials: None, field: str) -> None:
    """Beam would look for credentials for minutes, and go on without any."""
    began = time.monotonic()
    with pytest.raises(Refusal, match=f"^{field} gs://b/x needs Google credentials, and there are none here: `gcloud"):
        reach_files([], {field: "gs://b/x"})  # type: ignore[misc]
    assert time.monotonic() - began < 60  # also on a machine that is busy
    reach_files(["--no_auth"], {field: "gs://b/x"})  # type: ignore[misc]
    reach_files([], {field: "x.csv"})  # type: ignore[misc]
