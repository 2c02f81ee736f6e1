"""Tests a server against its OpenAPI document: openapi.py URL [DOCUMENT]; without a file the document comes from the server.

Requests that follow the description and such that break it are sent to every operation, the same ones in each run; some bring statements
and lines that mean something. Every answer has to be a described one: status, type, headers and body. Where the server requires authentication,
TIDELAKE_TOKEN is the token. Prints what differs, each with its request and its answer, and ends with 1 then. The server's data is lost."""

import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import pyarrow
import pyarrow.parquet
import schemathesis

SEED = 20190716
# For each operation and way of making them.
EXAMPLES = 60
CHECKS = [
    "no_fault_of_the_server",
    "rows_in_the_format_of_their_type",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
]
FIRST = [
    "create database if not exists w1 precision 'ms'",
    "create table if not exists w1.devices (ts timestamp, temperature int, humidity float) "
    "tags (devid int, devname binary(16), devgroup int)",
    "insert into w1.dev1 using w1.devices tags (1, 'dev_1', 1) values (1563249700000, 40, 12.0) (1563249701000, 44, 9.0)",
]
STATEMENTS = [
    *FIRST,
    "select 1 as n",
    "select * from w1.devices",
    "select * from devices order by ts limit 3",
    "select tbname, ts, temperature, humidity from w1.devices where devgroup < 2",
    "select _wstart, count(*), avg(temperature), spread(humidity) from w1.devices partition by devgroup interval(1m)",
    "select first(ts), last(temperature) from w1.devices",
    "select cast('NaN' as double) as a, null as b, interval '1 day' as c, date '2019-07-16' as d, x'00ff' as e, [1, 2] as f",
    "select arrow_cast(18446744073709551615, 'UInt64') as big",
    "select cast(9223372036854775807 as bigint) as n, 1.5::decimal(10, 2) as d, true as t, 'a,\"b\"\n' as s",
    "select 1 / 0",
    "select ts + 1 from nowhere",
    "select nothing from w1.devices",
    "select ? + 1 as n",
    "show databases",
    "show w1.stables",
    "show queries",
    "show users",
    "describe w1.devices",
    "use w1",
    "use nowhere",
    "explain select count(*) from w1.devices",
    "explain analyze select avg(temperature) from w1.devices",
    "insert into w1.dev2 using w1.devices tags (2, 'dev_2', 2) values (1563249700000, null, 0.5)",
    "insert into w1.dev1 values (now, 'x', 1)",
    "insert into w1.nowhere values (1)",
    "delete from w1.devices where ts < 1563249700000 and devid = 2",
    "alter stable w1.devices add column pressure double",
    "alter stable w1.devices drop column pressure",
    "drop table if exists w1.nowhere",
    "drop database if exists w2",
    "create user if not exists root password 'a long password' admin",
    "create user if not exists ada password 'a long password'",
    "grant read on w1.* to ada",
    "create token t for ada",
    "drop token if exists t for ada",
    "kill query '0'",
    "selec 1",
    ";",
    "-- nothing",
]
MANAGED = ["CREATE DATABASE home", 'DROP DATABASE "nowhere"; SHOW DATABASES', "SHOW DATABASES;", "DROP DATABASE", "SELECT 1"]
LINES = [
    "room,name=kitchen temperature=21.5,open=f 1700000000000",
    "room,name=kitchen temperature=21.5 1700000000000\nroom,name=hall temperature=19i",
    "room,name=kitchen temperature=\"warm\"\nroom temperature=1",
    'room,name=hall\\ way text="a \\"b\\" ä" 1',
    "room value=99999999999999999999i",
    "room,=x value=1\n\n# nothing",
]
FILES = [
    ("csv", "ts,host,usage\n1767254400,a,12.5\n1767254400,b,7.5\n"),
    ("csv", "ts,host,usage\n1767254400,a,12.5\n1767254400,a,N/A\n"),
    ("ndjson", '{"ts": 1767254400, "host": "a", "usage": 1}\n{"ts": "2026-01-01", "usage": null}\n'),
    ("line", LINES[2]),
    ("csv", "a,b\n1,2,3\n"),
]
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]


@schemathesis.check
def no_fault_of_the_server(_, response, case):
    """A server may be too busy, if the document allows that and the response has Retry-After."""
    later = "retry-after" in {name.lower() for name in response.headers}
    described = "503" in case.operation.definition.raw["responses"]
    if response.status_code >= 500 and not (response.status_code == 503 and later and described):
        raise AssertionError(f"a fault of the server: {response.status_code}")


@schemathesis.check
def rows_in_the_format_of_their_type(_, response, __):
    """Parsers of bodies that are not JSON."""
    kind = (response.headers.get("content-type") or [""])[0].partition(";")[0]
    if kind == "application/x-ndjson":
        assert all(isinstance(json.loads(line), dict) for line in response.content.splitlines())
    elif kind == "application/vnd.apache.arrow.stream":
        pyarrow.ipc.open_stream(response.content).read_all().validate(full=True)
    elif kind == "application/vnd.apache.parquet":
        pyarrow.parquet.read_table(io.BytesIO(response.content)).validate(full=True)


@schemathesis.hook
def map_case(context, case):
    """Two of three requests have meaningful content, reproducible for a case."""
    path, tags = case.operation.path, case.operation.tags or []
    drawn = repr((path, case.path_parameters, case.query, dict(case.headers or {}), case.body, case.media_type))
    name = hashlib.sha256(drawn.encode(errors="replace")).hexdigest()
    at = int(name[:8], 16)
    if at % 3 == 0:
        return case
    at //= 3
    headers, query = case.headers or {}, case.query if isinstance(case.query, dict) else {}
    for header in ["time-zone", "aggregate-levels", "x-tidelake-token", "content-encoding"]:
        if at % 4:
            headers.pop(header, None)
    if "idempotency-key" in headers and at % 5:
        headers["idempotency-key"] = name
    for zone in {"tz", "time_zone", "conn_tz"} & query.keys():
        query[zone] = ["UTC", "Asia/Shanghai"][at % 2]
    if "sql" in tags:
        statement = STATEMENTS[at // 20 % len(STATEMENTS)]
        for other in ["sql", "db", "params", "database"]:
            query.pop(other, None)
        if case.method.upper() == "GET":
            query["q"] = statement
        else:
            query.pop("q", None)
            if isinstance(case.body, dict) and case.media_type == "application/json":
                case.body = {"sql": statement, "params": [7] if "?" in statement else []}
            elif isinstance(case.body, dict):
                case.body = {"q": statement}
            else:
                case.body = statement
        if "format" in query:
            query["format"] = ["json", "ndjson", "csv", "arrow", "parquet"][at // 7 % 5]
        if case.query is not None or query:
            case.query = query
    elif path == "/query":
        query["q"] = MANAGED[at // 20 % len(MANAGED)]
        case.query = query
    elif path == "/api/v1/import":
        query["format"], case.body = FILES[at // 20 % len(FILES)]
        query |= {"db": "w3", "table": "fleet", "precision": "s"}
        for option in ["time", "types", "tags", "null"]:
            if at % 3:
                query.pop(option, None)
        case.query = query
    elif path.endswith("/write"):
        case.body = LINES[at // 20 % len(LINES)]
    elif path == "/api/v1/files":
        query["table"] = "w1.devices"
        case.query = query
    return case


def ask(method, url, body=None):
    """Status, headers, body."""
    request = urllib.request.Request(url, method=method, data=body)
    if token := os.environ.get("TIDELAKE_TOKEN"):
        request.add_header("authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read()


def methods(url, paths):
    """Checks that each path supports the documented methods, and lists them in Allow for other methods."""
    differing = 0
    for path, item in paths.items():
        described = {method.upper() for method in item}
        described |= {"HEAD"} if "GET" in described else set()
        for method in sorted(set(METHODS) - described):
            status, headers, _ = ask(method, url + path.replace("{", "").replace("}", ""))
            allowed = set((headers["allow"] or "").split(","))
            if status == 401 and "TIDELAKE_TOKEN" not in os.environ:
                continue
            if (status, allowed) != (405, described):
                differing += 1
                print(f"{method} {path}: {status}, Allow: {headers['allow']}; described are {sorted(described)}")
    return differing


def main(url, document=None):
    if document is None:
        status, _, body = ask("GET", url + "/api/v1/openapi.json")
        if status != 200:
            sys.exit(f"GET /api/v1/openapi.json: {status}")
    else:
        body = pathlib.Path(document).read_bytes()
    for statement in FIRST:
        ask("POST", url + "/rest/sql", statement.encode())
    differing = methods(url, json.loads(body)["paths"])
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, "openapi.json")
        file.write_bytes(body)
        command = [sys.executable, "-m", "schemathesis.cli", "run", str(file), "--url", url, "--workers", "1"]
        command += ["--checks", ",".join(CHECKS), "--mode", "all", "--phases", "examples,coverage,fuzzing"]
        command += ["--seed", str(SEED), "--generation-database", "none", "--max-examples", str(EXAMPLES)]
        command += ["--continue-on-failure", "--request-timeout", "30"]
        command += ["--suppress-health-check", "all", "--output-truncate", "false", "--no-color", "--warnings", "off"]
        if token := os.environ.get("TIDELAKE_TOKEN"):
            command += ["--header", f"authorization:Bearer {token}"]
        here = pathlib.Path(__file__).resolve()
        paths = os.pathsep.join(filter(None, [str(here.parent), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": here.stem, "PYTHONPATH": paths}
        ended = subprocess.run(command, cwd=directory, env=environment)
    sys.exit(1 if differing or ended.returncode else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
