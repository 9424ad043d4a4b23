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

    def watermarks(self, job: str) -> list[int] | None:
        """Where the clocks of all subtasks behind a source stand, in milliseconds; None while one is unknown."""
        found: list[int] = []
        for vertex in (self.get(f"jobs/{job}") or {}).get("vertices", []):
            # A source takes no watermark in: it has none to show.
            if not vertex["name"].startswith("Source:"):
                clocks = self.get(f"jobs/{job}/vertices/{vertex['id']}/watermarks") or []
                if len(clocks) != vertex["parallelism"]:
                    return None
                found.extend(int(clock["value"]) for clock in clocks)
        return found or None

    def failures(self, job: str) -> list[tuple[int, str]]:
        """The last failures that a job has got over, the newest first: when, in milliseconds since 1970, and what kind.

        Flink remembers sixteen of them. Their texts may hold data: left.
        """
        history = (self.get(f"jobs/{job}/exceptions") or {}).get("exceptionHistory", {}).get("entries", [])
        return [(int(each.get("timestamp", 0)), str(each.get("exceptionName", "")).rpartition(".")[2])
                for each in history]  # fmt: skip
