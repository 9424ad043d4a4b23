"""Whether a batch on Flink stands still: tasks in all slots that wait for others, which wait for a slot.

Between two stages of a batch Flink keeps what the first has put out, so a task never runs before all that it takes from
are finished; but after two restarts that overlap. When a task manager is lost, a task that takes from it fails at once,
and seconds later the job manager learns of the loss. Each plans a restart of its own, and the second may start tasks
whose rows the first is about to have made again (seen in Flink 1.19). With a free slot they are made, and all goes on.
With none, everybody waits for good, and Flink says nothing: to it these tasks run.
"""

from __future__ import annotations

from typing import Any

from private_topk.runners.flink_rest import Rest

__all__ = ["stands_still"]

_WAITS = ("CREATED", "SCHEDULED")


def stands_still(rest: Rest, job: str) -> bool:
    """Whether all slots are taken, and one of the job's tasks runs that takes from one which waits for a slot.

    For a moment that may be so in any job that restarts.

    Cost: a question to the job manager, and two more for every two stages of which it looks so.
    """
    if rest.overview().get("slots-available", 1):
        return False
    found = rest.get(f"jobs/{job}") or {}
    stages = {each["id"]: each for each in found.get("vertices", ())}
    return any(
        _waits_for(rest, job, stages[node["id"]], stages[edge["id"]], edge)
        for node in found.get("plan", {}).get("nodes", ())
        for edge in node.get("inputs", ())
        if edge.get("exchange") == "blocking" and node["id"] in stages and edge["id"] in stages
    )


def _waits_for(rest: Rest, job: str, taker: dict[str, Any], giver: dict[str, Any], edge: dict[str, Any]) -> bool:
    """Whether a task of a stage runs that takes from one of another stage which waits."""
    if not taker["tasks"].get("RUNNING") or not any(giver["tasks"].get(state) for state in _WAITS):
        return False
    if edge.get("ship_strategy", "").lower() != "forward":  # then each takes from all
        return True
    takers, givers = (_states(rest, job, stage["id"]) for stage in (taker, giver))
    if len(takers) != len(givers):  # of some: which, is not said
        return False
    return any(one == "RUNNING" and other in _WAITS for one, other in zip(takers, givers, strict=True))


def _states(rest: Rest, job: str, stage: str) -> list[str]:
    """Of a stage's tasks, in their order."""
    tasks = (rest.get(f"jobs/{job}/vertices/{stage}") or {}).get("subtasks", ())
    return [each["status"] for each in sorted(tasks, key=lambda each: each["subtask"])]
