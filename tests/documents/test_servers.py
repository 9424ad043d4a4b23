"""The blocks that talk to a server: typed as they stand, with the address of one that the tests start."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.documents.holding import Held, hold, ranked
from tests.documents.worlds import World, clone
from tests.pipelines.streaming.replay import Topics, as_json
from tests.pipelines.support import avro_schema, to_avro
from tests.runners.cloud import Bucket, Cloud
from tests.runners.servers import flink_job_server

BUCKET = "my-project-private-topk"


@pytest.mark.nightly
def test_the_examples_on_streaming_run(world: World, broker: Topics, prism_runner: str) -> None:
    """The rows come after their windows have closed, since January is over: every window is published without them."""

    def topic(world: World) -> None:
        broker.create("plays", 1, **{"message.timestamp.type": "LogAppendTime"})
        rows = [(f"u{n}", as_json((f"u{n}", f"Track {n % 9}", "2026-01-05T10:00:00Z"))) for n in range(50)]
        broker.send("plays", 1, rows)
        (world.folder / "catalogue.txt").write_text("".join(f"Track {n}\n" for n in range(30)))

    def purchases(world: World) -> None:
        broker.create("purchases", 1, **{"message.timestamp.type": "LogAppendTime"})
        row = b'{"customer": "u", "product": "Track 1", "at": 1767232800000}'
        broker.send("purchases", 1, [("u", row)] * 150)

    def every_day(world: World) -> None:
        assert len(list((world.folder / "rankings").glob("*.avro"))) == 31

    hold(
        world,
        "docs/streaming.md",
        [
            Held("private-topk stream", before=topic, after=every_day, instead={"broker:9092": broker.address}),
            Held(
                "printf", "not run", "three minutes; tests/pipelines/streaming/test_kafka.py does it in fifteen seconds"
            ),
            Held(
                "private-topk stream",
                before=purchases,
                instead={"broker:9092": broker.address},
                says="  in the input: 100 or more\n  null: fewer than 100\n  unreadable: fewer than 100\n"
                "  outside the period: fewer than 100\n  late: 100 or more, all; still late with --allowed-lateness ",
            ),
        ],
    )


@pytest.mark.nightly
def test_the_examples_on_flink_run(world: World, flink_home: Path) -> None:
    clone(world.folder)
    hold(
        world,
        "docs/flink.md",
        [
            Held(
                "$ private-topk sample",
                after=ranked("ranking.avro", 10),
                instead={"--runner flink": f"--runner flink --flink_job_server_jar {flink_job_server()}"},
            ),
            Held("$ make flink-up", "not run", "test_up_and_down_leave_nothing_behind does, at a port of its own"),
            Held("$ kubectl create secret", after=kubernetes_files_are_there),
        ],
    )


def kubernetes_files_are_there(world: World) -> None:
    secret, apply = (call for call in world.calls() if call[0] == "kubectl")
    assert secret[1:3] == ["create", "secret"] and (world.folder / apply[-1]).is_file()
    assert f"secretName: {secret[4]}" in (world.folder / apply[-1]).read_text()


@pytest.fixture
def project(cloud: Cloud) -> Cloud:
    """The bucket of the page, with plays and their catalogue."""
    where, made = f"{cloud.bucket.url}/storage/v1/b?project=my-project", json.dumps({"name": BUCKET}).encode()
    headers = {"Content-Type": "application/json"}
    urlopen(Request(where, data=made, headers=headers, method="POST"), timeout=10).close()
    bucket = Bucket(cloud.bucket.url, BUCKET)
    rows = [{"user": f"u{n}", "item": f"i{n % 7}", "time": "2026-01-06T10:00:00"} for n in range(70)]
    bucket.put("plays/day.avro", to_avro(rows, avro_schema(user="string", item="string", time="string")))
    bucket.put("catalogue.txt", "".join(f"i{n}\n" for n in range(20)).encode())
    return cloud


@pytest.mark.nightly
def test_the_examples_on_dataflow_run(world: World, project: Cloud) -> None:
    """One report is submitted, to an endpoint on this machine; Google's own client is not run."""
    clone(world.folder)
    world.environment |= {name: project.environment[name] for name in CREDENTIALS}
    endpoint = f"--runner dataflow --dataflow_endpoint {project.service.url}"

    def submitted(world: World) -> None:
        (job,) = project.service.jobs
        assert job["environment"]["sdkPipelineOptions"]["options"]["service_account_email"].startswith("private-topk@")

    def without_credentials(world: World) -> None:
        for name in CREDENTIALS:
            world.environment.pop(name)
        world.environment |= {"NO_GCE_CHECK": "true", "HOME": str(world.folder)}

    hold(
        world,
        "docs/dataflow.md",
        [
            Held("$ pip install -e '.[gcp]'", after=the_extra_is_there),
            Held(
                "$ private-topk run --runner dataflow",
                instead={"--runner dataflow": endpoint},
                after=submitted,
                status=1,
                says="the job ended without an error",
            ),  # no worker has written a ranking into that bucket
            Held("$ IMAGE=", after=files_of_the_template_are_there),
            Held("$ gcloud workflows deploy", after=the_workflow_is_given_what_it_asks_for),
            Held(
                "$ private-topk run --input bigquery://",
                before=without_credentials,
                status=2,
                says=f"private-topk: --domain gs://{BUCKET}/catalogue.txt needs Google credentials",
            ),
        ],
    )


CREDENTIALS = (
    "STORAGE_EMULATOR_HOST",
    "BIGQUERY_EMULATOR_HOST",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "NO_GCE_CHECK",
    "GCE_METADATA_HOST",
)


def the_extra_is_there(world: World) -> None:
    (call,) = (call for call in world.calls() if call[0] == "pip")
    assert call == ["pip", "install", "-e", ".[gcp]"]
    assert re.search(r"(?m)^gcp = \[", (world.folder / "pyproject.toml").read_text())
    granted = [call for call in world.calls() if "add-iam-policy-binding" in call]
    assert len(granted) == 4 and all("serviceAccount:private-topk@my-project." in " ".join(call) for call in granted)


def files_of_the_template_are_there(world: World) -> None:
    build, push = (call for call in world.calls() if call[0] == "docker")
    assert (world.folder / build[build.index("--file") + 1]).is_file() and push[-1] in build
    template = next(call for call in world.calls() if "flex-template" in call)
    assert json.loads((world.folder / template[-1]).read_text())["parameters"] and push[-1] in template


def the_workflow_is_given_what_it_asks_for(world: World) -> None:
    deploy = next(call for call in world.calls() if call[1:3] == ["workflows", "deploy"])
    workflow = (world.folder / deploy[deploy.index("--source") + 1]).read_text()
    schedule = next(call for call in world.calls() if call[1:3] == ["scheduler", "jobs"])
    body = json.loads(schedule[schedule.index("--message-body") + 1])
    given = json.loads(body["argument"])
    assert set(re.findall(r"settings\.(\w+)", workflow)) == set(given)
    assert all(given.values()) and given["input"] == f"gs://{BUCKET}/plays/*.avro"
