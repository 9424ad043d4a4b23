from __future__ import annotations

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from private_topk.transforms.columnar import make_table
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.draw import RankHeads, _ReleaseDoFn
from private_topk.transforms.keys import Release
from private_topk.transforms.layout import Layout
from private_topk.transforms.mechanisms import MECHANISMS, Joint
from private_topk.transforms.naming import RankByValues, _AssembleDoFn, _DrawDoFn
from private_topk.transforms.parts import OUTLINE, Part, PlacedPart, heartbeat, with_manifest
from private_topk.transforms.release import Ranking, Selection
from private_topk.transforms.windows import WindowBounds

SELECTION = Selection(Joint(epsilon=1.0), 2, PublicDomain.of(["a", "b", "c"]), 5)
LAYOUT = Layout.of(SELECTION.domain)
HIDDEN = Selection(MECHANISMS["limit-domain"](epsilon=1.0, delta=0.1), 2, UnknownDomain())


def parts_of(labels: dict[str, int]) -> list[PlacedPart]:
    """What the only user shard sends: a part for every item."""
    tables = [make_table(item=pa.array([label], pa.large_string()), count=[count]) for label, count in labels.items()]
    return list(with_manifest(0, enumerate(tables)))


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
    nothing = list(with_manifest(0, []))
    outline = make_table(window=[0, 0], position=[0, 1], code=[2, 0], item=["c", "a"], noisy=[0, 0])
    for stage, parts in (
        (_ReleaseDoFn(HIDDEN, Release.fresh(), 1, Layout(0), None), nothing),
        (_DrawDoFn(SELECTION, Release.fresh(), 1, LAYOUT, None), nothing),
        (_AssembleDoFn(SELECTION, Release.fresh(), LAYOUT, None), [(OUTLINE, Part(np.array([0]), outline))]),
    ):
        found = stage.process((0, [heartbeat(), *parts]), GlobalWindow(), pane)
        if fires:
            assert next(found) is not None
        else:
            with pytest.raises(RuntimeError, match="a window fired twice, which would be two releases"):
                next(found)


def test_shards_may_come_in_any_order() -> None:
    release = Release.fresh()
    parts = [*parts_of({"a": 30, "b": 40, "c": 50}), heartbeat(), heartbeat()]
    pane = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    draw = _ReleaseDoFn(HIDDEN, release, 1, Layout(0), None)
    answers = [next(draw.process((0, parts[::step]), GlobalWindow(), pane)) for step in (1, -1)]
    assert answers[0] == answers[1] and answers[0].window == WindowBounds()


def test_parameters_are_all_that_the_answer_depends_on() -> None:
    assert SELECTION.parameters() == {
        "mechanism": "joint", "epsilon": 1.0, "skew": "1/2", "noise": "gumbel", "neighbours": "add-remove",
        "k": 2, "max_items_per_user": 5, "publish_counts": None, "domain": SELECTION.domain.describe(),
    }  # fmt: skip


@pytest.mark.parametrize(("stage", "selection"), [(RankByValues, SELECTION), (RankHeads, HIDDEN)])
def test_the_stage_gives_rankings(stage: type, selection: Selection) -> None:
    pipeline = beam.Pipeline()
    totals = pipeline | beam.Create([heartbeat()]).with_output_types(PlacedPart)
    last = stage(selection, Release.fresh(), 1, Layout.of(selection.domain))
    assert ((totals, totals) | last).element_type == Ranking
