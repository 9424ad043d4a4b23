"""The arguments that several commands share, with what each means. Nothing here imports Beam: --help is quick."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

from private_topk.pipelines.cli.parser import Group, Parser, add, add_switch
from private_topk.pipelines.options import Options
from private_topk.pipelines.texts import (
    BY_KIND,
    duration,
    fraction,
    listed,
    moment,
    number,
    one_of,
    whole,
    window_length,
)
from private_topk.transforms.mechanisms import MECHANISMS, Parameter, mechanism_by_name, parameters_of

__all__ = [
    "UNITS",
    "add_budget",
    "add_columns",
    "add_config",
    "add_counts",
    "add_domain",
    "add_exact_counters",
    "add_groups",
    "add_ledger",
    "add_like",
    "add_looks",
    "add_mechanism",
    "add_question",
    "add_release",
    "add_running",
    "add_windows",
    "options_of",
]

UNITS = ("user-window", "user")
NEIGHBOURS = ("add-remove", "swap")
_OF_COMMANDS = {"amount", "check", "config", "counts", "counts_before", "draws", "exact_counters", "items",
                "items_per_user", "json", "plot", "quiet", "recall", "runner", "show_dropped_rows",
                "these_counts_are_public", "users", "windows", "zipf"}  # fmt: skip
_MANY = 5


def add_question(parser: Parser, words: Sequence[str]) -> None:
    """What is asked of the rows, wherever they come from."""
    add_domain(parser.add_argument_group("domain (one of them)"))
    add_groups(parser.add_argument_group("groups (optional)"))
    add_mechanism(parser.add_argument_group("privacy"), words, "privacy budget of each window; smaller is more private")
    add_like(parser.add_argument_group("what is publicly known of the counts (optional)"))
    add_counts(parser.add_argument_group("noisy counts (optional)"))
    add_budget(parser.add_argument_group("budget across windows and runs (docs/budget.md)"))
    add_windows(parser.add_argument_group("windows (all of --from, --to and perhaps --window, or none)"))
    add_release(parser.add_argument_group("repeatable releases"))


def add_config(group: Group) -> None:
    add(group, "config", "FILE", "take arguments from this YAML file, each by its name without the dashes, such as "
        "`k: 10`; those of the command line count before them")  # fmt: skip


def add_columns(group: Group) -> None:
    add(group, "user_column", "NAME", "who (default: user)")
    add(group, "item_column", "NAME", "what is ranked (default: item)")
    add(group, "time_column", "NAME", "event time, for --window (default: time)")
    add(group, "time_unit", "{s,ms,us}", "what a plain number in the time column counts, since 1970 UTC (default: s)",
        one_of("s", "ms", "us"))  # fmt: skip
    add(group, "value_column", "NAME", "rank by the sum of this column, such as minutes or revenue, and not by the "
        "number of users; needs --max-value (docs/amounts.md)")  # fmt: skip
    add(group, "max_value", "W", "the most that one user adds to an item of a window; chosen without a look at the "
        "data", number)  # fmt: skip
    add(group, "value_resolution", "R", "amounts are rounded to multiples of it, of which --max-value is one (default: "
        "1)", number)  # fmt: skip
    add_switch(group, "csv_quoted_newlines", "let quoted values of CSV files hold line ends; rows then depend on each "
               "other: one value with an unclosed quote takes other users' rows along, beyond any epsilon")  # fmt: skip


def add_domain(group: Group) -> None:
    add(group, "domain", "FILE", "the public list of items: one per line, or a column of a CSV, JSON lines, Parquet or "
        "Avro file")  # fmt: skip
    add(group, "domain_column", "NAME", "the column of the domain file (default: the item column)")
    add(group, "domain_group_column", "NAME", "the column of the domain file that says in which group an item can be "
        "ranked; an item of several has a row for each (default: every item in all groups)")  # fmt: skip
    add(
        group,
        "domain_range",
        "START:STOP",
        "the public items are the integers START to STOP - 1, such as 0:4294967296; no worker holds a list of them",
    )
    add_switch(group, "unknown_domain", "no list: which items exist is private too; needs an unknown-domain mechanism "
               "and a delta")  # fmt: skip


def add_groups(group: Group) -> None:
    add(group, "group_column", "NAME", "a ranking for every value of this column, such as country, that --groups lists "
        "(docs/groups.md)")  # fmt: skip
    add(group, "groups", "FILE", "the public list of groups, as --domain is that of items; every one is published in "
        "every window")  # fmt: skip
    add(group, "groups_per_user", "G", "in how many groups of a window a user counts, those of most of their rows "
        "(default: 1); more share the budget", whole)  # fmt: skip


def add_mechanism(
    group: Group,
    words: Sequence[str],
    budget: str,
    bound: str = "keep at most M items of every user and window, chosen by a hash",
    several: bool = False,
) -> None:
    """The mechanism, k and the budget: commands that share them explain budget and bound differently.

    Args:
        words: of the command line, which may name a mechanism of one's own: its parameters become arguments too.
        several: mechanism, k and epsilon may each be given as a list, with commas.
    """
    read, many = (listed, " (or several, with commas)") if several else (_as_it_is, "")
    add(group, "mechanism", "NAME", f"what draws: one of {', '.join(MECHANISMS)}, or your own as module:Class; "
        f"`private-topk mechanisms` compares them{many}", read(str))  # fmt: skip
    add(group, "k", "K", f"how many items to publish{many}", read(whole))
    add(group, "epsilon", "E", f"{budget}{many}", read(number))
    add(group, "delta", "D", "for (epsilon, delta) mechanisms, such as 1e-6: well below 1 / number of users", number)
    for parameter, owners in _parameters(words):
        add(group, parameter.name, parameter.name[0].upper(), f"{owners}: {parameter.help}", BY_KIND[parameter.kind])
    add(group, "neighbours", "{add-remove,swap}", "what is protected: that a user is there at all (add-remove, "
        "default), or what a known user did (swap)", one_of(*NEIGHBOURS))  # fmt: skip
    add(group, "max_items_per_user", "M", bound, whole)


def options_of(arguments: Namespace) -> Options:
    """The fields that were given. Arguments that are no field of ours and not of the command are the mechanism's."""
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    options: dict[str, Any] = {name: value for name, value in given.items() if name in Options.__annotations__}
    parameters = {name: value for name, value in given.items() if name not in options and name not in _OF_COMMANDS}
    return cast(Options, {**options, **({"parameters": parameters} if parameters else {})})


def _as_it_is(read: Callable[[str], object]) -> Callable[[str], object]:
    return read


def _parameters(words: Sequence[str]) -> list[tuple[Parameter, str]]:
    """Those of every mechanism but for the ones that all share, in order, each with the mechanisms that take it."""
    kinds = list(MECHANISMS.values())
    name = next((after for before, after in pairwise(words) if before == "--mechanism"), "")
    name = next((word.partition("=")[2] for word in words if word.startswith("--mechanism=")), name)
    kinds += [mechanism_by_name(own) for own in name.split(",") if ":" in own]
    found: dict[str, tuple[Parameter, list[str]]] = {}
    for kind in kinds:
        for name, its in parameters_of(kind).items():
            if name not in Options.__annotations__:
                found.setdefault(name, (its, []))[1].append(kind.about.name)
    return [(its, ", ".join(names) if len(names) < _MANY else "some mechanisms") for its, names in found.values()]


def add_like(
    group: Group,
    what: str = "warn before the charge where a ranking would be close to noise, judging by this",
    otherwise: str = " (default: what stands at the output)",
) -> None:
    add(group, "like", "WHAT", f"{what}: an earlier ranking with noisy counts; a shape, as in zipf=1.1,items=1e6,"
        f"users=1e6,items_per_user=20; or sample, the project's own{otherwise}")  # fmt: skip


def add_counts(group: Group) -> None:
    add(group, "publish_counts", "E", "also publish noisy counts of the released items from a budget of their own: "
        "this epsilon is added to --epsilon", number)  # fmt: skip
    add(group, "publish_counts_delta", "D", "Gaussian noise for the counts, less for many of them; added to --delta",
        number)  # fmt: skip
    add(group, "round_counts", "N", "publish noisy counts as multiples of N, such as 10", whole)


def add_budget(group: Group) -> None:
    add(group, "privacy_unit", "{user-window,user}", "user-window (default): --epsilon is that of every single window; "
        "user: --epsilon and --delta are the total of all windows that a user can be in, and each gets a share",
        one_of(*UNITS))  # fmt: skip
    add(group, "horizon", "N", "with --privacy-unit user: how many windows there will be in all, where a run publishes "
        "only some of them (default: those of this run)", whole)  # fmt: skip
    add(group, "max_windows_per_user", "W", "with --privacy-unit user: a user counts in at most W windows, chosen by a "
        "hash, and the total is shared by W (docs/windows-per-user.md)", whole)  # fmt: skip
    add_ledger(group)


def add_ledger(group: Group) -> None:
    add(group, "ledger", "URL", "where spending is kept, such as sqlite:///budget.db or postgresql://user@host/db; "
        "charged before the run starts")  # fmt: skip
    add(group, "dataset", "NAME", "with --ledger: whose budget is charged")


def add_windows(group: Group) -> None:
    add(group, "window", "LENGTH", "one ranking for every such length, as in 7d or 12h, or for every day, week or "
        "month of the calendar", window_length)  # fmt: skip
    add(group, "every", "LENGTH", "with a --window of a length: one such window starts every so often, and they "
        "overlap", duration)  # fmt: skip
    add(group, "time_zone", "NAME", "of --from, --to and of the days, weeks or months, such as Europe/Berlin (default: "
        "UTC)")  # fmt: skip
    add(group, "against", "previous", "rank by how much items rise against the window before each, whose rows are read "
        "too (docs/risers.md)", one_of("previous"))  # fmt: skip
    add(group, "against_weight", "G", "with --against: how much of the window before is taken off, 0 to 1, such as "
        "0.5 or 2/3 (default: 1)", fraction)  # fmt: skip
    add(group, "period_from", "TIME", "start of the declared period, included", moment)
    add(group, "period_to", "TIME", "end of the declared period, excluded", moment)


def add_release(group: Group) -> None:
    add(group, "release_key", "REF", "file:PATH, env:NAME or gcp-secret:projects/P/secrets/S/versions/V; without it a "
        "new random key is made")  # fmt: skip
    add(group, "release_id", "TEXT", "name of the release, from public knowledge only, such as report and period; the "
        "same key, id and data repeat the same ranking")  # fmt: skip


def add_running(group: Group, output: str, runners: str) -> None:
    add(group, "output", "PLACE", output)
    add(group, "output_format", "{avro,jsonl,csv,parquet}", "of the files in an output folder (default: avro)",
        one_of("avro", "jsonl", "csv", "parquet"))  # fmt: skip
    add(group, "partition_by", "WORD", "in an output folder: a folder for every group, such as country=DE/; WORD is "
        "group or the name of the group column")  # fmt: skip
    add_switch(group, "overwrite", "replace an existing output")
    add(group, "runner", "NAME", runners)
    add_exact_counters(group)
    add(group, "shards", "N", "user shards, a power of two; any gives the same ranking (default: by size)", whole)


def add_exact_counters(group: Group) -> None:
    add_switch(group, "exact_counters", "let the runner's metrics show exactly how many rows were left out, which "
               "tells of single users to all who may see them (default: their order of magnitude)")  # fmt: skip


def add_looks(group: Group) -> None:
    add_switch(group, "check", "only say what a run would do, and whether it could: nothing is drawn, charged or "
               "published; with --show-dropped-rows the rows are looked at too")  # fmt: skip
    add_switch(group, "show_dropped_rows", "tell on stderr why rows were left out and whether they are many, for the "
               "operator only; with --exact-counters how many")  # fmt: skip
