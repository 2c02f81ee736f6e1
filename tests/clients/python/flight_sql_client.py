"""flight_sql_client, the program of arrow-flight (Rust): one command per run, results as a text table."""

import os
import subprocess
import sys

from steps import Steps, Target, equal, refused

SECONDS = 60
PROGRAM = sys.argv[1]
target = Target()
steps = Steps("flight_sql_client")
step = steps.step


def run(*command, database="rust", credentials=None, options=()):
    """The rows that a command prints, each a dict of texts, or an error with its message."""
    where = ["--host", "localhost", "--port", str(target.port), *(["--tls"] if target.tls else [])]
    who = (["--token", target.token] if target.token else []) if credentials is None else credentials
    within = ["-H", f"database={database}"] if database else []
    # Replaces the system's CAs by this one, because the program has no option for a CA.
    environment = os.environ | ({"SSL_CERT_FILE": target.authority} if target.tls else {})
    done = subprocess.run([PROGRAM, *where, *who, *within, *options, *command], capture_output=True, text=True, timeout=SECONDS, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if line.startswith("|")]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def ask(sql, **more):
    return run("statement-query", sql, **more)


def prepared(sql, *values, **more):
    return run("prepared-statement-query", sql, *(part for i, value in enumerate(values, 1) for part in ["-p", f"${i}={value}"]), **more)


for statement in ["drop database if exists rust", "create database rust"]:
    ask(statement, database=None)


@step("connect: with a token, or none where nobody is asked")
def _():
    equal(ask("select 1 as one, database() as d"), [{"one": "1", "d": "rust"}])


if target.user:

    @step("connect: user and password")
    def _():
        equal(ask("select current_user() as u", credentials=["--username", target.user, "--password", target.password]), [{"u": target.user}])

    @step("connect: wrong password is refused")
    def _():
        refused("password", lambda: ask("select 1", credentials=["--username", target.user, "--password", "wrong"]))

    @step("connect: a wrong token is refused")
    def _():
        refused("token", lambda: ask("select 1", credentials=["--token", "wrong"]))

    @step("connect: nobody is refused")
    def _():
        refused("no credentials", lambda: ask("select 1", credentials=[]))


@step("statement: define, write, ask")
def _():
    ask("create stable climate (ts timestamp, temperature double, humidity int, open bool, note varchar(20)) tags (room varchar(20))")
    for room, offset in [("kitchen", 0), ("cellar", 100)]:
        values = ", ".join(f"({1_563_249_700_000 + i}, {offset + i / 4}, {i}, {str(i % 2 == 0).lower()}, 'n{i}')" for i in range(50))
        ask(f"insert into {room} using climate tags ('{room}') values {values}")
    found = ask("select room, count(*) as c, sum(temperature) as s, max(humidity) as h from climate group by room order by room")
    sums = {room: sum(offset + i / 4 for i in range(50)) for room, offset in [("cellar", 100), ("kitchen", 0)]}
    equal(found, [{"room": room, "c": "50", "s": str(total), "h": "49"} for room, total in sums.items()])
    equal(ask("select ts, temperature, open, note from kitchen where humidity = 6"),
          [{"ts": "2019-07-16T04:01:40.006", "temperature": "1.5", "open": "true", "note": "n6"}])


@step("statement: no rows, and many")
def _():
    equal(ask("select * from climate where false"), [])
    found = ask("select value from generate_series(1, 100000)")
    equal((len(found), sum(int(row["value"]) for row in found)), (100_000, 5_000_050_000))


@step("prepared: a parameter of every type")
def _():
    equal(prepared("select room, humidity from climate where room = $1 and humidity >= $2 and temperature < $3 order by humidity",
                   "kitchen", 47, 11.9), [{"room": "kitchen", "humidity": "47"}])
    equal(prepared("select count(*) as c from climate where ts < $1", "2019-07-16T04:01:40.010"), [{"c": "20"}])
    equal(prepared("select count(*) as c from climate where open = $1", "true"), [{"c": "50"}])
    equal(prepared("select cast($1 as date) as d, cast($2 as time) as t, $3 as u", "2019-07-16", "12:34:56", "ä"),
          [{"d": "2019-07-16", "t": "12:34:56", "u": "ä"}])
    equal(prepared("select humidity from kitchen order by ts limit $1 offset $2", 2, 3), [{"humidity": "3"}, {"humidity": "4"}])


@step("prepared: without parameters")
def _():
    equal(prepared("select count(*) as c from climate"), [{"c": "100"}])


@step("prepared: a parameter without a value is an error")
def _():
    refused("expected: 1 parameters", lambda: prepared("select count(*) from climate where room = $1"))


@step("metadata: catalogs, schemas, tables and their types")
def _():
    catalog = run("catalogs")[0]["catalog_name"]
    schemas = run("db-schemas", catalog, "--db-schema-filter", "ru%")
    equal(schemas, [{"catalog_name": catalog, "db_schema_name": "rust"}])
    tables = run("tables", catalog, "--db-schema-filter", "rust", "--table-filter", "cli%")
    equal([(row["db_schema_name"], row["table_name"]) for row in tables], [("rust", "climate")])
    kinds = [row["table_type"] for row in run("table-types")]
    equal(tables[0]["table_type"] in kinds, True, "the table's type is one of all types")
    equal(run("tables", catalog, "--db-schema-filter", "rust", "--table-types", "VIEW"), [])


@step("messages: replies that may be compressed, requests that may not")
def _():
    for encoding in ["gzip", "zstd"]:
        equal(ask("select count(*) as c from climate", options=["--accept-compression", encoding]), [{"c": "100"}])
        refused(f"compressed with `{encoding}`", lambda: ask("select 1", options=["--send-compression", encoding]))


@step("errors say what is wrong")
def _():
    refused("nosuch", lambda: ask("select * from nosuch"))
    refused("syntax error", lambda: ask("selekt 1"))
    refused("empty", lambda: ask(""))
    refused("nosuch", lambda: ask("select * from climate", database="nosuch"))
    equal(ask("select 1 as one"), [{"one": "1"}])


steps.end()
