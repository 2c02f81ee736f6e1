"""Connections to the server of the steps, and their rows."""

import datetime

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow
from adbc_driver_flightsql import DatabaseOptions

from steps import Target

target = Target()

START = datetime.datetime(2019, 7, 16, 4, 1, 40)
START_MS = 1_563_249_700_000
HEADER = "adbc.flight.sql.rpc.call_header."


def options(database=None, credentials=True, target=target, **more):
    found = {}
    if target.tls:
        found[DatabaseOptions.TLS_ROOT_CERTS.value] = target.authority_text()
    if target.user and credentials:
        found |= {"username": target.user, "password": target.password}
    if database:
        found[HEADER + "database"] = database
    return found | more


def connect(database="adbc", credentials=True, server=target, **more):
    return flight_sql.connect(server.grpc, db_kwargs=options(database, credentials, server, **more), autocommit=True)


def ask(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def at(milliseconds):
    return START + datetime.timedelta(milliseconds=milliseconds)


def table(rows, first=0):
    """Rows of ts, a number, a text and a boolean."""
    numbers = range(first, first + rows)
    return pyarrow.table({
        "ts": pyarrow.array([START_MS + i for i in numbers], pyarrow.timestamp("ms")),
        "number": pyarrow.array(list(numbers), pyarrow.int64()),
        "text": pyarrow.array([f"row {i}" for i in numbers], pyarrow.string()),
        "odd": pyarrow.array([i % 2 == 1 for i in numbers], pyarrow.bool_()),
    })
