"""The tables of a ledger, and connections to it that do one thing at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sql

from private_topk.transforms.errors import Refusal, verbatim

__all__ = ["BUDGETS", "CHARGES", "Database"]

_VERSION = 1
_ATTEMPTS = 3
_DRIVERS = "for PostgreSQL, pip install 'private-topk[ledger]'"
_PATIENCE = 120  # seconds to wait for others' charges; each takes some milliseconds

_META = sql.MetaData()
_LEDGER = sql.Table("private_topk_ledger", _META, sql.Column("version", sql.Integer, primary_key=True))
"""One row: whoever holds its lock is the only one to charge."""

BUDGETS = sql.Table(
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

CHARGES = sql.Table(
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


class Database:
    """A ledger's database by its URL. Messages never show the URL's password."""

    def __init__(self, url: str) -> None:
        try:
            parsed = sql.make_url(url)
            if parsed.drivername == "postgresql":
                parsed = parsed.set(drivername="postgresql+psycopg")
            if parsed.get_backend_name() == "sqlite" and (parsed.query or not parsed.database or parsed.host):
                shown = verbatim(parsed.render_as_string())
                raise Refusal("ledger", f"must be sqlite:///PATH and no more, got {shown}", "a ledger is a file that "
                              "is read and written")  # fmt: skip
            waiting = {"timeout": _PATIENCE} if parsed.get_backend_name() == "sqlite" else {}
            self._engine = sql.create_engine(parsed, connect_args=waiting, poolclass=sql.pool.NullPool)
        except sql.exc.ArgumentError:
            raise Refusal("ledger", "must be a database URL such as sqlite:///budget.db") from None
        except (sql.exc.NoSuchModuleError, ImportError) as error:
            raise Refusal(
                "ledger", f"{verbatim(parsed.drivername)}: its driver is not installed ({verbatim(error)})", _DRIVERS
            ) from None
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
    def alone(self) -> Iterator[Any]:
        """A connection on which nobody else charges until the block ends; undone if it raises."""
        if self.file is not None and not os.path.exists(self.file):
            raise Refusal("ledger", f"{self._said} does not exist", "make it with `private-topk budget create`")
        with self._transaction() as connection:
            if not sql.inspect(connection).has_table(_LEDGER.name):
                raise Refusal("ledger", f"{self._said} holds no budgets", "make one with `private-topk budget create`")
            version = connection.scalar(sql.select(_LEDGER.c.version).with_for_update())
            if version != _VERSION:
                raise Refusal("ledger", f"{self._said} has format {version}, this version reads {_VERSION}")
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except sql.exc.DBAPIError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: sql.exc.DBAPIError) -> Refusal:
        reason = str(error.orig).strip().partition("\n")[0]
        return Refusal("ledger", f"{self._said} cannot be used: {verbatim(reason)}")
