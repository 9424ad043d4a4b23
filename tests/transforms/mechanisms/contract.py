"""What every mechanism inherits: subclass `Contract`, list the mechanism's configurations, get the tests."""

from __future__ import annotations

import json
import pickle
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, RandomBits

CASES = {
    "ordinary": [9, 7, 7, 4, 2, 0, 0, 1],
    "all equal": [5] * 8,
    "all zeros": [0] * 8,
    "widely gapped": [10**9, 10**6, 10**4, 300, 20, 7, 1, 0],
    "near 2**62": [2**62, 2**62 - 1, 2**62 - 1, 5, 2**61, 0, 1, 2**62],
    "one item": [3],
}


class Contract:
    """Subclass as `class TestJoint(Contract)` and list one instance per configuration worth the run."""

    mechanisms: ClassVar[list[Mechanism]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "mechanism" in metafunc.fixturenames:
            metafunc.parametrize("mechanism", self.mechanisms, ids=repr)

    @pytest.mark.parametrize("case", CASES)
    def test_distinct_indices_in_range(self, mechanism: Mechanism, case: str) -> None:
        counts = np.array(CASES[case])
        for k in {1, min(3, len(counts)), len(counts)}:
            answer = mechanism(counts, k, RandomBits.keyed(b"contract"))
            assert answer.dtype == np.int64 and answer.ndim == 1
            assert len(set(answer.tolist())) == len(answer) <= k
            assert mechanism.about.domain == "unknown" or len(answer) == k
            assert all(0 <= i < len(counts) for i in answer)
            if mechanism.about.answer == "set":
                assert answer.tolist() == sorted(answer.tolist()), "a set in any other order may tell the ranks"

    def test_same_key_same_answer_and_next_draw_differs(self, mechanism: Mechanism) -> None:
        counts = np.full(1000, 10**6)
        first, second = RandomBits.keyed(b"key"), RandomBits.keyed(b"key")
        answers = [mechanism(counts, 10, first).tolist() for _ in range(3)]
        assert answers == [mechanism(counts, 10, second).tolist() for _ in range(3)]
        if mechanism.about.domain == "public":
            assert answers[0] != answers[1] != answers[2]

    @pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint32, np.int32, np.uint64])
    def test_any_integer_type(self, mechanism: Mechanism, dtype: type) -> None:
        counts = np.array([100, 90, 3, 0, 50], dtype)
        wide = mechanism(counts.astype(np.int64), 2, RandomBits.keyed(b"dtype"))
        assert mechanism(counts, 2, RandomBits.keyed(b"dtype")).tolist() == wide.tolist()

    def test_leaves_the_counts_alone(self, mechanism: Mechanism) -> None:
        counts = np.array([4, 9, 1, 7])
        counts.setflags(write=False)
        mechanism(counts, 2, RandomBits.keyed(b"read only"))
        assert counts.tolist() == [4, 9, 1, 7]

    def test_obvious_winners_win_wherever_they_stand(self, mechanism: Mechanism) -> None:
        """Permutation equivariance at its sharpest; the laws' own tests check it in distribution."""
        for shift in range(5):
            counts = np.roll(np.array([10**15, 10**12, 0, 0, 0]), shift)
            answer = mechanism(counts, 2, RandomBits.keyed(b"roll"))
            assert set(answer.tolist()) == {shift % 5, (shift + 1) % 5}

    @pytest.mark.parametrize(
        ("counts", "k", "error", "message"),
        [
            ([[1, 2]], 1, ValueError, "one-dimensional"),
            ([], 1, ValueError, "at least one item"),
            ([1.0, 2.0], 1, TypeError, "integers"),
            ([3, -1], 1, ValueError, "at least 0"),
            (np.array([2**63], np.uint64), 1, ValueError, "below 2"),
            ([1, 2], 0, ValueError, "k must be at least 1, got 0"),
            ([1, 2], 1.5, TypeError, "k must be an integer"),
        ],
    )
    def test_bad_arguments(self, mechanism: Mechanism, counts: object, k: int, error: type, message: str) -> None:
        if mechanism.about.domain == "unknown" and message == "at least one item":
            assert len(mechanism(counts, k, RandomBits.keyed(b"bad"))) == 0, "no item need have been seen"
            return
        with pytest.raises(error, match=message):
            mechanism(counts, k, RandomBits.keyed(b"bad"))

    def test_k_above_d_is_refused_in_a_public_domain(self, mechanism: Mechanism) -> None:
        if mechanism.about.domain == "public":
            with pytest.raises(ValueError, match="k must be at most the number of items, got k = 3 and 2 items"):
                mechanism([1, 2], 3, RandomBits.keyed(b"bad"))

    def test_bits_must_be_a_keystream(self, mechanism: Mechanism) -> None:
        with pytest.raises(TypeError, match=r"RandomBits\.fresh"):
            mechanism([1, 2], 1, np.random.default_rng(1))

    def test_numbers_of_any_kind_are_one_parameter(self, mechanism: Mechanism) -> None:
        """Also where balls decide: large equal counts. One budget must make one seed however it is written."""
        given = {name: getattr(mechanism, name) for name in mechanism.parameters()}
        whole = {name: value for name, value in given.items() if type(value) is int}
        plain = type(mechanism)(**{**given, "epsilon": 2.0})
        for epsilon in (2, np.int64(2), np.float64(2), np.float32(2)):
            same = type(mechanism)(**{**given, **{n: np.int64(v) for n, v in whole.items()}, "epsilon": epsilon})
            assert json.dumps(same.parameters()) == json.dumps(plain.parameters())
            for counts in ([9, 7, 7], [2**62, 2**62 - 1, 2**62 - 1]):
                answers = [m(counts, 3, RandomBits.keyed(b"kind")).tolist() for m in (same, plain)]
                assert answers[0] == answers[1]

    def test_is_its_parameters(self, mechanism: Mechanism) -> None:
        assert pickle.loads(pickle.dumps(mechanism)) == mechanism
        assert type(mechanism)(**{k: getattr(mechanism, k) for k in mechanism.parameters()}) == mechanism
        assert MECHANISMS[mechanism.about.name] is type(mechanism)
        for epsilon in (0, -1, float("nan"), float("inf"), "1"):
            with pytest.raises(ValueError, match="epsilon must be a positive finite number"):
                type(mechanism)(**{**{k: getattr(mechanism, k) for k in mechanism.parameters()}, "epsilon": epsilon})
