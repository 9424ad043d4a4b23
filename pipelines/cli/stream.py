"""`private-topk stream`: a ranking per window of a declared horizon, as each window closes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from private_topk.pipelines.cli.arguments import add_columns, add_config, add_looks, add_question, add_running
from private_topk.pipelines.cli.parser import Group, Parser, add, add_json
from private_topk.pipelines.texts import duration, name_and_value, one_of, whole
from private_topk.transforms.errors import printable

__all__ = ["execute", "parser"]

_NEEDS = ("input", "output", "mechanism", "k", "epsilon", "period_from", "period_to")
_CHOOSE = ("domain", "domain_range", "unknown_domain")
_EXAMPLE = """examples:
  private-topk stream --input kafka://broker:9092/plays --domain catalogue.txt \\
      --mechanism joint --k 10 --epsilon 1 --runner flink --flink_master jobmanager:8081 \\
      --window day --time-zone Europe/Berlin --from 2026-01-01 --to 2026-02-01 --output rankings/
  private-topk stream --input 'incoming/*.jsonl' --domain catalogue.txt --clock event \\
      --mechanism joint --k 10 --epsilon 1 --window day --from 2026-01-05 --to 2026-01-08 --output rankings/
  private-topk stream --config daily.yaml --check

Every window is published once, when it has closed; the command ends when the horizon is over.
Exit status: 0 published, 2 bad input (nothing done), 1 failed, 130 or 143 interrupted (windows published by then
stay, and are told)."""


def parser(words: Sequence[str] = ()) -> Parser:
    """The arguments, also those of a mechanism of one's own that the words name."""
    text = "Publish a ranking per window from a stream."
    found = Parser(prog="private-topk stream", description=text, epilog=_EXAMPLE, needs=_NEEDS, choose=[_CHOOSE])
    add_config(found)
    rows = found.add_argument_group("input")
    add(rows, "input", "PLACE", "kafka://HOST:PORT[,HOST:PORT]/TOPIC, pubsub://projects/P/subscriptions/S, or a glob "
        "of files that arrive, as in 'incoming/*.avro'")  # fmt: skip
    add(rows, "payload", "{json,avro}", "what a message holds (default: json)", one_of("json", "avro"))
    add(rows, "payload_schema", "FILE", "with --payload avro: the schema, an .avsc file")
    add_columns(rows)
    _add_clock(found.add_argument_group("when a window is published (docs/streaming.md)"))
    _add_kafka(found.add_argument_group("Kafka"))
    add_question(found, words)
    running = found.add_argument_group("running")
    add_running(running, "a folder, for one file and manifest per window; or kafka://HOST:PORT/TOPIC, pubsub://projects/"
                "P/topics/T, bigquery://PROJECT:DATASET.TABLE", "direct (default) for trials with sources that end, "
                "prism, flink, dataflow, or portable")  # fmt: skip
    add_looks(running)
    add_json(running, "where how many windows were published, or with --check what would be,")
    return found


def execute(arguments: Namespace, others: list[str]) -> None:
    """Run to the end of the horizon, and say so."""
    from private_topk.pipelines.cli.answering import print_json
    from private_topk.pipelines.cli.launching import publish
    from private_topk.pipelines.cli.show import show_dropped_rows

    done = publish(parser(), arguments, others, watch=True)
    if done is None or done.deferred:
        return
    if arguments.show_dropped_rows:
        show_dropped_rows(done.rows_left_out(), bool(arguments.exact_counters))
    period = done.report.spec.period
    if arguments.json:
        print_json({"output": done.report.sink.place, "release_id": done.report.spec.release.id,
                    "windows": len(period or ())})  # fmt: skip
    elif period is not None:
        print(f"the horizon is over: {len(period):,} windows published to {printable(done.report.sink.place)}")


def _add_clock(group: Group) -> None:
    add(group, "clock", "{log,event}", "log (default): when the source's own clock, of arrivals, has passed the "
        "window's end; event: when the rows' times have, for replaying logs that are in order",
        one_of("log", "event"))  # fmt: skip
    add(group, "slack", "LENGTH", "wait so much longer, for rows that come late (default: none); later ones are "
        "dropped", duration)  # fmt: skip
    add(group, "poll", "LENGTH", "files: how often to look for new ones (default: 10s)", duration)


def _add_kafka(group: Group) -> None:
    add(group, "kafka_readers", "N", "how many workers share the partitions (default: 1)", whole)
    add(group, "kafka_start", "TIME", "where a topic is entered: earliest (default), latest, or at the first message "
        "stamped since a time such as 2026-01-01")  # fmt: skip
    add(group, "kafka_option", "NAME=VALUE", "of the client, such as security.protocol=SASL_SSL; may be given again",
        name_and_value, many=True)  # fmt: skip
