"""Foreign web pages in the browser of a user who can reach the server: the requests that a browser sends for them have no effect.

Without authentication the browser reaches the server as anybody; with authentication it sends the credentials that it remembers."""

import base64

import pyarrow.flight as flight

from robust import http2

from .attacks import Holes, attack
from .node import credentials, expect, setting

EVIL = "https://evil.example"
# The headers of requests that a page of another site starts; old browsers send Origin alone.
FOREIGN = {
    "cross-site": {"origin": EVIL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    "an origin alone": {"origin": EVIL},
    "no origin": {"origin": "null"},
    "an address without its origin": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
    "another port of this machine": {"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-site"},
    "a name that begins like ours": {"origin": "http://127.0.0.1.evil.example"},
}
TEXT = {"content-type": "text/plain"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
LINE = "m v=1 1700000000000000000"
POINT = '{"metric":"m","timestamp":1700000000,"value":1,"tags":{"host":"h"}}'


def own(node):
    """The headers of a request of the server's own page."""
    return {"origin": f"http://127.0.0.1:{node.port}", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}


def is_refused(reply):
    return reply.status in (400, 403, 421)


@attack()
def a_foreign_page_cannot_drop_a_database(field):
    node, holes = field.node, Holes()
    doors = {
        "/rest/sql": ("/rest/sql", "drop database {}", TEXT),
        "/api/v1/sql": ("/api/v1/sql", "drop database {}", TEXT),
        "/api/v1/sql as a form": ("/api/v1/sql", "drop database {} --=", FORM),
        "/query": ("/query", "q=DROP+DATABASE+{}", FORM),
        "/query in its address": ("/query?q=DROP+DATABASE+{}", "", TEXT),
    }
    for door, (path, body, kind) in doors.items():
        victim = field.name("victim")
        node.do(f"create database if not exists {victim}")
        for what, headers in FOREIGN.items():
            reply = node.ask("POST", path.format(victim), body.format(victim), node.admin, kind | headers)
            there = victim in node.databases()
            holes.check(is_refused(reply) and there, f"{door} of {what}: {reply}{'' if there else ', and it is gone'}")
            if not there:
                node.do(f"create database {victim}")
        # The same request by a client that is not a browser, or by the server's own page. A DROP is answered after two seconds.
        if "form" not in door:
            headers = own(node) if "sql" in door else {}
            reply = node.ask("POST", path.format(victim), body.format(victim), node.admin, kind | headers)
            expect(reply.status == 200, f"control: {door} with {headers}: {reply}")
            expect(victim not in node.databases(), f"control: {door} with {headers} did nothing: {reply}")
    return holes.end()


@attack()
def a_foreign_page_cannot_write_rows(field):
    node, holes = field.node, Holes()
    for door, path, body in [
        ("/write", "/write?db={}", LINE),
        ("/influxdb/v1/write", "/influxdb/v1/write?db={}", LINE),
        ("/api/v2/write", "/api/v2/write?bucket={}", LINE),
        ("/api/put", "/api/put?db={}", POINT),
        ("/opentsdb", "/opentsdb/v1/put/json/{}", POINT),
        ("/rest/sql", "/rest/sql", "insert into {}.m (tbname, ts, v) values ('a', now, 1)"),
        ("/api/v1/sql", "/api/v1/sql", "insert into {}.m (tbname, ts, v) values ('a', now, 1)"),
    ]:
        for what, headers in FOREIGN.items():
            victim = field.name("written")
            if "sql" in door:
                node.do(f"create database {victim}")
                node.do(f"create stable {victim}.m (ts timestamp, v double) tags (g int)")
            reply = node.ask("POST", path.replace("{}", victim), body.replace("{}", victim), node.admin, TEXT | headers)
            rows = node.do(f"select count(*) from {victim}.m")[0][0] if "sql" in door else int(victim in node.databases())
            holes.check(is_refused(reply) and rows == 0, f"{door} of {what}: {reply}{', and it is written' if rows else ''}")
        reply = node.ask("POST", path.replace("{}", victim), body.replace("{}", victim), node.admin, TEXT)
        expect(reply.status < 300, f"control: {door}: {reply}")
        expect(node.do(f"select count(*) from {victim}.m")[0][0] >= 1, f"control: {door} wrote nothing: {reply}")
    return holes.end()


@attack()
def a_foreign_page_cannot_make_an_administrator(field):
    node, holes = field.node, Holes()
    for what, headers in FOREIGN.items():
        for path in ("/rest/sql", "/api/v1/sql"):
            evil = field.name("evil")
            reply = node.ask("POST", path, f"create user {evil} password 'a long one of evil' admin", node.admin, TEXT | headers)
            made = any(row[0] == evil for row in node.do("show users"))
            holes.check(is_refused(reply) and not made, f"{path} of {what}: {reply}{', and evil is one' if made else ''}")
    if node.asks:
        node.do("create user good password 'a long one of good' admin")
        expect(node.run("select 1", ("good", "a long one of good")).status == 200, "control: an administrator is not authenticated")
        node.do("drop user good")
    return holes.end()


@attack()
def a_foreign_page_cannot_compact_or_change_the_log(field):
    node, holes = field.node, Holes()
    before = node.ask("GET", "/api/v1/log", who=node.admin).json()["log"]
    for what, headers in FOREIGN.items():
        reply = node.ask("POST", "/api/v1/compact?until=fold", "", node.admin, TEXT | headers)
        holes.check(is_refused(reply), f"compact of {what}: {reply}")
        reply = node.ask("PUT", "/api/v1/log", "error", node.admin, TEXT | headers)
        now = node.ask("GET", "/api/v1/log", who=node.admin).json()["log"]
        holes.check(is_refused(reply) and now == before, f"the log of {what}: {reply}, now {now}")
        node.ask("PUT", "/api/v1/log", before, node.admin)
    for method, path, body in (("POST", "/api/v1/compact?until=fold", ""), ("PUT", "/api/v1/log", before)):
        reply = node.ask(method, path, body, node.admin, own(node))
        expect(reply.status == 200, f"control: {method} {path}: {reply}")
    return holes.end()


@attack()
def a_foreign_page_reads_nothing(field):
    """A page that cannot read an answer can still measure its size and time."""
    node, holes = field.node, Holes()
    for what, headers in FOREIGN.items():
        for path in ("/api/v1/sql?q=show+databases", "/query?q=SHOW+DATABASES", "/metrics", "/api/v1/files?table=a.b", "/api/v1/log"):
            reply = node.ask("GET", path, who=node.admin, headers=headers)
            holes.check(is_refused(reply), f"GET {path} of {what}: {reply}")
            allowed = reply.headers.get("access-control-allow-origin")
            holes.check(allowed in (None, f"http://127.0.0.1:{node.port}"), f"GET {path} of {what}: may be read by {allowed}")
    for headers in ({}, own(node), {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}):
        reply = node.ask("GET", "/api/v1/sql?q=select+1", who=node.admin, headers=headers)
        expect(reply.status == 200, f"control: with {headers}: {reply}")
    return holes.end()


@attack()
def a_get_changes_nothing(field):
    """The URL of an image on a page or a link in a mail is a GET."""
    node, holes = field.node, Holes()
    victim = field.name("kept")
    node.do(f"create database {victim}")
    made = field.name("made")
    for method, path in [
        ("GET", f"/query?q=DROP+DATABASE+{victim}"),
        ("HEAD", f"/query?q=DROP+DATABASE+{victim}"),
        ("GET", f"/query?q=SHOW+DATABASES;DROP+DATABASE+{victim}"),
        ("GET", f"/query?q=CREATE+DATABASE+{made}"),
        ("GET", f"/api/v1/sql?q=drop+database+{victim}"),
        ("GET", f"/api/v1/sql?q=create+database+{made}"),
        ("GET", f"/rest/sql?sql=drop+database+{victim}"),
        ("GET", f"/write?db={made}"),
        ("GET", "/api/v1/compact?until=fold"),
    ]:
        reply = node.ask(method, path, who=node.admin)
        databases = node.databases()
        kept = victim in databases and made not in databases
        holes.check(kept and reply.status in (400, 403, 404, 405), f"{method} {path}: {reply}{'' if kept else ', and it is done'}")
        if victim not in databases:
            node.do(f"create database {victim}")
        if made in databases:
            node.do(f"drop database {made}")
    expect(node.ask("GET", "/query?q=SHOW+DATABASES", who=node.admin).status == 200, "control: SHOW DATABASES by GET")
    reply = node.ask("POST", f"/query?q=CREATE+DATABASE+{made}", who=node.admin)
    expect(reply.status == 200 and made in node.databases(), f"control: CREATE DATABASE by POST: {reply}")
    return holes.end()


@attack()
def a_rebound_name_reads_and_changes_nothing(field):
    """DNS rebinding: evil.example resolves to the server's address, so the browser takes the server for the page's own origin."""
    node, holes = field.node, Holes()
    filter = node.ask("GET", "/api/v1/log", who=node.admin).json()["log"]
    # A browser keeps credentials by origin, so it sends none to the new name.
    allowed = (400, 401, 403, 421) if node.asks else (403, 421)
    names = ("evil.example:{}", "evil.example", "127.0.0.1.evil.example:{}", "localhost.evil.example:{}", "evil.example.:{}")
    for name in names:
        host = name.format(node.port)
        page = {"origin": f"http://{host}", "sec-fetch-site": "same-origin"}
        for method, path, body in (
            ("GET", "/api/v1/sql?q=select+1", ""),
            ("POST", "/api/v1/sql", "select 1"),
            ("POST", "/rest/sql", "select 1"),
            ("PUT", "/api/v1/log", "error"),
            ("GET", "/metrics", ""),
        ):
            for headers in ({}, page):
                reply = node.ask(method, path, body, headers=headers, host=host)
                holes.check(reply.status in allowed, f"{method} {path} at {host}: {reply}")
    now = node.ask("GET", "/api/v1/log", who=node.admin).json()["log"]
    holes.check(now == filter, f"the log's filter was changed: {now}")
    node.ask("PUT", "/api/v1/log", filter, node.admin)
    for name in ("127.0.0.1:{}", "localhost:{}", "[::1]:{}", "LocalHost:{}", "192.0.2.7", "[2001:db8::1]:8086"):
        reply = node.run("select 1", node.admin, host=name.format(node.port))
        expect(reply.status == 200, f"control: at {name}: {reply}")
    return holes.end()


@attack()
def a_name_that_is_allowed_is_served_and_no_other(field):
    flag = setting(field.binary, r"allowed-hosts?", r".*hosts?.*")
    expect(flag, "there is no setting of the names of a server (--allowed-hosts)")
    with field.server(f"--{flag}", "data.example") as node:
        for host in ("data.example", "data.example:8086", "DATA.example", f"127.0.0.1:{node.port}", "localhost"):
            reply = node.run("select 1", node.admin, host=host)
            expect(reply.status == 200, f"control: at {host}: {reply}")
        page = {"origin": "http://data.example", "sec-fetch-site": "same-origin"}
        expect(node.run("select 1", node.admin, host="data.example", headers=page).status == 200, "control: its own page at data.example")
        holes = Holes()
        for host in ("evil.example", "data.example.evil.example", "evildata.example", "sub.data.example", "data.example@evil.example", ""):
            reply = node.run("select 1", node.admin, host=host or " ")
            holes.check(is_refused(reply), f"at '{host}': {reply}")
        return holes.end()


@attack()
def flight_is_not_for_foreign_pages(field):
    node, holes = field.node, Holes()
    body = http2.message(http2.ticket("select 1", "information_schema"))
    for what, headers in FOREIGN.items():
        pairs = [*headers.items(), *credentials(node.admin).items()]
        for method in ("DoGet", "GetFlightInfo", "DoPut", "DoAction", "Handshake"):
            told = called(node, method, body, pairs)
            refused = told.get(":status") in ("403", "421", "400") or told.get("grpc-status") == "7"
            holes.check(refused, f"{method} of {what}: {told}")
        for kind in ("application/grpc-web", "application/grpc-web-text", "application/grpc-web+proto"):
            data = base64.b64encode(body) if "text" in kind else body
            path = http2.SERVICE + "DoGet"
            reply = node.ask("POST", path, data, node.admin, headers | {"content-type": kind, "x-grpc-web": "1"})
            refused = is_refused(reply) or reply.headers.get("grpc-status") == "7"
            holes.check(refused, f"{kind} of {what}: {reply.status} {dict(reply.headers)}")
    told = called(node, "DoGet", body, credentials(node.admin).items())
    expect(told.get("grpc-status") == "0", f"control: DoGet of a client that is no browser: {told}")
    client, options = node.flight(node.admin)
    table = client.do_get(flight.Ticket(http2.question("select 1 as one", "information_schema")), options).read_all()
    expect(table.to_pylist() == [{"one": 1}], f"control: a driver reads {table.to_pylist()}")
    client.close()
    return holes.end()


def called(node, method, body, pairs):
    """The headers and trailers of the answer to a gRPC call."""
    client = http2.Client(node.port)
    try:
        number = client.call(http2.call(method, *pairs), body)
        client.wait([number], 10)
        return client.headers.get(number, {}) | ({"over": client.over} if client.over else {})
    finally:
        client.close()


@attack()
def a_preflight_of_a_foreign_page_allows_nothing(field):
    node, holes = field.node, Holes()
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    for path in ("/api/v1/sql", "/rest/sql", "/query", "/write", "/api/v1/log", "/api/v1/compact", http2.SERVICE + "DoGet", "/nosuch"):
        for origin in (EVIL, "null", "http://127.0.0.1:1", f"http://127.0.0.1:{node.port}.evil.example"):
            reply = node.ask("OPTIONS", path, headers=asked | {"origin": origin, "sec-fetch-site": "cross-site"})
            allowed = reply.headers.get("access-control-allow-origin")
            holes.check(allowed is None, f"{path} of {origin}: {reply.status}, allowed is {allowed}")
    return holes.end()


@attack()
def an_origin_that_is_allowed_is_served_and_no_other(field):
    flag = setting(field.binary, r"allowed-origins?", r"cors.*", r".*origins?")
    expect(flag, "there is no setting of the origins that are allowed (--allowed-origins)")
    good = "https://board.example"
    with field.server(f"--{flag}", good) as node:
        asked = {"origin": good, "access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
        reply = node.ask("OPTIONS", "/api/v1/sql", headers=asked | {"sec-fetch-site": "cross-site"})
        told = f"{reply.status} {dict(reply.headers)}"
        expect(reply.status in (200, 204) and reply.headers.get("access-control-allow-origin") == good, f"control: its preflight: {told}")
        reply = node.run("select 1", node.admin, headers={"origin": good, "sec-fetch-site": "cross-site"})
        expect(reply.status == 200, f"control: {reply}")
        expect(reply.headers.get("access-control-allow-origin") == good, f"control: it may not read: {dict(reply.headers)}")
        holes = Holes()
        for origin in (EVIL, "http://board.example", "https://board.example:444", "https://board.example.evil.example", "null"):
            reply = node.run("select 1", node.admin, headers={"origin": origin, "sec-fetch-site": "cross-site"})
            holes.check(is_refused(reply), f"{origin}: {reply}")
            holes.check(reply.headers.get("access-control-allow-origin") is None, f"{origin} may read")
        return holes.end()


@attack("on", "proxy")
def browsers_are_not_asked_for_a_password(field):
    """A browser that got Basic credentials once sends them with every later request of every page."""
    node, holes = field.node, Holes()
    browser = {"user-agent": "Mozilla/5.0", "accept": "text/html,*/*", "sec-fetch-site": "none", "sec-fetch-mode": "navigate"}
    for method, path in (
        ("GET", "/api/v1/sql?q=select+1"),
        ("POST", "/api/v1/sql"),
        ("POST", "/rest/sql"),
        ("GET", "/query?q=SHOW+DATABASES"),
        ("POST", "/write?db=d"),
        ("GET", "/metrics"),
        ("GET", "/api/v1/log"),
        ("GET", "/nosuch"),
    ):
        for headers in (browser, own(node), FOREIGN["cross-site"]):
            reply = node.ask(method, path, "select 1" if method == "POST" else b"", headers=headers)
            asked = reply.headers.get_all("www-authenticate") or []
            holes.check(reply.status in (401, 403, 404), f"{method} {path}: {reply}")
            holes.check(not any("basic" in value.lower() for value in asked), f"{method} {path}: {reply.status} asks for {asked}")
    expect(node.run("select 1", node.admin).status == 200, "control: a password that is sent unasked is taken")
    return holes.end()


@attack()
def every_answer_says_that_its_type_is_not_to_be_guessed(field):
    node, holes = field.node, Holes()
    for method, path, body, headers in [
        ("GET", "/health", "", {}),
        ("GET", "/ping", "", {}),
        ("GET", "/metrics", "", {}),
        ("GET", "/nosuch", "", {}),
        ("GET", "/api/v1/openapi.json", "", {}),
        ("POST", "/api/v1/sql", "select 1", {}),
        ("POST", "/api/v1/sql?format=csv", "select '<script>alert(1)</script>'", {}),
        ("POST", "/api/v1/sql", "nonsense", {}),
        ("DELETE", "/api/v1/sql", "", {}),
        ("POST", "/rest/sql", "select 1", {}),
        ("POST", "/write?db=nosniff", "wrong", {}),
        ("POST", "/api/v1/sql", "select 1", FOREIGN["cross-site"]),
    ]:
        for who in {node.admin, None}:
            reply = node.ask(method, path, body, who, headers)
            found = reply.headers.get("x-content-type-options")
            holes.check(found == "nosniff", f"{method} {path}: {reply.status}, {found}")
    return holes.end()
