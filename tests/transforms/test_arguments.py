"""Python's doors, called wrongly: refused as any other argument, and `help` still shows what they take."""

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np
import polars as pl
import pytest

import private_topk
from private_topk import (
    Amounts,
    CountBudget,
    Gaussian,
    Groups,
    Joint,
    Period,
    PrivateTopK,
    PublicDomain,
    RangeDomain,
    Release,
    UnknownDomain,
    dry_run,
    preview,
    rank,
)
from private_topk.pipelines.budget import Budget, Ledger, Request
from private_topk.pipelines.preview import InAmounts, PublicCounts, Reaches, Released, least_epsilon
from private_topk.runners import prepare
from private_topk.transforms.counters import read_dropped_rows
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS, RandomBits

DOORS: list[Callable[..., Any]] = [
    *(Amounts, CountBudget, Groups, Period.of, PrivateTopK, RangeDomain, Release, UnknownDomain, preview),
    *(rank, dry_run, Budget.of, Ledger, Request.of, PublicCounts, Reaches, least_epsilon, prepare, read_dropped_rows),
    *MECHANISMS.values(),
]

ROWS = pl.DataFrame({"user": ["private ann"], "item": ["private tea"], "time": ["private noon"]})
ASKED: dict[str, Any] = {"k": 1, "epsilon": 1.0, "domain": ["a", "b"]}
SHAPE = Reaches({1: 0.9, 2: 0.5}, 2, 10)
GIVEN = {
    "a frame": ROWS,
    "a frame of pandas": ROWS.to_pandas(),
    "a column": ROWS["user"],
    "a column of pandas": ROWS["user"].to_pandas(),
    "an array": ROWS["user"].to_numpy(),
    "columns": ROWS.to_dict(as_series=False),
    "values": ROWS["user"].to_list() * 2,
}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__qualname__)
def test_every_door_refuses_what_its_signature_does_not_fit(door: Callable[..., Any]) -> None:
    shown = inspect.signature(door).parameters
    needed = [name for name, its in shown.items() if its.default is inspect.Parameter.empty]
    assert "self" not in shown and "given" not in shown
    wrong: list[tuple[tuple[Any, ...], dict[str, Any], str, str]] = [
        ((), {"no_such": 1}, "", "there is no argument no_such"),
        (tuple([1] * 40), {}, "", "has too many positional arguments: give them by name"),
    ]
    if needed:
        wrong += [((), {}, needed[0], f"must be given: {door.__qualname__} needs {', '.join(needed)}")]
        wrong += [((1,), {needed[0]: 1}, "", f"multiple values for argument '{needed[0]}'")]
    for args, given, field, said in wrong:
        with pytest.raises(InvalidArgument) as caught:
            door(*args, **given)
        assert caught.value.field == field and said in str(caught.value) and caught.value.__context__ is None


def test_flags_may_be_what_comparing_columns_gives() -> None:
    assert PrivateTopK(**ASKED, reveal_active_windows=np.False_).reveal_active_windows is False
    assert Period.of("2026-01-05", "2026-01-19", "7d", to_date=np.True_).to_date is True


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Gaussian(epsilon=1.0), "delta must be given: Gaussian needs epsilon, delta"),
        (lambda: Joint(eps=1.0), "there is no argument eps: did you mean epsilon?"),
        (lambda: Joint(1.0, neighbors="add-remove"), "did you mean neighbours?"),
        (lambda: PrivateTopK("2", Joint(1.0), ["a", "b"]), "k must be a whole number, got '2'"),
        (lambda: Joint(1.0)([3, 2], "1", RandomBits.fresh()), "k must be a whole number, got '1'"),
        (lambda: Joint(1.0)([3, 2], 1, b"bits"), "bits must be RandomBits: use"),
        (lambda: Reaches(10, 2, 10), "reaches must be shares by rank, such as {1: 0.04, 50: 0.005}, got int"),
        (lambda: PublicDomain(["tea"]), "digest must be given: a list of items becomes a domain by PublicDomain.of"),
        (lambda: PrivateTopK(1, epsilon=1.0, delta=2, domain=["a"]), "delta must lie strictly between 0 and 1, got 2"),
        (lambda: rank(ROWS, **ASKED, skew=2), 'there is no argument skew: give parameters={"skew": ...}'),
        (lambda: rank(ROWS, **ASKED, seed=2), "there is no argument seed: a draw is repeated by release="),
        (lambda: rank(ROWS, **ASKED, start="2026-01-05"), "there is no argument start: give period=Period.of(START, "),
        (lambda: rank(ROWS, **ASKED, slide="1d"), 'slide: it is of the period: Period.of(..., slide="1d")'),
        (
            lambda: rank(ROWS, **ASKED, time_zone="UTC"),
            'it is of the period: Period.of(..., time_zone="Europe/Berlin")',
        ),
        (lambda: rank(ROWS, **ASKED, zone="UTC"), 'it is of the period: Period.of(..., time_zone="Europe/Berlin")'),
        (lambda: rank(ROWS, **ASKED, items=["a"]), "the public list of items is domain=LIST"),
        (lambda: rank(ROWS, **ASKED, weight="w"), "amounts are ranked by amounts=Amounts(max_value=60), value=COLUMN"),
        (lambda: rank(ROWS, 1, epsilon=1.0, domain=[True]), "got bool: write it as text"),
        (lambda: rank(ROWS, **ASKED, to_date=True), "it is of the period: Period.of(..., to_date=True)"),
        (lambda: rank(ROWS, topk=3, epsilon=1.0, domain=["a"]), "there is no argument topk: did you mean k?"),
        (lambda: Period.of("2026-01-05", "2026-01-12", zone="UTC"), "argument zone: did you mean time_zone?"),
        (lambda: rank(ROWS, **ASKED, counts=0.5), "no argument counts: noisy counts have an epsilon of their own: pub"),
        (
            lambda: rank(ROWS, 1, epsilon=1.0, domain=ROWS.to_pandas()["item"].value_counts()),
            "got a column of numbers with a name for each, as .value_counts() makes it: give .index for the names",
        ),
        (lambda: rank(ROWS, **ASKED, **{"from": "2026-01-05"}), "no argument from: give period=Period.of(START, "),
        (lambda: rank(ROWS, **ASKED, like="sample"), "no argument like: `preview(...)` tells what to expect"),
        (lambda: rank(ROWS, **ASKED, dry_run=True), "no argument dry_run: `private_topk.dry_run(...)` takes what"),
        (lambda: rank(ROWS, **ASKED, found="top.csv"), "may be a list: domain=found.items"),
        (lambda: rank(**ASKED, input="plays.csv"), "no argument input: rows are the first argument"),
        (lambda: rank(ROWS, **ASKED, overwrite=True), "give it to .write(PATH, overwrite=True)"),
        (lambda: PrivateTopK(**ASKED, time="when"), "no argument time: give the elements timestamps"),
        (lambda: PrivateTopK(**ASKED, show_dropped_rows=True), "Beam's counters of the namespace private_topk"),
        (
            lambda: rank(ROWS, 1, ["a", "b"], epsilon=1.0),
            "mechanism must be a name or an object, got a list: write domain=",
        ),
        (
            lambda: rank(ROWS, **ASKED, unknown_domain=True, delta=1e-6),
            "count at most; no mechanism is named, and restricted-gumbel takes no list of items beside an unknown "
            "domain: leave the list out, or take weighted-gaussian",
        ),
        (lambda: rank(ROWS, **ASKED, time_unit="s"), "time_unit needs period: give Period.of"),
        (lambda: rank(ROWS["user"], **ASKED), "rows must be a table, got Series: give a polars or pandas frame"),
        # As pandas 3 has it: it hands over a stream, of values without names.
        (lambda: rank(type("Series", (), {"__arrow_c_stream__": None})(), **ASKED), "rows must be a table, got Series"),
        (lambda: rank(ROWS, **ASKED, unknown_domain="no"), "unknown_domain must be True or False, got str"),
        (lambda: Period.of("2026-01-05", "2026-01-19", "7d", to_date="no"), "to_date must be True or False, got str"),
        (lambda: Released(None), "noisy_counts must be numbers, got NoneType: give those of one ranking"),
        (lambda: beam.Pipeline() | PrivateTopK(**ASKED), "neither to a pipeline itself nor to sev"),
        (lambda: ROWS.to_pandas() | PrivateTopK(**ASKED), "got a DataFrame: rank(...) takes tables in memory"),
        (lambda: ROWS.to_arrow() | PrivateTopK(**ASKED), "got a Table: rank(...) takes tables in memory"),
        (lambda: InAmounts(SHAPE, 5, 3), "amounts must be Amounts, got int"),
        (lambda: InAmounts(SHAPE, Amounts(5)), "each must be given with Reaches, which tell numbers of users: it is"),
        (lambda: InAmounts({"DE": SHAPE}, Amounts(5)), "expected must be counts of users, got dict: such as Reaches"),
        (lambda: SHAPE.in_groups(5), "sizes must be Sequence[int] | Mapping[str, int], got int"),
        (lambda: SHAPE.in_groups("5"), "sizes must be Sequence[int] | Mapping[str, int], got str"),
        (lambda: preview(SHAPE, 1, 1.0, tell=5), "tell must be Callable[[str], None], got int"),
        (lambda: preview(SHAPE, 1, 1.0, max_items_per_user="5"), "max_items_per_user must be int | None, got str"),
        (lambda: least_epsilon(SHAPE, {"joint": 1}, 0.9), "questions must be Iterable[Question], got dict"),
        (lambda: Period.of("2026-01-05", "2026-01-19", "7d", slide=1), "slide must be str | timedelta | None, got int"),
        (lambda: Period.of("2026-01-05", "2026-01-19", time_zone=None), "time_zone must be str, got NoneType"),
        (lambda: read_dropped_rows(None), "metrics must be MetricResults, got NoneType"),
        (lambda: prepare(None, []), "name must be str, got NoneType"),
        (lambda: Budget.of("plays", "1"), "epsilon must be a positive finite number, got '1'"),
        (lambda: Budget.of("plays", 1, "0"), "delta must be a number, at least 0 and below 1, got '0'"),
    ],
)
def test_slips_of_a_newcomer_are_answered(call: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert said in str(caught.value)


def test_a_checked_class_is_the_same_class() -> None:
    for made in (Gaussian(1.0, 1e-6), Groups(["a"], per_user=1), Amounts(60)):
        assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == replace(made) == made
    assert str(inspect.signature(Joint)).startswith("(epsilon: ") and "skew" in str(inspect.signature(Joint))
    assert {"epsilon", "period", "privacy_unit"} <= inspect.signature(private_topk.preview).parameters.keys()


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("door", [rank, PrivateTopK, preview], ids=lambda door: door.__qualname__)
def test_rows_in_the_place_of_another_argument_are_refused_and_not_shown(door: Callable[..., Any], given: str) -> None:
    """As in `rank(rows, user=rows["user"], ...)`, whose refusal printed the users."""
    first: dict[str, Any] = {"rank": {"rows": ROWS}, "preview": {"expected": SHAPE}}.get(door.__name__, {})
    lists = ("rows", "domain", "groups", "mechanism")
    for name in inspect.signature(door).parameters.keys() - lists:
        with pytest.raises(InvalidArgument) as caught:
            door(**{**first, **ASKED, name: GIVEN[given]})
        assert "private" not in str(caught.value), name
