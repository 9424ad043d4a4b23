"""One refusal, shown by every door in its own words, with the name that was probably meant."""

from __future__ import annotations

import pickle

import pytest

from private_topk.transforms.errors import InvalidArgument, did_you_mean, verbatim
from private_topk.transforms.mechanisms import MECHANISMS

GIVEN = "out/{start}-{{k}}.avro"


@pytest.mark.parametrize(
    ("refusal", "plain", "option"),
    [
        (
            InvalidArgument("counts_delta", "needs {counts}", "give the epsilon"),
            "counts_delta needs counts: give the epsilon",
            "--counts-delta needs --counts: give the epsilon",
        ),
        (
            InvalidArgument("", "{domain} and {unknown_domain} exclude each other", "give one"),
            "domain and unknown_domain exclude each other: give one",
            "--domain and --unknown-domain exclude each other: give one",
        ),
        (
            InvalidArgument("k", "must be positive, got {0}"),
            "k must be positive, got {0}",
            "--k must be positive, got {0}",
        ),
        (
            InvalidArgument("output", f"must be another path, or {{overwrite}} be given: {verbatim(GIVEN)} exists"),
            f"output must be another path, or overwrite be given: {GIVEN} exists",
            f"--output must be another path, or --overwrite be given: {GIVEN} exists",
        ),
    ],
)
def test_a_refusal_shows_fields_by_the_names_of_each_interface(
    refusal: InvalidArgument, plain: str, option: str
) -> None:
    """What was given is shown as it is, braces and all; and a refusal travels between processes whole."""
    for same in (refusal, pickle.loads(pickle.dumps(refusal))):
        assert str(same) == plain and same.shown(lambda name: "--" + name.replace("_", "-")) == option
        assert (same.field, same.rule, same.remedy) == (refusal.field, refusal.rule, refusal.remedy)


FLAGS = [
    f"--{name}"
    for name in (
        "input user-column item-column groups group-column domain "
        "mechanism epsilon neighbours max-items-per-user publish-counts window "
        "time-zone release-id output overwrite"
    ).split()
]
MEANT = [
    (
        FLAGS,
        {
            "--user-col": "--user-column",
            "--user_column": "--user-column",
            "--User-Column": "--user-column",
            "--inptu": "--input",
            "--inputs": "--input",
            "--eps": "--epsilon",
            "--espilon": "--epsilon",
            "--publish-count": "--publish-counts",
            "--neighbors": "--neighbours",
            "--max-items": "--max-items-per-user",
            "--windwo": "--window",
            "--out": "--output",
            "--timezone": "--time-zone",
            "--group-by": "--group-column",
        },
    ),
    (list(MECHANISMS), {"jiont": "joint", "joint_set": "joint-set", "gausian": "gaussian", "top-stabel": "top-stable"}),
]


@pytest.mark.parametrize(("known", "meant"), MEANT)
def test_a_misspelt_name_gets_the_intended_suggestion(known: list[str], meant: dict[str, str]) -> None:
    found = {word: did_you_mean(word, known) for word in meant}
    assert found == {word: f"did you mean {name}?" for word, name in meant.items()}


@pytest.mark.parametrize("word", ["zcdp-x", "exponential", "x", "", "-" * 9, "y" * 100_000])
def test_an_unlike_name_gets_the_remedy_and_no_suggestion(word: str) -> None:
    assert did_you_mean(word, MECHANISMS, "see the list") == "see the list"
    assert did_you_mean(word, []) == ""
