"""What is drawn from what was brought into order once is what the whole path answers; where it is not, that is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from private_topk.testing.audit import OtherAnswer, Sampler, cases_of, hat
from private_topk.transforms import draw


@pytest.mark.long
def test_every_draw_is_that_of_the_whole_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rankings and sets of both domains, groups, amounts with counts: each draw is made both ways."""
    monkeypatch.setattr(hat, "_WHOLE_WAY", 1)
    for name in ("joint", "joint-set", "limit-domain", "top-stable"):
        cases = cases_of([name])
        for case in [next(case for case in cases[::-1] if case.of == of) for of in ("users", "amounts", "groups")]:
            assert len(Sampler(b"whole").draw(case, case.scenes[0].there, range(6), "whole")) == 6
    for name in ("weighted-gaussian", "weighted-order"):
        for case in cases_of([name])[::3]:
            assert len(Sampler(b"whole").draw(case, case.scenes[0].there, range(6), "whole")) == 6


def test_an_answer_with_other_names_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = draw.rank

    def turned(*given: Any) -> Any:  # noqa: ANN401
        found = real(*given)
        return replace(found, items=found.items[::-1])

    case = cases_of(["laplace"])[2]
    assert case.selection.k > 1
    monkeypatch.setattr(draw, "rank", turned)
    with pytest.raises(OtherAnswer, match="another answer than its draw"):
        Sampler(b"1").draw(case, case.scenes[0].there, range(300), "turned")
