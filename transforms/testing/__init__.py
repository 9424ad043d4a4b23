"""For tests of pipelines that rank, and of mechanisms of your own.

`TrueTopK` draws no noise and `fixed_release` the same in every run: docs/beam.md tests a pipeline with them.
`check_mechanism` holds a mechanism of yours to what every mechanism owes: docs/own-mechanism.md shows the use.
"""

from __future__ import annotations

from private_topk.transforms.testing.check_mechanism import check_mechanism
from private_topk.transforms.testing.true_top_k import TrueTopK, fixed_release

__all__ = ["TrueTopK", "check_mechanism", "fixed_release"]
