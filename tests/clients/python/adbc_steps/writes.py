"""DDL, INSERT and DELETE."""

import adbc_driver_manager
import pyarrow

from adbc_steps.common import START_MS, ask, at, connect
from steps import equal


def run(steps):
    step = steps.step

    @step("write: DDL and INSERT by execute(), with their count fetched")
    def _():
        with connect() as connection:
            equal(ask(connection, "create stable devices (ts timestamp, v double) tags (devid int, devgroup varchar(10))"), [(0,)])
            values = " ".join(f"('d{d}', {START_MS + r * 1000}, {d + r}, {d}, 'g{d % 2}')" for d in range(5) for r in range(20))
            equal(ask(connection, f"insert into devices (tbname, ts, v, devid, devgroup) values {values}"), [(100,)])
            equal(ask(connection, "select devgroup, count(*), sum(v) from devices group by devgroup order by devgroup"),
                  [("g0", 60, 60 * 2 + 3 * 190.0), ("g1", 40, 40 * 2 + 2 * 190.0)])

    @step("write: INSERT by execute() is done when execute() returns, fetched or not")
    def _():
        with connect() as connection:
            ask(connection, "create table unfetched (ts timestamp, v int)")
            for i in range(40):
                with connection.cursor() as cursor:
                    cursor.execute(f"insert into unfetched values ({START_MS + i}, {i})")
            equal(ask(connection, "select count(*) from unfetched"), [(40,)])

    @step("write: DDL by execute() is done when execute() returns, fetched or not")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            for i in range(10):
                cursor.execute(f"create table unfetched{i} (ts timestamp, v int)")
            with connection.cursor() as other:
                other.execute("select count(*) from information_schema.tables where table_schema = 'adbc' and table_name like 'unfetched_'")
                equal(other.fetchall(), [(10,)])

    @step("write: executeUpdate of the low-level statement counts its rows")
    def _():
        with connect() as connection:
            ask(connection, "create table if not exists counted (ts timestamp, v int)")
            with adbc_driver_manager.AdbcStatement(connection.adbc_connection) as statement:
                statement.set_sql_query(f"insert into counted values ({START_MS}, 1) ({START_MS + 1}, 2)")
                equal(statement.execute_update(), 2)
            with connection.cursor() as cursor:
                cursor.executescript(f"insert into counted values ({START_MS + 2}, 3)")
            equal(ask(connection, "select count(*) from counted"), [(3,)])

    @step("write: executemany binds a row of parameters each")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            ask(connection, "create table many (ts timestamp, i int, x double, s varchar(40), b bool, v varbinary(10))")
            rows = [(at(i), i, i / 2, f"it's \\ {i}", i % 2 == 0, bytes([i])) for i in range(200)]
            cursor.executemany("insert into many (ts, i, x, s, b, v) values (?, ?, ?, ?, ?, ?)", rows)
            cursor.execute("select ts, i, x, s, b, v from many order by ts")
            found = cursor.fetch_arrow_table()
            found = found.set_column(0, "ts", found.column("ts").cast(pyarrow.timestamp("us")))
            equal([tuple(row.values()) for row in found.to_pylist()], rows)

    @step("write: executemany of nulls")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            cursor.executemany("insert into many (ts, i, x, s) values (?, ?, ?, ?)", [(at(1000), None, 1.5, None), (at(1001), 7, None, "x")])
            equal(ask(connection, f"select i, x, s from many where ts >= {START_MS + 1000} order by ts"), [(None, 1.5, None), (7, None, "x")])

    @step("write: backslashes in texts of INSERT are as in those of SELECT")
    def _():
        with connect() as connection:
            ask(connection, "create table slashes (ts timestamp, s varchar(40))")
            ask(connection, f"insert into slashes values ({START_MS}, 'C:\\new\\table')")
            equal(ask(connection, "select s, s = 'C:\\new\\table' from slashes"), [("C:\\new\\table", True)])

    @step("write: DELETE counts its rows")
    def _():
        with connect() as connection:
            equal(ask(connection, f"delete from many where ts >= {START_MS + 1000}"), [(2,)])
            equal(ask(connection, "select count(*) from many"), [(200,)])
