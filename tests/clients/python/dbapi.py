"""flightsql-dbapi, and SQLAlchemy on top of it."""

import flightsql
import flightsql.sqlalchemy  # registers the dialect
import pyarrow
import pyarrow.compute
import sqlalchemy
from flightsql import FlightSQLClient
from flightsql.client import TableRef

from steps import Steps, Target, equal, refused

target = Target()
steps = Steps("flightsql-dbapi")
step = steps.step

START_MS = 1_563_249_700_000


def client(database="dbapi", credentials=True, **more):
    found = {"host": target.host, "port": target.port, "insecure": not target.tls, "metadata": {"database": database} if database else None}
    if target.tls:
        found["tls_root_certs"] = target.authority_text()
    if target.token and credentials:
        found["token"] = target.token
    return FlightSQLClient(**(found | more))


def rows(client, info):
    return client.do_get(info.endpoints[0].ticket).read_all().to_pylist()


def ask(client, sql):
    return rows(client, client.execute(sql))


first = client(None)
ask(first, "drop database if exists dbapi")
ask(first, "create database dbapi")


@step("connect: with a token, or none where nobody is asked")
def _():
    equal(ask(client(), "select 1 as one"), [{"one": 1}])


if target.user:

    @step("connect: user and password")
    def _():
        connected = client(credentials=False, user=target.user, password=target.password)
        equal(ask(connected, "select current_user() as u"), [{"u": target.user}])

    @step("connect: wrong password is refused")
    def _():
        refused("password", lambda: client(credentials=False, user=target.user, password="wrong"))

    @step("connect: nobody is refused")
    def _():
        refused("", lambda: ask(client(credentials=False), "select 1"))

else:

    @step("connect: user and password where nobody is asked")
    def _():
        equal(ask(client(user="anyone", password="anything"), "select 1 as one"), [{"one": 1}])


@step("client: updates count their rows")
def _():
    connected = client()
    equal(connected.execute_update("create stable devices (ts timestamp, v double) tags (devid int, devgroup varchar(10))"), 0)
    values = " ".join(f"('d{d}', {START_MS + r * 1000}, {d + r}, {d}, 'g{d % 2}')" for d in range(5) for r in range(20))
    equal(connected.execute_update(f"insert into devices (tbname, ts, v, devid, devgroup) values {values}"), 100)
    equal(connected.execute_update("delete from devices where devid = 4"), 20)


@step("client: a query")
def _():
    equal(ask(client(), "select devgroup, count(*) as c, sum(v) as s from devices group by devgroup order by devgroup"),
          [{"devgroup": "g0", "c": 40, "s": 190.0 * 2 + 20 * 2}, {"devgroup": "g1", "c": 40, "s": 190.0 * 2 + 20 * 4}])


@step("client: a million rows")
def _():
    connected = client()
    info = connected.execute("select value from generate_series(1, 1000000)")
    equal(info.schema.names, ["value"])
    count = total = 0
    for chunk in connected.do_get(info.endpoints[0].ticket):
        count += chunk.data.num_rows
        total += pyarrow.compute.sum(chunk.data.column(0)).as_py()
    equal((count, total), (1_000_000, 500_000_500_000))


@step("client: a prepared statement with parameters")
def _():
    connected = client()
    with connected.prepare("select count(*) as c from devices where devid = ? and v < ?") as statement:
        info = statement.execute(pyarrow.record_batch([pyarrow.array([2]), pyarrow.array([7.0])], names=["a", "b"]))
        equal(rows(connected, info), [{"c": 5}])


@step("client: metadata")
def _():
    connected = client()
    equal(rows(connected, connected.get_catalogs()), [{"catalog_name": "tidelake"}])
    equal("dbapi" in [r["db_schema_name"] for r in rows(connected, connected.get_db_schemas())], True, "the database is there")
    equal(rows(connected, connected.get_db_schemas(db_schema_filter_pattern="dbap_")), [{"catalog_name": "tidelake", "db_schema_name": "dbapi"}])
    equal(sorted(r["table_type"] for r in rows(connected, connected.get_table_types())), ["TABLE", "VIEW"])
    tables = rows(connected, connected.get_tables(db_schema_filter_pattern="dbapi", table_types=["BASE TABLE", "table"], include_schema=True))
    equal([(t["table_name"], t["table_type"]) for t in tables], [("devices", "TABLE")])
    schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(tables[0]["table_schema"]))
    equal(schema.names, ["ts", "v", "devid", "devgroup"])
    ref = TableRef(db_schema="dbapi", table="devices")
    equal([r["column_name"] for r in rows(connected, connected.get_primary_keys(ref))], ["tbname", "ts"])
    equal(rows(connected, connected.get_imported_keys(ref)), [])
    equal(rows(connected, connected.get_exported_keys(ref)), [])
    equal(rows(connected, connected.get_cross_reference(ref, ref)), [])
    equal("BIGINT" in [r["type_name"] for r in rows(connected, connected.get_xdbc_type_info(None))], True, "BIGINT is a type")
    equal({r["info_name"]: r["value"] for r in rows(connected, connected.get_sql_info([0, 504]))}, {0: "Tidelake", 504: '"'})


@step("client: errors")
def _():
    connected = client()
    refused("syntax error", lambda: connected.execute("selekt 1"))
    refused("nosuch", lambda: connected.execute("select * from nosuch"))
    refused("empty", lambda: connected.execute(""))
    refused("returns rows", lambda: connected.execute_update("select 1"))


@step("DB-API: queries, parameters and their errors")
def _():
    with flightsql.connect(client(), features={}) as connection, connection.cursor() as cursor:
        cursor.execute("select devid, count(*) from devices group by devid order by devid")
        equal([tuple(row) for row in cursor.fetchall()], [(d, 20) for d in range(4)])
        equal([d[0] for d in cursor.description], ["devid", "count(*)"])
        cursor.execute("select count(*) from devices where devid = ? and devgroup = ?", [2, "g0"])
        equal(tuple(cursor.fetchone()), (20,))
        cursor.execute("select v from devices where devid = ? and v between ? and ? order by v", [1, 2.5, 4.5])
        equal([row[0] for row in cursor.fetchall()], [3.0, 4.0])
        refused("nosuch", lambda: cursor.execute("select nosuch from devices"))


def engine(features="", target=target):
    who = f"&token={target.token}" if target.token else ""
    transport = "disable_server_verification=true" if target.tls else "insecure=true"
    return sqlalchemy.create_engine(f"datafusion+flightsql://{target.host}:{target.port}?{transport}{who}&database=dbapi{features}")


@step("SQLAlchemy: a query with literals in its text")
def _():
    with engine().connect() as connection:
        query = sqlalchemy.text("select devid, sum(v) from devices where devid < :most group by devid order by devid").bindparams(most=2)
        equal([tuple(row) for row in connection.execute(query)], [(0, 190.0), (1, 210.0)])


@steps.known("SQLAlchemy: a text whose parameters come with execute()", "the dialect writes NULL for each of them into the text",
             says="expected [(2,)], found [(7,)]")
def _(server):
    with engine(target=server).connect() as connection:
        equal([tuple(row) for row in connection.execute(sqlalchemy.text("select coalesce(:one, 7)"), {"one": 2})], [(2,)])


@step("SQLAlchemy: a query with prepared parameters")
def _():
    with engine("&feature-sqlalchemy-prepared-statements=on").connect() as connection:
        found = connection.execute(sqlalchemy.text("select count(*) from devices where devid = :one and devgroup = :two"), {"one": 1, "two": "g1"})
        equal([tuple(row) for row in found], [(20,)])


@step("SQLAlchemy: inspection")
def _():
    inspector = sqlalchemy.inspect(engine("&feature-sqlalchemy-primary-keys=on"))
    equal({"dbapi", "information_schema"} <= set(inspector.get_schema_names()), True, "databases")
    equal(inspector.get_table_names(schema="dbapi"), ["devices"])
    equal(inspector.has_table("devices", schema="dbapi"), True, "the table is there")
    equal([column["name"] for column in inspector.get_columns("devices", schema="dbapi")], ["ts", "v", "devid", "devgroup"])
    equal(inspector.get_pk_constraint("devices", schema="dbapi")["constrained_columns"], ["tbname", "ts"])
    equal(inspector.get_foreign_keys("devices", schema="dbapi"), [])


@step("SQLAlchemy: a table read from the server, and an expression over it")
def _():
    made = engine()
    table = sqlalchemy.Table("devices", sqlalchemy.MetaData(), autoload_with=made, schema="dbapi")
    query = (sqlalchemy.select(table.c.devgroup, sqlalchemy.func.count()).where(table.c.devid.in_([1, 2])).group_by(table.c.devgroup)
             .order_by(table.c.devgroup).limit(10))
    with made.connect() as connection:
        equal([tuple(row) for row in connection.execute(query)], [("g0", 20), ("g1", 20)])


steps.end()
