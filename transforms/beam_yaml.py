"""PrivateTopK for Beam YAML: rows in, rows out, parameters as plain values.

providers:
  - type: python
    transforms:
      PrivateTopK: private_topk.transforms.beam_yaml.RankRows
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam

from private_topk.transforms.domain import RangeDomain, UnknownDomain
from private_topk.transforms.keys import Release, ReleaseKey, fresh_id
from private_topk.transforms.mechanisms import make_mechanism
from private_topk.transforms.release import Ranking
from private_topk.transforms.top_k import PrivateTopK

__all__ = ["RankRows"]


class RankRows(beam.PTransform):
    """Rows with a user and an item to rows of a private ranking: window, rank, item.

    Args:
        k: how many items.
        mechanism: its name, such as joint, or your own as module:Class.
        epsilon: its budget.
        domain: the public list of items; leave it and `domain_range` out if the domain is unknown.
        domain_range: START:STOP, if the public items are the integers from START to STOP - 1.
        user, item: the names of the two fields.
        max_items_per_user: keep at most so many items of every user and window.
        release_key, release_id: file:PATH, env:NAME or gcp-secret:..., and a public name, to repeat a release.
        parameters: the mechanism's other parameters, such as {"delta": 1e-6}.
    """

    def __init__(
        self,
        k: int,
        mechanism: str,
        epsilon: float,
        domain: Sequence[str] | None = None,
        user: str = "user",
        item: str = "item",
        max_items_per_user: int | None = None,
        release_key: str | None = None,
        release_id: str | None = None,
        parameters: dict[str, Any] | None = None,
        domain_range: str | None = None,
    ) -> None:
        super().__init__()
        if release_id is not None and release_key is None:
            raise ValueError("release_id needs release_key: an id repeats a release only under the same key")
        if domain is not None and domain_range is not None:
            raise ValueError("give domain or domain_range: one of the two")
        items = UnknownDomain() if domain is None else domain
        release = Release(ReleaseKey.parse(release_key), release_id or fresh_id()) if release_key else Release.fresh()
        self._user, self._item = user, item
        self._rank = PrivateTopK(
            k,
            make_mechanism(mechanism, epsilon=epsilon, **(parameters or {})),
            items if domain_range is None else RangeDomain.parse(domain_range),
            max_items_per_user=max_items_per_user,
            release=release,
        )

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        user, item = self._user, self._item
        return (
            rows
            | "Take user and item" >> beam.Map(lambda row: (getattr(row, user), getattr(row, item)))
            | self._rank
            # Ranking  ->  Row(window, rank, item)
            | "One row a rank" >> beam.FlatMap(_rows).with_output_types(_RankedRow)
        )


_FIELDS: list[tuple[str, Any]] = [("window", str), ("rank", int | None), ("item", str)]
_RankedRow = beam.typehints.row_type.RowTypeConstraint.from_fields(_FIELDS)


def _rows(ranking: Ranking) -> Iterator[beam.Row]:
    for place, item in enumerate(ranking.items, 1):
        rank = place if ranking.answer == "sequence" else None
        yield beam.Row(window=ranking.window.label(), rank=rank, item=item)
