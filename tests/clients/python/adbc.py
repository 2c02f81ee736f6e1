"""ADBC's Flight SQL driver for Python, with pandas and polars on top of it."""

import datetime
import decimal
import threading
import time

import adbc_driver_flightsql.dbapi as flight_sql
import adbc_driver_manager
import pandas
import polars
import pyarrow
import pyarrow.compute
from adbc_driver_flightsql import ConnectionOptions, DatabaseOptions, StatementOptions

from steps import Steps, Target, equal, refused

target = Target()
steps = Steps("adbc")
step = steps.step

START = datetime.datetime(2019, 7, 16, 4, 1, 40)
START_MS = 1_563_249_700_000
HEADER = "adbc.flight.sql.rpc.call_header."
ENDLESS = "select a.value, b.value from generate_series(1, 1000000) a cross join generate_series(1, 1000000) b"
SILENT = "select count(*) from generate_series(1, 3000000) a cross join generate_series(1, 3000000) b where (a.value * b.value) % 7 = 3"


def options(database=None, credentials=True, **more):
    found = {}
    if target.tls:
        found[DatabaseOptions.TLS_ROOT_CERTS.value] = target.authority_text()
    if target.user and credentials:
        found |= {"username": target.user, "password": target.password}
    if database:
        found[HEADER + "database"] = database
    return found | more


def connect(database="adbc", credentials=True, **more):
    return flight_sql.connect(target.grpc, db_kwargs=options(database, credentials, **more), autocommit=True)


def ask(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def at(milliseconds):
    return START + datetime.timedelta(milliseconds=milliseconds)


def table(rows, first=0):
    """ts, a number, a text and a truth of each row."""
    numbers = range(first, first + rows)
    return pyarrow.table({
        "ts": pyarrow.array([START_MS + i for i in numbers], pyarrow.timestamp("ms")),
        "number": pyarrow.array(list(numbers), pyarrow.int64()),
        "text": pyarrow.array([f"row {i}" for i in numbers], pyarrow.string()),
        "odd": pyarrow.array([i % 2 == 1 for i in numbers], pyarrow.bool_()),
    })


with connect(None) as connection:
    ask(connection, "drop database if exists adbc")
    ask(connection, "create database adbc")


# Connections.

if target.user:

    @step("connect: user and password")
    def _():
        with connect() as connection:
            equal(ask(connection, "select current_user()"), [(target.user,)])

    @step("connect: token")
    def _():
        bearer = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {target.token}"}
        with connect(credentials=False, **bearer) as connection:
            equal(ask(connection, "select current_user()"), [(target.user,)])

    @step("connect: wrong password is refused")
    def _():
        refused("password", lambda: ask(connect(username=target.user, password="wrong"), "select 1"))

    @step("connect: wrong token is refused")
    def _():
        bearer = {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer wrong"}
        refused("", lambda: ask(connect(credentials=False, **bearer), "select 1"))

    @step("connect: nobody is refused")
    def _():
        refused("", lambda: ask(connect(credentials=False), "select 1"))

    @step("rights: who may not write is told so, and reads")
    def _():
        with connect() as admin:
            ask(admin, "create table rights (ts timestamp, v int)")
            ask(admin, "drop user if exists adbc_reader")
            ask(admin, "create user adbc_reader password 'reads only, nothing else'")
            ask(admin, "grant read on adbc.* to adbc_reader")
        with connect(username="adbc_reader", password="reads only, nothing else") as reader:
            equal(ask(reader, "select count(*) from rights"), [(0,)])
            refused("not authorized", lambda: ask(reader, f"insert into rights values ({START_MS}, 1)"))
            with reader.cursor() as cursor:
                refused("not authorized", lambda: cursor.adbc_ingest("rights", pyarrow.table({"ts": [START], "v": [1]}), mode="append"))
        with connect() as admin:
            ask(admin, "drop table rights")

else:

    @step("connect: user and password where nobody is asked")
    def _():
        with connect(username="anyone", password="anything") as connection:
            equal(ask(connection, "select 1"), [(1,)])


if target.tls:

    @step("tls: an unknown certificate is refused")
    def _():
        refused("certificate", lambda: ask(flight_sql.connect(target.grpc, autocommit=True), "select 1"))

    @step("tls: no look at the certificate")
    def _():
        skip = options() | {DatabaseOptions.TLS_SKIP_VERIFY.value: "true"}
        del skip[DatabaseOptions.TLS_ROOT_CERTS.value]
        with flight_sql.connect(target.grpc, db_kwargs=skip, autocommit=True) as connection:
            equal(ask(connection, "select 1"), [(1,)])


@step("connect: without autocommit, as DB-API wants it, with a warning alone")
def _():
    with flight_sql.connect(target.grpc, db_kwargs=options()) as connection:
        equal(ask(connection, "select 1"), [(1,)])


@step("connect: nobody listens")
def _():
    refused("", lambda: ask(flight_sql.connect("grpc://127.0.0.1:1", autocommit=True), "select 1"))


# Queries.


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


# Writes.


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


# Parameters.


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


# Metadata.


@step("metadata: who the server and the driver are")
def _():
    with connect() as connection:
        info = connection.adbc_get_info()
        equal(info["vendor_name"], "Tidelake")
        equal(info["driver_name"], "ADBC Flight SQL Driver - Go")
        equal(info["vendor_version"].count("."), 2, "dots of the version")


@step("metadata: table types")
def _():
    with connect() as connection:
        equal(sorted(connection.adbc_get_table_types()), ["TABLE", "VIEW"])


@step("metadata: the schema of a table")
def _():
    with connect() as connection:
        schema = connection.adbc_get_table_schema("devices", db_schema_filter="adbc")
        equal([(f.name, str(f.type)) for f in schema],
              [("ts", "timestamp[ns]"), ("v", "double"), ("devid", "int32"), ("devgroup", "string")])
        refused("", lambda: connection.adbc_get_table_schema("nosuch", db_schema_filter="adbc"))


@step("metadata: objects of every depth")
def _():
    with connect() as connection:
        catalogs = connection.adbc_get_objects(depth="catalogs").read_all().to_pylist()
        equal([c["catalog_name"] for c in catalogs], ["tidelake"])
        schemas = connection.adbc_get_objects(depth="db_schemas").read_all().to_pylist()[0]["catalog_db_schemas"]
        equal({"adbc", "information_schema"} <= {s["db_schema_name"] for s in schemas}, True, "databases are there")
        found = connection.adbc_get_objects(depth="tables", db_schema_filter="adbc", table_name_filter="dev%").read_all().to_pylist()
        tables = found[0]["catalog_db_schemas"][0]["db_schema_tables"]
        equal([(t["table_name"], t["table_type"]) for t in tables], [("devices", "TABLE")])
        found = connection.adbc_get_objects(depth="all", db_schema_filter="adbc", table_name_filter="devices").read_all().to_pylist()
        columns = found[0]["catalog_db_schemas"][0]["db_schema_tables"][0]["table_columns"]
        equal([(c["column_name"], c["ordinal_position"]) for c in columns], [("ts", 1), ("v", 2), ("devid", 3), ("devgroup", 4)])


@step("metadata: objects by type and by column")
def _():
    with connect() as connection:

        def tables(**filters):
            found = connection.adbc_get_objects(depth="all", db_schema_filter="adbc", **filters).read_all().to_pylist()
            return {t["table_name"]: [c["column_name"] for c in t["table_columns"]]
                    for catalog in found for s in catalog["catalog_db_schemas"] for t in s["db_schema_tables"]}

        equal(tables(table_types_filter=["VIEW"]), {})
        equal("devices" in tables(table_types_filter=["TABLE"]), True, "a table is a TABLE")
        equal(tables(table_name_filter="devices", column_name_filter="dev%"), {"devices": ["devid", "devgroup"]})


# Sessions.


@step("session: the database of the header")
def _():
    with connect("adbc") as connection, connect(None) as none:
        equal(ask(connection, "select database()"), [("adbc",)])
        equal(ask(none, "select database()"), [(None,)])


@step("session: current catalog and schema, with cookies")
def _():
    with connect(None, **{DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}) as connection:
        equal(connection.adbc_current_catalog, "tidelake")
        connection.adbc_current_db_schema = "adbc"
        equal(connection.adbc_current_db_schema, "adbc")
        equal(ask(connection, "select database()"), [("adbc",)])
        equal(ask(connection, "select count(*) from many"), [(200,)])
        connection.adbc_current_catalog = "tidelake"

        def nosuch():
            connection.adbc_current_catalog = "nosuch"

        refused("", nosuch)


@step("session: options, with cookies")
def _():
    with connect(None, **{DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}) as connection:
        raw = connection.adbc_connection
        raw.set_options(**{ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "time_zone": "Asia/Shanghai"})
        equal(ask(connection, "select timezone()"), [("Asia/Shanghai",)])
        equal(raw.get_option(ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "time_zone"), "Asia/Shanghai")
        refused("", lambda: raw.set_options(**{ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "nosuch": "x"}))
        refused("", lambda: raw.set_options(**{ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "time_zone": "Nowhere/None"}))


@step("session: USE, with cookies")
def _():
    with connect(None, **{DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}) as connection:
        ask(connection, "use adbc")
        equal(ask(connection, "select database(), count(*) from many"), [("adbc", 200)])


# Bulk ingest.


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


@step("ingest: one batch beyond 16 MiB", reason="the driver's gRPC client refuses to send messages beyond 16 MiB")
def _():
    rows = 20 * 1024
    ts = pyarrow.array(range(START_MS, START_MS + rows), pyarrow.int64()).cast(pyarrow.timestamp("ms"))
    with connect() as connection, connection.cursor() as cursor:
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


# Stopping.


def running(part, expected):
    found = None
    with connect() as other:
        for _ in range(100):
            found = ask(other, f"select count(*) from system.queries where sql like '%{part}%' and sql not like '%system.queries%'")[0][0]
            if found == expected:
                break
            time.sleep(0.1)
    equal(found, expected, "queries that run")


@step("stop: cancel from another thread, before the first row")
def _():
    with connect() as connection, connection.cursor() as cursor:
        ended = []

        def run():
            try:
                cursor.execute(SILENT)
                cursor.fetchall()
                ended.append(None)
            except Exception as error:
                ended.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        running("% 7 = 3", 1)
        cursor.adbc_cancel()
        thread.join(20)
        equal(len(ended) == 1 and ended[0] is not None, True, "the query ends with an error")
        running("% 7 = 3", 0)


@step("stop: a result that is closed in the middle")
def _():
    with connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute(ENDLESS)
            equal(len(cursor.fetchmany(1000)), 1000)
            running("1000000) b", 1)
        running("1000000) b", 0)
        equal(ask(connection, "select 1"), [(1,)])


@step("stop: a deadline of the client")
def _():
    with connect() as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{StatementOptions.TIMEOUT_FETCH.value: 1.0, StatementOptions.TIMEOUT_QUERY.value: 1.0})
        begun = time.monotonic()
        refused("", lambda: (cursor.execute(SILENT), cursor.fetchall()))
        equal(time.monotonic() - begun < 20, True, "within the deadline")
        running("% 7 = 3", 0)


# pandas and polars.


@step("pandas: a query becomes a frame")
def _():
    with connect() as connection:
        frame = pandas.read_sql("select ts, i, x, s, b from many order by ts", connection)
        equal((len(frame), int(frame["i"].sum()), float(frame["x"].sum())), (200, 19_900, 9_950.0))
        equal(frame["ts"].iloc[0], pandas.Timestamp(START))
        with connection.cursor() as cursor:
            cursor.execute("select i from many where i < 3 order by i")
            equal(cursor.fetch_df()["i"].tolist(), [0, 1, 2])


@step("pandas: a frame becomes a table, fail, append and replace")
def _():
    frame = pandas.DataFrame({"ts": pandas.date_range(START, periods=50, freq="s"), "i": range(50), "s": [f"s{i}" for i in range(50)]})
    with connect() as connection:
        equal(frame.to_sql("frame", connection, index=False), 50)
        refused("", lambda: frame.to_sql("frame", connection, index=False))
        later = frame.assign(ts=frame["ts"] + pandas.Timedelta("1h"))
        equal(later.to_sql("frame", connection, index=False, if_exists="append"), 50)
        equal(ask(connection, "select count(*), sum(i) from frame"), [(100, 2450)])
        equal(frame.head(5).to_sql("frame", connection, index=False, if_exists="replace"), 5)
        equal(ask(connection, "select count(*), sum(i), max(s) from frame"), [(5, 10, "s4")])


@step("polars: a query becomes a frame")
def _():
    with connect() as connection:
        frame = polars.read_database("select ts, i, x, s, b from many order by ts", connection)
        equal((frame.height, frame["i"].sum(), frame["x"].sum(), frame["b"].sum()), (200, 19_900, 9_950.0, 100))
        equal(frame["ts"][0], START)
        frame = polars.read_database("select i from many where i = ?", connection, execute_options={"parameters": (5,)})
        equal(frame["i"].to_list(), [5])


@step("polars: a frame becomes a table, fail, append and replace")
def _():
    frame = polars.DataFrame({"ts": [at(i * 1000) for i in range(50)], "i": list(range(50)), "s": [f"s{i}" for i in range(50)]})
    with connect() as connection:
        equal(frame.write_database("polar", connection, engine="adbc"), 50)
        refused("", lambda: frame.write_database("polar", connection, engine="adbc"))
        later = frame.with_columns(polars.col("ts") + datetime.timedelta(hours=1))
        equal(later.write_database("polar", connection, engine="adbc", if_table_exists="append"), 50)
        equal(ask(connection, "select count(*), sum(i) from polar"), [(100, 2450)])
        equal(frame.head(5).write_database("polar", connection, engine="adbc", if_table_exists="replace"), 5)
        equal(ask(connection, "select count(*), sum(i), max(s) from polar"), [(5, 10, "s4")])


steps.end()
