"""Bulk ingest."""

import pyarrow
import pyarrow.compute

from adbc_steps.common import START, START_MS, ask, at, connect, table
from steps import equal, refused


def run(steps):
    step = steps.step

    @step("ingest: create, and refused where the table exists")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            equal(cursor.adbc_ingest("bulk", table(1000), mode="create"), 1000)
            equal(ask(connection, "select count(*), sum(number), count(distinct text) from bulk"), [(1000, 499_500, 1000)])
            refused("exists", lambda: cursor.adbc_ingest("bulk", table(10), mode="create"))
            equal(ask(connection, "select count(*) from bulk"), [(1000,)])

    @step("ingest: append, and refused where there is no table")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            equal(cursor.adbc_ingest("bulk", table(500, 1000), mode="append"), 500)
            equal(ask(connection, "select count(*), max(number) from bulk"), [(1500, 1499)])
            refused("nosuch", lambda: cursor.adbc_ingest("nosuch", table(10), mode="append"))

    @step("ingest: create_append, both ways")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            equal(cursor.adbc_ingest("both", table(10), mode="create_append"), 10)
            equal(cursor.adbc_ingest("both", table(10, 10), mode="create_append"), 10)
            equal(ask(connection, "select count(*) from both"), [(20,)])

    @step("ingest: replace")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            equal(cursor.adbc_ingest("bulk", table(7), mode="replace"), 7)
            equal(ask(connection, "select count(*), sum(number) from bulk"), [(7, 21)])
            other = pyarrow.table({"ts": pyarrow.array([START], pyarrow.timestamp("ms")), "other": ["column"]})
            equal(cursor.adbc_ingest("bulk", other, mode="replace"), 1)
            equal(ask(connection, "select other from bulk"), [("column",)])

    @step("ingest: into a named database")
    def _():
        with connect(None) as connection, connection.cursor() as cursor:
            equal(cursor.adbc_ingest("named", table(3), mode="create", db_schema_name="adbc", catalog_name="tidelake"), 3)
            equal(ask(connection, "select count(*) from adbc.named"), [(3,)])

    @step("ingest: temporary tables are refused")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            refused("temporary", lambda: cursor.adbc_ingest("passing", table(3), mode="create", temporary=True))

    @step("ingest: a million rows in chunks")
    def _():
        whole = table(1_000_000)
        with connect() as connection, connection.cursor() as cursor:
            reader = pyarrow.RecordBatchReader.from_batches(whole.schema, whole.to_batches(max_chunksize=100_000))
            equal(cursor.adbc_ingest("million", reader, mode="create"), 1_000_000)
            equal(ask(connection, "select count(*), sum(number), max(ts) from million")[0][:2], (1_000_000, 499_999_500_000))
            cursor.execute("select number, text from million")
            rows = total = 0
            for batch in cursor.fetch_record_batch():
                rows += batch.num_rows
                total += pyarrow.compute.sum(batch.column(0)).as_py()
            equal((rows, total), (1_000_000, 499_999_500_000))

    @step("ingest: batches of 12 MiB each, 48 MiB in all")
    def _():
        # texts of 1 KiB; a batch is below the client's own limit of 16 MiB and above the usual one of servers, 4 MiB
        rows = 12 * 1024
        text = pyarrow.array(["x" * 1024] * rows)

        def batch(k):
            ts = pyarrow.array(range(START_MS + k * rows, START_MS + (k + 1) * rows), pyarrow.int64()).cast(pyarrow.timestamp("ms"))
            return pyarrow.record_batch({"ts": ts, "text": text})

        batches = [batch(k) for k in range(4)]
        with connect() as connection, connection.cursor() as cursor:
            reader = pyarrow.RecordBatchReader.from_batches(batches[0].schema, batches)
            equal(cursor.adbc_ingest("wide", reader, mode="create"), 4 * rows)
            equal(ask(connection, "select count(*), sum(char_length(text)) from wide"), [(4 * rows, 4 * rows * 1024)])
            ask(connection, "drop table wide")

    @steps.known("ingest: one batch beyond 16 MiB", "the driver's gRPC client refuses to send messages beyond 16 MiB",
                 says="trying to send message larger than max (21217497 vs. 16777216)")
    def _(server):
        rows = 20 * 1024
        ts = pyarrow.array(range(START_MS, START_MS + rows), pyarrow.int64()).cast(pyarrow.timestamp("ms"))
        with connect(server=server) as connection, connection.cursor() as cursor:
            equal(cursor.adbc_ingest("wider", pyarrow.table({"ts": ts, "text": ["x" * 1024] * rows}), mode="create"), rows)

    @step("ingest: types of Arrow, views and dictionaries among them")
    def _():
        types = {"i8": pyarrow.int8(), "i16": pyarrow.int16(), "i32": pyarrow.int32(), "i64": pyarrow.int64(), "u8": pyarrow.uint8(),
                 "u32": pyarrow.uint32(), "f": pyarrow.float32(), "x": pyarrow.float64()}
        columns = {"ts": pyarrow.array([START, at(1)], pyarrow.timestamp("us", "UTC"))}
        columns |= {name: pyarrow.array([1, None], ty) for name, ty in types.items()}
        columns |= {"b": pyarrow.array([True, None]), "s": pyarrow.array(["a", None], pyarrow.large_string()),
                    "w": pyarrow.array(["b", None], pyarrow.string_view()), "d": pyarrow.array(["c", None]).dictionary_encode(),
                    "v": pyarrow.array([b"\x00", None], pyarrow.binary())}
        with connect() as connection, connection.cursor() as cursor:
            equal(cursor.adbc_ingest("kinds", pyarrow.table(columns), mode="create"), 2)
            found = ask(connection, "select i8, i16, i32, i64, u8, u32, f, x, b, s, w, d, v from kinds order by ts")
            equal(found, [(1, 1, 1, 1, 1, 1, 1.0, 1.0, True, "a", "b", "c", b"\x00"), (None,) * 13])

    @step("ingest: a stream that fails in the middle leaves nothing")
    def _():
        whole = table(1000)

        def batches():
            yield from whole.slice(0, 500).to_batches()
            raise ValueError("the source broke")

        with connect() as connection, connection.cursor() as cursor:
            ask(connection, "create table broken (ts timestamp, number bigint, text varchar(20), odd bool)")
            refused("", lambda: cursor.adbc_ingest("broken", pyarrow.RecordBatchReader.from_batches(whole.schema, batches()), mode="append"))
            equal(ask(connection, "select count(*) from broken"), [(0,)])
