"""The tables of a ledger, and connections to it of which one at a time charges.

A change of the tables is one more step of `_STEPS`; docs/budget.md says what the columns hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sql

from private_topk.pipelines.budget.accounting import OF_A_LOST_LEDGER, Books, Budget, Entry, NoBudget, Renewal
from private_topk.pipelines.budget.rows import BROKEN, record_in, row_of
from private_topk.pipelines.process import PATIENCE, RunFailed, told_if_slow
from private_topk.transforms.errors import InvalidArgument, Unreachable, install_extra, verbatim

_STEPS = {
    2: """
create table private_topk_budgets (
    dataset varchar(200) not null,
    unit varchar(20) not null,
    neighbours varchar(20) not null,
    epsilon text not null,
    delta text not null,
    release_delta text not null,
    created varchar(40) not null,
    primary key (dataset, unit)
);
create table private_topk_charges (
    id integer primary key,
    dataset varchar(200) not null,
    unit varchar(20) not null,
    release_id text not null,
    key_id varchar(32) not null,
    fingerprint varchar(64) not null,
    question text not null,
    mechanism text,
    k bigint,
    neighbours text not null,
    user_column text,
    time_column text,
    time_unit text,
    windows text not null,
    windows_of_a_user bigint,
    bounded boolean not null,
    epsilon text not null,
    delta text not null,
    rho text not null,
    zcdp_delta text not null,
    charged varchar(40) not null,
    finished varchar(40),
    outcome varchar(20) not null
);
create index private_topk_charges_of_datasets on private_topk_charges (dataset);
create index private_topk_charges_of_releases on private_topk_charges (release_id);
create table private_topk_renewals (
    id integer primary key,
    dataset varchar(200) not null,
    unit varchar(20) not null,
    began varchar(40) not null,
    seconds bigint not null,
    last_charge integer not null
)""",
    3: "alter table private_topk_charges add column stream text",
}
"""SQL of both databases by the version that it leads to: run in this order, each once, under the ledger's lock.

Budgets are exact rationals, so they are text: no database rounds them. Version 1 was of no release.
"""

_LEDGER = sql.table("private_topk_ledger", sql.column("version"))
"""One row: whoever holds its lock is the only one to charge."""
_TABLES = {Budget: "budgets", Entry: "charges", Renewal: "renewals"}
_T = TypeVar("_T", bound="Budget | Entry | Renewal")
_ATTEMPTS = 3
_DRIVERS = f"for PostgreSQL, {install_extra('ledger')}"
_LONGEST_WAIT = 120  # seconds to wait for others' charges; each takes some milliseconds


_NOT_KNOWN = (
    "whether the ledger has taken what was to be written is not known: `private-topk budget show` tells, once it can "
    "be reached. If a release was charged, the same release under the same key costs nothing more"
)
_MAKE = f"make it with `private-topk budget create`; but {OF_A_LOST_LEDGER}"
_LOCKED = {"SQLITE_BUSY", "55P03"}
"""What the databases call a lock that another connection holds."""


class _Kind(NamedTuple):
    """A kind of database on which charges at once are tested.

    Args:
        engine: what its connections need so that a charge reads what the one before it has written, whatever is the
            default of the server, the database or the environment.
        clock: its own time in seconds since 1970, at the moment of asking and not at the start of the transaction,
            which may have waited for others.
        begin: the first statement of a transaction, which does not wait for others for ever.
    """

    engine: dict[str, Any]
    clock: str
    begin: str


_KINDS = {
    # SQLite's driver begins transactions when it sees fit; a charge must lock before it reads.
    "sqlite": _Kind({"connect_args": {"timeout": _LONGEST_WAIT}}, "strftime('%s', 'now')", "begin immediate"),
    # At a higher level all of a transaction reads what was there when it began to wait for the lock.
    "postgresql": _Kind(
        {"isolation_level": "READ COMMITTED"},
        "extract(epoch from clock_timestamp())",
        f"set local lock_timeout = '{_LONGEST_WAIT}s'",
    ),
}


class Connection:
    """What is read and written within one transaction of a ledger. Raises InvalidArgument for a damaged row.

    Attributes:
        written: the rows that are there once the transaction is committed: table and columns of each.
    """

    def __init__(self, connection: sql.Connection, ledger: str) -> None:
        self._connection, self._ledger = connection, ledger
        self.written: list[tuple[str, dict[str, Any]]] = []

    def now(self) -> datetime:
        """The database's own time, to the second: clocks of those who call may be wrong."""
        clock = sql.text(f"select {_KINDS[self._connection.dialect.name].clock}")
        return datetime.fromtimestamp(int(self._connection.execute(clock).scalar_one()), UTC)

    def datasets(self) -> list[str]:
        return sorted(map(str, self._connection.scalars(sql.text("select distinct dataset from private_topk_budgets"))))

    def books(self, dataset: str | None) -> Books:
        of = {} if dataset is None else {"dataset": dataset}
        return Books(self._held(Budget, of), self._held(Entry, of), self._held(Renewal, of))

    def charges(self, **equal: str) -> list[Entry]:
        return self._held(Entry, equal)

    def add(self, new: Budget | Entry | Renewal) -> None:
        row, table = row_of(new), _TABLES[type(new)]
        names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        self._connection.execute(sql.text(f"insert into private_topk_{table} ({names}) values ({marks})"), row)
        self.written.append((table, {name: value for name, value in row.items() if value is not None}))

    def undo(self) -> None:
        self._connection.rollback()
        self.written.clear()

    def holds(self, table: str, columns: Mapping[str, Any]) -> bool:
        query = f"select count(*) from private_topk_{table} where {_all_equal(columns)}"
        return bool(self._connection.scalar(sql.text(query), columns))

    def next_id(self, kind: type) -> int:
        return 1 + (self._connection.scalar(sql.text(f"select max(id) from private_topk_{_TABLES[kind]}")) or 0)

    def note(self, charge: int, outcome: str, now: str | None) -> None:
        done = "set outcome = :outcome, finished = :now where id = :id and outcome <> 'released'"
        update = sql.text(f"update private_topk_charges {done}")
        if self._connection.execute(update, {"id": charge, "outcome": outcome, "now": now}).rowcount:
            self.written.append(("charges", {"id": charge, "outcome": outcome}))

    def _held(self, kind: type[_T], equal: Mapping[str, str]) -> list[_T]:
        order = "dataset, unit" if kind is Budget else "id"
        query = sql.text(f"select * from private_topk_{_TABLES[kind]} where {_all_equal(equal)} order by {order}")
        return [self._read(kind, row) for row in self._connection.execute(query, equal)]

    def _read(self, kind: type[_T], row: sql.Row) -> _T:
        try:
            return record_in(kind, row)
        except BROKEN:
            name = f"the {row.unit} budget" if kind is Budget else f"{_TABLES[kind][:-1]} {row.id}"
            rule = f"{self._ledger} is damaged: {name} of dataset {row.dataset} cannot be read"
            raise InvalidArgument(
                "ledger",
                verbatim(f"{rule}, so what was spent is not known"),
                "restore the row from a backup of the ledger",
            ) from None


def _all_equal(columns: Mapping[str, Any]) -> str:
    return " and ".join(["1 = 1", *(f"{name} = :{name}" for name in columns)])


class Database:
    """A ledger's database by its URL. Messages never show the URL's password."""

    def __init__(self, url: str) -> None:
        try:
            parsed = sql.make_url(url)
            if parsed.drivername == "postgresql":
                parsed = parsed.set(drivername="postgresql+psycopg")
            kind = _KINDS.get(parsed.get_backend_name())
            if kind is None:
                rule = f"must be in SQLite or PostgreSQL, got {verbatim(parsed.get_backend_name())}"
                raise InvalidArgument(
                    "ledger",
                    rule,
                    "in no other is it tested that charges at once cannot overspend: give "
                    "sqlite:///PATH or postgresql://USER@HOST/NAME",
                )
            if parsed.get_backend_name() == "sqlite" and (parsed.query or not parsed.database or parsed.host):
                shown = verbatim(parsed.render_as_string())
                raise InvalidArgument(
                    "ledger",
                    f"must be sqlite:///PATH and no more, got {shown}",
                    "a ledger is a file that is read and written",
                )
            self._engine = sql.create_engine(parsed, poolclass=sql.pool.NullPool, **kind.engine)
        except (sql.exc.NoSuchModuleError, ImportError) as error:
            raise InvalidArgument(
                "ledger", f"{verbatim(parsed.drivername)}: its driver is not installed ({verbatim(error)})", _DRIVERS
            ) from None
        except sql.exc.ArgumentError:
            raise InvalidArgument("ledger", "must be a database URL such as sqlite:///budget.db") from None
        self.name = parsed.render_as_string(hide_password=True)
        self._said = verbatim(self.name)
        self.file = parsed.database if parsed.get_backend_name() == "sqlite" else None
        if self.file is not None:
            sql.event.listen(
                self._engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None)
            )
        sql.event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql(kind.begin))

    def make(self) -> None:
        for attempt in range(_ATTEMPTS):  # another `create` may be making them at this moment
            try:
                with self._told_if_slow(), self._engine.begin() as connection:
                    connection.execute(sql.text("create table if not exists private_topk_ledger (version integer)"))
                    if connection.scalar(sql.select(_LEDGER.c.version)) is None:
                        connection.execute(_LEDGER.insert().values(version=0))
                    self._bring_up_to_date(connection)
                return
            except sql.exc.DBAPIError as error:
                if attempt == _ATTEMPTS - 1:
                    raise self._unusable(error) from None

    @contextmanager
    def locked(self) -> Iterator[Connection]:
        """A connection on which nobody else charges until the block ends; undone if it raises.

        Raises:
            InvalidArgument: nothing was written.
            RunFailed: whether it was written is not known.
        """
        if self.file is not None and not os.path.exists(self.file):
            raise NoBudget("ledger", f"{self._said} does not exist", _MAKE)
        unanswered = None
        try:
            with self._engine.connect() as connection:
                with self._told_if_slow():
                    connection.begin()
                    if not sql.inspect(connection).has_table(_LEDGER.name):
                        there = f"{self._said} holds no budgets"
                        raise NoBudget("ledger", there, _MAKE)
                    self._bring_up_to_date(connection)
                held = Connection(connection, self.name)
                yield held
                try:
                    with self._told_if_slow():
                        connection.commit()
                except sql.exc.DBAPIError as error:
                    unanswered = error
        except sql.exc.DBAPIError as error:
            raise self._unusable(error) from None
        if unanswered is not None and held.written:
            self._look_for(held.written, self._unusable(unanswered))

    def _look_for(self, written: list[tuple[str, dict[str, Any]]], refusal: InvalidArgument) -> None:
        """Find out whether rows were written whose COMMIT failed: the server may have done it, and not said so.

        Raises the refusal if they were not, and RunFailed if that cannot be found out.
        """
        try:
            with self.locked() as connection:  # once the transaction that wrote them has let go of the ledger
                if all(connection.holds(*row) for row in written):
                    return
        except InvalidArgument:
            raise RunFailed(_NOT_KNOWN) from refusal
        raise refusal

    def _told_if_slow(self) -> AbstractContextManager[None]:
        waits = "another process has locked it, or its server does not answer"
        return told_if_slow(f"ledger: waiting for {self._said}: {waits}", PATIENCE)

    def _bring_up_to_date(self, connection: sql.Connection) -> None:
        """Take the ledger's lock, and the steps that are left.

        Raises InvalidArgument for a version that is not known.
        """
        version = connection.scalar(sql.select(_LEDGER.c.version).with_for_update())
        if version not in (0, *_STEPS):
            rule = f"{self._said} has tables of version {version}, and this private-topk reads version {max(_STEPS)}"
            raise InvalidArgument(
                "ledger", rule, "use the private-topk that made it, or open its budgets in a new ledger"
            )
        for number in range(max(version + 1, min(_STEPS)), max(_STEPS) + 1):
            for statement in _STEPS[number].split(";"):
                connection.execute(sql.text(statement))
            connection.execute(_LEDGER.update().values(version=number))

    def _unusable(self, error: sql.exc.DBAPIError) -> InvalidArgument:
        if _LOCKED & {getattr(error.orig, name, None) for name in ("sqlite_errorname", "sqlstate")}:
            rule = f"{self._said} has been locked by another process for {_LONGEST_WAIT} seconds"
            return Unreachable("ledger", rule, "end it if it hangs or is suspended, and call again")
        reason = str(error.orig).strip().partition("\n")[0]
        kind = Unreachable if isinstance(error, sql.exc.OperationalError) else InvalidArgument
        return kind("ledger", f"{self._said} cannot be used: {verbatim(reason)}")
