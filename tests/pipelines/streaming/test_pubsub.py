"""A report from Pub/Sub to Pub/Sub, on Google's own server in memory: live, under hostile timing, to its end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.pipelines.support import command, write
from tests.runners.pubsub import serving_pubsub

pytestmark = pytest.mark.server

PROJECT = "projects/project-1"
WINDOWS, LENGTH, SLACK = 2, 10, 20
QUIET = 12
"""So many seconds before a window closes nothing more is sent that counts in it: Beam's clock here is that of the wall,
so that a message which is read after its window has closed is lost, whenever it was published."""
ITEMS = ("bread", "cake", "milk", "tea")


class Sent(NamedTuple):
    """A message: in how many seconds it is sent, and what it says."""

    after: float
    data: bytes


def row(user: str, item: str | None, moment: object, **more: object) -> bytes:
    return json.dumps({"user": user, "item": item, "time": moment, **more}).encode()


def schedule(start: int) -> tuple[list[Sent], dict[int, set[tuple[str, str]]]]:
    """What is sent, and who counts for what in every window."""
    found: list[Sent] = []
    counting: dict[int, set[tuple[str, str]]] = {window: set() for window in range(WINDOWS)}
    for window in range(WINDOWS):
        first, closing = window * LENGTH, (window + 1) * LENGTH + SLACK
        for n in range(24):
            user, item, moment = f"u{n}", ITEMS[min(n % 4, n % 3)], start + first + (7 * n) % LENGTH
            counting[window].add((user, item))
            # Out of order, before and after its own time, and three times over; long before the window closes.
            sent = {(n * 5 + again * 3) % (closing - QUIET) for again in range(3)}
            found += [Sent(after, row(user, item, moment, extra=after)) for after in sent]
        late = [Sent(closing + 1.5, row(f"v{n}", "cake", start + first + 1)) for n in range(15)]
        found += late if window < WINDOWS - 1 else []
    moments = [None, "yesterday", start - 1, 4e18, start + WINDOWS * LENGTH]
    hostile = [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"user": "w", "item": "cake"}',
        row("w", None, start + 1),
        *(row("w", "cake", moment) for moment in moments),
        b'{"user": "w", "user": "w2", "item": {}, "time": 1}',
    ]
    found += [Sent(n, data) for n, data in enumerate(hostile)]
    return sorted(found), counting


class Google:
    """Clients of the server, and what stands between them and the report."""

    def __init__(self) -> None:
        from google.cloud import pubsub_v1

        self.publisher, self.subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
        for topic in ("rows", "rankings"):
            self.publisher.create_topic(name=f"{PROJECT}/topics/{topic}")
            self.subscriber.create_subscription(
                name=f"{PROJECT}/subscriptions/{topic}", topic=f"{PROJECT}/topics/{topic}"
            )

    def send(self, messages: list[Sent], start: float) -> None:
        for message in messages:
            time.sleep(max(start + message.after - time.time(), 0))
            # Pub/Sub takes no message without data and attributes.
            self.publisher.publish(f"{PROJECT}/topics/rows", message.data, more="").result(30)

    def steal(self, until: float) -> None:
        """Take messages, and give them back a little later: they come again, behind others."""
        while time.time() < until:
            taken = self.take("rows", 5)
            time.sleep(0.2)
            if taken:
                self.subscriber.modify_ack_deadline(
                    subscription=f"{PROJECT}/subscriptions/rows",
                    ack_ids=[one.ack_id for one in taken],
                    ack_deadline_seconds=0,
                )
            time.sleep(0.5)

    def take(self, subscription: str, many: int) -> list[Any]:
        asked = f"{PROJECT}/subscriptions/{subscription}"
        return list(self.subscriber.pull(subscription=asked, max_messages=many, timeout=20).received_messages)


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    pytest.importorskip("google.cloud.pubsub_v1", reason="needs the extra gcp")
    with serving_pubsub(tmp_path) as address:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", address)
        yield Google()


def test_live_equals_the_rows_that_were_on_time(google: Google, tmp_path: Path) -> None:
    start = int(time.time()) + 3
    messages, counting = schedule(start)
    ends = start + WINDOWS * LENGTH + SLACK
    iso = [datetime.fromtimestamp(at, UTC).isoformat() for at in (start, start + WINDOWS * LENGTH)]
    write(tmp_path / "items.txt", "\n".join(ITEMS) + "\n")
    write(tmp_path / "key", "a key of the tests, which is no secret\n")
    question = [
        *(
            f"--domain {tmp_path}/items.txt --mechanism joint --k 4 --epsilon 1 --publish-counts 1 --release-id live "
            f"--release-key file:{tmp_path}/key --window {LENGTH}s --from"
        ).split(),
        iso[0],
        "--to",
        iso[1],
    ]
    others = [
        threading.Thread(target=google.send, args=(messages, start), daemon=True),
        threading.Thread(target=google.steal, args=(ends - SLACK,), daemon=True),
    ]
    for other in others:
        other.start()
    live = command(
        *(
            f"stream --input pubsub://{PROJECT}/subscriptions/rows --output pubsub://{PROJECT}/topics/rankings "
            f"--allowed-lateness {SLACK}s"
        ).split(),
        *question,
    )
    assert live.status == 0, live.err
    assert ends <= time.time() < ends + 60, "it ends by itself, when every window is published"
    for other in others:
        other.join(30)

    rows = [(user, item, start + window * LENGTH) for window in counting for user, item in sorted(counting[window])]
    write(tmp_path / "rows.jsonl", b"".join(row(*one) + b"\n" for one in rows))
    plain = command("run", "--input", f"{tmp_path}/rows.jsonl", "--output", f"{tmp_path}/r.jsonl", *question)
    assert plain.status == 0, plain.err
    expected: dict[str, list[tuple[str, int]]] = {}
    for line in (tmp_path / "r.jsonl").read_text().splitlines():
        told = json.loads(line)
        expected.setdefault(told["window_start"], []).append((told["item"], told["noisy_count"]))

    sent = [one.message for one in google.take("rankings", 100)]
    found = {
        whole["window_start"]: list(zip(whole["items"], whole["noisy_counts"], strict=True))
        for whole in (json.loads(message.data) for message in sent)
    }
    assert len(sent) == WINDOWS == len(expected)
    assert [found[at] for at in sorted(found)] == [expected[at] for at in sorted(expected)]
    assert all(message.attributes["window"] for message in sent)
    time.sleep(11)  # what had not been acknowledged would be sent again after ten seconds
    assert not google.take("rows", 10), "everything that was read is acknowledged"
