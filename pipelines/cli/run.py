"""`private-topk run`: a ranking from files."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from private_topk.pipelines.cli.arguments import (
    add_columns,
    add_config,
    add_looks,
    add_question,
    add_running,
)
from private_topk.pipelines.cli.parser import Parser, add, add_json, add_switch
from private_topk.pipelines.texts import whole
from private_topk.pipelines.unfinished import Unfinished

if TYPE_CHECKING:
    from private_topk.pipelines.run import Done

__all__ = ["execute", "parser"]

_NEEDS = ("input", "output", "mechanism", "k", "epsilon")
_CHOOSE = ("domain", "domain_range", "unknown_domain")
_EXAMPLE = """examples:
  private-topk run --input 'plays-*.avro' --domain catalogue.txt \\
      --mechanism joint --k 10 --epsilon 1 \\
      --window 7d --from 2026-01-05 --to 2026-02-16 --output ranking.avro
  private-topk run --config weekly.yaml --check
  private-topk run --config weekly.yaml --epsilon 0.5 --overwrite --json

Arguments that are not listed here go to Beam, such as --cores=4.
Exit status: 0 published, 2 bad input (nothing done), 1 failed, 130 or 143 interrupted (what is published is told)."""


def parser(words: Sequence[str] = ()) -> Parser:
    """The arguments, also those of a mechanism of one's own that the words name."""
    text = "Publish a ranking from files."
    found = Parser(prog="private-topk run", description=text, epilog=_EXAMPLE, needs=_NEEDS, choose=[_CHOOSE])
    add_config(found)
    rows = found.add_argument_group("input")
    add(rows, "input", "GLOB", "files of rows: .avro, .parquet, .csv or .jsonl, each also .gz; or "
        "bigquery://PROJECT:DATASET.TABLE")  # fmt: skip
    add(rows, "success_file", "PATH", "do nothing unless this file is there, such as the _SUCCESS that whoever writes "
        "the input writes last")  # fmt: skip
    add(rows, "expect_rows_at_least", "N", "do nothing unless so many rows have a user, an item and a time in the "
        "period; whether a run starts then tells that, beyond any epsilon (docs/reports.md)", whole)  # fmt: skip
    add(rows, "snapshot", "gs://BUCKET/FOLDER", "with bigquery://: where the table's rows are exported to, once")
    add_columns(rows)
    add_question(found, words)
    running = found.add_argument_group("running")
    add_running(running, "ranking file: .avro, .jsonl, .csv or .parquet; a manifest goes beside it",
                "direct (default), prism, flink, dataflow or portable")  # fmt: skip
    add_switch(running, "quiet", "do not print the ranking")
    add_json(running, "what was published, or with --check what would be,")
    add_looks(running)
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Publish, and show what was published."""
    from private_topk.pipelines.cli.launching import publish

    done = publish(parser(), arguments, others)
    if done is None or done.deferred:
        return
    try:
        _show(done, arguments)
    except BrokenPipeError:  # whoever reads has seen enough
        raise
    except OSError as error:  # as where standard output is a file on a full disk
        raise Unfinished(f"{done.report.sink.place} is published all the same: there is nothing to repeat") from error


def _show(done: Done, arguments: Namespace) -> None:
    from private_topk.pipelines.cli.show import print_published, show_dropped_rows, show_rows

    if arguments.show_dropped_rows:
        show_dropped_rows(done.rows_left_out(), bool(arguments.exact_counters))
    if arguments.json:
        print_published(done.report.sink)
    elif not arguments.quiet:
        show_rows(done.report.sink, done.report.spec.period)
    sys.stdout.flush()
