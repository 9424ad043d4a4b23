"""A job is read by whoever reaches its job server: no key is in it, nor anything that follows from one."""

from __future__ import annotations

import base64
import bz2
import gc
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from private_topk.transforms.domain import RangeDomain, UnknownDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import Joint, make_mechanism
from private_topk.transforms.release import Release, ReleaseKey
from private_topk.transforms.top_k import PrivateTopK
from tests.house import PRODUCT
from tests.pipelines.support import command
from tests.refusals import refused
from tests.runners.conftest import Report
from tests.runners.servers import free_port, serving

PURPOSES = (
    *("user hash", "item hash", "release", "key id", "input fingerprint", "input record", "fingerprint of counts"),
    *("choice of groups", "choice of items", "choice of windows", "series", "state of a series"),
)
ONLY_HERE = "release_key must be given where workers are other processes"


class Recorder(beam_job_api_pb2_grpc.JobServiceServicer):
    """A job server that keeps what it is sent, and runs nothing."""

    def __init__(self) -> None:
        self.jobs: list[bytes] = []

    def DescribePipelineOptions(self, request: object, context: object) -> object:  # noqa: N802 - as in the protocol
        return beam_job_api_pb2.DescribePipelineOptionsResponse()

    def Prepare(self, request: beam_job_api_pb2.PrepareJobRequest, context: grpc.ServicerContext) -> object:  # noqa: N802
        self.jobs.append(request.SerializeToString())
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "it runs nothing")
        raise AssertionError


@pytest.fixture
def recorder() -> Iterator[tuple[Recorder, str]]:
    server, found = grpc.server(ThreadPoolExecutor(4)), Recorder()
    beam_job_api_pb2_grpc.add_JobServiceServicer_to_server(found, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found, f"127.0.0.1:{port}"
    server.stop(0)


def laid_open(job: bytes) -> bytes:
    """The bytes of a job and all that is pickled in them."""
    found, texts = [job], [job]
    while texts:
        packed = {part for text in texts for part in re.findall(rb"Qlpo[A-Za-z0-9+/]{40,}", text)}  # BZh, in base64
        texts = [bz2.BZ2Decompressor().decompress(base64.b64decode(part[: len(part) // 4 * 4])) for part in packed]
        found += texts
    assert len(found) > 5, "the functions of the pipeline were found"
    return b"\0".join(found)


def forms_of(key: ReleaseKey) -> Iterator[bytes]:
    """The first eight bytes are the word of a hash or a checksum, as NumPy and Python pickle it."""
    for secret in (key.secret(), *map(key.derive, PURPOSES)):
        yield from (secret[:8], secret.hex().encode(), base64.b64encode(secret))


def hides_its_keys(job: bytes, key: ReleaseKey | None = None) -> None:
    """A job names a key, and nothing of it is in the job."""
    content = laid_open(job)
    named = [one for one in gc.get_objects() if isinstance(one, ReleaseKey) and one.source.encode() in content]
    assert named and (key is None or key in named)
    for one in named:
        assert not any(form in content for form in forms_of(one))


def test_the_search_finds_a_planted_key() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    secret = ReleaseKey.fresh().secret()
    _ = pipeline | beam.Create([(1, "a")]) | PrivateTopK(1, Joint(1.0), ["a"]) | beam.Map(lambda _: secret)
    assert secret in laid_open(pipeline.to_runner_api().SerializeToString())


def test_every_purpose_of_a_derived_key_is_searched_for() -> None:
    derived = re.compile(r"\.derive\(f?\"([^\"{]+)")
    used = {name for path in PRODUCT for name in derived.findall(path.read_text("utf-8"))}
    assert used and all(any(purpose.startswith(name) for purpose in PURPOSES) for name in used)


@pytest.mark.parametrize(("runner", "key"), [("portable", "fresh"), ("flink", "file"), ("prism", "fresh")])
def test_the_job_of_a_report_holds_no_key(
    report: Report, recorder: tuple[Recorder, str], runner: str, key: str, prism_binary: Path
) -> None:
    words = report.arguments("--output", str(report.folder / "none.avro"), "--runner", runner)
    if key == "fresh":
        place = words.index("--release-key")
        del words[place : place + 4]
    given = None if key == "fresh" else ReleaseKey.parse(f"file:{report.folder / 'key'}")
    found, address = recorder
    prism = ["--prism_location", str(prism_binary)] if runner == "prism" else []
    done = command(*words, "--job_endpoint", address, "--environment_type", "LOOPBACK", *prism)
    assert done.status != 0 and len(found.jobs) == 1, done.err
    hides_its_keys(found.jobs[0], given)


@pytest.mark.parametrize(
    ("domain", "more"),
    [(["a", "b"], {}), (RangeDomain(0, 9), {"groups": ["x", "y"], "publish_counts": 1.0}), (UnknownDomain(), {})],
)
def test_an_own_pipeline_holds_no_key(domain: object, more: dict[str, object]) -> None:
    key = ReleaseKey.fresh()
    mechanism = (
        make_mechanism("limit-domain", epsilon=1, delta=1e-6) if isinstance(domain, UnknownDomain) else Joint(1.0)
    )
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rank = PrivateTopK(1, mechanism, domain, release=Release(key, "any"), **more)
    _ = pipeline | beam.Create([("u", "a", "x")[: 3 if more else 2]]) | rank
    hides_its_keys(pipeline.to_runner_api().SerializeToString(), key)


def test_a_random_key_is_found_in_the_process_that_made_it_and_in_no_other(tmp_path: Path) -> None:
    key = ReleaseKey.fresh()
    (tmp_path / "key").write_bytes(pickle.dumps(key))
    assert pickle.loads(pickle.dumps(key)).secret() == key.secret() != ReleaseKey.fresh().secret()
    read = f"import pickle; pickle.load(open({str(tmp_path / 'key')!r}, 'rb')).secret()"
    done = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True)
    assert done.returncode == 1 and ONLY_HERE in done.stderr.splitlines()[-1]
    with refused("release_key", "must be given as file:PATH"):
        ReleaseKey.parse(key.source)


def test_workers_elsewhere_need_a_key_that_they_can_read(report: Report, recorder: tuple[Recorder, str]) -> None:
    words = report.arguments("--output", str(report.folder / "none.avro"), "--runner", "portable")
    place = words.index("--release-key")
    fresh = [*words[:place], *words[place + 4 :]]
    found, address = recorder
    pool = ["--job_endpoint", address, "--environment_type", "EXTERNAL", "--environment_config", address]
    for more in ([], ["--dry-run"]):
        done = command(*fresh, *pool, *more)
        said = done.err.splitlines()[-1]
        assert done.status == 2 and "--release-key must be given" in said and "file:PATH" in said
    assert not found.jobs
    assert command(*words, *pool).status != 2 and len(found.jobs) == 1


@pytest.mark.parametrize("runner", ["FnApiRunner", "DirectRunner"])
@pytest.mark.parametrize("workers", ["--environment_type=DOCKER", "--direct_running_mode=multi_processing"])
def test_a_random_key_is_refused_where_a_pipeline_has_workers_in_other_processes(runner: str, workers: str) -> None:
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions([workers]))
    with pytest.raises(InvalidArgument, match=ONLY_HERE):
        _ = pipeline | beam.Create([("u", "a")]) | PrivateTopK(1, Joint(1.0), ["a"])


def test_the_job_port_of_prism_reveals_no_key(report: Report, prism_binary: Path, tmp_path: Path) -> None:
    """Its job port is open to everybody. This asks it from another address of the machine."""
    port = free_port()
    prism = [str(prism_binary), f"--job_port={port}", "--serve_http=false"]
    with serving(prism, f"127.0.0.1:{port}", tmp_path / "prism.log"):
        words = report.arguments("--output", str(tmp_path / "out.avro"), "--runner", "prism")
        place = words.index("--release-key")
        done = command(
            *words[:place],
            *words[place + 4 :],
            "--job_endpoint",
            f"127.0.0.1:{port}",
            "--prism_location",
            str(prism_binary),
        )
        assert done.status == 0, done.err
        elsewhere = [("grpc.local_address", "127.0.0.2"), ("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(f"127.0.0.2:{port}", options=elsewhere) as channel:
            jobs = beam_job_api_pb2_grpc.JobServiceStub(channel)
            every = jobs.GetJobs(beam_job_api_pb2.GetJobsRequest()).job_info
            assert len(every) == 1
            asked = beam_job_api_pb2.GetJobPipelineRequest(job_id=every[0].job_id)
            hides_its_keys(jobs.GetPipeline(asked).SerializeToString())
