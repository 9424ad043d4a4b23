from __future__ import annotations

import pytest

from private_topk.testing.audit.cases import cases_of
from private_topk.testing.audit.sampler import Sampler
from private_topk.testing.audit.scenes import GROUPS, LABELS, Sheet
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.mechanisms import MECHANISMS

WORLD = (Sheet((9,) * len(LABELS)),)


def test_a_seed_repeats_every_draw_and_fresh_ones_differ() -> None:
    case = cases_of(["laplace"])[2]
    drawn = [
        sampler.draw(case, WORLD, range(30), "x") for sampler in (Sampler(b"1"), Sampler(b"1"), Sampler(), Sampler())
    ]
    assert drawn[0] == drawn[1] != drawn[2] != drawn[3] != drawn[1]
    sampler = Sampler(b"1")
    assert sampler.draw(case, WORLD, range(30), "x") != sampler.draw(case, WORLD, range(30), "y"), (
        "each draw has an id of its own"
    )
    assert "1" not in repr(sampler)


@pytest.mark.long
def test_every_case_of_every_mechanism_can_be_drawn() -> None:
    sampler = Sampler(b"every")
    for name in MECHANISMS:
        for case in cases_of([name]):
            domain = case.selection.domain
            size = domain.size if isinstance(domain, PublicDomain) else 5
            sheet = Sheet((300,) * size)
            world = (sheet,) * case.releases
            for answers in sampler.draw(case, world, range(2), name):
                assert len(answers) == case.releases * (len(GROUPS) if case.of == "groups" else 1)
                for answer in answers:
                    assert len(answer.items) <= case.selection.k and set(answer.items) <= set(range(size))
                    told = case.selection.publish_counts is not None or case.selection.mechanism.publishes_weights
                    assert (answer.noisy is not None) == told


def test_a_fair_coin_chooses_the_world_of_every_draw() -> None:
    """Each number is on one side, the same ones for a seed; how many are on one is binomial: 5 sigmas, once in 1e6."""
    sides = Sampler(b"1").coins(10_000, "x")
    assert sorted(sides[0] + sides[1]) == list(range(10_000)) and abs(len(sides[0]) - 5000) < 250
    assert sides == Sampler(b"1").coins(10_000, "x") != Sampler(b"1").coins(10_000, "y")
