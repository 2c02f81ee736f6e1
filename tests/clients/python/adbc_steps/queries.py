"""Queries, their types and error messages."""

import datetime
import decimal
import threading

import adbc_driver_manager
import pyarrow
import pyarrow.compute

from adbc_steps.common import ask, connect
from steps import equal, refused


def run(steps):
    step = steps.step

    @step("query: one value")
    def _():
        with connect() as connection:
            equal(ask(connection, "select 1 as one"), [(1,)])

    @step("query: every type")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "select true b, arrow_cast(1, 'Int8') i8, arrow_cast(2, 'Int16') i16, arrow_cast(3, 'Int32') i32, 4 i64, arrow_cast(5, 'UInt8') u8, "
                "arrow_cast(6, 'UInt32') u32, arrow_cast(1.5, 'Float32') f, 2.25 x, 'text' s, X'00ff' v, timestamp '2019-07-16T04:01:40.123' ts, "
                "cast('2020-02-29' as date) d, cast('12:34:56' as time) t, cast('1.25' as decimal(10, 2)) de, [1, 2] l, named_struct('a', 1) st, null n"
            )
            found = cursor.fetch_arrow_table()
            equal(
                [str(field.type) for field in found.schema],
                ["bool", "int8", "int16", "int32", "int64", "int16", "int64", "float", "double", "string", "binary", "timestamp[ns]",
                 "date32[day]", "time64[ns]", "decimal128(10, 2)", str(found.schema.field("l").type), "struct<a: int64>", "null"],
            )
            row = found.drop_columns(["ts", "t"]).to_pylist()[0]
            equal(row, {"b": True, "i8": 1, "i16": 2, "i32": 3, "i64": 4, "u8": 5, "u32": 6, "f": 1.5, "x": 2.25, "s": "text", "v": b"\x00\xff",
                        "d": datetime.date(2020, 2, 29), "de": decimal.Decimal("1.25"), "l": [1, 2], "st": {"a": 1}, "n": None})
            equal(found.column("ts").cast(pyarrow.int64()).to_pylist(), [1_563_249_700_123_000_000])
            equal(found.column("t").cast(pyarrow.int64()).to_pylist(), [45_296_000_000_000])

    @step("query: no rows has a schema")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute("select 1 as a, 'x' as b where false")
            found = cursor.fetch_arrow_table()
            equal((found.num_rows, found.schema.names), (0, ["a", "b"]))

    @step("query: the description, fetchone, fetchmany and iteration")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute("select value, cast(value as varchar) s from generate_series(1, 10) order by value")
            equal([d[0] for d in cursor.description], ["value", "s"])
            equal(cursor.fetchone(), (1, "1"))
            equal(cursor.fetchmany(2), [(2, "2"), (3, "3")])
            equal([row[0] for row in cursor], list(range(4, 11)))
            equal(cursor.fetchone(), None)

    @step("query: the schema without running it")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            schema = cursor.adbc_execute_schema("select 1 as a, 'x' as b, now() as t")
            equal([(f.name, str(f.type)) for f in schema], [("a", "int64"), ("b", "string"), ("t", "timestamp[ns]")])

    @step("query: partitions, each read on its own")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            partitions, schema = cursor.adbc_execute_partitions("select value from generate_series(1, 1000)")
            total = 0
            for partition in partitions:
                cursor.adbc_read_partition(partition)
                total += sum(cursor.fetch_arrow_table().column(0).to_pylist())
            equal((total, schema.names), (500_500, ["value"]))

    @step("query: a million rows")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute("select value, cast(value as varchar) s from generate_series(1, 1000000)")
            rows = total = characters = 0
            for batch in cursor.fetch_record_batch():
                rows += batch.num_rows
                total += pyarrow.compute.sum(batch.column(0)).as_py()
                characters += pyarrow.compute.sum(pyarrow.compute.utf8_length(batch.column(1))).as_py()
            equal((rows, total, characters), (1_000_000, 500_000_500_000, 9 + 180 + 2_700 + 36_000 + 450_000 + 5_400_000 + 7))

    @step("query: from eight threads at once")
    def _():
        answers = {}
        with connect() as connection:

            def run(i):
                answers[i] = ask(connection, f"select {i} + count(*) from generate_series(1, 100)")

            threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        equal(answers, {i: [(100 + i,)] for i in range(8)})

    @step("query: errors say what is wrong, and the connection goes on")
    def _():
        with connect() as connection:
            for part, sql in [("syntax error", "selekt 1"), ("nosuch", "select * from nosuch"), ("nosuch", "select nosuch(1)"), ("empty", " "),
                              ("empty", "-- nothing"), ("several", "select 1; select 2"), ("zero", "select 1 / (value - 5) from generate_series(1, 9)")]:
                error = refused(part, lambda sql=sql: ask(connection, sql))
                equal(isinstance(error, adbc_driver_manager.Error), True, "an error of DB-API")
            equal(ask(connection, "select 1"), [(1,)])
