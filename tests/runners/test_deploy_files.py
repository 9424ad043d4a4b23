"""Files for deployment: what no machine of the tests can run is at least well formed, and matches the code."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
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

from benchmarks.servers.flink import TO_PROMETHEUS
from private_topk.pipelines.cli import parser_of
from private_topk.runners.flink import FlinkJobRunner
from private_topk.transforms.counters import DroppedRows
from private_topk.transforms.errors import InputNotReady, InvalidArgument
from tests.documents.worlds import small_plays
from tests.pipelines.support import command

ROOT = Path(__file__).resolve().parents[2]
SERVICE = ROOT / "deploy/systemd/private-topk-stream@.service"
IMAGES = (ROOT / "deploy/Dockerfile").read_text()
REPORT = ROOT / "deploy/kubernetes/weekly-report.yaml"
INSTRUCTIONS = {"FROM", "ARG", "COPY", "RUN", "USER", "WORKDIR", "ENV", "ENTRYPOINT"}


def test_the_templates_parameters_are_the_arguments() -> None:
    stored = json.loads((ROOT / "deploy/dataflow/metadata.json").read_text())
    made = subprocess.run([sys.executable, ROOT / "deploy/dataflow/metadata.py"], capture_output=True, check=True)
    assert stored == json.loads(made.stdout), "run `make metadata`"
    for parameter in stored["parameters"]:
        assert set(parameter) <= {"name", "label", "helpText", "isOptional", "regexes"}
        assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]*", parameter["name"])
        assert parameter["label"] and parameter["helpText"]
        assert all(re.compile(regex) for regex in parameter.get("regexes", []))


def test_template_parameters_become_command_line_arguments() -> None:
    own = ["--input=a=b.avro", "--release_key=env:K", "--overwrite=true", "--unknown_domain=false", "--from=2026-01-05"]
    program = runpy.run_path(str(ROOT / "deploy/dataflow/main.py"))
    line = program["as_command_line"]([*own, "--runner=DataflowRunner", "--temp_location=gs://b/t", "--job_name", "x"])
    words = "--input=a=b.avro --release-key=env:K --overwrite --from=2026-01-05 --runner=DataflowRunner"
    assert line == f"{words} --temp_location=gs://b/t --job_name x".split()
    given, beams = parser_of("run").read(line)
    assert (given.input, given.release_key, given.overwrite, given.runner) == (
        ("a=b.avro",),
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


def steps_of_images() -> list[list[str]]:
    lines = re.sub(r"\\\n", " ", IMAGES).splitlines()
    return [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]


def test_the_dockerfile_is_well_formed() -> None:
    steps = steps_of_images()
    assert {word for word, _ in steps} <= INSTRUCTIONS
    assert next(word for word, _ in steps if word != "ARG") == "FROM"
    named = dict(rest.split("=", 1) for word, rest in steps if word == "ARG")
    stages: set[str] = set()
    for word, rest in steps:
        parts = rest.split()
        if word == "FROM":
            base = re.sub(r"\$\{(\w+)\}", lambda found: named[found[1]], parts[0])
            # Google dates its launchers and keeps few of them: its own guide names the latest.
            assert base in stages or re.search(r":\d", base) or base == named["TEMPLATE_LAUNCHER"], base
            stages.add(parts[-1])
        elif word == "COPY" and parts[0].startswith("--from="):
            assert parts[0].removeprefix("--from=") in stages
        elif word == "COPY":
            brought = {"job-server.jar"}  # as the file's first lines say
            assert all((ROOT / source).exists() for source in set(parts[:-1]) - brought), rest
        elif word == "ENTRYPOINT":
            assert json.loads(rest)
    assert set(re.findall(r"--target (\S+)", IMAGES)) | {"package", "template-launcher"} == stages


def test_the_command_line_images_run_as_an_unprivileged_user() -> None:
    users: dict[str, str] = {}
    for word, rest in steps_of_images():
        if word == "FROM":
            base, _, stage = rest.split()
            users[stage] = users.get(base, "root")
        elif word == "USER":
            users[stage] = rest
    (job,) = job_of(list(yaml.safe_load_all(REPORT.read_text()))[1])["containers"]
    person = job_of(list(yaml.safe_load_all(REPORT.read_text()))[1])["securityContext"]
    assert users["report"] == users["launcher"] == f"{person['runAsUser']}:{person['runAsGroup']}"
    assert person["runAsNonRoot"] and job["securityContext"]["readOnlyRootFilesystem"]


def test_the_images_hold_every_room(tmp_path: Path) -> None:
    """What is copied is the whole package: a room that is left out is an import that fails on the worker."""
    for line in IMAGES.splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, target = line.split()[1:]
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, tmp_path / target, symlinks=True)
    assert set(find_packages(str(tmp_path / "src"))) == set(find_packages(str(ROOT / "src")))


def test_the_images_hold_the_installed_beam() -> None:
    from apache_beam.version import __version__ as beam_version

    assert f"ARG BEAM_VERSION={beam_version}" in IMAGES
    assert f"apache-beam=={beam_version}" in (ROOT / ".ci/constraints.txt").read_text()


def job_of(schedule: dict) -> dict:
    assert (schedule["apiVersion"], schedule["kind"]) == ("batch/v1", "CronJob")
    assert schedule["spec"]["concurrencyPolicy"] == "Forbid" and schedule["spec"]["jobTemplate"]["spec"]["backoffLimit"]
    return schedule["spec"]["jobTemplate"]["spec"]["template"]["spec"]


@pytest.mark.long
def test_the_report_of_kubernetes_publishes(tmp_path: Path) -> None:
    """Its paths, on this machine and in the container: where the report is, and what is mounted there."""
    files, schedule = yaml.safe_load_all(REPORT.read_text())
    pod = job_of(schedule)
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume.pop("name"): volume for volume in pod["volumes"]}
    assert set(mounts.values()) == set(volumes)
    assert volumes[mounts["/reports"]] == {"configMap": {"name": files["metadata"]["name"]}}
    assert {item["path"] for item in volumes[mounts["/secrets"]]["secret"]["items"]} == {"release-key"}
    stop = schedule["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"]
    assert pod["restartPolicy"] == "Never" and stop == [
        InvalidArgument.status,
        InputNotReady.status,
    ]  # a policy needs Never

    ((name, text),) = files["data"].items()
    assert "/reports/" + name == container["args"][1]
    for place in mounts:
        (tmp_path / place[1:]).mkdir()
    text = re.sub(rf"(?<=[ :])({'|'.join(mounts)})/", rf"{tmp_path}\1/", text)
    text = text.replace("postgresql://budget@db.internal/privacy", f"sqlite:///{tmp_path}/budget.db")
    (tmp_path / "reports" / name).write_text(text)
    (tmp_path / "secrets/release-key").write_text("a key of the tests' own")
    week = tmp_path / "data/plays/2026-01-05"
    week.mkdir(parents=True)
    small_plays(week, "plays.avro")
    (tmp_path / "data/catalogue.txt").write_text("".join(f"Track {n}\n" for n in range(30)))
    ledger = ["--ledger", f"sqlite:///{tmp_path}/budget.db", "--dataset", "plays"]
    assert command("budget", "create", *ledger, *"--epsilon 1 --delta 1e-6 --privacy-unit user".split()).status == 0
    words = ["report", str(tmp_path / "reports" / name), *container["args"][2:], "--until", "2026-01-12"]
    done = command(*words)
    assert done.status == InputNotReady.status, done.err
    (week / "_SUCCESS").touch()
    assert [command(*words).status for _ in range(2)] == [0, 0]
    assert (tmp_path / "data/published/weekly-plays/2026-01-05.avro").exists()


def test_the_files_of_flink_on_kubernetes_are_well_formed() -> None:
    cluster, schedule = yaml.safe_load_all((ROOT / "deploy/flink/flink-deployment.yaml").read_text())
    assert (cluster["apiVersion"], cluster["kind"]) == ("flink.apache.org/v1beta1", "FlinkDeployment")
    spec = cluster["spec"]
    assert spec["flinkVersion"] == f"v{spec['image'].partition(':')[2].replace('.', '_')}"
    main, pool = spec["taskManager"]["podTemplate"]["spec"]["containers"]
    assert main["name"] == "flink-main-container" and pool["args"] == ["--worker_pool"]
    assert all(isinstance(value, str) for value in spec["flinkConfiguration"].values())

    (job,) = job_of(schedule)["containers"]
    shell, line = job["command"], job["args"][0]
    assert subprocess.run([shell[0], "-n", "-c", line]).returncode == 0
    words = shlex.split(line.partition("private-topk run --quiet ")[2])
    _, beams = parser_of("run").read(["2026-01-05" if word in ("$start", "$end") else word for word in words])
    assert beams[:2] == ["--flink_master", f"{cluster['metadata']['name']}-rest:8081"]
    assert beams[-1] == f"localhost:{pool['ports'][0]['containerPort']}"


def test_the_settings_and_rules_for_prometheus_are_well_formed() -> None:
    settings, rules = re.findall(r"(?ms)^```yaml\n(.+?)^```", (ROOT / "docs/month-on-flink.md").read_text())
    assert {**yaml.safe_load(settings), "metrics.reporter.prom.port": "9249-9299"} == TO_PROMETHEUS
    (group,) = yaml.safe_load(rules)["groups"]
    asked = {rule.get("alert") or rule["record"]: rule["expr"] for rule in group["rules"]}
    metric, release = (re.compile(re.findall('=~"(.+)"', asked[name])[0]) for name in ("dropped", "NoJob"))
    seen = {reason: f"flink_x_operator_{DroppedRows(reason)._counter.metric_name.name}" for reason in DROPPED}
    # Rows from before the first window are outside the period anew at each launch: no sign of another input.
    assert [reason for reason, name in seen.items() if metric.fullmatch(name)] == list(DROPPED[1:])
    runner = FlinkJobRunner({})
    runner.name_after("private-topk", "plays-of-January")
    assert release.fullmatch(f"{runner.named}-0123abcd".replace("-", "_"))  # as Flink's reporter writes labels


DROPPED = ("outside_the_period", "a_year_off", "null", "unreadable", "not_in_domain", "not_in_groups")


def test_the_service_starts_a_stream() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(SERVICE)
    program, name, *words = unit["Service"]["ExecStart"].split()
    assert Path(program).name == "private-topk" and name == "stream"
    assert words[0] == "$ARGUMENTS" and unit["Service"]["EnvironmentFile"] == "/etc/private-topk/%i.env"
    given, beams = parser_of("stream").read(words[1:])
    assert not beams and given.log_format == "json"
    assert given.release_key == f"file:%d/{unit['Service']['LoadCredential'].partition(':')[0]}"
    assert unit["Service"]["RestartPreventExitStatus"] == str(InvalidArgument.status)
    if shutil.which("systemd-analyze"):
        verified = subprocess.run(["systemd-analyze", "verify", SERVICE], capture_output=True, text=True)
        assert all("not executable" in line for line in verified.stderr.splitlines()), verified.stderr


def test_the_weekly_workflow_gives_known_parameters() -> None:
    workflow = yaml.safe_load((ROOT / "deploy/dataflow/weekly.yaml").read_text())
    steps = {name: step for found in workflow["main"]["steps"] for name, step in found.items()}
    given = steps["launch"]["args"]["body"]["launchParameter"]["parameters"]
    template = json.loads((ROOT / "deploy/dataflow/metadata.json").read_text())
    names = {parameter["name"]: parameter for parameter in template["parameters"]}
    assert set(given) - set(names) == {"sdk_container_image"}
    assert {name for name, parameter in names.items() if not parameter["isOptional"]} <= set(given)


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
