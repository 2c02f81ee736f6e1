"""The calls of the Flight SQL ODBC driver, without the driver: the exact messages of each ODBC function, sent by pyarrow's Flight client.

The driver is dremio/flightsql-odbc, which also Apache Arrow has as cpp/src/arrow/flight/sql/odbc: flight_sql_auth_method.cc,
flight_sql_statement.cc, flight_sql_statement_get_tables.cc and get_info_cache.cc say what it calls.
"""

import pyarrow
import pyarrow.flight as flight

from steps import Steps, Target, equal, refused

target = Target()
steps = Steps("odbc-calls")
step = steps.step

START_MS = 1_563_249_700_000
TYPE = "type.googleapis.com/arrow.flight.protocol.sql."


class Nothing(flight.ClientAuthHandler):
    """Sends an empty handshake and expects no reply."""

    def authenticate(self, outgoing, incoming):
        outgoing.write(b"")

    def get_token(self):
        return b""


def number(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(place, value):
    """A field of a message: bytes, text or boolean."""
    if isinstance(value, bool):
        return number(place << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(data)) + data


def command(name, *fields):
    return field(1, TYPE + name) + field(2, b"".join(fields))


def fields(message):
    """The length-delimited fields of a message, by number."""
    found, at = {}, 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        key = read()
        size = read()
        if key & 7 == 2:
            found[key >> 3] = message[at : at + size]
            at += size
    return found


class Connection:
    """SQLDriverConnect: unknown options of the connection string are sent as headers with each call."""

    def __init__(self, uid=None, pwd=None, token=None, **more):
        tls = {"tls_root_certs": target.authority_text()} if target.tls else {}
        self.client = flight.FlightClient(target.grpc, **tls)
        headers = [(name.lower().encode(), value.encode()) for name, value in more.items()]
        if uid is not None:
            headers.append(self.client.authenticate_basic_token(uid, pwd))
        if token is not None:
            headers.append((b"authorization", f"Bearer {token}".encode()))
            self.client.authenticate(Nothing(), flight.FlightCallOptions(headers=headers, timeout=20))
        self.options = flight.FlightCallOptions(headers=headers)

    def info(self, request):
        return self.client.get_flight_info(flight.FlightDescriptor.for_command(request), self.options)

    def rows(self, info):
        """Reads all endpoints; their batches must match the flight's schema."""
        tables = []
        for endpoint in info.endpoints:
            tables.append(self.client.do_get(endpoint.ticket, self.options).read_all())
            equal(tables[-1].schema, info.schema, "schema of the rows")
        return pyarrow.concat_tables(tables)

    def call(self, request):
        return self.rows(self.info(request))

    def execute(self, sql):
        """SQLExecDirect, for queries and updates."""
        return self.call(command("CommandStatementQuery", field(1, sql)))

    def action(self, name, request):
        return [result.body.to_pybytes() for result in self.client.do_action(flight.Action(name, request), self.options)]

    def prepare(self, sql):
        """SQLPrepare: a handle, the schema of the rows, the schema of the parameters."""
        [answer] = self.action("CreatePreparedStatement", command("ActionCreatePreparedStatementRequest", field(1, sql)))
        kind, message = fields(answer)[1], fields(fields(answer)[2])
        equal(kind.decode(), TYPE + "ActionCreatePreparedStatementResult")
        schemas = [pyarrow.ipc.read_schema(pyarrow.py_buffer(message[place])) if message.get(place) else None for place in (2, 3)]
        return message[1], *schemas

    def run(self, handle):
        """SQLExecute."""
        return self.call(command("CommandPreparedStatementQuery", field(1, handle)))

    def close(self, handle):
        """SQLFreeStmt, or another SQLPrepare."""
        self.action("ClosePreparedStatement", command("ActionClosePreparedStatementRequest", field(1, handle)))


def connect(**more):
    if target.user:
        more = {"uid": target.user, "pwd": target.password} | more
    return Connection(**more)


def is_at(connection, expected, sql):
    equal(connection.execute(sql).to_pylist(), expected, sql)


setup = connect()
for sql in ["drop database if exists odbc", "create database odbc",
            "create stable odbc.devices (ts timestamp, v double, note varchar(40)) tags (devid int, devgroup varchar(10))"]:
    setup.execute(sql)


@step("connect: HOST and PORT, with UID and PWD where the server asks")
def _():
    is_at(connect(), [{"one": 1}], "select 1 as one")


@step("connect: token=, with an empty handshake")
def _():
    is_at(Connection(token=target.token or "any"), [{"one": 1}], "select 1 as one")


@step("connect: what else stands in the string is a header")
def _():
    is_at(connect(Database="odbc"), [{"d": "odbc"}], "select database() as d")
    is_at(connect(database="odbc", **{"time-zone": "Asia/Shanghai"}), [{"d": "odbc", "z": "Asia/Shanghai"}], "select database() as d, timezone() as z")


if target.user:

    @step("connect: a wrong password, a wrong token and nobody are refused")
    def _():
        refused("password", lambda: connect(pwd="wrong"))
        refused("", lambda: Connection(token="wrong").execute("select 1"))
        refused("", lambda: Connection().execute("select 1"))


@step("catalog: SQLGetInfo asks for everything")
def _():
    rows = connect().call(command("CommandGetSqlInfo")).to_pylist()
    info = {row["info_name"]: row["value"] for row in rows}
    equal(len(info), len(rows), "names that differ")
    equal((info[0], info[3], info[504], info[529], info[531]), ("Tidelake", False, '"', "database", "catalog"))
    # The driver uses defaults for missing items; the JDBC driver knows no others.
    kinds = {
        bool: [3, 515, 516, 518, 519, 520, 521, 523, 524, 527, 532, 536, 537, 539],
        str: [0, 1, 2, 504, 513, 514, 529, 530, 531],
        int: [8, 522, 525, 526, 528, 533, 534, 535, 538, 540, 541, 543, 547, 552, 555, 560],
        list: [508, 509, 510, 511, 512],
    }
    for kind, names in kinds.items():
        equal([name for name in names if type(info.get(name)) is not kind], [], f"names that are no {kind.__name__}")


@step("catalog: SQLTables of all catalogs, databases and types")
def _():
    connection = connect()
    equal(connection.call(command("CommandGetCatalogs")).to_pylist(), [{"catalog_name": "tidelake"}])
    schemas = connection.call(command("CommandGetDbSchemas", field(2, "%"))).to_pylist()
    equal({"odbc", "information_schema"} <= {row["db_schema_name"] for row in schemas}, True, "databases are there")
    equal(connection.call(command("CommandGetTableTypes")).column("table_type").to_pylist(), ["TABLE", "VIEW"])


@step("catalog: SQLTables with patterns and types")
def _():
    connection = connect()
    for filters in [[field(2, "odbc")], [field(1, "tidelake"), field(2, "odbc"), field(3, "%")], [field(2, "od%"), field(3, "dev%"), field(4, "TABLE")],
                    [field(2, "odbc"), field(4, "TABLE"), field(4, "VIEW")], [field(2, "odbc"), field(4, "TABLE"), field(4, "SYSTEM TABLE")]]:
        found = connection.call(command("CommandGetTables", *filters, field(5, False)))
        equal(found.to_pylist(), [{"catalog_name": "tidelake", "db_schema_name": "odbc", "table_name": "devices", "table_type": "TABLE"}])
    equal(connection.call(command("CommandGetTables", field(2, "odbc"), field(4, "VIEW"), field(5, False))).num_rows, 0)


@step("catalog: SQLColumns reads the schema of each table")
def _():
    [row] = connect().call(command("CommandGetTables", field(2, "odbc"), field(3, "devices"), field(5, True))).to_pylist()
    schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(row["table_schema"]))
    kinds = [(column.name, str(column.type), column.nullable, column.metadata.get(b"ARROW:FLIGHT:SQL:TYPE_NAME").decode()) for column in schema]
    equal(kinds, [("ts", "timestamp[ns]", False, "TIMESTAMP"), ("v", "double", True, "DOUBLE"), ("note", "string", True, "VARCHAR"),
                  ("devid", "int32", True, "INT"), ("devgroup", "string", True, "VARCHAR")])
    equal(schema.field("note").metadata[b"ARROW:FLIGHT:SQL:PRECISION"], b"40")


@step("catalog: SQLGetTypeInfo")
def _():
    rows = connect().call(command("CommandGetXdbcTypeInfo")).to_pylist()
    types = {row["type_name"]: row["data_type"] for row in rows}
    # Numbers defined by ODBC.
    equal({name: types[name] for name in ["BIGINT", "INT", "DOUBLE", "VARCHAR", "TIMESTAMP", "BOOL"]},
          {"BIGINT": -5, "INT": 4, "DOUBLE": 8, "VARCHAR": 12, "TIMESTAMP": 93, "BOOL": -7})


@step("statement: SQLExecDirect of an INSERT has written before its rows are fetched")
def _():
    connection = connect(database="odbc")
    sql = f"insert into devices (tbname, ts, v, note, devid, devgroup) values ('d1', {START_MS}, 1.5, 'a', 1, 'g1') ('d2', {START_MS}, 2.5, 'b', 2, 'g0')"
    info = connection.info(command("CommandStatementQuery", field(1, sql)))
    is_at(connection, [{"c": 2}], "select count(*) as c from devices")
    equal(connection.rows(info).to_pylist(), [{"affected_rows": 2}])
    is_at(connection, [{"c": 2}], "select count(*) as c from devices")


@step("statement: SQLExecDirect of a query, with names as tools quote them")
def _():
    connection = connect()
    is_at(connection, [{"v": 1.5, "note": "a"}], 'SELECT "v", "note" FROM "tidelake"."odbc"."devices" WHERE "devid" = 1')
    is_at(connection, [{"devgroup": "g0", "s": 2.5}, {"devgroup": "g1", "s": 1.5}],
          'select "T"."devgroup", sum("T"."v") as "s" from "odbc"."devices" "T" group by "T"."devgroup" order by 1')
    equal(connection.execute("select * from odbc.devices where false").num_rows, 0)


@step("statement: SQLExecDirect of a million rows")
def _():
    equal(connect().execute("select value from generate_series(1, 1000000)").num_rows, 1_000_000)


@step("statement: SQLExecDirect says what is wrong")
def _():
    connection = connect()
    refused("syntax error", lambda: connection.execute("selekt 1"))
    refused("nosuch", lambda: connection.execute("select * from nosuch"))
    is_at(connection, [{"one": 1}], "select 1 as one")


@step("prepared: SQLPrepare, SQLExecute twice, SQLFreeStmt of a query")
def _():
    connection = connect(database="odbc")
    handle, columns, parameters = connection.prepare("select devid, v from devices order by devid")
    equal(([column.name for column in columns], parameters.names if parameters else []), (["devid", "v"], []))
    for _ in range(2):
        equal(connection.run(handle).to_pylist(), [{"devid": 1, "v": 1.5}, {"devid": 2, "v": 2.5}])
    connection.close(handle)


@step("prepared: SQLPrepare, SQLExecute, SQLFreeStmt of an INSERT, once")
def _():
    connection = connect(database="odbc")
    handle, _, _ = connection.prepare(f"insert into d1 values ({START_MS + 1000}, 3.5, 'c')")
    is_at(connection, [{"c": 1}], "select count(*) as c from devices where devid = 1")
    equal(connection.run(handle).to_pylist(), [{"affected_rows": 1}])
    is_at(connection, [{"c": 2}], "select count(*) as c from devices where devid = 1")
    connection.close(handle)


@step("prepared: SQLPrepare says what is wrong")
def _():
    connection = connect()
    refused("syntax error", lambda: connection.prepare("selekt 1"))
    refused("nosuch", lambda: connection.prepare("select * from nosuch"))


steps.end()
