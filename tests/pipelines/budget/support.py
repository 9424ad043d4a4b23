"""Windows to charge for, and processes that charge at the same moment."""

from __future__ import annotations

import multiprocessing
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from multiprocessing.connection import Connection

import numpy as np

from private_topk.pipelines.budget.accounting import Budget
from private_topk.pipelines.budget.composition import Total
from private_topk.pipelines.budget.ledger import Ledger, Request
from private_topk.pipelines.budget.windows import Windows
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS
from private_topk.transforms.windows import CalendarWindows, Period, SlidingWindows

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Atlantic/Azores", "America/Havana", "Africa/Casablanca")


def some_period(state: np.random.RandomState) -> Period | None:
    """A period of 2026 of any kind, short enough that pairs can be counted."""
    kind = state.randint(5)
    first = START + int(state.randint(300)) * DAY + int(state.randint(24)) * HOUR
    length = int(state.randint(1, 500)) * HOUR
    if kind == 0:
        return None if state.randint(5) == 0 else Period(first, first + length)
    if kind == 1:
        return Period(first, first + length, int(state.randint(1, 100)) * HOUR)
    if kind == 2:
        size = int(state.randint(1, 1 + length // HOUR))
        return Period(first, first + length, SlidingWindows(size * HOUR, int(state.randint(1, size + 1)) * HOUR))
    zone, unit = ZONES[state.randint(len(ZONES))], ("day", "week", "month")[state.randint(3)]
    cut = CalendarWindows(unit, zone)
    edges = cut.edges(first, first + int(state.randint(1, 60)) * DAY)
    return Period(edges[0], edges[-1], cut)


JOINT = MECHANISMS["joint"]
DAY = timedelta(days=1)
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def budget(epsilon: str = "1", delta: str = "0", unit: str = "user-window", **more: str) -> Budget:
    return Budget("plays", unit, Total(Fraction(epsilon), Fraction(delta), Fraction(delta) / 2), **more)


def request(report: str, epsilon: float = 0.25, windows: Windows | None = None, **more: object) -> Request:
    parameters = {"mechanism": "joint", "k": 10, "epsilon": epsilon, "neighbours": "add-remove"}
    values = {
        "dataset": "plays",
        "unit": "user-window",
        "release_id": report,
        "key_id": "k1",
        "fingerprint": "f1" * 32,
        "parameters": parameters,
        "windows": windows or weeks(1),
        "cost": JOINT(epsilon).cost(10),
    }
    return Request(**{**values, **more})


def weeks(number: int, first: int = 0, days: int = 7) -> Windows:
    start = MONDAY + first * days * DAY
    return Windows.of(Period(start, start + number * days * DAY, days * DAY))


def goes(ledger: Ledger, asked: Request) -> bool:
    """Whether a request is charged; else the budget does not suffice."""
    try:
        ledger.charge(asked)
    except InvalidArgument as refusal:
        assert "does not suffice" in str(refusal)
        return False
    return True


def answer(url: str, pipe: Connection) -> None:
    """What a process of its own does: orders in, answers out, until there are no more."""
    ledger = Ledger(url)
    pipe.send("ready")
    while (order := pipe.recv()) is not None:
        try:
            if order.startswith("create"):
                ledger.create(budget("1", unit=order.partition(" ")[2] or "user-window"))
                pipe.send("created")
            else:
                receipts = ledger.charge_all([request(each) for each in order.split(", ")])
                pipe.send("repeat" if receipts[0].outcome else "charged")
        except InvalidArgument as error:
            expected = any(words in str(error) for words in ("not suffice", "already"))
            pipe.send("refused" if expected else str(error))


class Workers:
    """Ten processes that do the same at the same moment, forked from one that has imported everything."""

    def __init__(self, url: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._pipes, self._processes = [], []
        for _ in range(10):
            ours, theirs = context.Pipe()
            process = context.Process(target=answer, args=(url, theirs))
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        assert self._answers() == ["ready"] * 10
        assert len({process.pid for process in self._processes}) == 10

    def do(self, orders: list[str]) -> list[str]:
        """What they answer, sorted."""
        for pipe, order in zip(self._pipes, orders, strict=True):
            pipe.send(order)
        return self._answers()

    def _answers(self) -> list[str]:
        return sorted(pipe.recv() for pipe in self._pipes)

    def stop(self) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(None)
            process.join(60)
