"""Options whose views are made once are Beam's own in all else."""

from __future__ import annotations

import pickle

from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, StandardOptions

from private_topk.runners.options import BeamOptions

WORDS = ["--streaming", "--experiments=one", "--runner=direct"]


def test_a_view_is_made_once_and_its_values_are_those_of_all() -> None:
    options = BeamOptions(WORDS)
    assert options.view_as(StandardOptions) is options.view_as(StandardOptions)
    assert options.get_all_options() == PipelineOptions(WORDS).get_all_options()
    options.view_as(DebugOptions).add_experiment("two")
    options.view_as(StandardOptions).streaming = False
    for same in (options, pickle.loads(pickle.dumps(options))):
        assert same.view_as(DebugOptions).experiments == ["one", "two"]
        assert same.view_as(StandardOptions).streaming is False
