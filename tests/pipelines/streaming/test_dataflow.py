"""A streaming report handed to Dataflow, on a cloud on loopback: what the job says of itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from tests.runners.cloud import BUCKET, Cloud, cloud_serving

KEY = "gcp-secret:projects/a-project/secrets/release-key/versions/1"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud_serving(tmp_path_factory.mktemp("cloud")) as running:
        running.bucket.put("data/items.txt", b"tea\ncake\nscone\n")
        yield running


def submit(cloud: Cloud, *extra: str) -> subprocess.CompletedProcess:
    command = [
        sys.executable, "-m", "private_topk", "stream", "--runner", "dataflow", "--project", "a-project",
        "--region", "europe-west1", "--temp_location", f"gs://{BUCKET}/temp", "--dataflow_endpoint", cloud.service.url,
        "--input", "pubsub://projects/a-project/subscriptions/plays", "--domain", f"gs://{BUCKET}/data/items.txt",
        "--output", "bigquery://a-project:data.rankings", "--mechanism", "joint", "--k", "2", "--epsilon", "1",
        "--window", "month", "--time-zone", "Europe/Berlin", "--from", "2026-01-01", "--to", "2026-07-01",
        "--release-key", KEY, "--release-id", "monthly",
    ]  # fmt: skip
    command = [word for place, word in enumerate(command) if not {word, command[place - 1]} & set(extra)] + list(extra)
    return subprocess.run(command, capture_output=True, text=True, timeout=150, env=cloud.environment)


def test_a_stream_is_submitted_whole(cloud: Cloud) -> None:
    done = submit(cloud)
    assert done.returncode == 0, done.stderr
    (job,) = cloud.service.jobs
    assert job["environment"]["version"]["job_type"] == "FNAPI_STREAMING"
    place = job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"].removeprefix(f"gs://{BUCKET}/")
    parts = beam_runner_api_pb2.Pipeline.FromString(cloud.bucket.get(place)).components
    stateful = [found for found in parts.transforms.values() if found.unique_name.endswith("Bound and count")]
    assert stateful and b"held" in stateful[0].spec.payload, "rows are deduplicated as they arrive"
    kinds = {windowing.window_fn.urn for windowing in parts.windowing_strategies.values()}
    assert all(kind.startswith("beam:window_fn:") and "pickled" not in kind for kind in kinds), kinds


def test_what_the_workers_cannot_see_is_refused(cloud: Cloud, tmp_path: object) -> None:
    done = submit(cloud, "--output", f"{tmp_path}/rankings")
    assert done.returncode == 2 and "is a file of this machine" in done.stderr
