"""The tables of a ledger, and connections to it of which one at a time charges."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, NamedTuple

import sqlalchemy as sql

from private_topk.pipelines.budget.account import Budget
from private_topk.pipelines.budget.records import Entry, NoBudget, Request, budget_in, columns_of, entry_in
from private_topk.transforms.errors import Refusal, verbatim

__all__ = ["Connection", "Database"]

_VERSION = 1
_ATTEMPTS = 3
_DRIVERS = "for PostgreSQL, pip install 'private-topk[ledger]'"
_PATIENCE = 120  # seconds to wait for others' charges; each takes some milliseconds


class _Kind(NamedTuple):
    """A kind of database on which charges at once are tested.

    Args:
        engine: what its connections need so that a charge reads what the one before it has written, whatever is the
            default of the server, the database or the environment.
        clock: its own time in seconds since 1970, at the moment of asking and not at the start of the transaction,
            which may have waited for others.
    """

    engine: dict[str, Any]
    clock: str


_KINDS = {
    "sqlite": _Kind({"connect_args": {"timeout": _PATIENCE}}, "strftime('%s', 'now')"),
    # At a higher level all of a transaction reads what was there when it began to wait for the lock.
    "postgresql": _Kind({"isolation_level": "READ COMMITTED"}, "extract(epoch from clock_timestamp())"),
}

_META = sql.MetaData()
_LEDGER = sql.Table("private_topk_ledger", _META, sql.Column("version", sql.Integer, primary_key=True))
"""One row: whoever holds its lock is the only one to charge."""

_BUDGETS = sql.Table(
    "private_topk_budgets",
    _META,
    sql.Column("dataset", sql.String(200), primary_key=True),
    sql.Column("unit", sql.String(20), primary_key=True),
    sql.Column("neighbours", sql.String(20), nullable=False),
    # Budgets are exact rationals, so they are text: no database rounds them.
    sql.Column("epsilon", sql.Text, nullable=False),
    sql.Column("delta", sql.Text, nullable=False),
    sql.Column("release_delta", sql.Text, nullable=False),
    sql.Column("created", sql.String(40), nullable=False),
)

_CHARGES = sql.Table(
    "private_topk_charges",
    _META,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("dataset", sql.String(200), nullable=False, index=True),
    sql.Column("unit", sql.String(20), nullable=False),
    sql.Column("report", sql.String(500), nullable=False, index=True),
    sql.Column("key_id", sql.String(32), nullable=False),
    sql.Column("fingerprint", sql.String(64), nullable=False),
    sql.Column("parameters", sql.Text, nullable=False),
    sql.Column("mechanism", sql.String(50), nullable=False),
    sql.Column("windows", sql.Text, nullable=False),
    sql.Column("epsilon", sql.Text, nullable=False),
    sql.Column("delta", sql.Text, nullable=False),
    sql.Column("rho", sql.Text, nullable=False),
    sql.Column("rest", sql.Text, nullable=False),
    sql.Column("charged", sql.String(40), nullable=False),
    sql.Column("finished", sql.String(40)),
    sql.Column("outcome", sql.String(20), nullable=False),
)


class Connection:
    """What is read and written within one transaction of a ledger."""

    def __init__(self, connection: sql.Connection, ledger: str) -> None:
        self._connection, self._ledger = connection, ledger

    def now(self) -> datetime:
        """The database's own time, to the second: clocks of those who call may be wrong."""
        clock = sql.text(f"select {_KINDS[self._connection.dialect.name].clock}")
        return datetime.fromtimestamp(int(self._connection.execute(clock).scalar_one()), timezone.utc)

    def datasets(self) -> list[str]:
        """The names of all datasets that have a budget."""
        return sorted(set(map(str, self._connection.scalars(sql.select(_BUDGETS.c.dataset)))))

    def budgets(self, dataset: str | None) -> list[Budget]:
        """The budgets of one dataset, or of all. Raises Refusal for a damaged row."""
        query = _BUDGETS.select().order_by(_BUDGETS.c.dataset, _BUDGETS.c.unit)
        if dataset is not None:
            query = query.where(_BUDGETS.c.dataset == dataset)
        return [budget_in(row, self._ledger) for row in self._connection.execute(query)]

    def entries(self, **equal: str) -> list[Entry]:
        """The charges with these values in their columns, in order. Raises Refusal for a damaged row."""
        query = _CHARGES.select().order_by(_CHARGES.c.id).filter_by(**equal)
        return [entry_in(row, self._ledger) for row in self._connection.execute(query)]

    def add_budget(self, budget: Budget, created: str) -> None:
        self._connection.execute(_BUDGETS.insert().values(**columns_of(budget), created=created))

    def add(self, request: Request, charged: str, outcome: str = "started") -> int:
        """The number of the new entry."""
        row = _CHARGES.insert().values(**request.columns(), charged=charged, outcome=outcome)
        key = self._connection.execute(row).inserted_primary_key
        assert key is not None
        return int(key[0])

    def finish(self, entry: int, outcome: str, finished: str) -> None:
        """Note how a charge ended. One that was released stays so."""
        still = _CHARGES.update().where(_CHARGES.c.id == entry, _CHARGES.c.outcome != "released")
        self._connection.execute(still.values(outcome=outcome, finished=finished))


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
                raise Refusal("ledger", rule, "in no other is it tested that charges at once cannot overspend: give "
                              "sqlite:///PATH or postgresql://USER@HOST/NAME")  # fmt: skip
            if parsed.get_backend_name() == "sqlite" and (parsed.query or not parsed.database or parsed.host):
                shown = verbatim(parsed.render_as_string())
                raise Refusal("ledger", f"must be sqlite:///PATH and no more, got {shown}", "a ledger is a file that "
                              "is read and written")  # fmt: skip
            self._engine = sql.create_engine(parsed, poolclass=sql.pool.NullPool, **kind.engine)
        except (sql.exc.NoSuchModuleError, ImportError) as error:
            raise Refusal(
                "ledger", f"{verbatim(parsed.drivername)}: its driver is not installed ({verbatim(error)})", _DRIVERS
            ) from None
        except sql.exc.ArgumentError:
            raise Refusal("ledger", "must be a database URL such as sqlite:///budget.db") from None
        self.name = parsed.render_as_string(hide_password=True)
        self._said = verbatim(self.name)
        self.file = parsed.database if parsed.get_backend_name() == "sqlite" else None
        if self.file is not None:
            # SQLite's driver begins transactions when it sees fit; a charge must lock before it reads.
            sql.event.listen(
                self._engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None)
            )
            sql.event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))

    def make(self) -> None:
        """Make the tables where they are missing."""
        for attempt in range(_ATTEMPTS):  # another `create` may be making them at this moment
            try:
                with self._engine.begin() as connection:
                    _META.create_all(connection)
                    if connection.scalar(sql.select(_LEDGER.c.version)) is None:
                        connection.execute(_LEDGER.insert().values(version=_VERSION))
                return
            except sql.exc.DBAPIError as error:
                if attempt == _ATTEMPTS - 1:
                    raise self._unusable(error) from None

    @contextmanager
    def alone(self) -> Iterator[Connection]:
        """A connection on which nobody else charges until the block ends; undone if it raises."""
        if self.file is not None and not os.path.exists(self.file):
            raise NoBudget("ledger", f"{self._said} does not exist", "make it with `private-topk budget create`")
        with self._transaction() as connection:
            if not sql.inspect(connection).has_table(_LEDGER.name):
                raise NoBudget("ledger", f"{self._said} holds no budgets", "make one with `private-topk budget create`")
            version = connection.scalar(sql.select(_LEDGER.c.version).with_for_update())
            if version != _VERSION:
                raise Refusal("ledger", f"{self._said} has format {version}, this version reads {_VERSION}")
            yield Connection(connection, self.name)

    @contextmanager
    def _transaction(self) -> Iterator[sql.Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except sql.exc.DBAPIError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: sql.exc.DBAPIError) -> Refusal:
        reason = str(error.orig).strip().partition("\n")[0]
        return Refusal("ledger", f"{self._said} cannot be used: {verbatim(reason)}")
