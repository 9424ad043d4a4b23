"""A standalone Flink cluster on this machine, for trying and testing: one process per job manager and task manager.

    python -m benchmarks.servers.flink up [--task-managers 2] [--prometheus]
    python -m benchmarks.servers.flink down
    python -m benchmarks.servers.flink job-server

Everything listens on loopback, but what `--prometheus` adds. `up` starts what is missing: a process that has ended is
brought back, as it was asked for. Processes are ended by the ids that `up` wrote down, never by name. Flink comes from
PyPI, the jars of `apache-flink-libraries` with the scripts of `apache-flink`. The job server is packaged with Maven
from its parts as released: `flink_job_server.xml` names the newest pair of Beam and Flink of which every part was
found where this was made. `job-server` prints its path.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.servers.parts import made_once
from private_topk.runners import cache_folder, say
from private_topk.runners.child import ending_with_us
from private_topk.runners.flink import FLINK_VERSION, JVM_PROPERTIES, RESTARTS
from private_topk.runners.flink_jobs import JobManager
from private_topk.runners.portable import reachable

_PATIENCE = 180.0
_FLINK_RELEASE = {"1.19": "1.19.3"}[FLINK_VERSION]
_LIBRARIES = ["--no-binary", ":all:", f"apache-flink-libraries=={_FLINK_RELEASE}"]
# Only the scripts are taken from the wheel, so any platform's will do.
_SCRIPTS = [
    "--only-binary",
    ":all:",
    "--python-version",
    "311",
    "--platform",
    "manylinux2014_x86_64",
    f"apache-flink=={_FLINK_RELEASE}",
]
_PROJECT = Path(__file__).with_name("flink_job_server.xml")


def job_server() -> Path:
    """Beam's job server for Flink, packaged with Maven unless it stands already. Raises ValueError if it cannot be."""
    project = _PROJECT.read_text("utf-8")
    beam, flink = (re.findall(f"<{name}.version>(.+)</", project)[0] for name in ("beam", "flink"))
    return made_once(cache_folder() / "jars" / f"beam-runners-flink-{flink}-job-server-{beam}.jar", _package)


def _package(folder: Path) -> Path:
    if shutil.which("mvn") is None:
        raise ValueError("Maven, which packages the job server, is not here: install Maven")
    print("packaging Beam's job server for Flink from its parts (160 MB, once)", file=sys.stderr)
    command = ["mvn", "--quiet", "--batch-mode", "package", f"--file={_PROJECT}", f"-Dmade.in={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    jar = folder / "job-server.jar"
    if done.returncode or not jar.exists():
        raise ValueError(f"Maven could not package the job server: {(done.stdout + done.stderr)[-500:]}")
    return jar


def distribution() -> Path:
    """The folder of Flink, fetched with pip (some 230 MB) unless it stands. Raises ValueError if pip cannot get it."""
    return made_once(cache_folder() / f"flink-{_FLINK_RELEASE}", _assemble)


def _assemble(folder: Path) -> Path:
    print(f"fetching Flink {_FLINK_RELEASE} (230 MB, once)", file=sys.stderr)
    for wanted in (_LIBRARIES, _SCRIPTS):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *wanted]
        if subprocess.run(command).returncode:
            raise ValueError(f"pip could not fetch {wanted[-1]}: see its message above")
    home = folder / "home"
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    shutil.move(next(folder.glob("apache[-_]flink[-_]libraries-*/deps")), home)  # spelled as the release likes it
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        for name in wheel.namelist():
            room, _, file = name.removeprefix("pyflink/").partition("/")
            if name.startswith("pyflink/") and room in ("bin", "conf") and file and "/" not in file:
                (home / room).mkdir(exist_ok=True)
                (home / room / file).write_bytes(wheel.read(name))
    for script in (home / "bin").glob("*.sh"):
        script.chmod(0o755)
    return home


class Cluster:
    """The processes of one cluster, their logs and checkpoints in one folder.

    Args:
        port: of the REST interface. The job manager's RPC takes the next one; `up` has its worker pool at `port` + 2.
        task_memory: all memory of a task manager's process, as Flink writes it.
        state: where the ids of the processes are kept up to date, for who outlives this one. Those that it names
            already, and that run, are not started again.
        settings: Flink's own, by their names, in place of what is set here or besides.

    `worker_pool` is the address of its pool of Python workers, once that is started.
    """

    def __init__(
        self,
        folder: Path,
        port: int = 8081,
        slots: int = 1,
        task_memory: str = "4g",
        state: Path | None = None,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.folder, self.port, self._state = folder.resolve(), port, state
        self.processes: dict[str, subprocess.Popen] = {}
        self._running = _running(state)
        self.worker_pool = ""
        self.rest = JobManager(f"localhost:{port}")
        self.job_server = str(job_server())
        self._home = distribution()
        self._settings = {**_settings(self.folder, port, slots, task_memory), **settings}

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    def start(self, task_managers: int = 1) -> None:
        """Start all processes and wait until every task manager has joined.

        Raises RuntimeError if they do not, or if a port is taken: another cluster would then be taken for this one.
        """
        if "job-manager" not in self._running:
            _refuse_taken(range(self.port, self.port + 2))
        self._run("job-manager", "jobmanager.sh")
        for number in range(1, task_managers + 1):
            self.start_task_manager(number)
        self._await(lambda: self.overview().get("taskmanagers") == task_managers)

    def start_task_manager(self, number: int) -> None:
        """Start one more, or one anew that has ended."""
        self._run(f"task-manager-{number}", "taskmanager.sh")

    def start_worker_pool(self, port: int) -> str:
        """Start a pool of Python workers; its address."""
        command = [sys.executable, "-m", "private_topk.runners.worker_pool", "--port", str(port)]
        self._start("worker-pool", command)
        self.worker_pool = f"localhost:{port}"
        self._await(lambda: reachable(self.worker_pool))
        return self.worker_pool

    def words(self, job_server: str = "") -> list[str]:
        """The words that send a job to this cluster and its worker pool, by a job server that is up if one is named."""
        by = ["--job_endpoint", job_server] if job_server else ["--flink_job_server_jar", self.job_server]
        return [
            "--flink_master",
            self.address,
            "--environment_type",
            "EXTERNAL",
            "--environment_config",
            self.worker_pool,
            *by,
        ]

    def overview(self) -> dict[str, Any]:
        """What the job manager says of task managers, slots and jobs; nothing while it is not up."""
        return self.rest.overview()

    def stop(self) -> None:
        """End every process of the cluster that still runs."""
        for process in reversed(list(self.processes.values())):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, name: str, script: str) -> None:
        settings = [word for key, value in self._settings.items() for word in ("-D", f"{key}={value}")]
        self._start(name, [str(self._home / "bin" / script), "start-foreground", *settings])

    def _start(self, name: str, command: Sequence[str]) -> None:
        if name in self._running and name not in self.processes:
            return
        if name in self.processes:
            self.processes[name].wait(_PATIENCE)
        self.folder.mkdir(parents=True, exist_ok=True)
        # Flink's name for whatever comes behind its own in the class path.
        behind = {"HADOOP_CLASSPATH": self.job_server}
        java = {"JVM_ARGS": " ".join([*JVM_PROPERTIES, os.environ.get("JVM_ARGS", "")]).strip()}
        places = {"FLINK_LOG_DIR": str(self.folder), "FLINK_PID_DIR": str(self.folder), **behind, **java}
        if self._state is None:  # then nobody outlives this process
            command = ending_with_us(command)
        with open(self.folder / f"{name}.out", "ab") as output:  # behind the last words of one that was lost
            self.processes[name] = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, **places}, start_new_session=True
            )
        if self._state is not None:
            pid = self.processes[name].pid
            self._running[name] = (pid, _started(pid))
            whole = self._state.with_suffix(".incomplete")
            whole.write_text(json.dumps(self._running))
            whole.replace(self._state)

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended at once: {self._last_words(name)}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the cluster is not up after {_PATIENCE:.0f} s: see {self.folder}")
            time.sleep(0.2)

    def _last_words(self, name: str) -> str:
        written = self.folder / f"{name}.out"
        return f"{written.read_text('utf-8', 'replace').strip()[-500:]}\nsee {written}"


def taken(ports: Iterable[int]) -> list[int]:
    """Those ports of this machine's loopback at which nobody could listen now.

    A port may be taken with nobody listening: connections are given ports too, on Linux from 32768 on.
    """
    found = []
    for port in ports:
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            found.append(port)
    return found


def _refuse_taken(ports: Sequence[int]) -> None:
    if found := taken(ports):
        raise RuntimeError(f"port {found[0]} is taken, and {', '.join(map(str, ports))} are needed: give another port")


def _settings(folder: Path, port: int, slots: int, task_memory: str) -> dict[str, object]:
    """Flink's own, by their names."""
    return {
        "rest.address": "localhost",
        "rest.bind-address": "127.0.0.1",
        "rest.port": port,
        "jobmanager.rpc.address": "localhost",
        "jobmanager.rpc.port": port + 1,
        "taskmanager.numberOfTaskSlots": slots,
        "taskmanager.memory.process.size": task_memory,
        # What is on its way to and from Python is outside the heap, up to a hundred messages of each slot at a time.
        "taskmanager.memory.task.off-heap.size": "1g" if task_memory == "4g" else "256m",
        "taskmanager.memory.managed.fraction": 0.2,
        "execution.checkpointing.interval": "10s",
        "state.checkpoints.dir": f"{folder.as_uri()}/checkpoints",
        # A stream that has lost a task manager goes on with the slots that are left, and takes new ones into use.
        "jobmanager.scheduler": "adaptive",
        "jobmanager.adaptive-scheduler.resource-wait-timeout": "10min",
        "jobmanager.adaptive-scheduler.resource-stabilization-timeout": "3s",
        **RESTARTS,
        "metrics.fetcher.update-interval": 1000,
        # How long the metrics stand still when a task manager is lost that was just being asked for its own.
        "web.timeout": 60000,
        "heartbeat.interval": 1000,
        "heartbeat.timeout": 10000,
        # Beam's classes are in the class path of these processes. Each job would bring its own besides, and Flink
        # never gets rid of them: after some jobs, or restarts, a task manager would have no room for more.
        "classloader.resolve-order": "parent-first",
    }


TO_PROMETHEUS = {
    "metrics.reporter.prom.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
    "metrics.reporter.prom.port": "9249-9299",  # each process takes one
    "metrics.reporter.prom.filter.includes": "jobmanager*;*:private_topk*",
}
"""What docs/month-on-flink.md says, for several processes on one machine."""

_DEFAULTS = {"port": 8081, "task_managers": 2, "prometheus": False}


def up(folder: Path, asked: Mapping[str, int | bool | None]) -> None:
    """Start what is missing of a cluster and a worker pool, which outlive this process, and say how to use them.

    Args:
        asked: port, task managers, and whether Prometheus is served; where None, as of what runs, or by default.
    """
    state, kept = folder / "processes.json", folder / "asked.json"
    running = _running(state)
    before = json.loads(kept.read_text()) if running and kept.exists() else _DEFAULTS
    now = {**before, **{name: value for name, value in asked.items() if value is not None}}
    if running and any(now[name] != before[name] for name in ("port", "prometheus")):
        sys.exit("the cluster is up with another --port or --prometheus: `make flink-down` ends it")
    port, task_managers, settings = now["port"], now["task_managers"], TO_PROMETHEUS if now["prometheus"] else {}
    wanted = ["job-manager", *(f"task-manager-{number}" for number in range(1, task_managers + 1)), "worker-pool"]
    missing = [name for name in wanted if name not in running]
    if not missing:
        sys.exit("the cluster is up already: `make flink-down` ends it")
    try:
        if not running:
            _refuse_taken(range(port, port + 3))
        # The state is written from the first process on: this one may be killed before the last.
        cluster = Cluster(folder, port, state=state, settings=settings)
    except (RuntimeError, ValueError) as error:  # a port, or what is missing, and the way to get it
        sys.exit(str(error))
    say(
        f"starting Flink {_FLINK_RELEASE} for trials, on this machine alone, at port {port}: {', '.join(missing)} "
        "(half a minute)"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(now))
        cluster.start(task_managers)
        cluster.start_worker_pool(port + 2)
    except RuntimeError as error:
        cluster.stop()
        if not running:
            state.unlink(missing_ok=True)
        sys.exit(str(error))
    print(
        f"Flink is ready, until `make flink-down`. Logs are in {folder}. Run on it with\n"
        f"  private-topk run ... --runner flink {' '.join(cluster.words())}"
    )


def down(folder: Path) -> None:
    """End the processes that `up` started in this folder."""
    state = folder / "processes.json"
    if not state.exists():
        sys.exit(f"no cluster is up in {folder}")
    ours = [pid for pid, _ in _running(state).values()]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in filter(_started, ours):
            os.kill(pid, number)
        deadline = time.monotonic() + 15
        while any(map(_started, ours)) and time.monotonic() < deadline:
            time.sleep(0.1)
    state.unlink()
    print("Flink and its worker pool have ended")


def _running(state: Path | None) -> dict[str, tuple[int, str]]:
    """Of the processes that `up` wrote down those that still run: by their names, ids and when they started."""
    ids = json.loads(state.read_text()) if state is not None and state.exists() else {}
    return {name: (pid, began) for name, (pid, began) in ids.items() if began and _started(pid) == began}


def _started(pid: int) -> str:
    """When a running process started, empty if there is none: tells it from a later one with the same id."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    state, _, started = subprocess.run(command, capture_output=True, text=True).stdout.strip().partition(" ")
    return "" if state.startswith("Z") else started.strip()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.servers.flink",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("up", "down", "job-server"))
    parser.add_argument("--folder", type=Path, default=Path("out/flink"))
    parser.add_argument("--port", type=int)
    parser.add_argument("--task-managers", type=int)
    parser.add_argument(
        "--prometheus",
        action="store_true",
        default=None,
        help="show metrics at ports from 9249 on, at every address of this machine: Flink cannot choose one",
    )
    arguments = parser.parse_args(argv)
    if arguments.action == "up":
        up(arguments.folder, {name: getattr(arguments, name) for name in _DEFAULTS})
    elif arguments.action == "job-server":
        print(job_server())
    else:
        down(arguments.folder)


if __name__ == "__main__":
    main()
