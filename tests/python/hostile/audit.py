"""The audit log: each change and each refusal leaves a line, through every interface, and no setting suppresses it."""

import time

import pyarrow
import pyarrow.flight as flight

from robust import http2

from .attacks import Holes, attack
from .node import NOBODY, OWN, PASSWORD, expect


def name_of(node):
    """The words that name the administrator in a line; none without authentication."""
    return ["admin"] if node.asks else []


def update(node, who, sql):
    """Executes a statement by DoPut; returns None on success, else the error."""
    client, options = node.flight(who)
    try:
        descriptor = flight.FlightDescriptor.for_command(http2.command("CommandStatementUpdate", http2.field(1, sql)))
        writer, reader = client.do_put(descriptor, pyarrow.schema([]), options)
        try:
            writer.done_writing()
            reader.read()
        finally:
            writer.close()
    except (flight.FlightError, pyarrow.ArrowException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        client.close()
    return None


def ingest(node, who, database, table):
    """Writes a row by DoPut, which creates the table; returns None on success, else the error."""
    client, options = node.flight(who)
    try:
        command = http2.command(
            "CommandStatementIngest", http2.field(1, b"\x08\x01\x10\x02"), http2.field(2, table), http2.field(3, database)
        )
        batch = pyarrow.record_batch([pyarrow.array([1_700_000_000_000], pyarrow.timestamp("ms")), pyarrow.array([1.5])], names=["ts", "v"])
        writer, reader = client.do_put(flight.FlightDescriptor.for_command(command), batch.schema, options)
        try:
            writer.write_batch(batch)
            writer.done_writing()
            reader.read()
        finally:
            writer.close()
    except (flight.FlightError, pyarrow.ArrowException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        client.close()
    return None


def changes(node, name):
    """Every way to change something: its name, the request, and the words that its audit line must contain."""

    def statement(path, sql, **more):
        return lambda who: node.ask("POST", path, sql, who, **more)

    point = '{"metric":"m","timestamp":1700000000,"value":1,"tags":{"h":"a"}}'
    made = [name(stem) for stem in ("sql", "rest", "query", "write", "write1", "write2", "put", "tsdb", "flight", "rows")]
    sql, rest, query, write, write1, write2, put, tsdb, update_, rows = made
    yield "CREATE DATABASE", statement("/api/v1/sql", f"create database {sql}"), [sql]
    yield "CREATE DATABASE of TDengine", statement("/rest/sql", f"create database {rest}"), [rest]
    yield "CREATE DATABASE at /query", statement(f"/query?q=CREATE+DATABASE+{query}", ""), [query]
    yield "a database that lines make", statement(f"/write?db={write}", "m v=1"), [write]
    yield "a database that lines of InfluxDB 3 make", statement(f"/influxdb/v1/write?db={write1}", "m v=1"), [write1]
    yield "a database that lines of InfluxDB 2 make", statement(f"/api/v2/write?bucket={write2}", "m v=1"), [write2]
    yield "a database that points make", statement(f"/api/put?db={put}", point), [put]
    yield "a database that points of TDengine make", statement(f"/opentsdb/v1/put/json/{tsdb}", point), [tsdb]
    yield "CREATE DATABASE by Flight", lambda who: update(node, who, f"create database {update_}"), [update_]
    yield "CREATE DATABASE for rows of Flight", statement("/api/v1/sql", f"create database {rows}"), [rows]
    yield "a table that rows of Flight make", lambda who: ingest(node, who, rows, "made_by_rows"), ["made_by_rows"]
    yield "CREATE STABLE", statement("/api/v1/sql", f"create stable {sql}.t (ts timestamp, v double) tags (g int)"), [sql, "t"]
    yield "ALTER STABLE", statement("/rest/sql", f"alter stable {sql}.t add column added_by_rest int"), [sql, "added_by_rest"]
    yield "a table that lines make", statement(f"/write?db={sql}", "made_by_lines v=1"), ["made_by_lines"]
    yield "DELETE", statement("/api/v1/sql", f"delete from {sql}.t where ts < 77"), [sql, "77"]
    yield "DROP STABLE", statement("/rest/sql", f"drop stable {sql}.t"), [sql]
    yield "DROP DATABASE", statement("/api/v1/sql", f"drop database {sql}"), [sql, "drop"]
    yield "DROP DATABASE of TDengine", statement("/rest/sql", f"drop database {rest}"), [rest, "drop"]
    yield "DROP DATABASE at /query", statement(f"/query?q=DROP+DATABASE+{query}", ""), [query, "drop"]
    yield "DROP DATABASE at /query in a form", statement("/query", f"q=DROP+DATABASE+{write}"), [write, "drop"]
    yield "DROP DATABASE by Flight", lambda who: update(node, who, f"drop database {update_}"), [update_, "drop"]
    yield "compact", statement("/api/v1/compact?until=fold", ""), ["compact"]
    yield "the log's filter", lambda who: node.ask("PUT", "/api/v1/log", "info,tidelake_changed=debug", who), ["tidelake_changed"]
    if node.asks:
        yield "CREATE USER", statement("/api/v1/sql", f"create user u_{sql} password 'a long one'"), [f"u_{sql}"]
        yield "GRANT", statement("/rest/sql", f"grant read on {OWN}.* to u_{sql}"), [f"u_{sql}", "grant"]
        yield "CREATE TOKEN", statement("/api/v1/sql", f"create token t_{sql} for u_{sql}"), [f"t_{sql}"]
        yield "ALTER USER", statement("/api/v1/sql", f"alter user u_{sql} enable 0"), [f"u_{sql}", "enable"]
        yield "DROP USER", statement("/api/v1/sql", f"drop user u_{sql}"), [f"u_{sql}", "drop"]


@attack()
def every_change_leaves_a_line_by_whatever_way_it_comes(field):
    node, holes = field.node, Holes()
    address = node.address("127.0.0.1")
    for what, do, words in changes(node, field.name):
        since = len(node.audit())
        reply = do(node.admin)
        done = reply is None or (not isinstance(reply, str) and reply.status in (200, 204))
        expect(done, f"control: {what}: {reply}")
        if holes.check(node.audited(*words, *name_of(node), since=since, seconds=1), f"{what} leaves no line of {words + name_of(node)}"):
            holes.check(node.audited(*words, address, since=since, seconds=0), f"the line of {what} does not say where it came from")
    node.ask("PUT", "/api/v1/log", "info", node.admin)
    return holes.end()


@attack("on", "proxy")
def every_refusal_leaves_a_line_by_whatever_way_it_comes(field):
    node, holes = field.node, Holes()
    node.write(OWN, who=node.admin)
    address = node.address("127.0.0.1")
    for what, do, _ in changes(node, field.name):
        since = len(node.audit())
        reply = do(node.nobody)
        refused = (
            reply is not None
            if isinstance(reply, str | None)
            else reply.status in (400, 403, 404) or '"error"' in reply.text or '"desc"' in reply.text
        )
        # Nothing of this name was created, because its CREATE was refused: that is no refusal for want of a right.
        is_missing = "not found" in str(reply) or "no such" in str(reply)
        if not holes.check(refused, f"{what} of nobody is not refused: {reply}") or is_missing:
            continue
        if holes.check(node.audited(NOBODY[0], since=since, seconds=1), f"{what} of nobody leaves no line: {reply}"):
            holes.check(node.audited(NOBODY[0], address, since=since, seconds=0), f"the line of {what} does not say where it came from")
    for what, method, path, body in [
        ("a query", "POST", "/api/v1/sql", f"select * from {OWN}.m"),
        ("a query of TDengine", "POST", "/rest/sql", f"select * from {OWN}.m"),
        ("a query by GET", "GET", f"/api/v1/sql?q=select+count(*)+from+{OWN}.m", ""),
        ("lines", "POST", f"/write?db={OWN}", "m v=1"),
        ("files", "GET", f"/api/v1/files?table={OWN}.m", ""),
        ("the log's filter", "GET", "/api/v1/log", ""),
    ]:
        since = len(node.audit())
        reply = node.ask(method, path, body, node.nobody)
        expect(reply.status in (403, 404) or '"desc"' in reply.text, f"control: {what} of nobody: {reply}")
        holes.check(node.audited(NOBODY[0], since=since, seconds=1), f"{what} of nobody leaves no line: {reply}")
    for what, who in (("no credentials", None), ("a wrong password", ("admin", "wrong")), ("a wrong token", "tl_1_wrong")):
        for method, path, body in (("POST", "/api/v1/sql", "select 1"), ("POST", f"/write?db={OWN}", "m v=1"), ("GET", "/api/v1/log", "")):
            since = len(node.audit())
            expect(node.ask(method, path, body, who).status == 401, f"control: {what} at {path}")
            holes.check(node.audited(address, since=since, seconds=1), f"{what} at {path} leaves no line")
    return holes.end()


@attack("on", "proxy")
def who_logs_in_leaves_a_line(field):
    node, holes = field.node, Holes()
    since = len(node.audit())
    reply = node.ask("GET", f"/rest/login/admin/{PASSWORD.replace(' ', '%20')}")
    expect(reply.status == 200, f"control: a login: {reply}")
    holes.check(node.audited("admin", "log", since=since, seconds=1), f"/rest/login leaves no line: {node.audit()[since:]}")
    since = len(node.audit())
    client, _ = node.flight()
    client.authenticate_basic_token("writer", "a long one of the writer")
    client.close()
    holes.check(node.audited("writer", since=since, seconds=1), "the handshake of Flight leaves no line")
    told = "\n".join(node.audit())
    holes.check(PASSWORD not in told and reply.json()["desc"] not in told, "the audit log has a secret")
    return holes.end()


@attack()
def a_filter_of_the_log_does_not_silence_the_audit(field):
    holes = Holes()
    with field.server() as node:
        for filter in (
            "off",
            "off,tidelake::audit=off",
            "tidelake::audit=off",
            "info,tidelake=off",
            "info,tidelake::audit=error",
            "tidelake::audit[{user}]=off,tidelake::audit[a statement]=off",
            "trace,tidelake::audit=off",
        ):
            since = len(node.audit())
            reply = node.ask("PUT", "/api/v1/log", filter, node.admin)
            # The server may also refuse a filter that names the audit log.
            shown = filter.replace('"', "")
            if reply.status == 200:
                holes.check(node.audited(shown, *name_of(node), since=since, seconds=1), f"the filter '{filter}' leaves no line of itself")
            else:
                expect(reply.status in (400, 403, 422), f"control: the filter '{filter}': {reply}")
            name, since = field.name("unseen"), len(node.audit())
            node.do(f"create database {name}")
            told = f"after the filter '{filter}' ({reply.status}) a CREATE leaves no line"
            holes.check(node.audited(name, *name_of(node), since=since, seconds=1), told)
            if node.asks:
                since = len(node.audit())
                node.run("drop database own", node.nobody)
                holes.check(node.audited("nobody", since=since, seconds=1), f"after the filter '{filter}' a refusal leaves no line")
        reply = node.ask("PUT", "/api/v1/log", "debug", node.admin)
        now = node.ask("GET", "/api/v1/log", who=node.admin).json()
        expect(reply.status == 200 and now["log"].startswith("debug"), f"control: the filter is changed: {reply}, {now}")
    # The same by the setting at the start.
    with field.server("--log", "off") as node:
        name = field.name("silent")
        node.do(f"create database {name}")
        holes.check(node.audited(name, seconds=1), "with --log off a CREATE leaves no line")
    return holes.end()


@attack()
def what_is_before_a_name_does_not_push_it_out_of_the_line(field):
    node, holes = field.node, Holes()
    for what, before, after in [
        ("a comment", "/* " + "x" * 5_000 + " */ ", ""),
        ("spaces", " " * 5_000, ""),
        ("lines of comments", "-- x\n" * 2_000, ""),
        ("a comment within", "", "/* " + "y" * 5_000 + " */ "),
    ]:
        for path in ("/api/v1/sql", "/rest/sql"):
            name, since = field.name("pushed"), len(node.audit())
            reply = node.ask("POST", path, f"{before}create database {after}{name}", node.admin)
            expect(reply.status == 200 and name in node.databases(), f"control: {what} at {path}: {reply}")
            holes.check(node.audited(name, since=since, seconds=1), f"CREATE after {what} at {path} leaves no line of the name")
            # A DROP is answered after two seconds.
            if what != "a comment":
                continue
            since = len(node.audit())
            node.ask("POST", path, f"{before}drop database {after}{name}", node.admin)
            holes.check(node.audited(name, since=since, seconds=1), f"DROP after {what} at {path} leaves no line of the name")
    victim, since = field.name("many"), len(node.audit())
    node.do(f"create database {victim}")
    node.do(f"create stable {victim}.t (ts timestamp, v double) tags (g int)")
    long = " and ".join(["v < 1e300"] * 600)
    node.run(f"delete from {victim}.t where {long} and ts < 4242", node.admin)
    holes.check(node.audited(victim, since=since, seconds=1), "a long DELETE leaves no line of its table")
    return holes.end()


@attack()
def a_line_of_the_audit_cannot_be_made_up(field):
    """Names and texts of a request cannot start a log line of their own."""
    node, holes = field.node, Holes()
    count = len(node.audit())
    fake = '{"timestamp":"2026-01-01T00:00:00Z","level":"INFO","fields":{"message":"made up"},"target":"tidelake::audit"}'
    for text in (f"\n{fake}\n", f"\r\n{fake}\r\n", f"\u2028{fake}\u2028", f'"}},"target":"x"}}\n{fake}\n'):
        node.run(f"drop database `{text[:150]}`", node.admin)
        node.run(f"/*{text}*/ drop database if exists nosuch", node.admin)
        node.run("select 1", ("made\nup", text.replace(":", ";")) if node.asks else None)
        node.ask("POST", "/write?db=nosuch%0A%7B%22target%22%3A%22tidelake%3A%3Aaudit%22%7D", "m v=1", node.nobody)
    time.sleep(0.3)
    for line in node.log().splitlines():
        holes.check(not line.startswith(fake) and line.strip() != fake, f"a line was made up: {line[:100]}")
    for line in node.lines():
        holes.check(line.get("fields", {}).get("message") != "made up", f"a line was made up: {line}")
    expect(len(node.audit()) > count, "control: the statements leave lines")
    return holes.end()
