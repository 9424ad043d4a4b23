from __future__ import annotations

import pytest

from private_topk.testing.audit.cases import Case, cases_of, threshold_of
from private_topk.transforms.mechanisms import MECHANISMS
from private_topk.transforms.refusal import Refusal


def test_every_mechanism_domain_relation_and_kind_of_release_is_a_case() -> None:
    cases = cases_of()
    seen = {(case.selection.mechanism.about.name, case.neighbours, bool(case.selection.publish_counts), case.releases,
             case.of) for case in cases}  # fmt: skip
    uncounted = sum(kind.weighs_users for kind in MECHANISMS.values())
    assert len(seen) == len(cases) == (6 + 4 + 2) * len(MECHANISMS) - (3 + 4) * uncounted
    for case in cases:
        approximate = case.selection.mechanism.about.guarantee == "approximate"
        assert (case.delta > 0) == approximate and case.epsilon in (1.25, 2.0)


def test_a_threshold_is_a_count_that_comes_out_now_and_then() -> None:
    case: Case = cases_of(["limit-domain"])[0]
    assert 3 <= threshold_of(case.selection) <= 20
    assert {sheet.heights[0] for scene in case.scenes for sheet in scene.here} > {0, threshold_of(case.selection)}


def test_what_is_no_mechanism_is_refused() -> None:
    with pytest.raises(Refusal, match="did you mean joint"):
        cases_of(["jiont"])
    with pytest.raises(Refusal, match="restricted cannot be audited here: it needs mechanism"):
        cases_of(["private_topk.transforms.mechanisms.restricted:Restricted"])
