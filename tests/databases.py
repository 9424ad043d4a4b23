"""Real databases: SQLite files, and a PostgreSQL server that the tests start and stop."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from glob import glob
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sql

from private_topk.runners.child import ending_with_us

_NUMBERS = count()


_OPEN = tempfile.gettempdir()  # before tests are given one of pytest's


@pytest.fixture(scope="session")
def postgres() -> Iterator[Path]:
    """The socket folder of a PostgreSQL server that nothing but this test run can reach."""
    found = sorted(glob("/usr/lib/postgresql/*/bin"))
    binaries = found[-1] if found else os.path.dirname(shutil.which("initdb") or "")
    if not binaries:
        if os.environ.get("CI") == "true":
            pytest.fail("PostgreSQL is missing: apt-get install postgresql")
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    # The server refuses to run as root, and pytest's folders, in one of which all else is put, are closed to others.
    account = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="pg", dir=_OPEN))
    if account:
        shutil.chown(folder, **account)
    run = {"check": True, "stdout": subprocess.DEVNULL, "cwd": "/", **account}
    server = None
    try:
        subprocess.run([f"{binaries}/initdb", "-D", folder / "data", "-U", "tester", "-A", "trust", "-N"], **run)
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
        command = [f"{binaries}/postgres", "-D", folder / "data", *options]
        server = subprocess.Popen(
            ending_with_us([*_as(account), *command]), cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _await(folder / ".s.PGSQL.5432", server)
        yield folder
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # a fast shutdown
            server.wait(30)
        shutil.rmtree(folder)


_DROP = (
    "import grp, os, pwd, sys; os.setgroups([]); os.setgid(grp.getgrnam(sys.argv[2]).gr_gid); "
    "os.setuid(pwd.getpwnam(sys.argv[1]).pw_uid); os.execv(sys.argv[3], sys.argv[3:])"
)


def _as(account: dict[str, str]) -> list[str]:
    """What comes before a command that runs under an account, to which the folders of this interpreter are closed."""
    return [sys.executable, "-I", "-S", "-c", _DROP, account["user"], account["group"]] if account else []


def _await(socket: Path, server: subprocess.Popen) -> None:
    for _ in range(300):
        if socket.exists():
            return
        assert server.poll() is None, "the PostgreSQL server ended at once"
        time.sleep(0.1)
    pytest.fail("the PostgreSQL server did not start within 30 seconds")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a ledger that does not exist yet, in either database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/budget.db"
    folder = request.getfixturevalue("postgres")
    import psycopg

    name = f"ledger{next(_NUMBERS)}"
    for _ in range(100):
        try:
            with psycopg.connect(host=str(folder), user="tester", dbname="postgres", autocommit=True) as connection:
                connection.execute(f"create database {name}")
            break
        except psycopg.OperationalError:  # still starting up
            time.sleep(0.1)
    return f"postgresql://tester@/{name}?host={folder}"


class Cut:
    """A way to a PostgreSQL server that breaks a connection at the COMMIT of a transaction.

    Args:
        server: the socket folder of the server.
        of: what the transaction has said before.
        taken: whether the server still gets the COMMIT.
        back: whether further connections get through.
    """

    def __init__(self, server: Path, of: str, taken: bool, back: bool) -> None:
        self.of, self.taken, self.back, self.cuts = of.encode(), taken, back, 0
        self.folder = Path(tempfile.mkdtemp(prefix="cut", dir=_OPEN))
        self._server = str(server / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        shutil.rmtree(self.folder)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.cuts and not self.back:
                    client.close()
                    continue
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        said = b""
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self._server)
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    content = ready.recv(1 << 16)
                    if not content:
                        return
                    if ready is client and b"COMMIT" in content and self.of in said and not self.cuts:
                        if self.taken:
                            server.sendall(content)
                            server.recv(1 << 16)  # it is done, and nobody is told
                        self.cuts += 1
                        return
                    said += content if ready is client else b""
                    (server if ready is client else client).sendall(content)


def let_pass(url: str, time: timedelta) -> None:
    """All that a ledger has noted becomes older by some time, which may be negative: no test can move a real clock."""
    engine = sql.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sql.pool.NullPool)
    with engine.begin() as connection:
        for table, column in (
            ("budgets", "created"),
            ("charges", "charged"),
            ("charges", "finished"),
            ("renewals", "began"),
        ):
            noted = set(connection.scalars(sql.text(f"select {column} from private_topk_{table}"))) - {None}
            update = sql.text(f"update private_topk_{table} set {column} = :then where {column} = :text")
            for text in sorted(noted, reverse=time < timedelta()):  # so that no row is moved twice
                then = f"{datetime.fromisoformat(text) - time:%Y-%m-%dT%H:%M:%SZ}"
                connection.execute(update, {"text": text, "then": then})
