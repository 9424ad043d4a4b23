"""PrivateTopK for Beam YAML: rows in, rows out, parameters as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from inspect import signature
from typing import Any, Optional

import apache_beam as beam
from apache_beam.transforms.external import ExternalTransform

from private_topk import PrivateTopK  # whose domain may be a path
from private_topk.pipelines.options import OPTIONS, Option
from private_topk.pipelines.texts import count, fraction, number, number_or_drawn
from private_topk.transforms.asked import Asked, score_of
from private_topk.transforms.errors import InvalidArgument, by_signature, did_you_mean, literal, verbatim
from private_topk.transforms.mechanisms.choice import AUTO
from private_topk.transforms.release import Ranking, Release
from private_topk.transforms.steps import flat_map
from private_topk.transforms.validation import OF_A_LEDGER
from private_topk.transforms.windows.period import period_of


class RankRows(beam.PTransform):
    """Rows with a user and an item to rows of a private ranking: window, rank, item.

    `rank` is the `PrivateTopK` of its parameters, such as for `Request.of`. The table of docs/java.md has all of them.

    Args:
        mechanism: its name, such as joint, or your own as module:Class; by default one is chosen (docs/choosing.md).
        domain: the public list of items, the path of a file of them that workers read again, or a list for each group.
        user, item, group: names of fields, or a list of them, whose values together are one item or one group.
        release_key: file:PATH, env:NAME or gcp-secret:...
        dry_run: all stages run, under a random id, and no row comes back: nothing is released, and no charge is needed.
            Counters tell what is dropped, and which rankings are of nothing.

    Raises:
        InvalidArgument: an argument breaks its rule.
    """

    def __init__(
        self,
        epsilon: float,
        mechanism: str = AUTO,
        k: int | None = None,
        domain: str | Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        **others: Any,  # noqa: ANN401 - what the table says
    ) -> None:
        super().__init__()
        given = {"k": k, "mechanism": mechanism, "epsilon": epsilon, "domain": domain, **others}
        given = {name: value for name, value in given.items() if value is not None}
        dry_run = given.pop("dry_run", False)
        try:
            self.rank = _rank(given)
            # Another release than that of `rank`, so that no charge takes it for what it pays for.
            self._dry = _rank(given, dry_run) if dry_run else None
        except InvalidArgument as refusal:
            raise InvalidArgument("", literal(refusal.shown(_shown))) from None

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        fields: list[tuple[str, Any]] = [("window", str), ("rank", _RANK)]
        top_k = self.rank.top_k
        for names in self.rank.columns[: 1 if top_k.groups is None else 2]:
            fields += [(name, str) for name in names]
        if top_k.publish_counts is not None:
            number = float if top_k.score.columns else int
            fields += [("noisy_count", number), ("noise_stddev", float), ("noise_95", number)]
        kind = beam.typehints.row_type.RowTypeConstraint.from_fields(fields)
        as_rows = flat_map(_rows, fields, self._dry is None).with_output_types(kind)
        # Ranking  ->  Row(window, rank, item), and the group where there are groups; or the columns of either. And the
        # noisy count, where counts are published.
        return rows | (self._dry or self.rank) | "One row a rank" >> as_rows


_RANK: Any = Optional[int]  # noqa: UP045 - Beam's schemas know `int | None` as any object of Python, and no int
_ROWS = {option.beam: option for option in OPTIONS if option.beam}
_PARAMETERS = {option.name: option for option in OPTIONS if option.parameter or option.name in ("delta", "neighbours")}
_PERIOD = "period."
_COLUMNS = ("user_column", "item_column", "value_column", "group_column")
_ASKED = ("k", "mechanism", "domain", *Asked.__annotations__)
_FLAGS = ("reveal_active_windows", "exact_counters")
_OTHERS: dict[str, Any] = {"parameters": dict[str, Any], "period": dict[str, Any], **dict.fromkeys(_FLAGS, bool)}
"""Parameters that are no options of their own: some go into each other, others are Beam's alone."""


def _rank(given: Mapping[str, Any], dry_run: bool = False) -> PrivateTopK:
    """The transform of parameters, each read by its row of the table; of a dry run under a new id, if any. Raises
    InvalidArgument.
    """
    options: dict[str, Any] = {}
    in_period = {f"{_PERIOD}{name}": value for name, value in given.get("period", {}).items()}
    for name, value in {**given, **in_period}.items():
        if name in _ROWS:
            options[_ROWS[name].name] = _read(name, value)
        elif name not in _OTHERS:
            known = [other.removeprefix(_PERIOD) for other in _ROWS if other.startswith(_PERIOD)]
            word = name.removeprefix(_PERIOD)
            remedy = did_you_mean(word, known, f"it has {', '.join(known)}")
            raise InvalidArgument("", literal(f"period has no field {word!r}"), literal(remedy))
    named = options.get("release_key"), options.get("release_id") or None
    release = Release.named(named[0]) if dry_run else Release.repeated(*named)
    if ExternalTransform.get_local_namespace() != "external":  # in an expansion service, for another process
        _check_absolute(options)
    if not {"domain", "domain_range"} & options.keys():
        options["unknown_domain"] = True
    if "value_column" not in options and {"max_value", "value_resolution"} & options.keys():
        raise InvalidArgument("max_value", "and {value_resolution} need {value_column}: the field of the amounts")
    score_of(options)
    columns = {name.removesuffix("_column"): value for name, value in options.items() if name in _COLUMNS}
    parameters = {name: _read(name, value, _PARAMETERS) for name, value in given.get("parameters", {}).items()}
    asked = {name: parameters.pop(name) for name in ("delta", "neighbours") if name in parameters}
    asked |= {name: value for name, value in options.items() if name in _ASKED}
    return PrivateTopK(
        **{"k": None, **asked},
        parameters=parameters or None,
        release=release,
        period=period_of(options),
        **{name: given[name] for name in _FLAGS if name in given},
        **columns,
    )


def _check_absolute(options: Mapping[str, Any]) -> None:
    """Raise InvalidArgument for a path that means one file here and another where the parameters come from: what is
    charged there would not be what is drawn here.
    """
    for name, absolute in ("domain", r"/|\w+://"), ("release_key", "file:/|(?!file:)"):
        given = options.get(name)
        if isinstance(given, str) and not re.match(absolute, given):
            rule = f"{verbatim(given)} would be looked for in the folder of the expansion service"
            raise InvalidArgument(name, rule, "give an absolute path")


def _read(name: str, value: object, options: Mapping[str, Option] = _ROWS) -> Any:  # noqa: ANN401 - any option's
    """A value, read as the option's text where it is a text or of the period; other values as they are."""
    if isinstance(value, date):
        raise ValueError(f'{name} must be in quotes, as in "{value.isoformat()}": Beam YAML passes no dates on')
    if name not in options or not (isinstance(value, str) or name.startswith(_PERIOD)):
        return value
    read = options[name].read
    if read is None:  # a flag, in a map of Java's that has texts alone
        if value not in ("true", "false") and not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {value}")
        return value in ("true", True)
    try:
        return read(str(value))
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def _shown(field: str) -> str:
    elsewhere = f"parameters.{field}" if field in _PARAMETERS else field
    return next((name for name, option in _ROWS.items() if option.name == field), elsewhere)


_TYPES: dict[Any, Any] = {count: int, number: float, fraction: float | str, number_or_drawn: float | str}
_MORE = {name: _TYPES.get(option.read, str) for name, option in _ROWS.items() if not name.startswith(_PERIOD)}
_MORE |= {"groups": Sequence[str], **_OTHERS, "dry_run": bool}
# From its signature Beam YAML learns the parameters.
by_signature(
    RankRows,
    {name: its | None for name, its in _MORE.items() if name not in signature(RankRows).parameters},
    elsewhere=OF_A_LEDGER | {name: literal(f'give parameters: {{"{name}": ...}}') for name in _PARAMETERS},
)


def _rows(ranking: Ranking, fields: Sequence[tuple[str, Any]], released: bool) -> Iterator[beam.Row]:
    for row in ranking.to_rows() if released else ():
        row["window"] = ranking.window.label()
        yield beam.Row(**{name: kind(row[name]) if kind is float else row[name] for name, kind in fields})
