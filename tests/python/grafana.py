"""Sends Grafana's requests to a server: grafana.py URL [FLIGHT_URL]; the server has no database w1.

Writes rows of the papers' devices, then sends every statement that the InfluxDB data source (in its SQL mode) and the Flight SQL plugin
make themselves, every macro as each of them expands it, and every statement of the dashboard in infra/grafana, by the calls and with the
headers of those data sources; the InfluxDB ones as a ticket of JSON as well. Prints for each `ok` or what differed from the rows that
were written, and ends with 1 then. Where the server requires authentication, TIDELAKE_TOKEN is the token."""

import json
import math
import os
import pathlib
import re
import sys
import time
import urllib.request
from datetime import datetime, timezone

import pyarrow
import pyarrow.flight as flight
import yaml

INFRA = pathlib.Path(__file__).resolve().parents[2] / "infra/grafana"
TOKEN = os.environ.get("TIDELAKE_TOKEN", "none")

# The rows: milliseconds, device, group, temperature, humidity.
FIRST_MS, DEVICES, GROUPS, SECONDS = 1_563_249_700_000, 12, 4, 4_000
ROWS = [
    (
        FIRST_MS + second * 1_000,
        device,
        device % GROUPS,
        35 + (device * 7 + second * 13) % 31,
        None if second % 50 == 0 else (device * 5 + second * 3) % 40 / 2,
    )
    for device in range(1, DEVICES + 1)
    for second in range(SECONDS)
]
# The dashboard's time range: Grafana drops fractions of a second.
FROM_MS, TO_MS, INTERVAL_S = FIRST_MS + 60_250, FIRST_MS + 3_700_750, 30
SHOWN = [row for row in ROWS if FROM_MS // 1_000 * 1_000 <= row[0] <= TO_MS // 1_000 * 1_000]


def rfc3339(ms):
    return datetime.fromtimestamp(ms // 1_000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


FROM, TO = rfc3339(FROM_MS), rfc3339(TO_MS)


# Macros, as the data sources expand them.


def date_bin(column):
    return f"date_bin(interval '{INTERVAL_S} second', {column}, timestamp '1970-01-01T00:00:00Z')"


def time_group(column, unit, alias=lambda each: ""):
    units = ["minute", "hour", "day", "month", "year"]
    return ",".join(f"datepart('{each}', {column})" + alias(each) for each in units[units.index(unit) :])


COMMON = {
    "timeFilter": lambda column: f"{column} >= '{FROM}' AND {column} <= '{TO}'",
    "dateBin": date_bin,
    "dateBinAlias": lambda column: f"{date_bin(column)} as {column}_binned",
}
MACROS = {
    "influxdb": {
        **COMMON,
        "timeRange": COMMON["timeFilter"],
        "timeRangeFrom": lambda column: f"{column} >= '{FROM}'",
        "timeRangeTo": lambda column: f"{column} <= '{TO}'",
        "timeFrom": lambda *_: f"cast('{FROM}' as timestamp)",
        "timeTo": lambda *_: f"cast('{TO}' as timestamp)",
        "interval": lambda *_: f"interval '{INTERVAL_S} second'",
        "timeGroup": time_group,
        "timeGroupAlias": lambda column, unit: time_group(column, unit, lambda each: f" as {column}_{each}"),
    },
    "influxdata-flightsql-datasource": {
        **COMMON,
        "timeFrom": lambda column: f"{column} >= '{FROM}'",
        "timeTo": lambda column: f"{column} <= '{TO}'",
    },
}


def expanded(source, sql):
    """The statement that is sent: the browser replaces variables, the data source expands macros."""
    sql = sql.replace("${group:csv}", ",".join(map(str, range(GROUPS))))

    def replaced(match):
        arguments = [a.strip() for a in match[3].split(",")] if match[2] else []
        return MACROS[source][match[1]](*arguments)

    sql = re.sub(r"\$__(\w+)\b(\(([^()]*)\))?", replaced, sql)
    assert "$" not in sql, f"not expanded: {sql}"
    return sql


# Calls, as the data sources make them.


def field(number, value):
    data = value.encode() if isinstance(value, str) else value
    length, size = len(data), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + data


def command(name, *fields):
    return field(1, f"type.googleapis.com/arrow.flight.protocol.sql.{name}") + field(2, b"".join(fields))


class DataSource:
    """A provisioned data source."""

    def __init__(self, settings, address):
        self.kind, more = settings["type"], settings["jsonData"]
        self.database = more["dbName"] if self.kind == "influxdb" else more["metadata"][0]["database"]
        self.client = flight.FlightClient(address)
        # gRPC lower-cases names.
        headers = {"database": self.database, "authorization": f"Bearer {TOKEN}"}
        self.options = flight.FlightCallOptions(headers=[(k.encode(), v.encode()) for k, v in headers.items()])

    def call(self, command):
        info = self.client.get_flight_info(flight.FlightDescriptor.for_command(command), self.options)
        assert len(info.endpoints) == 1, f"{len(info.endpoints)} endpoints"
        rows = self.client.do_get(info.endpoints[0].ticket, self.options).read_all()
        assert info.schema.equals(rows.schema), f"announced {info.schema}, sent {rows.schema}"
        return rows

    def query(self, sql):
        return self.call(command("CommandStatementQuery", field(1, sql)))

    def ticket(self, sql):
        text = json.dumps({"database": self.database, "sql_query": sql, "query_type": "sql"})
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
        return self.client.do_get(flight.Ticket(text.encode()), options).read_all()

    def readable(self, schema):
        """The plugin omits columns of other types; the data source shows them empty."""
        types = pyarrow.types
        known = [types.is_string, types.is_float64, types.is_int64, types.is_boolean, types.is_timestamp]
        if self.kind == "influxdb":
            known += [types.is_int8, types.is_int16, types.is_int32, types.is_float32]
        for column in schema:
            assert any(is_known(column.type) for is_known in known), f"{column.name} is {column.type}"
            if types.is_timestamp(column.type):
                # The data sources treat the number as nanoseconds, whatever the unit.
                assert column.type == pyarrow.timestamp("ns"), f"{column.name} is {column.type}"


# Answers, from the rows.


def mean(values):
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def window(row):
    """Nanoseconds."""
    return row[0] // (INTERVAL_S * 1_000) * INTERVAL_S * 1_000_000_000


def by(key, rows=SHOWN):
    """Groups of rows, ordered by key."""
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return sorted(groups.items())


def temperatures(rows):
    return [row[3] for row in rows]


def hour(row):
    at = datetime.fromtimestamp(row[0] / 1_000, timezone.utc)
    return (at.year, at.month, at.day, at.hour)


def minute(row):
    return (*hour(row), row[0] // 60_000 % 60)


def spread(values):
    known = [value for value in values if value is not None]
    return float(max(known) - min(known))


WINDOWS = [(at, mean(temperatures(rows))) for at, rows in by(window)]
DASHBOARD = {
    "variable group": [(group,) for group in range(GROUPS)],
    "Rows": [(sum(row[0] < TO_MS // 1_000 * 1_000 for row in SHOWN),)],
    "Devices": [(DEVICES,)],
    "Mean temperature": [(mean(temperatures(SHOWN)),)],
    "Spread of humidity": [(spread(row[4] for row in SHOWN),)],
    "Temperature": [
        (at, mean(temperatures(rows)), min(temperatures(rows)), max(temperatures(rows))) for at, rows in by(window)
    ],
    "Humidity by group": [
        (at, group, mean(row[4] for row in rows)) for (at, group), rows in by(lambda row: (window(row), str(row[2])))
    ],
    "Warmest devices": sorted(
        (
            (f"dev_{device}", rows[0][2], max(temperatures(rows)), mean(temperatures(rows)), rows[-1][3])
            for device, rows in by(lambda row: row[1])
        ),
        key=lambda found: (-found[3], found[0]),
    )[:10],
    "Rows by hour": [(*reversed(at), len(rows)) for at, rows in by(hour)],
    "Temperature, by the plugin": [
        (at, mean(temperatures(rows)), float(max(temperatures(rows)))) for at, rows in by(window)
    ],
    "Groups, by the plugin": [
        (group, len(rows), mean(temperatures(rows)), spread(temperatures(rows))) for group, rows in by(lambda row: row[2])
    ],
}
COLUMNS = [
    ("devgroup", "INT"),
    ("devid", "INT"),
    ("devname", "VARCHAR"),
    ("humidity", "FLOAT"),
    ("temperature", "INT"),
    ("ts", "TIMESTAMP"),
]
SELECTED = "select count(*) from devices where"
OF_INFLUXDB = [
    (
        "SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES where TABLE_TYPE != 'SYSTEM VIEW' "
        "ORDER BY TABLE_SCHEMA",
        None,
    ),
    ("SELECT table_name FROM information_schema.tables WHERE table_schema = 'w1' ORDER BY table_name", [("devices",)]),
    ("SELECT table_name FROM information_schema.tables WHERE table_schema = database() ORDER BY table_name", [("devices",)]),
    (
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'w1' "
        "AND table_name = 'devices' ORDER BY column_name",
        COLUMNS,
    ),
    (
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = database() "
        "AND table_name = 'devices' ORDER BY column_name",
        COLUMNS,
    ),
    (f"{SELECTED} $__timeRange(ts)", [(len(SHOWN),)]),
    (f"{SELECTED} $__timeRangeFrom(ts) and $__timeRangeTo(ts)", [(len(SHOWN),)]),
    (f"{SELECTED} ts between $__timeFrom and $__timeTo", [(len(SHOWN),)]),
    (f"{SELECTED} ts >= $__timeFrom() and ts <= $__timeTo()", [(len(SHOWN),)]),
    (
        "select date_bin($__interval, ts) as time, avg(temperature) from devices where $__timeFilter(ts) "
        "group by time order by time",
        WINDOWS,
    ),
    (
        "select $__timeGroup(ts, minute), avg(temperature) from devices where $__timeFilter(ts) "
        "group by $__timeGroup(ts, minute) order by 5, 4, 3, 2, 1",
        [(*reversed(at), mean(temperatures(rows))) for at, rows in by(minute)],
    ),
    (
        "select $__timeGroupAlias(ts, year), count(*) from devices where $__timeFilter(ts) group by $__timeGroup(ts, year)",
        [(2019, len(SHOWN))],
    ),
    (
        "select $__timeGroupAlias(ts, month), count(*) from devices where $__timeFilter(ts) "
        "group by $__timeGroup(ts, month) order by ts_year, ts_month",
        [(7, 2019, len(SHOWN))],
    ),
]
OF_PLUGIN = [
    (f"{SELECTED} $__timeFrom(ts) and $__timeTo(ts)", [(len(SHOWN),)]),
]
OF_BOTH = [
    ("select 1", [(1,)]),
    (f"{SELECTED} $__timeFilter(ts)", [(len(SHOWN),)]),
    (
        "select $__dateBin(ts) as time, avg(temperature) as mean from devices where $__timeFilter(ts) "
        "group by $__dateBin(ts) order by time",
        WINDOWS,
    ),
    (
        "select $__dateBinAlias(ts), avg(temperature) as mean from devices where $__timeFilter(ts) "
        "group by ts_binned order by ts_binned",
        WINDOWS,
    ),
]


def statements(source, dashboard):
    """Name, statement, format and expected result of each request of a data source."""
    own = OF_BOTH + (OF_INFLUXDB if source.kind == "influxdb" else OF_PLUGIN)
    for sql, answer in own:
        yield sql, sql, "table", answer
    asked = [
        (panel["title"], target["datasource"], target.get("rawSql") or target.get("queryText"), target["format"])
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]
    asked += [
        (f"variable {variable['name']}", variable["datasource"], variable["query"]["query"], "table")
        for variable in dashboard["templating"]["list"]
    ]
    for name, of, sql, shape in asked:
        if of["type"] == source.kind:
            yield name, sql, shape, DASHBOARD[name]


def plain(table):
    """Rows of values, instants as nanoseconds."""
    columns = []
    for column in table.columns:
        if pyarrow.types.is_timestamp(column.type):
            column = column.cast(pyarrow.int64())
        columns.append(column.to_pylist())
    return list(zip(*columns))


def same(found, expected):
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(found, expected, rel_tol=1e-9)
    return type(found) is type(expected) and found == expected


def compare(table, expected, shape, source):
    source.readable(table.schema)
    if shape == "time_series":
        times = table["time"].cast(pyarrow.int64()).to_pylist()
        assert times == sorted(times), "time does not ascend"
    found = plain(table)
    if expected is None:
        assert ("w1",) in found, f"w1 is not among {found}"
        return
    assert len(found) == len(expected), f"{len(found)} rows, expected {len(expected)}: {found[:5]} …"
    for row, (ours, theirs) in enumerate(zip(found, expected)):
        alike = len(ours) == len(theirs) and all(map(same, ours, theirs))
        assert alike, f"row {row} is {ours}, expected {theirs}"


def tables(source):
    """Requests of the plugin's editor: tables, columns of a table, capabilities of the server."""
    for types in [["BASE TABLE"], ["BASE TABLE", "table"]]:
        found = source.call(command("CommandGetTables", *(field(4, name) for name in types)))
        names = set(zip(found["db_schema_name"].to_pylist(), found["table_name"].to_pylist()))
        assert ("w1", "devices") in names, f"{types}: {names}"
    found = source.call(command("CommandGetTables", field(3, "devices"), bytes([5 << 3, 1])))
    schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(found["table_schema"].to_pylist()[0]))
    names = ["ts", "temperature", "humidity", "devid", "devname", "devgroup"]
    assert schema.names == names, f"{schema.names}"
    source.readable(pyarrow.schema([schema.field("ts"), schema.field("devname")]))
    assert source.call(command("CommandGetSqlInfo")).num_rows > 60


def write(url):
    def run(statement):
        request = urllib.request.Request(url + "/rest/sql", statement.encode(), {"authorization": f"Bearer {TOKEN}"})
        answer = json.load(urllib.request.urlopen(request))
        if answer["code"] != 0:
            sys.exit(f"{statement[:80]}: {answer}")
        return answer["data"]

    run("create database w1 precision 'ms'")
    run(
        "create table w1.devices (ts timestamp, temperature int, humidity float) "
        "tags (devid int, devname binary(16), devgroup int)"
    )
    for device, rows in by(lambda row: row[1], ROWS):
        values = "".join(f"({at},{t},{'null' if h is None else h})" for at, _, _, t, h in rows)
        run(f"insert into w1.dev{device} using w1.devices tags ({device},'dev_{device}',{device % GROUPS}) values {values}")
    for _ in range(100):
        if run("select count(*) from w1.devices") == [[len(ROWS)]]:
            return
        time.sleep(0.1)
    sys.exit("what was written is not seen")


def main(url, flight_url=None):
    address = flight_url or re.sub("^http", "grpc", url).replace("grpcs://", "grpc+tls://")
    dashboard = json.loads((INFRA / "dashboards/devices.json").read_text())
    provisioned = yaml.safe_load((INFRA / "provisioning/datasources/tidelake.yaml").read_text())["datasources"]
    write(url)
    differing = 0

    def check(name, action):
        nonlocal differing
        try:
            action()
            print("ok", name)
        except Exception as error:
            differing += 1
            print("DIFFERS", name, "\n       ", type(error).__name__, error)

    left = set(DASHBOARD)
    for settings in provisioned:
        source = DataSource(settings, address)
        assert source.database == "w1", source.database
        for name, sql, shape, answer in statements(source, dashboard):
            left.discard(name)
            sql = expanded(source.kind, sql)
            check(f"[{source.kind}] {name}", lambda: compare(source.query(sql), answer, shape, source))
            if source.kind == "influxdb":
                check(f"[ticket] {name}", lambda: compare(source.ticket(sql), answer, shape, source))
        if source.kind != "influxdb":
            check(f"[{source.kind}] tables, columns, information", lambda: tables(source))
            if "TIDELAKE_TOKEN" not in os.environ:
                check(f"[{source.kind}] a handshake", lambda: source.client.authenticate_basic_token("ada", "a long one"))
    if left:
        differing += 1
        print("DIFFERS the dashboard does not ask", sorted(left))
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
