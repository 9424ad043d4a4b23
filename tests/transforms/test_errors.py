"""One refusal, shown by every door in its own words, with the name that was probably meant."""

from __future__ import annotations

import pickle
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, get_dofn_specs, on_timer

from private_topk.transforms.errors import InvalidArgument, crosses, did_you_mean, verbatim
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
            "--zone": "--time-zone",
        },
    ),
    (list(MECHANISMS), {"jiont": "joint", "joint_set": "joint-set", "gausian": "gaussian", "top-stabel": "top-stable"}),
]


@pytest.mark.parametrize(("known", "meant"), MEANT)
def test_a_misspelt_name_gets_the_intended_suggestion(known: list[str], meant: dict[str, str]) -> None:
    found = {word: did_you_mean(word, known) for word in meant}
    assert found == {word: f"did you mean {name}?" for word, name in meant.items()}


def test_a_name_in_another_unicode_form_is_said_to_be_that() -> None:
    assert did_you_mean("titr\u00e9 x", ["titre\u0301 x"]) == "did you mean titre\u0301 x (in another Unicode form)?"


@pytest.mark.parametrize("word", ["zcdp-x", "exponential", "x", "", "-" * 9, "y" * 100_000])
def test_an_unlike_name_gets_the_remedy_and_no_suggestion(word: str) -> None:
    assert did_you_mean(word, MECHANISMS, "see the list") == "see the list"
    assert did_you_mean(word, []) == ""


@pytest.mark.parametrize("word", ["user", "item", "item,country"])
def test_a_name_that_shares_some_letters_is_not_near(word: str) -> None:
    assert did_you_mean(word, ["customer", "title", "country"]) == ""


class _Holds(beam.DoFn):
    BAG, END = BagStateSpec("bag", BytesCoder()), TimerSpec("end", TimeDomain.WATERMARK)

    def process(self, element: Any, bag: Any = beam.DoFn.StateParam(BAG)) -> None:  # noqa: ANN401, B008
        """A bag that nothing else names."""

    @on_timer(END)
    def end(self, timer: Any = beam.DoFn.TimerParam(END)) -> None:  # noqa: ANN401, B008
        """A timer that nothing else names."""


@crosses
class _Crosses(_Holds):
    def setup(self) -> None:
        """As most have one."""


def test_beam_sees_state_and_timers_of_a_dofn_and_none_of_its_own_methods() -> None:
    assert get_dofn_specs(_Crosses()) == get_dofn_specs(_Holds()) == ({_Holds.BAG}, {_Holds.END})
    listed = set(dir(_Crosses()))
    assert {"setup", "process", "end"} <= listed and not {"display_data", "__init__", "__dir__"} & listed
