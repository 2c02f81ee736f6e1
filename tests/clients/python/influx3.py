"""influxdb3-python: line protocol in by HTTP, SQL out by Flight, on one port."""

import pandas
from influxdb_client_3 import InfluxDBClient3, Point, SYNCHRONOUS, WriteOptions, write_client_options

from steps import Steps, Target, equal, refused

target = Target()
steps = Steps("influxdb3-python")
step = steps.step

START_S = 1_563_249_700
START_NS = START_S * 1_000_000_000


def client(**more):
    options = {"host": target.http, "database": "influx3", "token": target.token or "none", "write_port_overwrite": target.port,
               "query_port_overwrite": target.port, "write_client_options": write_client_options(write_options=SYNCHRONOUS)}
    if target.tls:
        options["ssl_ca_cert"] = target.authority
    return InfluxDBClient3(**(options | more))


with client() as setup:
    setup.query("drop database if exists influx3", mode="all")


@step("write: a line, which makes the database")
def _():
    with client() as connected:
        connected.write(f"home,room=kitchen temperature=21.5,humidity=40i,open=true,note=\"a b\" {START_NS}")
        equal(connected.query("select * from home").to_pylist()[0] | {"ts": None},
              {"ts": None, "temperature": 21.5, "humidity": 40, "open": True, "note": "a b", "room": "kitchen"})


@step("write: points and lists of them, with their own precision")
def _():
    with client() as connected:
        connected.write([Point("many").tag("k", str(i % 3)).field("v", i).time(START_S + i, write_precision="s") for i in range(300)],
                        write_precision="s")
        found = connected.query("select k, count(*) c, sum(v) s from many group by k order by k").to_pylist()
        equal(found, [{"k": str(k), "c": 100, "s": sum(range(k, 300, 3))} for k in range(3)])


@step("write: a frame of pandas")
def _():
    frame = pandas.DataFrame({"time": pandas.date_range("2024-01-01", periods=100, freq="s"), "host": ["a", "b"] * 50, "v": [float(i) for i in range(100)]})
    with client() as connected:
        connected.write_dataframe(frame, measurement="frames", timestamp_column="time", tags=["host"])
        equal(connected.query("select host, count(*) c, sum(v) s from frames group by host order by host").to_pylist(),
              [{"host": "a", "c": 50, "s": 2450.0}, {"host": "b", "c": 50, "s": 2500.0}])


@step("write: gzip")
def _():
    with client(enable_gzip=True) as connected:
        connected.write([f"zipped v={i} {START_NS + i}" for i in range(5000)])
        equal(connected.query("select count(*) c, max(v) m from zipped").to_pylist(), [{"c": 5000, "m": 4999.0}])


@step("write: in batches behind the caller's back")
def _():
    with client(write_client_options=write_client_options(write_options=WriteOptions(batch_size=500, flush_interval=200))) as connected:
        for i in range(2000):
            connected.write(f"batched v={i}i {START_NS + i}")
    with client() as connected:
        equal(connected.query("select count(*) c, sum(v) s from batched").to_pylist(), [{"c": 2000, "s": 1_999_000}])


@step("write: errors")
def _():
    with client() as connected:
        refused("parse", lambda: connected.write("bad line"))
        refused("type", lambda: connected.write(f"home,room=kitchen humidity=\"text\" {START_NS + 1}"))
        equal(connected.query("select count(*) c from home").to_pylist(), [{"c": 1}])


@step("query: modes")
def _():
    with client() as connected:
        sql = "select k, v from many where v < 5 order by v"
        equal(connected.query(sql, mode="pandas")["v"].tolist(), [0, 1, 2, 3, 4])
        equal(sum(batch.data.num_rows for batch in connected.query(sql, mode="chunk")), 5)
        equal(connected.query(sql, mode="reader").read_all().num_rows, 5)
        equal(connected.query(sql, mode="schema").names, ["k", "v"])
        equal(connected.query("select 1 a where false").num_rows, 0)


@step("query: a million rows")
def _():
    with client() as connected:
        found = connected.query("select value from generate_series(1, 1000000)", mode="reader")
        count = total = 0
        for batch in found:
            count += batch.num_rows
            total += sum(batch.column(0).to_pylist())
        equal((count, total), (1_000_000, 500_000_500_000))


@step("query: times are nanoseconds of UTC")
def _():
    with client() as connected:
        found = connected.query("select ts from home")
        equal((str(found.schema.field("ts").type), found.column("ts").cast("int64").to_pylist()), ("timestamp[ns]", [START_NS]))


@step("query: another database")
def _():
    with client() as connected:
        equal(connected.query("select database() d", database="influx3").to_pylist(), [{"d": "influx3"}])


@step("query: errors")
def _():
    with client() as connected:
        refused("nosuch", lambda: connected.query("select * from nosuch"))
        refused("syntax error", lambda: connected.query("selekt 1"))
        refused("influxql", lambda: connected.query("select * from home", language="influxql"))
        refused("parameters", lambda: connected.query("select * from home where room = $room", query_parameters={"room": "kitchen"}))


@step("server: its version")
def _():
    with client() as connected:
        equal(bool(connected.get_server_version()), True, "a version")


if target.user:

    @step("connect: a wrong token is refused, by both ways")
    def _():
        with client(token="wrong") as connected:
            refused("", lambda: connected.query("select 1"))
            refused("", lambda: connected.write(f"home v=1 {START_NS}"))


steps.end()
