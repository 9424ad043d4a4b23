from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from private_topk.transforms.columnar import make_table
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.draw import HEARTBEAT, ReleaseRanking, _ReleaseDoFn
from private_topk.transforms.keys import Release
from private_topk.transforms.layout import Layout
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.parts import PlacedPart, with_manifest
from private_topk.transforms.release import Ranking, Selection
from private_topk.transforms.windows import WindowBounds

SELECTION = Selection(Joint(epsilon=1.0), 2, PublicDomain.of(["a", "b", "c"]), 5)
LAYOUT = Layout.of(SELECTION.domain)


def parts_of(counts: dict[int, int]) -> list[PlacedPart]:
    """What the only user shard sends: a part for every item."""
    return list(with_manifest(0, [(code, make_table(item=[code], count=[count])) for code, count in counts.items()]))


@pytest.mark.parametrize(
    ("first", "timing", "fires"),
    [
        (True, PaneInfoTiming.ON_TIME, True),
        (True, PaneInfoTiming.UNKNOWN, True),
        (True, PaneInfoTiming.EARLY, False),
        (False, PaneInfoTiming.LATE, False),
        (False, PaneInfoTiming.ON_TIME, False),
    ],
)
def test_a_second_pane_is_refused_at_run_time(first: bool, timing: int, fires: bool) -> None:
    """What a pipeline that was put together by hand, or a runner of its own mind, could hand over."""
    pane = PaneInfo(first, True, timing, 0 if first else 1, 0)
    draw = _ReleaseDoFn(SELECTION, Release.fresh(), 1, LAYOUT, None).process(
        (0, [HEARTBEAT, *parts_of({})]), GlobalWindow(), pane
    )
    if fires:
        assert len(next(draw).items) == 2
    else:
        with pytest.raises(RuntimeError, match="a window fired twice, which would be two releases"):
            next(draw)


def test_shards_may_come_in_any_order() -> None:
    release = Release.fresh()
    parts = [*parts_of({0: 3, 1: 4, 2: 5}), HEARTBEAT, HEARTBEAT]
    pane = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    draw = _ReleaseDoFn(SELECTION, release, 1, LAYOUT, None)
    answers = [next(draw.process((0, parts[::step]), GlobalWindow(), pane)) for step in (1, -1)]
    assert answers[0] == answers[1] and answers[0].window == WindowBounds()


def test_parameters_are_all_that_the_answer_depends_on() -> None:
    assert SELECTION.parameters() == {
        "mechanism": "joint", "epsilon": 1.0, "skew": "1/2", "noise": "gumbel", "neighbours": "add-remove",
        "k": 2, "max_items_per_user": 5, "publish_counts": None, "domain": SELECTION.domain.describe(),
    }  # fmt: skip


def test_the_stage_gives_rankings() -> None:
    pipeline = beam.Pipeline()
    totals = pipeline | beam.Create([HEARTBEAT]).with_output_types(PlacedPart)
    assert (totals | ReleaseRanking(SELECTION, Release.fresh(), 1, LAYOUT)).element_type == Ranking
