"""What every sink must hold to. A new one inherits `SinkContract`, says how it is made, and has these tests."""

from __future__ import annotations

import pickle
import time
from dataclasses import FrozenInstanceError, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from private_topk.pipelines.question import Question
from private_topk.pipelines.release.describe import manifest_of
from private_topk.pipelines.sinks.sink import Sink
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.release import Ranking, Release, ReleaseKey
from private_topk.transforms.spec import TopK
from private_topk.transforms.windows import Period
from tests.transforms.pipelines import create

START = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = Period(START, START + timedelta(days=2), timedelta(days=1))
RELEASE = Release(ReleaseKey.held(b"a key of the tests, which is no secret"), "of the contract")
OTHER = Release(ReleaseKey.held(b"a key of the tests, which is no secret"), "another")
RANKINGS = [Ranking(PERIOD.window(0), ("tea", "cake"), 2, "sequence"), Ranking(PERIOD.window(1), (), 2, "sequence")]
MANIFEST = manifest_of(
    Question(TopK(2, Joint(epsilon=1.0), PublicDomain.of(["tea", "cake"])), period=PERIOD, release=RELEASE)
)


class SinkContract:
    """The fixture `sink` gives a sink whose place is empty."""

    writes = True
    """Whether it can be written here, without a service."""

    keeps = True
    """Whether what another release has left is kept unless `overwrite` is given."""

    @pytest.fixture
    def sink(self) -> Sink:
        raise NotImplementedError

    def state(self) -> Any:  # noqa: ANN401
        """All that the place holds."""
        raise NotImplementedError

    def test_a_sink_is_an_immutable_value(self, sink: Sink) -> None:
        assert is_dataclass(type(sink)) and pickle.loads(pickle.dumps(sink)) == sink
        with pytest.raises((FrozenInstanceError, AttributeError)):
            sink.uri = "elsewhere"
        assert isinstance(sink.uri, str)

    def test_a_check_of_a_sink_changes_nothing(self, sink: Sink) -> None:
        before = self.state()
        sink.check(PERIOD, [], RELEASE)
        sink.check(PERIOD, [], RELEASE)
        assert self.state() == before

    def test_an_input_is_refused_as_an_output(self, sink: Sink) -> None:
        inputs = [sink.uri, *(sink.files(PERIOD) or [])]
        for uri in inputs[-1:]:
            with pytest.raises(InvalidArgument) as refusal:
                sink.check(PERIOD, ["elsewhere", uri], RELEASE)
            assert refusal.value.field == "output"

    def test_writing_twice_leaves_the_same_content(self, sink: Sink) -> None:
        if not self.writes:
            pytest.skip("needs a service")
        written(sink)
        once = self.state()
        assert once
        sink.check(PERIOD, [], RELEASE)  # the same release is resumed
        written(sink)
        assert self.state() == once
        files = sink.files(PERIOD)
        assert files is None or len(set(files)) == len(files)

    def test_a_follower_sees_every_written_window(self, sink: Sink) -> None:
        seen = sink.following(PERIOD, RELEASE)
        if not self.writes or seen is None:
            pytest.skip("nobody reads it back")
        assert seen() == {}
        began, found = time.time(), {}
        written(sink)
        while len(found) < len(PERIOD):
            found |= seen()
            assert time.time() < began + 60
        assert set(found) == {window.label() for window in PERIOD.windows()}
        assert all(began - 1 < at < time.time() + 1 for at in found.values())

    def test_an_output_of_another_release_is_kept(self, sink: Sink) -> None:
        if not (self.writes and self.keeps):
            pytest.skip("it has nothing to keep")
        written(sink)
        once = self.state()
        with pytest.raises(InvalidArgument, match="exists and is kept") as refusal:
            sink.check(PERIOD, [], OTHER)
        assert refusal.value.field == "output" and self.state() == once


def written(sink: Sink) -> None:
    """Write `RANKINGS` in the windows of `PERIOD`, by a pipeline."""
    options = PipelineOptions(["--direct_runner_bundle_repeat=1"])
    with beam.Pipeline(runner=FnApiRunner(), options=options) as pipeline:
        _ = pipeline | create(RANKINGS).with_output_types(Ranking) | sink.write(MANIFEST, RELEASE)
