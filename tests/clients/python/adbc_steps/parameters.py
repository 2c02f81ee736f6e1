"""Bound parameters and their advertised types."""

import pyarrow

from adbc_steps.common import ask, at, connect
from steps import equal, refused


def run(steps):
    step = steps.step

    @step("parameters: of every type")
    def _():
        with connect() as connection:
            for sql, value, expected in [
                ("select i from many where i = ?", 42, [(42,)]),
                ("select i from many where x = ?", 21.0, [(42,)]),
                ("select i from many where s = ?", "it's \\ 42", [(42,)]),
                ("select count(*) from many where b = ?", True, [(100,)]),
                ("select i from many where ts = ?", at(42), [(42,)]),
                ("select i from many where v = ?", b"\x2a", [(42,)]),
                ("select i from many where i = ?", None, []),
                ("select i from many where s = ?", "' or 1 = 1 --", []),
            ]:
                equal(ask(connection, sql, (value,)), expected, f"{sql} with {value!r}")

    @step("parameters: LIMIT, OFFSET, IN and BETWEEN")
    def _():
        with connect() as connection:
            equal(ask(connection, "select i from many order by i limit ? offset ?", (2, 3)), [(3,), (4,)])
            equal(ask(connection, "select i from many where i in (?, ?) order by i", (5, 7)), [(5,), (7,)])
            equal(ask(connection, "select i from many where ts between ? and ? order by i", (at(5), at(7))), [(5,), (6,), (7,)])

    @step("parameters: without a type they are texts")
    def _():
        with connect() as connection:
            equal(ask(connection, "select ?", ("x",)), [("x",)])
            equal(ask(connection, "select ? as a, 1 as b", ("x",)), [("x", 1)])
            equal(ask(connection, "select ? || 'y'", ("x",)), [("xy",)])

    @step("parameters: their schema, from prepare")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            schema = cursor.adbc_prepare("select * from many where i = ? and x = ? and s = ? and b = ? and ts = ? limit ?")
            equal([str(field.type) for field in schema], ["int64", "double", "string", "bool", "timestamp[ms]", "int64"])

    @step("parameters: their schema for an INSERT is the columns'")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            schema = cursor.adbc_prepare("insert into many (ts, i, x, s, b) values (?, ?, ?, ?, ?)")
            equal([str(field.type) for field in schema], ["timestamp[ms]", "int64", "double", "string", "bool"])

    @step("parameters: several rows of a query run it once per row")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_sql_query("select i from many where i = ?")
            cursor.adbc_statement.prepare()
            cursor.adbc_statement.bind_stream(pyarrow.table({"0": [3, 1, 2]}).to_reader())
            stream, _ = cursor.adbc_statement.execute_query()
            found = pyarrow.RecordBatchReader._import_from_c(stream.address).read_all()
            equal(found.column(0).to_pylist(), [3, 1, 2])

    @step("parameters: too few and of another type are refused")
    def _():
        with connect() as connection:
            refused("", lambda: ask(connection, "select i from many where i = ? and x = ?", (1,)))
            refused("", lambda: ask(connection, "select i from many where i = ?", ("not a number",)))
