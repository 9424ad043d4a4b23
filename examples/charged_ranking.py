"""The top dishes of every day in a pipeline of one's own, which is charged to a budget before it runs.

    private-topk budget create --ledger sqlite:///budget.db --dataset orders --epsilon 1
    head -c 32 /dev/urandom | base64 > release.key
    printf 'user,dish,time\\nann,tea,2026-01-05T12:00:00+00:00\\n' > orders.csv
    python examples/charged_ranking.py --orders orders.csv --key release.key \\
        --ledger sqlite:///budget.db --output top.avro
    private-topk show top.avro --ledger sqlite:///budget.db

`--runner flink`, with Beam's options, runs it there. A repeat is charged nothing and draws the same. The tests are in
test_charged_ranking.py.
"""

import argparse
import hmac
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

# First, since it loads Beam without its warning that Google's client is missing.
from private_topk import Period, PrivateTopK, Release, ReleaseKey, WriteRankings

# isort: split
import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue

from private_topk.pipelines.budget import Request, charge
from private_topk.runners import UnknownArgument, prepare
from private_topk.transforms.errors import InvalidArgument, verbatim

DISHES = ["cake", "scone", "soup", "tea"]  # the menu, which everybody knows
HEADER = b"user,dish,time"
WEEK = Period.of("2026-01-05", "2026-01-12", "1d")
PARSER = 1  # one more with each change of what is counted of a line: then a repeat would be another answer


class Order(NamedTuple):
    user: str
    dish: str


beam.coders.registry.register_coder(Order, beam.coders.RowCoder)  # else other processes look for it in their __main__


def order(line: bytes) -> Iterator[TimestampedValue]:
    """The order on a line; none where it cannot be read: one person's row must not end a job that is paid for."""
    try:
        user, dish, text = line.decode().split(",")
        time = datetime.fromisoformat(text)
    except ValueError:
        return
    yield TimestampedValue(Order(user, dish), (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())


def daily_top(lines: beam.PCollection, rank: beam.PTransform) -> beam.PCollection:
    """Lines of orders  ->  a Ranking for every day."""
    return lines | "Read orders" >> beam.FlatMap(order).with_output_types(Order) | rank


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    for name in ("orders", "key", "ledger", "output"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--runner", default="direct")
    given, beam_arguments = parser.parse_known_args(arguments)

    launch = prepare(given.runner, beam_arguments)
    key = ReleaseKey.parse(f"file:{Path(given.key).resolve()}")  # workers read it too
    rank = PrivateTopK(
        k=2,
        mechanism="oneshot",
        epsilon=1.0,  # of each day
        domain=DISHES,
        item="dish",
        period=WEEK,
        release=Release(key, f"dishes/{WEEK.start:%Y-%m-%d}"),  # an id from public knowledge only
        waits_for_timers=launch.waits_for_timers,
    )
    try:
        content = Path(given.orders).read_bytes()
    except OSError as error:
        raise InvalidArgument("orders", f"{verbatim(given.orders)} cannot be read: {error.strerror}") from None
    if content.splitlines()[:1] != [HEADER]:
        raise InvalidArgument("orders", f"{verbatim(given.orders)} must begin with the line {HEADER.decode()}")
    # The same id, key, orders and parser are a repeat; others under this id are refused.
    fingerprint = hmac.digest(key.derive("input"), content, "sha256").hex()
    request = Request.of(rank, dataset="orders", fingerprint=fingerprint, parameters={"parser": PARSER})
    pipeline = beam.Pipeline(launch.runner, launch.options)  # before the charge: one that is refused costs nothing
    lines = pipeline | beam.io.ReadFromText(given.orders, skip_header_lines=1, coder=beam.coders.BytesCoder())
    daily_top(lines, rank) | WriteRankings(Path(given.output).resolve(), rank, request)
    with charge(request, given.ledger):
        pipeline.run().wait_until_finish()


if __name__ == "__main__":
    try:
        main()
    except (InvalidArgument, UnknownArgument) as refusal:  # nothing was drawn
        print(refusal, file=sys.stderr)
        sys.exit(2)
