"""What is wrong with counts is told without any chance. Planted defects: tests/pipelines/commands/test_audit.py."""

from __future__ import annotations

import pytest

from private_topk.testing.audit.counting import wrong_counts
from private_topk.testing.audit.sampler import Sampler
from private_topk.transforms import user_shard


def test_nothing_is_wrong_with_the_counts() -> None:
    assert list(wrong_counts(Sampler())) == []


@pytest.mark.long
def test_a_choice_that_hangs_on_the_order_of_rows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept by the code of an item, which in an unknown domain is the order of arrival."""
    real = user_shard.kept_pairs
    monkeypatch.setattr(user_shard, "kept_pairs", lambda ranks, codes, users, words, limit: real(
        ranks, codes, users * 0, None if words is None else words * 0, limit))  # fmt: skip
    assert any("is not the same on every way" in fault for fault in wrong_counts(Sampler(b"order")))
