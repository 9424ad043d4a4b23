"""The contract of every mechanism, whatever its law: one check for each rule."""

from __future__ import annotations

import contextlib
import json
import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from private_topk.transforms.mechanisms import Cost, Mechanism, RandomBits
from private_topk.transforms.mechanisms.mechanism import ALL
from private_topk.transforms.mechanisms.registry import check_name
from private_topk.transforms.spec import check_made

CASES = {
    "ordinary": [9, 7, 7, 4, 2, 0, 0, 1],
    "all equal": [5] * 8,
    "all zeros": [0] * 8,
    "widely gapped": [10**9, 10**6, 10**4, 300, 20, 7, 1, 0],
    "near 2**62": [2**62, 2**62 - 1, 2**62 - 1, 5, 2**61, 0, 1, 2**62],
    "one item": [3],
}


def check_mechanism(mechanism: Mechanism) -> None:
    """Make all `CHECKS`: its name, answers, repetition, integer types, winners, refusals, parameters. Cost:
    hundreds of draws.

    Raises AssertionError at the first that fails; ValueError where it is no mechanism, or one that refuses.
    """
    check_made(mechanism)
    for check in CHECKS:
        check(mechanism)


def has_a_name_of_its_own(mechanism: Mechanism) -> None:
    """No other mechanism draws from the seed of its releases."""
    check_name(type(mechanism))


def distinct_indices_in_range(mechanism: Mechanism) -> None:
    """k distinct indices (at most k in an unknown domain); a set in the order of the items, which tells no ranks."""
    for case, counts in CASES.items():
        for k in sorted({1, min(3, len(counts)), len(counts)}):
            answer = mechanism(np.array(counts), k, RandomBits.keyed(b"contract"))
            where = f"counts {case}, k = {k}: {answer}"
            assert answer.dtype == np.int64 and answer.ndim == 1, where
            assert len(set(answer.tolist())) == len(answer) <= k, where
            assert mechanism.guarantee.domain == "unknown" or len(answer) == k, where
            assert all(0 <= i < len(counts) for i in answer), where
            if mechanism.guarantee.answer == "set":
                assert answer.tolist() == sorted(answer.tolist()), f"{where}: any other order may tell the ranks"


def same_key_same_answer_and_next_draw_differs(mechanism: Mechanism) -> None:
    """An answer is a function of counts and bits, and two draws share none of these."""
    counts = np.full(1000, 10**6)
    first, second = RandomBits.keyed(b"key"), RandomBits.keyed(b"key")
    answers = [mechanism(counts, 10, first).tolist() for _ in range(3)]
    assert answers == [mechanism(counts, 10, second).tolist() for _ in range(3)], "one key gave two answers"
    if mechanism.guarantee.domain == "public":
        assert answers[0] != answers[1] != answers[2], "two draws gave one answer, among 1000 equal counts"


def any_integer_type(mechanism: Mechanism) -> None:
    """Narrow and unsigned counts do not wrap."""
    for dtype in (np.uint8, np.int8, np.uint32, np.int32, np.uint64):
        counts = np.array([100, 90, 3, 0, 50], dtype)
        wide = mechanism(counts.astype(np.int64), 2, RandomBits.keyed(b"dtype"))
        assert mechanism(counts, 2, RandomBits.keyed(b"dtype")).tolist() == wide.tolist(), dtype


def leaves_the_counts_alone(mechanism: Mechanism) -> None:
    """Counts may be read-only."""
    counts = np.array([4, 9, 1, 7])
    counts.setflags(write=False)
    mechanism(counts, 2, RandomBits.keyed(b"read only"))
    assert counts.tolist() == [4, 9, 1, 7]


def obvious_winners_win_wherever_they_stand(mechanism: Mechanism) -> None:
    """Permutation equivariance at its sharpest, in any order, which a score may leave open: a quarter of 20 answers,
    since some may be drawn whatever the counts are, and a loss may see the first winner alone; `check_law` sees all in
    distribution.
    """
    for shift in range(5):
        counts = np.roll(np.array([10**15, 10**12, 0, 0, 0]), shift)
        bits, winners = RandomBits.keyed(b"roll"), {shift % 5, (shift + 1) % 5}
        answers = Counter(frozenset(mechanism(counts, 2, bits).tolist()) for _ in range(20))
        often = set(answers.most_common(1)[0][0])
        told = f"counts {counts.tolist()}: a quarter of 20 answers must be {winners}, got {often} most often"
        assert answers[frozenset(winners)] >= 5, told


def refuses_bad_arguments(mechanism: Mechanism) -> None:
    """Bad arguments are refused in the same words by every mechanism, and before anything is drawn."""
    cases: list[tuple[object, object, type[Exception], str]] = [
        ([[1, 2]], 1, ValueError, "one-dimensional"),
        ([], 1, ValueError, "at least one item"),
        ([1.0, 2.0], 1, TypeError, "integers"),
        ([3, -1], 1, ValueError, "at least 0"),
        (np.array([2**63], np.uint64), 1, ValueError, "below 2"),
        ([1, 2], 0, ValueError, "k must be at least 1, got 0"),
        ([1, 2], 1.5, ValueError, "k must be a whole number"),
    ]
    if mechanism.guarantee.domain == "public":
        cases.append(([1, 2], 3, ValueError, "k must be at most the number of items, got k = 3 and 2 items"))
    else:
        cases.pop(1)
        assert len(mechanism([], 1, RandomBits.keyed(b"bad"))) == 0, "no item need have been seen"
    for counts, k, error, message in cases:
        with _raises(error, message):
            mechanism(counts, k, RandomBits.keyed(b"bad"))  # type: ignore[arg-type]
    with _raises(ValueError, "RandomBits.fresh"):
        mechanism([1, 2], 1, b"not a keystream")  # type: ignore[arg-type]


def numbers_of_any_kind_are_one_parameter(mechanism: Mechanism) -> None:
    """One budget gives one seed however it is written, also with large tied counts, decided by interval arithmetic."""
    fields = _fields(mechanism)
    integers = {name: value for name, value in fields.items() if type(value) is int}
    plain = type(mechanism)(**{**fields, "epsilon": 2.0})
    for epsilon in (2, np.int64(2), np.float64(2), np.float32(2)):
        same = type(mechanism)(**{**fields, **{n: np.int64(v) for n, v in integers.items()}, "epsilon": epsilon})
        assert json.dumps(same.parameters()) == json.dumps(plain.parameters()), type(epsilon)
        for counts in ([9, 7, 7], [2**62, 2**62 - 1, 2**62 - 1]):
            answers = [m(counts, 3, RandomBits.keyed(b"kind")).tolist() for m in (same, plain)]
            assert answers[0] == answers[1], (type(epsilon), answers)


def noise_grows_with_the_cap(mechanism: Mechanism) -> None:
    """Where amounts are added up, the whole cap of one user alone does not win by itself: 20 draws at epsilon 0.1."""
    if mechanism.guarantee.metric == "amounts":
        capped = type(mechanism)(**{**_fields(mechanism), "epsilon": 0.1}, cap=10**6)
        bits = (RandomBits.keyed(b"cap %d" % number) for number in range(20))
        answers = [capped([10**6] + [0] * 7, 1, each).tolist() for each in bits]
        assert answers != [[0]] * 20, (
            "the noise is that of counts though a user moves a sum by the cap: see self.sensitivity"
        )


def is_its_parameters(mechanism: Mechanism) -> None:
    """A mechanism pickles, is determined by its fields, and refuses an invalid epsilon."""
    try:
        again = pickle.loads(pickle.dumps(mechanism))
    except (pickle.PicklingError, AttributeError) as error:
        kind = type(mechanism).__qualname__
        raise AssertionError(f"{kind} must be importable from a module, here and on the workers: {error}") from None
    assert again == mechanism
    assert type(mechanism)(**_fields(mechanism)) == mechanism
    for epsilon in (0, -1, math.nan, math.inf, "1"):
        with _raises(ValueError, "epsilon must be a positive finite number"):
            type(mechanism)(**{**_fields(mechanism), "epsilon": epsilon})


def states_a_cost(mechanism: Mechanism) -> None:
    """Exact, of the budget it was given, and for every k; the same for all where k may be left out."""
    for k in (1, 2, 10, 1000):
        cost = mechanism.cost(k)
        assert isinstance(cost, Cost), f"cost({k}) must return a Cost, got a {type(cost).__name__}"
        assert not mechanism.guarantee.partition_selection or cost == mechanism.cost(ALL), (
            f"cost({k}) must be that of every k, got {cost}"
        )
        budget = mechanism.parameter("epsilon"), mechanism.parameter("delta", 0)
        assert (cost.epsilon, cost.delta) == budget, (
            f"cost({k}) must have the mechanism's epsilon and delta, got {cost}"
        )
        assert (cost.delta == 0) == (mechanism.guarantee.privacy == "pure"), f"only a pure one has delta 0, got {cost}"
        assert cost.rho > 0, f"rho must be above 0, got {cost}"


CHECKS: tuple[Callable[[Mechanism], None], ...] = (
    has_a_name_of_its_own,
    distinct_indices_in_range,
    same_key_same_answer_and_next_draw_differs,
    any_integer_type,
    leaves_the_counts_alone,
    obvious_winners_win_wherever_they_stand,
    refuses_bad_arguments,
    numbers_of_any_kind_are_one_parameter,
    noise_grows_with_the_cap,
    is_its_parameters,
    states_a_cost,
)


def _fields(mechanism: Mechanism) -> dict[str, Any]:
    return {name: getattr(mechanism, name) for name in mechanism.parameters()}


@contextlib.contextmanager
def _raises(error: type[Exception], message: str) -> Iterator[None]:
    try:
        yield
    except error as raised:
        assert message in str(raised), f"{message!r} is not in {raised}"
    else:
        raise AssertionError(f"nothing was raised that says {message!r}")
