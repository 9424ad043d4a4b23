"""What a Flink job manager tells and takes over its REST interface. Nothing here imports Beam."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

__all__ = ["Rest"]

_PATIENCE = 10.0


class Rest:
    """One job manager.

    Args:
        address: HOST:PORT, with or without a scheme before it.
    """

    def __init__(self, address: str) -> None:
        self.address = (address if "://" in address else f"http://{address}").rstrip("/")

    def get(self, path: str) -> Any:  # noqa: ANN401 - whatever the JSON holds
        """The answer to a question such as `jobs/overview`, or None where there is none."""
        return self._ask(Request(f"{self.address}/{path}"))

    def post(self, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the JSON holds
        """The answer to an order, or None where there is none."""
        words = json.dumps(body).encode()
        return self._ask(Request(f"{self.address}/{path}", words, {"Content-Type": "application/json"}, method="POST"))

    def cancel(self, job: str) -> None:
        """Order a job to end, whatever it has done."""
        self._ask(Request(f"{self.address}/jobs/{job}?mode=cancel", method="PATCH"))

    def _ask(self, request: Request) -> Any:  # noqa: ANN401
        try:
            with urlopen(request, timeout=_PATIENCE) as answer:
                return json.load(answer)
        except (URLError, HTTPException, OSError, ValueError):  # also of one that is lost in the middle of an answer
            return None

    def overview(self) -> dict[str, Any]:
        """Version, task managers and slots; empty where no job manager answers."""
        found = self.get("overview")
        return found if isinstance(found, dict) and "flink-version" in found else {}

    def setting(self, *names: str) -> str:
        """The first of these settings that the cluster has, or nothing."""
        found = {each["key"]: each["value"] for each in self.get("jobmanager/config") or ()}
        return next((found[name] for name in names if found.get(name)), "")

    def jobs(self) -> list[dict[str, Any]]:
        """Each job's `jid`, `name`, `state` and number of tasks by their state."""
        return (self.get("jobs/overview") or {}).get("jobs", [])

    def metric(self, job: str, name: str) -> int:
        """A number that Flink keeps of a job, 0 while there is none."""
        found = self.get(f"jobs/{job}/metrics?get={name}") or [{}]
        return int(float(found[0].get("value", 0)))

    def has_come_to(self, job: str, moment: int) -> bool:
        """Whether the clocks of all subtasks behind a source stand at a moment, in milliseconds, or behind it.

        Asked from the last task on, and no further than to the first that is before it: it is asked every second.
        """
        tasks = [
            each
            for each in (self.get(f"jobs/{job}") or {}).get("vertices", [])
            if not each["name"].startswith("Source:")
        ]  # fmt: skip - a source takes no watermark in
        for task in reversed(tasks):
            clocks = self.get(f"jobs/{job}/vertices/{task['id']}/watermarks") or []
            if len(clocks) != task["parallelism"] or min(int(clock["value"]) for clock in clocks) < moment:
                return False
        return bool(tasks)

    def widest(self, job: str) -> int:
        """How many slots a job has work for at once, 0 where nobody tells."""
        vertices = (self.get(f"jobs/{job}") or {}).get("vertices", [])
        return max((each.get("parallelism", 0) for each in vertices), default=0)

    def failures(self, job: str) -> list[tuple[int, str]]:
        """The last failures that a job has got over, the newest first: when, in milliseconds since 1970, and what kind.

        Flink remembers sixteen of them. Their texts may hold data: left.
        """
        history = (self.get(f"jobs/{job}/exceptions") or {}).get("exceptionHistory", {}).get("entries", [])
        return [(int(each.get("timestamp", 0)), str(each.get("exceptionName", "")).rpartition(".")[2])
                for each in history]  # fmt: skip
