"""A place of rankings that nobody can read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from private_topk.pipelines.run_state import RunState
from private_topk.pipelines.sinks.sink import Sink
from private_topk.transforms import Release
from private_topk.transforms.windows import Period


@dataclass(frozen=True)
class Nowhere(Sink):
    """A place of rankings that nobody can read back."""

    lost: str = ""
    uri = "nowhere"

    def check(self, period: Period | None, inputs: Sequence[str], release: Release) -> None:
        pass

    def write(
        self, facts: dict[str, Any], release: Release, live: RunState | None = None, period: Period | None = None
    ) -> beam.PTransform:
        kept = beam.Filter(lambda label: label != self.lost)
        return beam.Map(lambda ranking: ranking.window.label()).with_output_types(str) | kept
