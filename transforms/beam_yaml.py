"""PrivateTopK for Beam YAML: rows in, rows out, parameters as plain values.

providers:
  - type: python
    transforms:
      PrivateTopK: private_topk.transforms.beam_yaml.RankRows
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam

from private_topk.transforms.domain import RangeDomain, UnknownDomain
from private_topk.transforms.errors import Refusal, did_you_mean
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import make_mechanism
from private_topk.transforms.metric import Amounts, Risers
from private_topk.transforms.release import Ranking, Release, ReleaseKey, fresh_id
from private_topk.transforms.top_k import PrivateTopK
from private_topk.transforms.windows import Period
from private_topk.transforms.windows.period import duration, moment, period_of, window_length

__all__ = ["RankRows"]


class RankRows(beam.PTransform):
    """Rows with a user and an item to rows of a private ranking: window, rank, item.

    Args:
        k: how many items.
        mechanism: its name, such as joint, or your own as module:Class.
        epsilon: its budget.
        domain: the public list of items, or one for each group by its name; leave it and `domain_range` out if the
            domain is unknown.
        domain_range: START:STOP, if the public items are the integers from START to STOP - 1.
        user, item: the names of the two fields.
        max_items_per_user: keep at most so many items of every user and window.
        release_key, release_id: file:PATH, env:NAME or gcp-secret:..., and a public name, to repeat a release.
        parameters: the mechanism's other parameters, such as {"delta": 1e-6}.
        period: the declared windows of the rows' event times, such as {"from": "2026-01-05", "to": "2026-02-02",
            "window": "7d"}; also every and time_zone, as on the command line. Rows that are windowed need it.
        reveal_active_windows: take the windows of the rows instead, and accept what that tells: see `PrivateTopK`.
        value: the name of a field of amounts, which are added up in place of users; needs `max_value`.
        max_value, value_resolution: the most that one user adds to an item, and the unit of which it is a multiple.
        group: the name of a field of groups, each of which has a ranking; needs `groups`. Rows then have `group` too.
        groups, groups_per_user: the public list of groups, and in how many of a window a user counts.
        max_windows_per_user: a user counts in at most so many windows of the period; rows must be bounded.
        against_weight: rank by how much items rise against the window before each, of which so much, from 0 to 1, is
            taken off; rows must be bounded.

    Raises:
        ValueError: an argument breaks its rule.
    """

    def __init__(
        self,
        k: int,
        mechanism: str,
        epsilon: float,
        domain: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        user: str = "user",
        item: str = "item",
        max_items_per_user: int | None = None,
        release_key: str | None = None,
        release_id: str | None = None,
        parameters: dict[str, Any] | None = None,
        domain_range: str | None = None,
        period: dict[str, Any] | None = None,
        reveal_active_windows: bool = False,
        value: str | None = None,
        max_value: float | None = None,
        value_resolution: float | None = None,
        group: str | None = None,
        groups: Sequence[str] | None = None,
        groups_per_user: int = 1,
        max_windows_per_user: int | None = None,
        against_weight: float | str | None = None,
    ) -> None:
        super().__init__()
        if release_id is not None and release_key is None:
            raise ValueError("release_id needs release_key: an id repeats a release only under the same key")
        if domain is not None and domain_range is not None:
            raise ValueError("give domain or domain_range: one of the two")
        items = UnknownDomain() if domain is None else domain
        release = Release(ReleaseKey.parse(release_key), release_id or fresh_id()) if release_key else Release.fresh()
        self._rank = PrivateTopK(
            k,
            make_mechanism(mechanism, epsilon=epsilon, **(parameters or {})),
            items if domain_range is None else RangeDomain.parse(domain_range),
            max_items_per_user=max_items_per_user,
            release=release,
            period=_period(period or {}),
            reveal_active_windows=reveal_active_windows,
            user=user,
            item=item,
            value=value,
            amounts=_amounts(value, max_value, value_resolution),
            group=group,
            groups=None if groups is None else Groups.of(groups, groups_per_user),
            max_windows_per_user=max_windows_per_user,
            risers=None if against_weight is None else Risers(against_weight),  # type: ignore[arg-type]
        )
        self._grouped = groups is not None or isinstance(domain, Mapping)

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        return (
            rows
            | self._rank
            # Ranking  ->  Row(window, rank, item)
            | "One row a rank"
            >> (
                beam.FlatMap(_rows_of_groups).with_output_types(_RankedRowOfGroup)
                if self._grouped
                else beam.FlatMap(_rows).with_output_types(_RankedRow)
            )
        )


def _amounts(value: str | None, max_value: float | None, value_resolution: float | None) -> Amounts | None:
    if value is None:
        if max_value is not None or value_resolution is not None:
            raise ValueError("max_value and value_resolution need value: the field of the amounts")
        return None
    if max_value is None:
        raise ValueError("value needs max_value: the most that one user adds to an item, chosen without a look at the "
                         "data")  # fmt: skip
    return Amounts.of(max_value, value_resolution)


_PERIOD: dict[str, tuple[str, Callable[[str], Any]]] = {
    "from": ("period_from", moment),
    "to": ("period_to", moment),
    "window": ("window", window_length),
    "every": ("every", duration),
    "time_zone": ("time_zone", str),
}


def _period(given: Mapping[str, Any]) -> Period | None:
    options = {}
    for word, value in given.items():
        if word not in _PERIOD:
            remedy = did_you_mean(str(word), _PERIOD, f"it has {', '.join(_PERIOD)}")
            raise ValueError(f"period has no field {word!r}: {remedy}")
        field, read = _PERIOD[word]
        try:
            options[field] = read(str(value))  # YAML has dates of its own
        except ValueError as error:
            raise ValueError(f"period.{word} {error}") from None
    try:
        return period_of(options)
    except Refusal as refusal:
        raise ValueError(refusal.shown(_shown)) from None


def _shown(field: str) -> str:
    words = {name: word for word, (name, _) in _PERIOD.items()}
    return f"period.{words[field]}" if field in words else field


_FIELDS: list[tuple[str, Any]] = [("window", str), ("rank", int | None), ("item", str)]
_RankedRow = beam.typehints.row_type.RowTypeConstraint.from_fields(_FIELDS)
_RankedRowOfGroup = beam.typehints.row_type.RowTypeConstraint.from_fields([*_FIELDS, ("group", str)])


def _rows(ranking: Ranking) -> Iterator[beam.Row]:
    for number, item in enumerate(ranking.items, 1):
        rank = number if ranking.answer == "sequence" else None
        yield beam.Row(window=ranking.window.label(), rank=rank, item=item)


def _rows_of_groups(ranking: Ranking) -> Iterator[beam.Row]:
    yield from (beam.Row(**row.as_dict(), group=ranking.group) for row in _rows(ranking))
