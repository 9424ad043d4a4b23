"""What a batch that stands still looks like to its job manager, beside batches that only look like it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from private_topk.runners.flink_rest import Rest
from private_topk.runners.flink_standstill import stands_still


class Cluster(Rest):
    """A job manager of one job of two stages, whose answers are given here.

    Args:
        giver, taker: the states of the tasks of the two stages, in their order.
    """

    def __init__(self, giver: list[str], taker: list[str], edge: dict[str, str], free: int = 0) -> None:
        super().__init__("localhost:0")
        self.tasks, self.edge, self.free = {"giver": giver, "taker": taker}, edge, free

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        if path == "overview":
            return {"flink-version": "1.19.3", "slots-available": self.free}
        if path == "jobs/j":
            stages = [{"id": name, "tasks": {state: states.count(state) for state in states}}
                      for name, states in self.tasks.items()]  # fmt: skip
            return {"vertices": stages, "plan": {"nodes": [
                {"id": "giver"}, {"id": "taker", "inputs": [{"num": 0, "id": "giver", **self.edge}]}]}}  # fmt: skip
        states = self.tasks[path.removeprefix("jobs/j/vertices/")]
        subtasks = [{"subtask": number, "status": state} for number, state in enumerate(states)]
        return {"subtasks": subtasks[::-1]}


ALL = {"ship_strategy": "Hash Partition on [0]", "exchange": "blocking"}
OWN = {"ship_strategy": "Forward", "exchange": "blocking"}
LIVE = {"ship_strategy": "Hash", "exchange": "pipelined_bounded"}
STATES = ("CREATED", "SCHEDULED", "RUNNING", "FINISHED", "CANCELING")
WAITS = ("CREATED", "SCHEDULED")


@pytest.mark.parametrize("edge", [ALL, OWN, LIVE], ids=["from all", "from its own", "as it comes"])
def test_a_running_task_that_takes_from_a_waiting_one_and_nothing_else(edge: dict[str, str]) -> None:
    """Every state of two tasks that give and two that take."""
    for giver, taker in product(product(STATES, repeat=2), repeat=2):
        pairs = zip(taker, giver, strict=True) if edge is OWN else product(taker, giver)
        expected = edge is not LIVE and any(one == "RUNNING" and other in WAITS for one, other in pairs)
        assert stands_still(Cluster(list(giver), list(taker), edge), "j") == expected, (giver, taker)


def test_with_a_free_slot_it_goes_on() -> None:
    assert stands_still(Cluster(["SCHEDULED"], ["RUNNING"], ALL), "j")
    assert not stands_still(Cluster(["SCHEDULED"], ["RUNNING"], ALL, free=1), "j")


def test_what_is_not_known_is_no_standstill() -> None:
    """Tasks that each take from some of another stage: which, Flink does not say. And a job manager that is gone."""
    assert not stands_still(Cluster(["SCHEDULED"], ["RUNNING", "RUNNING"], OWN), "j")
    assert not stands_still(Rest("localhost:9"), "j")
