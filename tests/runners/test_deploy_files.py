"""Files for deployment: what no machine of the tests can run is at least well formed, and matches the code."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from setuptools import find_packages

from private_topk.pipelines.cli import parser_of
from private_topk.pipelines.cli.describe import as_command_line, metadata
from private_topk.pipelines.cli.output import BAD_INPUT
from tests.documents.worlds import small_plays
from tests.pipelines.support import command

ROOT = Path(__file__).resolve().parents[2]
SERVICE = ROOT / "deploy/systemd/private-topk-stream@.service"
INSTRUCTIONS = {"FROM", "ARG", "COPY", "RUN", "WORKDIR", "ENV", "ENTRYPOINT"}


def test_the_templates_parameters_are_the_arguments() -> None:
    stored = json.loads((ROOT / "deploy/dataflow/metadata.json").read_text())
    remedy = "run `private-topk flex-template > deploy/dataflow/metadata.json`"
    assert stored == metadata(), remedy
    for parameter in stored["parameters"]:
        assert set(parameter) <= {"name", "label", "helpText", "isOptional", "regexes"}
        assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]*", parameter["name"])
        assert parameter["label"] and parameter["helpText"]
        assert all(re.compile(regex) for regex in parameter.get("regexes", []))


def test_parameters_become_arguments() -> None:
    own = ["--input=a=b.avro", "--release_key=env:K", "--overwrite=true", "--unknown_domain=false", "--from=2026-01-05"]
    line = as_command_line([*own, "--runner=DataflowRunner", "--temp_location=gs://b/t", "--job_name", "x"])
    assert line == [
        "--input=a=b.avro",
        "--release-key=env:K",
        "--overwrite",
        "--from=2026-01-05",
        "--runner=DataflowRunner",
        "--temp_location=gs://b/t",
        "--job_name",
        "x",
    ]
    given, beams = parser_of("run").read(line)
    assert (given.input, given.release_key, given.overwrite, given.runner) == (
        "a=b.avro",
        "env:K",
        True,
        "DataflowRunner",
    )
    assert beams == ["--temp_location=gs://b/t", "--job_name", "x"]


@pytest.mark.long
def test_the_launchers_program_explains_what_is_missing() -> None:
    program = [sys.executable, str(ROOT / "deploy/dataflow/main.py"), "--k=3", "--runner=DataflowRunner"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and "--input, --output, --epsilon must be given" in done.stderr


@pytest.mark.parametrize("path", ["deploy/dataflow/Dockerfile", "deploy/flink/Dockerfile"])
def test_dockerfiles_are_well_formed(path: str) -> None:
    lines = re.sub(r"\\\n", " ", (ROOT / path).read_text()).splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    assert {word for word, _ in steps} <= INSTRUCTIONS
    assert next(word for word, _ in steps if word != "ARG") == "FROM"
    stages: set[str] = set()
    for word, rest in steps:
        parts = rest.split()
        if word == "FROM" and "AS" in parts:
            stages.add(parts[-1])
        elif word == "COPY" and parts[0].startswith("--from="):
            assert parts[0].removeprefix("--from=") in stages
        elif word == "COPY":
            brought = {"job-server.jar"}  # as the file's first lines say
            assert all((ROOT / source).exists() for source in set(parts[:-1]) - brought), rest
        elif word == "ENTRYPOINT":
            assert json.loads(rest)


@pytest.mark.parametrize("path", ["deploy/dataflow/Dockerfile", "deploy/flink/Dockerfile"])
def test_the_images_hold_every_room(path: str, tmp_path: Path) -> None:
    """What is copied is the whole package: a room that is left out is an import that fails on the worker."""
    for line in (ROOT / path).read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, target = line.split()[1:]
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, tmp_path / target, symlinks=True)
    assert set(find_packages(str(tmp_path / "src"))) == set(find_packages(str(ROOT / "src")))


def test_the_images_hold_the_installed_beam() -> None:
    from apache_beam.version import __version__ as beam_version

    for path in ("deploy/dataflow/Dockerfile", "deploy/flink/Dockerfile"):
        assert f"ARG BEAM_VERSION={beam_version}" in (ROOT / path).read_text()


def test_the_kubernetes_files_are_well_formed() -> None:
    cluster, schedule = yaml.safe_load_all((ROOT / "deploy/flink/flink-deployment.yaml").read_text())
    assert (cluster["apiVersion"], cluster["kind"]) == ("flink.apache.org/v1beta1", "FlinkDeployment")
    spec = cluster["spec"]
    assert spec["flinkVersion"] == f"v{spec['image'].partition(':')[2].replace('.', '_')}"
    main, pool = spec["taskManager"]["podTemplate"]["spec"]["containers"]
    assert main["name"] == "flink-main-container" and pool["args"] == ["--worker_pool"]
    assert all(isinstance(value, str) for value in spec["flinkConfiguration"].values())

    assert (schedule["apiVersion"], schedule["kind"]) == ("batch/v1", "CronJob")
    (job,) = schedule["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    shell, line = job["command"], job["args"][0]
    assert subprocess.run([shell[0], "-n", "-c", line]).returncode == 0
    words = shlex.split(line.partition("private-topk run --quiet ")[2])
    _, beams = parser_of("run").read(["2026-01-05" if word in ("$start", "$end") else word for word in words])
    assert beams[:2] == ["--flink_master", f"{cluster['metadata']['name']}-rest:8081"]
    assert beams[-1] == f"localhost:{pool['ports'][0]['containerPort']}"


def test_the_service_starts_a_stream() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(SERVICE)
    program, name, *words = unit["Service"]["ExecStart"].split()
    assert Path(program).name == "private-topk" and name == "stream"
    assert words[0] == "$ARGUMENTS" and unit["Service"]["EnvironmentFile"] == "/etc/private-topk/%i.env"
    given, beams = parser_of("stream").read(words[1:])
    assert not beams and given.log_format == "json"
    assert given.release_key == f"file:%d/{unit['Service']['LoadCredential'].partition(':')[0]}"
    assert unit["Service"]["RestartPreventExitStatus"] == str(BAD_INPUT)
    if shutil.which("systemd-analyze"):
        verified = subprocess.run(["systemd-analyze", "verify", SERVICE], capture_output=True, text=True)
        assert all("not executable" in line for line in verified.stderr.splitlines()), verified.stderr


def test_the_weekly_workflow_gives_known_parameters() -> None:
    workflow = yaml.safe_load((ROOT / "deploy/dataflow/weekly.yaml").read_text())
    steps = {name: step for found in workflow["main"]["steps"] for name, step in found.items()}
    given = steps["launch"]["args"]["body"]["launchParameter"]["parameters"]
    names = {parameter["name"]: parameter for parameter in metadata()["parameters"]}
    assert set(given) - set(names) == {"sdk_container_image"}
    assert {name for name, parameter in names.items() if not parameter["isOptional"]} <= set(given)


def test_the_dag_is_well_formed() -> None:
    source = (ROOT / "examples/weekly_report_dag.py").read_text()
    if find_spec("airflow") is not None and find_spec("airflow.providers.apache.beam") is not None:
        names: dict = {"__name__": "weekly_report_dag"}
        exec(compile(source, "weekly_report_dag.py", "exec"), names)
        assert names["dag"].task_ids == ["publish_ranking"]
    options = next(
        ast.literal_eval(word.value)
        for word in ast.walk(ast.parse(source))
        if isinstance(word, ast.keyword) and word.arg == "pipeline_options"
    )
    own = {action.option_strings[0] for action in parser_of("run")._actions}
    beams = {f"--{name}" for name in options} - own
    assert beams == {"--temp_location", "--sdk_container_image"}


def test_the_dag_of_a_report_file_loads() -> None:
    """Where Airflow is installed: it is no part of the tests' environment, being as large as all the rest."""
    source = (ROOT / "examples/report_dag.py").read_text()
    compile(source, "report_dag.py", "exec")
    if find_spec("airflow") is not None:
        names: dict = {"__name__": "report_dag"}
        exec(compile(source, "report_dag.py", "exec"), names)
        assert names["private_report"]().task_ids == ["publish"]


@pytest.mark.long
def test_the_task_of_the_dag_publishes_once_and_gives_up_on_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function itself, taken out of the file: what is around it is Airflow's."""
    tree = ast.parse((ROOT / "examples/report_dag.py").read_text())
    found = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "publish")
    found.decorator_list = []
    names: dict = {"json": json, "subprocess": subprocess, "BAD_INPUT": 2, "AirflowFailException": PermissionError}
    exec(compile(ast.Module([found], []), "publish", "exec"), names)
    small_plays(tmp_path, "plays.avro")
    (tmp_path / "items.txt").write_text("".join(f"Track {n}\n" for n in range(30)))
    (tmp_path / "key").write_text("a key of the tests' own")
    (tmp_path / "r.yaml").write_text(
        "report: r\nsource: {input: plays.avro}\ndomain: {file: items.txt}\nwindow: {every: week, first: 2026-01-05}\n"
        "mechanism: {name: joint, k: 2}\nbudget: {epsilon: 1, privacy_unit: user-window}\nrelease_key: file:key\n"
        "sink: {output: '{start}.avro'}\nledger: {url: 'sqlite:///budget.db', dataset: d}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    with pytest.raises(PermissionError, match="refused"):
        names["publish"]("r.yaml", "2026-01-12")
    assert (
        command("budget", "create", "--ledger", "sqlite:///budget.db", "--dataset", "d", "--epsilon", "1").status == 0
    )
    assert [names["publish"]("r.yaml", "2026-01-12")[0]["outcome"] for _ in range(2)] == [
        "published",
        "published before",
    ]
