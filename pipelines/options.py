"""The table of options: one row each, whichever way it is given.

The arguments of the command line, the fields of report files, the parameters of Beam YAML and of the flex template are
made from it, and so is what a ledger has to know. A new option is a row here, and its use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from private_topk.pipelines.texts import (
    BY_KIND,
    OneOf,
    columns,
    count,
    delimiter,
    encoding,
    mechanism,
    name_and_value,
    number,
    number_or_drawn,
    output_template,
    port,
    report_name,
    template,
    whole,
    zone,
)
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, Parameter, mechanism_by_name, parameters_of
from private_topk.transforms.windows.period import delay, duration, moment, window_length

Options = Mapping[str, Any]
"""The options that were given, read, by their names; those that were not are absent. `parameters` are the mechanism's
own, by theirs. Moments without a time zone are in `time_zone`.
"""


@dataclass(frozen=True)
class Option:
    """One row of the table.

    Args:
        name: its name inside the program.
        help: the help text, with names of other options in braces; one for each command where these differ.
        read: reads a text; its ValueError states the rule that the text breaks. None for a switch.
        metavar: the placeholder for the value in help texts.
        commands: the commands that take it, where that is not its section's, nor in `help`.
        group: its heading in their help, which is its section's.
        several: the commands that take a comma-separated list of values.
        many: it may be given several times, and is a tuple.
        field: its name in a report file.
        required: in a report file and in the flex template.
        path: in a report file, relative to the file's own folder.
        template: in a report file, {report}, {start} and {end} are filled in for every period; it checks that.
        beam: its name in Beam YAML.
        same: why it changes neither which rows count nor what is drawn, so that a ledger need not know it.
        parameter: it is one of a mechanism's own.
        own: in a report file, an input may have its own.
    """

    name: str
    help: str | Mapping[str, str]
    read: Callable[[str], Any] | None = None
    metavar: str = ""
    commands: tuple[str, ...] = ()
    group: str = ""
    several: tuple[str, ...] = ()
    many: bool = False
    field: str = ""
    required: bool = False
    path: bool = False
    template: Callable[[str], str] | None = None
    beam: str = ""
    same: str = ""
    parameter: bool = False
    own: bool = False

    def helps(self, command: str) -> str | None:
        """Its help text for a command, or None if the command has no such option."""
        if isinstance(self.help, str):
            return self.help if command in self.commands else None
        return self.help.get(command)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it accepts, or none where it accepts other values."""
        return self.read.words if isinstance(self.read, OneOf) else ()


RUN = ("run", "stream")
_DRAW = (*RUN, "preview", "select")
_CREATE = "budget create"
_BUDGETS = (_CREATE, "budget show", "budget history", "budget adopt", "budget renew")


def inputs_of(options: Options) -> list[Options]:
    """The options of each input, whose place is a text: those of all, and where it has some its own."""
    given = options.get("input", ())
    return [{**options, **(one if isinstance(one, Mapping) else {"input": one})} for one in given]


def own_of_inputs(options: Options, name: str) -> tuple[Any, ...]:
    """What each input has of an option of its own; None where it has none."""
    return tuple(one.get(name) if isinstance(one, Mapping) else None for one in options.get("input", ()))


def _section(group: str, commands: tuple[str, ...], *options: Option) -> tuple[Option, ...]:
    """Options under one heading of the help, for these commands where a row names no others."""
    return tuple(replace(option, group=group, commands=option.commands or commands) for option in options)


def _both(text: str) -> dict[str, str]:
    return dict.fromkeys(RUN, text)


_INPUT = _section(
    "input",
    RUN,
    Option(
        "input",
        {
            "run": "files of rows: .avro, .parquet, .csv, .tsv or .jsonl, each also .gz or .zst; may be given several "
            "times; or bigquery://PROJECT:DATASET.TABLE",
            "stream": "kafka://HOST:PORT[,HOST:PORT]/TOPIC, pubsub://projects/P/subscriptions/S, or a glob of files "
            "that arrive, as in 'incoming/*.avro'",
        },
        str,
        "PLACE",
        many=True,
        field="source.input",
        required=True,
        path=True,
        template=template,
        own=True,
    ),
    Option(
        "success_file",
        "start only if this file is there, such as the _SUCCESS that is written after all other files; may be given "
        "several times",
        str,
        "PATH",
        many=True,
        commands=("run",),
        field="source.success_file",
        path=True,
        template=template,
        same="whether a run starts; then the input is what it is",
    ),
    Option(
        "expect_rows_at_least",
        "start only if at least N rows would count, which leaks that there are so many: no epsilon covers it "
        "(docs/reports.md)",
        whole,
        "N",
        commands=("run",),
        field="source.expect_rows_at_least",
        own=True,
        same="whether a run starts; then the rows are what they are",
    ),
    Option(
        "snapshot",
        "with bigquery://: the folder to which the table's rows are exported, once",
        str,
        "gs://BUCKET/FOLDER",
        commands=("run",),
        field="source.snapshot",
        same="where a table's rows are kept; they are named by what the files hold",
    ),
    Option(
        "payload",
        "what a message holds (default: json)",
        OneOf("json", "avro"),
        commands=("stream",),
        field="source.payload",
    ),
    Option(
        "payload_schema",
        "with {payload} avro: the schema, an .avsc file",
        str,
        "FILE",
        commands=("stream",),
        field="source.payload_schema",
        path=True,
    ),
    Option(
        "user_column",
        "the column of users (default: user)",
        str,
        "NAME",
        field="source.user_column",
        own=True,
        beam="user",
    ),
    Option(
        "item_column",
        _both("the column of items (default: item); several columns make one item together, as in country,title")
        | {
            "preview": "the column of items in {domain} and {found}, as in the run (default: item)",
            "show": "with {item_titles}: its column of items (default: as in the rows)",
        },
        columns,
        "NAME[,NAME]",
        field="source.item_column",
        own=True,
        beam="item",
    ),
    Option(
        "time_column",
        "the column of event times, for {window} (default: time)",
        str,
        "NAME",
        field="source.time_column",
        own=True,
    ),
    Option(
        "time_unit",
        "the unit of plain numbers in the time column, counted from 1970 UTC (default in text files: s)",
        OneOf("s", "ms", "us", "ns"),
        field="source.time_unit",
        own=True,
    ),
    Option(
        "csv_delimiter",
        "CSV files: the character between the values of a line, such as ';' or "
        "\\t (default: a comma; .tsv files have tabs)",
        delimiter,
        "CHAR",
        field="source.csv_delimiter",
        own=True,
    ),
    Option(
        "csv_encoding",
        "CSV files: their encoding, such as utf-16 or latin-1 (default: utf-8)",
        encoding,
        "NAME",
        field="source.csv_encoding",
        own=True,
    ),
    Option(
        "csv_quoted_newlines",
        "let quoted values of CSV files hold line ends; one unclosed quote "
        "then makes other users' rows unreadable, which no epsilon covers",
        field="source.csv_quoted_newlines",
        own=True,
    ),
)
_AMOUNTS = _section(
    "amounts (optional, docs/amounts.md)",
    RUN,
    Option(
        "value_column",
        "rank by the sum of this column, such as minutes or revenue, instead of the "
        "number of users; needs {max_value} (docs/amounts.md)",
        str,
        "NAME",
        field="amounts.column",
        own=True,
        beam="value",
    ),
    Option(
        "max_value",
        _both("the most that one user adds to an item in a window; choose it without looking at the data")
        | {"preview": "rank by sums of amounts; a user adds at most W to an item"},
        number,
        "W",
        field="amounts.max_value",
        beam="max_value",
    ),
    Option(
        "value_resolution",
        _both("amounts are rounded to multiples of it (default: 1, but floats need it); {max_value} must be one")
        | {"preview": "amounts are rounded to multiples of it (default: 1)"},
        number,
        "R",
        field="amounts.resolution",
        beam="value_resolution",
    ),
)
_CLOCK = _section(
    "when a window is published (docs/streaming.md)",
    ("stream",),
    Option(
        "clock",
        "which clock must pass a window's end: log (default), the source's own clock of "
        "arrivals; event, the times of the rows, for replaying logs that are in order",
        OneOf("log", "event"),
        field="source.clock",
    ),
    Option(
        "allowed_lateness",
        "wait this much longer before a window closes (default: none); rows that come later are dropped",
        delay,
        "LENGTH",
        field="source.allowed_lateness",
    ),
    Option(
        "poll",
        "files: how often to look for new ones (default: 10s)",
        duration,
        "LENGTH",
        field="source.poll",
        same="how often a folder is looked at; rows came when their files were written",
    ),
)
_KAFKA = _section(
    "Kafka",
    ("stream",),
    Option(
        "kafka_readers",
        "how many workers share the partitions (default: 1)",
        count,
        "N",
        field="source.kafka_readers",
        same="how many share the partitions changes neither rows nor clock",
    ),
    Option(
        "kafka_start",
        "where reading of a topic starts: earliest (default), latest, or a time such as 2026-01-01, for the first "
        "message stamped since then",
        str,
        "TIME",
        field="source.kafka_start",
    ),
    Option(
        "kafka_config",
        "an option of the Kafka client, such as security.protocol=SASL_SSL, or sasl.password=env:NAME from the "
        "environment; may be given several times",
        name_and_value,
        "NAME=VALUE",
        many=True,
        field="source.kafka_config",
        same="how a broker is reached; its address is the topic's",
    ),
)
_DOMAIN = _section(
    "domain (one of them)",
    (*RUN, "preview"),
    Option(
        "domain",
        "the public list of items: one per line, or a column of a CSV, JSON lines, Parquet or Avro file",
        str,
        "FILE",
        field="domain.file",
        path=True,
        beam="domain",
    ),
    Option(
        "found",
        "a ranking published before, whose items can be ranked too, with or without {domain}; may be given several "
        "times (docs/finding.md)",
        str,
        "FILE",
        many=True,
        field="domain.found",
        path=True,
        template=template,
    ),
    Option(
        "domain_column",
        "the column of the domain file, or as many as an item has (default: the item column)",
        columns,
        "NAME[,NAME]",
        field="domain.column",
    ),
    Option(
        "domain_group_column",
        "the column of the domain file that names the group in which an item can be ranked; an item of several groups "
        "has a row for each (default: every item in all groups)",
        columns,
        "NAME[,NAME]",
        commands=RUN,
        field="domain.group_column",
    ),
    Option(
        "domain_range",
        "the public items are the integers START to STOP - 1, such as 0:4294967296; no worker holds a list of them",
        str,
        "START:STOP",
        field="domain.range",
        beam="domain_range",
    ),
    Option(
        "unknown_domain",
        "rank any item, without a public list: which items exist is private too, so it needs a delta; items that are "
        "listed all the same need no threshold (docs/finding.md)",
        field="domain.unknown",
    ),
)
_GROUPS = _section(
    "groups (optional, docs/groups.md)",
    RUN,
    Option(
        "group_column",
        "one ranking for each value of this column, such as country, that {groups} lists; or for each combination of "
        "several columns, as in country,platform (docs/groups.md)",
        columns,
        "NAME[,NAME]",
        field="groups.column",
        own=True,
        beam="group",
    ),
    Option(
        "groups",
        "the public list of groups, in a file like that of {domain}; all groups are published in every window",
        str,
        "FILE",
        field="groups.file",
        path=True,
        beam="groups",
    ),
    Option(
        "groups_per_user",
        _both(
            "a user counts in at most G groups of a window, those with most of the user's rows (default: 1); the "
            "groups share the budget"
        )
        | {
            "preview": "every group has a ranking, and a user counts in up to G groups of a window; the counts are "
            "those of one group",
        },
        count,
        "G",
        field="groups.per_user",
        beam="groups_per_user",
    ),
    Option(
        "overall",
        _both(
            "all rows have a ranking too, as one more group named overall, which shares the budget; rows of groups "
            "that are not listed, or missing, count in it alone"
        )
        | {"preview": "with {groups_per_user}: all rows have a ranking too, which shares the budget"},
        field="groups.overall",
        beam="overall",
    ),
)
_PRIVACY = _section(
    "privacy",
    (_CREATE,),
    Option(
        "mechanism",
        {
            command: f"the mechanism: one of {', '.join(MECHANISMS)}, or your own as module:Class; "
            f"`private-topk mechanisms` compares them{otherwise}"
            for command, otherwise in (
                *((command, " (default: auto, chosen by public facts alone)") for command in RUN),
                ("preview", " (default: all; without {like} auto)"),
                ("select", ""),
            )
        },
        mechanism,
        "NAME",
        several=("preview",),
        field="mechanism.name",
        beam="mechanism",
    ),
    Option(
        "k",
        dict.fromkeys(_DRAW, "how many items to publish")
        | _both(
            "how many items to publish; without it weighted-gaussian publishes all items above its threshold "
            "(docs/finding.md)"
        )
        | {"budget show": "with {remaining}: also the epsilon with which each release may rank the top K by peeling"},
        count,
        "K",
        several=("preview",),
        field="mechanism.k",
        beam="k",
    ),
    Option(
        "epsilon",
        _both("privacy budget: of each window, or with {privacy_unit} user of all together; smaller is more private")
        | {
            "preview": "privacy budget, as in the run; smaller is more private",
            "select": "privacy budget of the draw; smaller is more private",
            _CREATE: "the total",
        },
        number,
        "E",
        several=("preview",),
        field="budget.epsilon",
        required=True,
        beam="epsilon",
    ),
    Option(
        "delta",
        dict.fromkeys(_DRAW, "well below 1 / number of users, such as 1e-6, for (epsilon, delta) mechanisms")
        | {_CREATE: "the total (default: 0, so that epsilons only add up)"},
        number,
        "D",
        field="budget.delta",
    ),
    Option(
        "release_delta",
        "the part of delta for the deltas of single releases; the rest lets many small releases cost less than the sum "
        "of their epsilons (default: half)",
        number,
        "D",
    ),
    Option(
        "neighbours",
        dict.fromkeys(
            _DRAW,
            "what is protected: whether a user is in the data at all (add-remove, default), or what a known user "
            "did (replace-one)",
        )
        | {_CREATE: "what every release of the dataset must protect (default: add-remove)"},
        OneOf("add-remove", "replace-one"),
        field="budget.neighbours",
    ),
    Option(
        "max_items_per_user",
        dict.fromkeys((*RUN, "preview"), "keep at most M items of every user and window, chosen by a hash")
        | {
            "select": "for mechanisms whose noise depends on it: no user may be in more than M of the counts",
        },
        count,
        "M",
        field="mechanism.max_items_per_user",
        beam="max_items_per_user",
    ),
)
_KNOWN = _section(
    "what is publicly known of the counts of a window",
    ("preview",),
    Option(
        "like",
        {
            command: f"{what}: an earlier ranking with noisy counts; a shape, as in items=1e6,users=1e6,rank1=4%,"
            f"rank50=0.5%, which says what part of the users of one window two items reach; or sample, the sample "
            f"data{otherwise}"
            for command, what, otherwise in (
                *(
                    (
                        each,
                        "what the counts are like, to warn before the charge if a ranking would be close to noise",
                        " (default: an earlier ranking at the output)",
                    )
                    for each in RUN
                ),
                ("preview", "what the counts are like", ""),
            )
        },
        str,
        "WHAT",
        field="preview.like",
        path=True,
        template=template,
        same="whether a warning is printed",
    ),
    Option(
        "on_noise",
        "what to do if a ranking is forecast to be mostly noise: warn (default), or refuse before the charge",
        OneOf("warn", "refuse"),
        commands=RUN,
        field="preview.on_noise",
        same="whether a run starts",
    ),
    Option(
        "counts",
        {
            "preview": "public or made-up counts of a window: .npy of integers, or a table with a column count",
            "select": ".npy of integers, or a table (.csv, .jsonl, .parquet, .avro) with a column count (and item)",
        },
        str,
        "FILE",
    ),
    Option("these_counts_are_public", "with {counts}: I know that these counts are public or made up"),
)
_COUNTS = _section(
    "noisy counts (optional)",
    (*RUN, "preview"),
    Option(
        "publish_counts",
        "also publish noisy counts of the released items, for this epsilon on top of {epsilon}; or drawn: those that "
        "the draw decides by, for no epsilon of their own",
        number_or_drawn,
        "E",
        field="budget.publish_counts",
        beam="publish_counts",
    ),
    Option(
        "publish_counts_delta",
        "Gaussian noise for the counts, which is smaller if many are published; added to {delta}",
        number,
        "D",
        field="budget.publish_counts_delta",
    ),
    Option(
        "round_counts",
        "publish noisy counts as multiples of N, such as 10",
        count,
        "N",
        field="budget.round_counts",
        same="rounding comes after the draw, which is the same",
    ),
)
_BUDGET = _section(
    "budget across windows and runs (docs/budget.md)",
    (*RUN, "preview"),
    Option(
        "privacy_unit",
        dict.fromkeys(
            (*RUN, "preview"),
            "what is protected together: user-window (default), a user's rows within one window; user, those in all "
            "windows, which share {epsilon} and {delta}",
        )
        | {
            _CREATE: "the unit that the total protects (default: user-window)",
            "budget renew": "which budget (default: the only one, or user-window)",
        },
        OneOf("user-window", "user"),
        field="budget.privacy_unit",
    ),
    Option(
        "horizon",
        "with {privacy_unit} user: how many windows there will be in all, if a run "
        "publishes only some of them (default: those of this run)",
        count,
        "N",
        field="window.horizon",
    ),
    Option(
        "max_windows_per_user",
        dict.fromkeys(
            (*RUN, "preview"),
            "with {privacy_unit} user: a user counts in at most W windows, chosen by "
            "a hash, and the total is shared by W (docs/windows.md)",
        ),
        count,
        "W",
        field="budget.max_windows_per_user",
        beam="max_windows_per_user",
    ),
    Option(
        "ledger",
        dict.fromkeys(
            (*RUN, "preview", *_BUDGETS),
            "where spending is kept, such as sqlite:///budget.db or "
            "postgresql://user@host/db; charged before the run starts",
        )
        | {
            "doctor": "check whether this ledger is there and can be charged, such as sqlite:///budget.db",
            "show": "count all that this ledger charged of the report, and show its budget",
        },
        str,
        "URL",
        field="ledger.url",
        same="which ledger is asked is no question to it",
    ),
    Option(
        "dataset",
        "the dataset whose budget in {ledger} is charged",
        str,
        "NAME",
        commands=(*RUN, "preview", *_BUDGETS),
        field="ledger.dataset",
        same="its own name",
    ),
    Option(
        "period",
        "how long a period lasts at least, such as 365d; the same for every renewal",
        duration,
        "LENGTH",
        commands=("budget renew",),
    ),
    Option(
        "remaining",
        "say what each of N further releases may spend, if all spend the same",
        whole,
        "N",
        commands=("budget show",),
    ),
)
_WINDOWS = _section(
    "windows (all of --from, --to and perhaps --window, or none)",
    (*RUN, "preview"),
    Option(
        "window",
        "the length of a window, as in 7d or 12h, or a day, week, month, quarter or year of the calendar; each window "
        "has a ranking",
        window_length,
        "LENGTH",
        beam="period.window",
    ),
    Option(
        "slide",
        "with a {window} such as 7d: a window starts after every such length, so windows overlap",
        duration,
        "LENGTH",
        beam="period.slide",
    ),
    Option(
        "to_date",
        {
            **dict.fromkeys(
                ("run", "preview"),
                "every window begins with the period: rankings of the period so far, paid for as one (docs/to-date.md)",
            ),
            "stream": "does not go with a stream: a report of files publishes window after window (docs/to-date.md)",
        },
        field="window.to_date",
        beam="period.to_date",
    ),
    Option(
        "time_zone",
        "the time zone of {period_from}, {period_to} and calendar windows, such as Europe/Berlin (default: UTC)",
        zone,
        "NAME",
        field="window.time_zone",
        beam="period.time_zone",
    ),
    Option("period_from", "start of the declared period, included", moment, "TIME", beam="period.from"),
    Option("period_to", "end of the declared period, excluded", moment, "TIME", beam="period.to"),
)
_RELEASE = _section(
    "repeatable releases",
    (*RUN, "select"),
    Option(
        "release_key",
        dict.fromkeys(
            (*RUN, "select"),
            "file:PATH, env:NAME or gcp-secret:projects/P/secrets/S/versions/V; without it a new random key is made",
        )
        | {"doctor": "file:PATH, env:NAME or gcp-secret:...; check whether it can be read, and by whom"},
        str,
        "REF",
        field="release_key",
        required=True,
        beam="release_key",
        same="a ledger knows the key by its id",
    ),
    Option(
        "release_id",
        "the name of the release, made from public knowledge only, such as report and period; "
        "the same key, id and data give the same ranking again",
        str,
        "TEXT",
        required=True,
        beam="release_id",
        same="a request's own name",
    ),
)
_RUNNING = _section(
    "running",
    RUN,
    Option(
        "output",
        {
            "run": "ranking file: .avro, .jsonl, .csv or .parquet; a manifest goes beside it",
            "stream": "a folder, for one file and manifest per window; or kafka://HOST:PORT/TOPIC, "
            "pubsub://projects/P/topics/T, bigquery://PROJECT:DATASET.TABLE",
        },
        str,
        "PLACE",
        field="sink.output",
        required=True,
        path=True,
        template=output_template,
        same="where an answer is written changes nothing in it; but a stream's has one place",
    ),
    Option(
        "output_format",
        "the format of files in an output folder (default: avro)",
        OneOf("avro", "jsonl", "csv", "parquet"),
        field="sink.format",
        same="how an answer is written changes nothing in it",
    ),
    Option(
        "overwrite",
        _both("replace an existing output") | {"show": "with {html}: replace an existing file"},
        same="whether an answer that is there is replaced changes nothing in it",
    ),
    Option(
        "runner",
        {
            "run": "direct (default), prism, flink, dataflow or portable",
            "stream": "direct (default) for trials with sources that end, prism, flink, dataflow, or portable",
            "doctor": "check what it needs: direct (default), prism, flink, dataflow or portable",
        },
        str,
        "NAME",
        field="runner.name",
        same="every runner draws the same answer, which tests hold",
    ),
    Option(
        "exact_counters",
        "let the runner's metrics show exactly how many rows were dropped, which reveals "
        "single users to everybody who sees them (default: the order of magnitude)",
        commands=(*RUN, "report"),
        same="the metrics",
    ),
    Option(
        "shards",
        "the number of user shards, a power of two; the ranking does not depend on it (default: by size)",
        whole,
        "N",
        field="runner.shards",
        same="any number of shards counts the same",
    ),
)
_ASKED = _section(
    "what is asked for (one of these)",
    ("report",),
    Option("window_end", "publish the period that ends here", moment, "DATE"),
    Option("missed", "list the periods that have ended and are not published"),
    Option("backfill", "publish them all, oldest first"),
    Option(
        "forget_users",
        "of a report to date: give what its state holds of these users, one a line, to random users",
        str,
        "FILE",
    ),
    Option(
        "dry_run",
        _both(
            "only say what a run would do, and whether it is ready: nothing is drawn, charged or published; with "
            "{show_dropped_rows} rows are read too"
        )
        | {
            "report": "only check the file; with {window_end} also say what a run for that period would do, and "
            "whether it is ready: nothing is drawn, charged or published",
            "budget adopt": "only say what would be adopted and what would be left: nothing is written",
        },
        same="no run at all",
    ),
    Option(
        "sign_off",
        dict.fromkeys(
            (*RUN, "report"), "with {dry_run}: print the sheet for the person who signs, before anything is published"
        )
        | {"show": "print a sheet for the person who signs: what the manifest says, and blanks to fill in"},
        same="no run at all",
    ),
)
_TOLD = _section(
    "what is told",
    ("preview",),
    Option(
        "recall",
        "find the least epsilon, or without {k} the largest k, with which this part of the top k is found, as in 0.9",
        number,
        "R",
    ),
    Option("draws", "draws for each mechanism (default: 400, fewer if they are slow)", whole, "N"),
    Option("plot", {"budget show": "draw spending over time into a .png, .svg or .pdf"}, str, "FILE"),
)
_SHOWN = _section(
    "",
    ("show",),
    Option("group", "show only the ranking of this group", str, "NAME"),
    Option("title", "with {html}: what is ranked, as in 'Most bought items'", str, "TEXT"),
    Option("html", "write a page to pass on, instead of printing: tables, charts, the guarantee", str, "FILE"),
    Option("registry", "print an entry for OpenDP's registry of deployments, as YAML with its blanks named"),
    Option("item_titles", "show items by the titles in this table, such as the domain file", str, "FILE"),
    Option("title_column", "with {item_titles}: the column of the titles (default: title)", str, "NAME"),
)
_TERMINAL = _section(
    "what the terminal shows",
    ("run", "report"),
    Option(
        "health_file",
        "write here every second, for a monitor, how many windows are published and when the next one closes, as JSON "
        "(docs/month-on-flink.md)",
        str,
        "FILE",
        commands=("stream",),
        same="the terminal",
    ),
    Option(
        "quiet",
        {
            "run": "do not print rankings, nor on a terminal anything about dropped rows",
            "report": "print nothing where all goes well, nor on a terminal anything about dropped rows",
        },
        same="the terminal",
    ),
    Option(
        "json",
        {
            command: f"print {what} as one JSON document (docs/command-line.md)"
            for command, what in {
                "run": "what was published, or with {dry_run} what would be,",
                "stream": "the output and how many windows were published, or with {dry_run} what would be,",
                "report": "the outcome of every period",
                "show": "rows and manifest",
                "preview": "every number with its interval",
                "select": "what was drawn",
                "budget create": "the budget",
                "budget adopt": "what was adopted, and the budgets",
                "budget renew": "the budget",
                "budget show": "budgets and what is spent",
                "budget history": "the charges",
                "mechanisms": "the mechanisms",
                "sample": "what was written",
                "doctor": "what was found",
            }.items()
        },
        same="the terminal",
    ),
    Option(
        "show_dropped_rows",
        "say on stderr why rows were dropped and roughly how many, for the "
        "operator only; with {exact_counters} exactly (default: only if stderr is a terminal)",
        commands=(*RUN, "report"),
        same="the terminal",
    ),
)
_OWN = (  # of one command each
    Option(
        "until",
        "with {missed} and {backfill}: look at periods that end by then (default: now)",
        moment,
        "DATE",
        commands=("report",),
    ),
    Option(
        "correction",
        "with {window_end}: the period's first, second, ... correction: a separate release over corrected input, which "
        "costs budget",
        count,
        "N",
        commands=("report",),
    ),
    Option("port", "the port to listen at, on this machine only", port, "N", commands=("expansion-service",)),
    Option(
        "folder", "where to write plays.avro and catalogue.txt (default: sample)", str, "FOLDER", commands=("sample",)
    ),
)
_FIELDS = (  # of report files alone
    Option("watch", "rows are read as they come", field="source.watch"),
    Option("constants", "columns that all rows have", name_and_value, many=True, field="source.constants", own=True),
    Option(
        "remember",
        "with {unknown_domain}: what the report has published is listed from then on",
        field="domain.remember",
    ),
    Option("state", "with {to_date}: the folder that keeps what is counted", str, field="window.state", path=True),
    Option("withdrawn", "the starts of periods that are not drawn again", moment, many=True, field="window.withdrawn"),
    Option("window", "the length of a period", window_length, field="window.every", required=True),
    Option("period_from", "the start of the first period", moment, field="window.first", required=True),
    Option("release_id", "the name of the report", report_name, field="report", required=True),
    Option("beam_options", "words for Beam", str, many=True, field="runner.options"),
)

OPTIONS: tuple[Option, ...] = (
    *_INPUT,
    *_AMOUNTS,
    *_CLOCK,
    *_KAFKA,
    *_DOMAIN,
    *_GROUPS,
    *_PRIVACY,
    *_KNOWN,
    *_COUNTS,
    *_BUDGET,
    *_WINDOWS,
    *_RELEASE,
    *_RUNNING,
    *_ASKED,
    *_OWN,
    *_TOLD,
    *_SHOWN,
    *_TERMINAL,
    *_FIELDS,
)
"""Every option but for the parameters of mechanisms, which `rows` adds."""

_NAMES = {option.name for option in OPTIONS}
_MAX_OWNERS_NAMED = 4


def rows(own: Iterable[str] = ()) -> Iterator[Option]:
    """The whole table, with the parameters of every mechanism behind {delta}.

    Args:
        own: names of mechanisms of one's own, module:Class; others are there in any case.

    Raises:
        InvalidArgument: a mechanism of one's own cannot be loaded.
    """
    for option in OPTIONS:
        yield option
        if option.name == "delta":
            yield from _parameters([*MECHANISMS.values(), *(mechanism_by_name(name) for name in own if ":" in name)])


def _parameters(kinds: Iterable[type[Mechanism]]) -> Iterator[Option]:
    """Options of single mechanisms, each with the mechanisms that take it."""
    taken: dict[str, list[str]] = {}
    first: dict[str, Parameter] = {}
    for kind in kinds:
        for name, parameter in parameters_of(kind).items():
            if name not in _NAMES:
                first.setdefault(name, parameter)
                taken.setdefault(name, []).append(kind.about.name)
    for name, parameter in first.items():
        owners = ", ".join(taken[name]) if len(taken[name]) <= _MAX_OWNERS_NAMED else "some mechanisms"
        yield Option(
            name,
            f"{owners}: {parameter.help}",
            BY_KIND[parameter.kind],
            name[0].upper(),
            _DRAW,
            _PRIVACY[0].group,
            field=f"mechanism.{name}",
            parameter=True,
        )


def require(options: Options, *names: str) -> None:
    """Raise InvalidArgument unless every one of the options was given."""
    missing = [f"{{{name}}}" for name in names if name not in options]
    if missing:
        raise InvalidArgument("", f"{', '.join(missing)} must be given")


def names_a_file(like: object) -> bool:
    """Whether a value of `like` is the path of a ranking, and not "sample" or the numbers of a shape."""
    return like != "sample" and "=" not in str(like)
