from __future__ import annotations

from collections import Counter

import pytest

from private_topk.testing.audit.scenes import (
    GROUPS,
    LABELS,
    RESOLUTION,
    USER,
    Scene,
    Sheet,
    hidden_scenes,
    open_scenes,
    repeated_scenes,
    rows_of,
)


def test_labels_stand_in_the_order_of_their_bytes() -> None:
    for renamed in (False, True):
        labels = Sheet((0,) * len(LABELS), renamed=renamed).labels()
        assert list(labels) == sorted(labels, key=str.encode) and len(set(labels)) == len(LABELS)


@pytest.mark.parametrize("swap", [False, True])
def test_two_worlds_are_neighbours_one_user_apart(swap: bool) -> None:
    for scene in [*open_scenes(swap), *hidden_scenes(swap, 7)]:
        (here,), (there,) = scene.here, scene.there
        assert here.heights == there.heights and here.mine != there.mine and (swap or not here.mine), scene
        others, mine = rows_of(there)
        assert {row.user for row in mine} <= {USER} and USER not in {row.user for row in others}
        assert len(others) == len({row.user for row in others}) == sum(there.heights), "others hold one item each"
        assert len(mine) > len({row.item for row in mine}) == len(there.mine) or not mine, "the one user repeats rows"


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_the_one_user_is_in_every_group_and_has_most_rows_in_one(group: int) -> None:
    others, mine = rows_of(Sheet((2, 0, 3), (0, 1), group=group), len(GROUPS))
    assert Counter(row.group for row in others) == dict.fromkeys(GROUPS, 5)
    assert len({row.user for row in others}) == len(others), "nobody else is in two groups"
    ((most, often), (_, seldom)) = Counter(row.group for row in mine).most_common(2)
    assert most == GROUPS[group] and often > seldom > 0
    for of in GROUPS:
        units = [min(max(round(row.amount / RESOLUTION), 0), 3) for row in mine if (row.item, row.group) == ("A", of)]
        assert sum(units) > 3 and 0 in units, "some of the amounts count for nothing, and all are above the cap"


@pytest.mark.parametrize("unknown", [False, True])
def test_of_two_releases_the_user_is_in_the_second_alone(unknown: bool) -> None:
    scenes: list[Scene] = list(repeated_scenes(unknown, (5, 5, 0), (0, 1)))
    assert len(scenes) == 4 + unknown
    for scene in scenes:
        assert scene.here[0] == scene.there[0] != scene.here[1] and not scene.here[1].mine and scene.there[1].mine
