"""What Dataflow is sent: a whole submission against a cloud on loopback, read back and taken apart."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from apache_beam.internal import pickler
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.portable_runner import PortableRunner

from private_topk.runners.dataflow import prepare
from tests.refusals import refused
from tests.runners.cloud import BUCKET, Cloud, cloud_serving
from tests.runners.conftest import Published, Report
from tests.runners.servers import module_serving

ROOT = Path(__file__).resolve().parents[2]
KEY = "gcp-secret:projects/a-project/secrets/release-key/versions/1"
GROUP_BY_KEY = common_urns.primitives.GROUP_BY_KEY.urn
PAR_DO = common_urns.primitives.PAR_DO.urn


class Submitted(NamedTuple):
    """One job as the service received it, with what was staged for it."""

    job: dict[str, Any]
    pipeline: beam_runner_api_pb2.Pipeline
    package: bytes

    @property
    def options(self) -> dict[str, Any]:
        return self.job["environment"]["sdkPipelineOptions"]["options"]

    def transforms(self, urn: str) -> Iterator[beam_runner_api_pb2.PTransform]:
        return (found for found in self.pipeline.components.transforms.values() if found.spec.urn == urn)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, report: Report) -> Iterator[Cloud]:
    with cloud_serving(tmp_path_factory.mktemp("cloud")) as running:
        for name in ("plays.avro", "catalogue.txt"):
            running.bucket.put(f"data/{name}", (report.folder / name).read_bytes())
        yield running


def arguments(cloud: Cloud, *extra: str) -> list[str]:
    words = (
        f"--runner dataflow --project a-project --region europe-west1 --temp_location gs://{BUCKET}/temp "
        f"--dataflow_endpoint {cloud.service.url} --input gs://{BUCKET}/data/plays.avro --domain "
        f"gs://{BUCKET}/data/catalogue.txt --output gs://{BUCKET}/published/ranking.avro --release-key {KEY}"
    )
    return [*words.split(), *extra]


def submit(cloud: Cloud, report: Report, *extra: str) -> Submitted:
    cloud.service.jobs.clear()
    status, message = report.attempt(*arguments(cloud, *extra), environment=cloud.environment)
    # The service here says that the job is done and runs nothing of it, which the command must not take for published.
    assert status == 1 and "the job ended without an error" in message, message
    (job,) = cloud.service.jobs
    return staged(cloud, job)


def staged(cloud: Cloud, job: dict[str, Any]) -> Submitted:
    options = job["environment"]["sdkPipelineOptions"]["options"]
    place = options["pipelineUrl"].removeprefix(f"gs://{BUCKET}/")
    pipeline = beam_runner_api_pb2.Pipeline.FromString(cloud.bucket.get(place))
    (package,) = job["environment"]["workerPools"][0]["packages"]
    return Submitted(job, pipeline, cloud.bucket.get(f"{place.rpartition('/')[0]}/{package['name']}"))


@pytest.fixture(scope="module")
def submitted(cloud: Cloud, report: Report) -> Submitted:
    return submit(cloud, report)


def test_the_job_asks_for_what_it_should(submitted: Submitted) -> None:
    environment = submitted.job["environment"]
    assert environment["version"]["job_type"] == "FNAPI_BATCH"
    assert "use_runner_v2" in environment["experiments"]
    assert environment["workerPools"][0]["autoscalingSettings"] == {"algorithm": 2, "maxNumWorkers": 20}
    assert submitted.job["name"].startswith("private-topk-")
    assert submitted.options["save_main_session"] is False
    assert not submitted.options["streaming"]


def test_a_stream_is_submitted_whole(cloud: Cloud) -> None:
    """From Pub/Sub to BigQuery, by the months of a calendar."""
    cloud.service.jobs.clear()
    words = (
        f"stream --runner dataflow --project a-project --region europe-west1 --temp_location gs://{BUCKET}/temp "
        f"--dataflow_endpoint {cloud.service.url} --input pubsub://projects/a-project/subscriptions/plays --domain "
        f"gs://{BUCKET}/data/catalogue.txt --output bigquery://a-project:data.rankings --mechanism joint --k 2 "
        "--epsilon 1 --window month --time-zone Europe/Berlin --from 2026-01-01 --to 2026-07-01 "
        f"--release-key {KEY} --release-id monthly"
    ).split()
    module = [sys.executable, "-m", "private_topk", *words]
    done = subprocess.run(module, capture_output=True, text=True, timeout=150, env=cloud.environment)
    assert done.returncode == 0, done.stderr
    (job,) = cloud.service.jobs
    environment = job["environment"]
    assert environment["version"]["job_type"] == "FNAPI_STREAMING"
    assert "enable_streaming_engine" in environment["experiments"]
    parts = staged(cloud, job).pipeline.components
    stateful = [found for found in parts.transforms.values() if found.unique_name.endswith("Bound and count")]
    assert stateful and b"held" in stateful[0].spec.payload, "rows are deduplicated as they arrive"
    kinds = {windowing.window_fn.urn for windowing in parts.windowing_strategies.values()}
    assert all(kind.startswith("beam:window_fn:") and "pickled" not in kind for kind in kinds), kinds


def test_grouping_keys_are_encoded_alike_everywhere(submitted: Submitted) -> None:
    parts = submitted.pipeline.components
    found = 0
    for grouping in submitted.transforms(GROUP_BY_KEY):
        (given,) = grouping.inputs.values()
        pairs = parts.coders[parts.pcollections[given].coder_id]
        assert pairs.spec.urn == common_urns.coders.KV.urn
        assert parts.coders[pairs.component_coder_ids[0]].spec.urn == common_urns.coders.VARINT.urn, (
            grouping.unique_name
        )
        found += 1
    assert found >= 5


def test_every_window_fires_once(submitted: Submitted) -> None:
    parts = submitted.pipeline.components
    ours = [found for found in submitted.transforms(GROUP_BY_KEY) if found.unique_name.startswith(("Rank/", "Write/"))]
    assert len(ours) == 4  # users' pairs, items' counts, the window, what is written
    for grouping in ours:
        (given,) = grouping.inputs.values()
        windowing = parts.windowing_strategies[parts.pcollections[given].windowing_strategy_id]
        assert windowing.allowed_lateness == 0
        kind = windowing.trigger.WhichOneof("trigger")
        assert kind in ("default", "after_end_of_window"), grouping.unique_name
        if kind == "after_end_of_window":
            assert not windowing.trigger.after_end_of_window.HasField("early_firings")
            assert not windowing.trigger.after_end_of_window.HasField("late_firings")


def test_pieces_come_before_all_rows(submitted: Submitted) -> None:
    """A piece that left its grouping at the end of time would make every row it holds late."""
    parts = submitted.pipeline.components
    (spread,) = (found for found in submitted.transforms(GROUP_BY_KEY) if found.unique_name.startswith("Read/"))
    (given,) = spread.inputs.values()
    windowing = parts.windowing_strategies[parts.pcollections[given].windowing_strategy_id]
    assert windowing.output_time == beam_runner_api_pb2.OutputTime.EARLIEST_IN_PANE


def test_no_stage_has_resource_hints(submitted: Submitted) -> None:
    assert not any(environment.resource_hints for environment in submitted.pipeline.components.environments.values())


def test_nothing_private_is_sent(submitted: Submitted, report: Report) -> None:
    key = (report.folder / "key").read_bytes().strip()
    items = (report.folder / "catalogue.txt").read_bytes().splitlines()
    request = json.dumps(submitted.job, ensure_ascii=False).encode()
    assert b"gcp-secret" not in request and b"release" not in request
    assert not submitted.job.get("labels")
    carried = [submitted.pipeline.SerializeToString(), *(cloudpickle.dumps(fn) for fn in functions(submitted))]
    assert any(KEY.encode() in content for content in carried)  # the reference travels, so what is looked at is read
    for content in (request, *carried):
        assert key not in content
        assert not any(item in content for item in items)


def functions(submitted: Submitted) -> Iterator[Any]:
    for transform in submitted.transforms(PAR_DO):
        payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
        assert payload.do_fn.urn == python_urns.PICKLED_DOFN_INFO
        yield pickler.loads(payload.do_fn.payload)


@pytest.mark.nightly
def test_the_staged_package_installs_by_itself(submitted: Submitted, tmp_path: Path) -> None:
    package, place = tmp_path / "workflow.tar.gz", tmp_path / "installed"
    package.write_bytes(submitted.package)
    with tarfile.open(package) as archive:
        assert not any("/shared/" in name or "/out/" in name for name in archive.getnames())
    alone = ["--no-deps", "--no-build-isolation", "--target", str(place)]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *alone, str(package)], check=True, timeout=120)
    # The dependencies are borrowed: PYTHONPATH reads no .pth files, so this package itself is not.
    libraries = next(found for found in sys.path if found.endswith("site-packages"))
    look = "import private_topk.pipelines.run as b, private_topk.transforms.mechanisms as m; print(b.__file__, m)"
    said = subprocess.run(
        [sys.executable, "-S", "-c", look],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": f"{place}:{libraries}"},
    )
    assert said.stdout.startswith(str(place)), said.stderr


def test_the_submitted_pipeline_publishes_the_same(
    submitted: Submitted, cloud: Cloud, report: Report, direct: Published, tmp_path: Path
) -> None:
    """The captured pipeline on Beam's local job service, with workers that have a double of Secret Manager's client."""
    (tmp_path / "sitecustomize.py").write_text(
        "from google.cloud import secretmanager as s\n"
        "from types import SimpleNamespace as N\n"
        "def read(self, name):\n"
        f"    assert name == {KEY.partition(':')[2]!r}\n"
        f"    return N(payload=N(data=open({str(report.folder / 'key')!r}, 'rb').read()))\n"
        "s.SecretManagerServiceClient.__init__ = lambda self: None\n"
        "s.SecretManagerServiceClient.access_secret_version = read\n"
    )
    knowing = {**cloud.environment, "PYTHONPATH": str(tmp_path)}
    with (
        module_serving("job service", tmp_path) as service,
        module_serving("worker pool", tmp_path, environment=knowing) as pool,
    ):
        pipeline = beam_runner_api_pb2.Pipeline()
        pipeline.CopyFrom(submitted.pipeline)
        external = beam_runner_api_pb2.ExternalPayload()
        external.endpoint.url = pool
        for environment in pipeline.components.environments.values():
            environment.urn, environment.payload = common_urns.environments.EXTERNAL.urn, external.SerializeToString()
            del environment.dependencies[:]
        options = PipelineOptions([f"--job_endpoint={service}", "--environment_type=EXTERNAL"])
        PortableRunner().run_portable_pipeline(pipeline, options).wait_until_finish()
    assert cloud.bucket.get("published/ranking.avro") == direct.ranking
    manifest = json.loads(cloud.bucket.get("published/ranking.manifest.json"))
    assert manifest.pop("runner") == "dataflow" and manifest.pop("output") == "ranking.avro"
    assert manifest == direct.manifest


def test_a_classic_template_is_refused(tmp_path: Path) -> None:
    """Whoever has one runs it as often as they like, over rows that have changed and under one charge."""
    template = tmp_path / "weekly.json"
    with refused("runner", "no classic template of --template_location", "use the flex template"):
        prepare([f"--template_location={template}"])
    assert not template.exists()


def test_the_flex_templates_program_hands_over_the_same_job(
    cloud: Cloud, report: Report, submitted: Submitted, tmp_path: Path
) -> None:
    """As its launcher starts it: parameters with underscores, an image in which the package is, a place to write to."""
    words = report.arguments(*arguments(cloud))[3:]
    pairs = zip(words[::2], words[1::2], strict=True)
    parameters = [f"--{name[2:].replace('-', '_')}={value}" for name, value in pairs if name != "--runner"]
    image, template = "europe-docker.example/private-topk:1.0.0rc1", tmp_path / "flex.json"
    service = [
        "--overwrite=true",
        "--runner=DataflowRunner",
        f"--template_location={template}",
        f"--sdk_container_image={image}",
    ]
    program = [sys.executable, str(ROOT / "deploy/dataflow/main.py"), *parameters, *service]
    done = subprocess.run(program, capture_output=True, text=True, env=cloud.environment, timeout=120)
    assert done.returncode == 0, done.stderr
    job = json.loads(template.read_text())
    (pool,) = job["environment"]["workerPools"]
    assert not pool.get("packages")
    assert {found["containerImage"] for found in pool["sdkHarnessContainerImages"]} == {image}
    place = job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"].removeprefix(f"gs://{BUCKET}/")
    pipeline = beam_runner_api_pb2.Pipeline.FromString(cloud.bucket.get(place))
    assert set(pipeline.components.transforms) == set(submitted.pipeline.components.transforms)


ASK = """
import json, sys
from tests.pipelines.support import command
print(json.dumps([command(*words) for words in json.load(sys.stdin)]))
"""


def test_local_files_and_keys_are_refused_for_remote_workers(cloud: Cloud, report: Report) -> None:
    """All of them are asked for in one process, which finds the cloud by its environment."""
    cloud.service.jobs.clear()
    wanted = {
        "env:KEY is a place of this machine": ["--release-key", "env:KEY"],
        "catalogue.txt is a file of this machine": ["--domain", f"{report.folder}/catalogue.txt"],
        "ranking.avro is a file of this machine": ["--output", f"{report.folder}/ranking.avro"],
        "--temp_location gs://nobodys/temp cannot be written": ["--temp_location", "gs://nobodys/temp"],
        "--release-key must be given as gcp-secret:projects/P/secrets/S/versions/V for this runner: a random one": [],
    }
    asked = [report.arguments(*arguments(cloud, *words)) for words in wanted.values()]
    place = asked[-1].index("--release-key")
    asked[-1] = [word for word in asked[-1][:place] + asked[-1][place + 2 :] if word not in ("--release-id", "runners")]
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**cloud.environment, "KEY": "a key of the tests, which is no secret"},
    )
    assert done.returncode == 0, done.stderr
    for said, (status, _, message) in zip(wanted, json.loads(done.stdout), strict=True):
        assert status == 2 and said in message and message.count("\n") == 1, message
    assert not cloud.service.jobs


def test_a_missing_dataflow_option_is_named(refusal_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "needs --project, --region, --temp_location" in refusal_of("dataflow")
    place = ["dataflow", "--project=p", "--region=r"]
    assert "must be a folder of a bucket, gs://BUCKET/FOLDER, got /tmp" in refusal_of(*place, "--temp_location=/tmp")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/credentials.json")
    place += ["--temp_location=gs://b/t", "--sdk_container_image=i"]  # with the package, wherever it is installed here
    assert "gcloud auth application-default login" in refusal_of(*place)
