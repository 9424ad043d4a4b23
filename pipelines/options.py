"""The arguments of a report: the only argparse. Nothing here imports Beam, so that --help is quick."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import Any, NoReturn

from private_topk.pipelines.budget.options import add_budget_arguments
from private_topk.pipelines.errors import InputError
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, mechanism_by_name

__all__ = [
    "Parser",
    "add_column_arguments",
    "add_count_arguments",
    "add_mechanism_arguments",
    "add_question_arguments",
    "add_run_arguments",
    "add_window_arguments",
    "as_argument",
    "duration",
    "make_mechanism",
    "moment",
]


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, without a page of usage above it."""

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (-\S+): (?=must )", r"\1 ", message)
        for kind, rule in (("int", "a whole number"), ("float", "a number")):
            message = re.sub(rf"^argument (-\S+): invalid {kind} value:", rf"\1 must be {rule}, got", message)
        self.exit(2, f"private-topk: {message}; `{self.prog} --help` lists the arguments\n")


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"must be a number such as 0.6 or 3/5, got {text!r}") from None


_PARAMETERS: dict[str, tuple[Any, str]] = {
    "delta": (float, "for (epsilon, delta) mechanisms, such as 1e-6: well below 1 / number of users"),
    "skew": (_fraction, "joint: from 1/2 (the published mechanism) to 1; trades order for membership"),
    "gamma": (_fraction, "canonical: from 0 to 1, 1/2 by default"),
    "noise": (str, "gumbel, exponential, laplace, logistic or half-logistic, where the mechanism offers a choice"),
    "beta": (float, "fast-joint: failure probability at which the loss is cut off"),
    "kbar": (int, "unknown domain: how many of the largest items are looked at, at least k"),
}
CALENDAR_UNITS = ("day", "week", "month")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """All arguments of a batch report. Whether required ones are there is checked later, so that Beam may parse too."""
    rows = parser.add_argument_group("input")
    rows.add_argument("--input", metavar="GLOB", help="files of rows: .avro, .parquet, .csv or .jsonl, each also .gz")
    add_column_arguments(rows)
    add_question_arguments(parser)
    running = parser.add_argument_group("running")
    running.add_argument("--output", metavar="PATH", help="ranking file: .avro, .jsonl, .csv or .parquet; a manifest "
                         "goes beside it")  # fmt: skip
    running.add_argument("--overwrite", action="store_true", help="replace an existing output")
    running.add_argument(
        "--runner", default="direct", metavar="NAME", help="direct (default), prism, flink, dataflow or portable"
    )
    running.add_argument("--shards", type=int, metavar="N",
                         help="user shards, a power of two; any gives the same ranking (default: by size)")  # fmt: skip


def add_column_arguments(rows: argparse._ActionsContainer) -> None:
    rows.add_argument("--user-column", default="user", metavar="NAME", help="who (default: user)")
    rows.add_argument("--item-column", default="item", metavar="NAME", help="what is ranked (default: item)")
    rows.add_argument("--time-column", default="time", metavar="NAME", help="event time, for --window (default: time)")
    rows.add_argument("--time-unit", choices=("s", "ms", "us"), default="s",
                      help="what a plain number in the time column counts, since 1970 UTC (default: s)")  # fmt: skip
    rows.add_argument("--csv-quoted-newlines", action="store_true",
                      help="let quoted values of CSV files hold line ends; rows then depend on each other: one value "
                      "with an unclosed quote takes other users' rows along, beyond any epsilon")  # fmt: skip


def add_question_arguments(parser: argparse.ArgumentParser) -> None:
    """What is asked of the rows, wherever they come from: the same for files and for streams."""
    _add_domain(parser)
    add_mechanism_arguments(parser)
    add_count_arguments(parser)
    add_budget_arguments(parser)
    add_window_arguments(parser)
    _add_release(parser)


def add_mechanism_arguments(
    parser: argparse.ArgumentParser,
    budget: str = "privacy budget of each window; smaller is more private",
    bound: str = "keep at most M items of every user and window, chosen by a hash",
) -> None:
    """The mechanism, k and the budget: shared by run, select and plan, which explain budget and bound differently."""
    group = parser.add_argument_group("privacy")
    group.add_argument("--mechanism", metavar="NAME", help=f"one of {', '.join(MECHANISMS)}; "
                       "`private-topk mechanisms` compares them")  # fmt: skip
    group.add_argument("--k", type=int, metavar="K", help="how many items to publish")
    group.add_argument("--epsilon", type=float, metavar="E", help=budget)
    for name, (kind, text) in _PARAMETERS.items():
        group.add_argument(f"--{name}", type=kind, metavar=name[0].upper(), help=text)
    group.add_argument("--neighbours", choices=("add-remove", "swap"), default=None, help="what is protected: that "
                       "a user is there at all (add-remove, default), or what a known user did (swap)")  # fmt: skip
    group.add_argument("--max-items-per-user", type=int, metavar="M", help=bound)


def add_count_arguments(parser: argparse.ArgumentParser) -> None:
    """The budget for publishing noisy counts."""
    group = parser.add_argument_group("noisy counts (optional)")
    group.add_argument("--publish-counts", type=float, metavar="E", help="also publish noisy counts of the released "
                       "items from a budget of its own: this epsilon is added to --epsilon")  # fmt: skip
    group.add_argument("--publish-counts-delta", type=float, metavar="D",
                       help="discrete Gaussian instead of discrete Laplace noise; added to --delta")  # fmt: skip


def make_mechanism(arguments: argparse.Namespace) -> Mechanism:
    """The mechanism that the arguments describe. Raises InputError for a parameter that is missing or not its own."""
    require(arguments, "mechanism", "k", "epsilon")
    try:
        kind = mechanism_by_name(arguments.mechanism)
    except ValueError as error:
        raise InputError(f"--{error}") from None
    own = {field.name: field for field in fields(kind)}
    given = {name: getattr(arguments, name) for name in ("epsilon", "neighbours", *_PARAMETERS)}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in own:
            raise InputError(f"--{name} does not apply to {arguments.mechanism}: leave it out")
    if "max_items_per_user" in own and arguments.max_items_per_user is not None:
        given["max_items_per_user"] = arguments.max_items_per_user
    try:
        return kind(**given)
    except TypeError as error:
        missing = ", ".join(f"--{name.replace('_', '-')}" for name in re.findall(r"'(\w+)'", str(error)))
        raise InputError(f"{arguments.mechanism} needs {missing}") from None
    except ValueError as error:
        raise InputError(as_argument(str(error))) from None


def as_argument(message: str) -> str:
    """A message on a Python argument as one on the command line's: `max_items_per_user` is --max-items-per-user."""
    name, _, rule = message.partition(" ")
    known = {"k", "epsilon", "neighbours", "max_items_per_user", *_PARAMETERS}
    return f"--{name.replace('_', '-')} {rule}" if name in known else message


def require(arguments: argparse.Namespace, *names: str) -> None:
    """Raise InputError unless every argument was given."""
    missing = [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name) is None]
    if missing:
        raise InputError(f"{', '.join(missing)} must be given")


def duration(text: str) -> timedelta:
    """A length of time such as 7d, 12h or 90m."""
    found = re.fullmatch(r"(\d+)\s*([smhdw])", text.strip())
    if not found or int(found[1]) == 0 or int(found[1]) > 10**6:
        raise argparse.ArgumentTypeError(f"must be a number and one of s, m, h, d, w, such as 7d; got {text!r}")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def window_length(text: str) -> timedelta | str:
    """A length of time such as 7d, or a calendar's day, week or month."""
    return text if text in CALENDAR_UNITS else duration(text)


def moment(text: str) -> datetime:
    """A point in time in ISO 8601, in UTC where no time zone is given."""
    value = local_moment(text)
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)


def local_moment(text: str) -> datetime:
    """A point in time in ISO 8601, without a time zone where none is given."""
    try:
        return datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a date or time such as 2026-01-01, got {text!r}") from None


def given_names(argv: Sequence[str]) -> set[str]:
    return {word.partition("=")[0] for word in argv if word.startswith("--")}


def _add_domain(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("domain (one of the two)")
    group.add_argument("--domain", metavar="FILE", help="the public list of items: one per line, or a column of a "
                       "CSV, JSON lines, Parquet or Avro file")  # fmt: skip
    group.add_argument(
        "--domain-column", metavar="NAME", help="the column of the domain file (default: the item column)"
    )
    group.add_argument("--unknown-domain", action="store_true", help="no list: which items exist is private too; "
                       "needs an unknown-domain mechanism and a delta")  # fmt: skip


def add_window_arguments(parser: argparse.ArgumentParser) -> None:
    """The declared period and how it is cut, for batch and for streaming."""
    group = parser.add_argument_group("windows (all of --from, --to and perhaps --window, or none)")
    group.add_argument("--window", type=window_length, metavar="LENGTH", help="one ranking for every such length, as "
                       "in 7d or 12h, or for every day, week or month of the calendar")  # fmt: skip
    group.add_argument("--every", type=duration, metavar="LENGTH", help="with a --window of a length: one such window "
                       "starts every so often, and they overlap")  # fmt: skip
    group.add_argument("--time-zone", metavar="NAME", help="of --from, --to and of the days, weeks or months, such as "
                       "Europe/Berlin (default: UTC)")  # fmt: skip
    group.add_argument("--from", type=local_moment, dest="period_from", metavar="TIME",
                       help="start of the declared period, included")  # fmt: skip
    group.add_argument("--to", type=local_moment, dest="period_to", metavar="TIME",
                       help="end of the declared period, excluded")  # fmt: skip


def _add_release(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("repeatable releases")
    group.add_argument("--release-key", metavar="REF", help="file:PATH, env:NAME or "
                       "gcp-secret:projects/P/secrets/S/versions/V; without it a new random key is made")  # fmt: skip
    group.add_argument("--release-id", metavar="TEXT", help="name of the release, from public knowledge only, such as "
                       "report and period; the same key, id and data repeat the same ranking")  # fmt: skip
