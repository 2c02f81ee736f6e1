"""Every route authenticates, unknown paths included; administrators' routes cannot be reached by another spelling of their path."""

from robust import http2

from .attacks import Holes, attack
from .foreign import called
from .node import OWN, credentials, expect

# Every documented route with a valid request. `*`: administrators only, `-`: no authentication.
ROUTES = {
    ("POST", "/write"): ("", f"/write?db={OWN}", "m v=1"),
    ("POST", "/influxdb/v1/write"): ("", f"/influxdb/v1/write?db={OWN}", "m v=1"),
    ("POST", "/api/v2/write"): ("", f"/api/v2/write?bucket={OWN}", "m v=1"),
    ("POST", "/api/put"): ("", f"/api/put?db={OWN}", '{"metric":"p","timestamp":1700000000,"value":1,"tags":{"h":"a"}}'),
    ("POST", "/opentsdb/v1/put/json/{db}"): (
        "",
        f"/opentsdb/v1/put/json/{OWN}",
        '{"metric":"p","timestamp":1700000000,"value":1,"tags":{"h":"a"}}',
    ),
    ("POST", "/api/v1/import"): (
        "",
        f"/api/v1/import?db={OWN}&table=f&format=csv&tags=h",
        "ts,h,v\n2026-01-01T00:00:00Z,a,1\n",
    ),
    ("GET", "/query"): ("", "/query?q=SHOW+DATABASES", ""),
    ("POST", "/query"): ("", "/query?q=SHOW+DATABASES", ""),
    ("GET", "/ping"): ("-", "/ping", ""),
    ("GET", "/api/v1/sql"): ("", "/api/v1/sql?q=select+1", ""),
    ("POST", "/api/v1/sql"): ("", "/api/v1/sql", "select 1"),
    ("POST", "/rest/sql"): ("", "/rest/sql", "select 1"),
    ("POST", "/rest/sql/{db}"): ("", f"/rest/sql/{OWN}", "select 1"),
    ("GET", "/rest/login/{user}/{password}"): ("", "/rest/login/{user}/{password}", ""),
    ("GET", "/api/v1/queries/{id}/events"): ("", "/api/v1/queries/none/events", ""),
    ("GET", "/api/v1/saved-queries"): ("", "/api/v1/saved-queries", ""),
    ("PUT", "/api/v1/saved-queries/{name}"): ("", "/api/v1/saved-queries/one", '{"statement": "select 1"}'),
    ("DELETE", "/api/v1/saved-queries/{name}"): ("", "/api/v1/saved-queries/one", ""),
    ("GET", "/health"): ("-", "/health", ""),
    ("GET", "/ready"): ("-", "/ready", ""),
    ("GET", "/metrics"): ("", "/metrics", ""),
    ("GET", "/api/v1/node"): ("*", "/api/v1/node", ""),
    ("GET", "/api/v1/node/events"): ("*", "/api/v1/node/events?count=1", ""),
    ("POST", "/api/v1/compact"): ("*", "/api/v1/compact?until=fold", ""),
    ("POST", "/api/v1/check"): ("*", "/api/v1/check?rows=false", ""),
    ("GET", "/api/v1/files"): ("*", f"/api/v1/files?table={OWN}.m", ""),
    ("GET", "/api/v1/log"): ("*", "/api/v1/log", ""),
    ("PUT", "/api/v1/log"): ("*", "/api/v1/log", "info"),
    ("GET", "/api/v1/openapi.json"): ("", "/api/v1/openapi.json", ""),
    ("POST", "/api/v1/login"): ("", "/api/v1/login", ""),
    ("POST", "/api/v1/logout"): ("-", "/api/v1/logout", ""),
    ("GET", "/api/v1/first-user"): ("-", "/api/v1/first-user", ""),
    ("POST", "/api/v1/first-user"): ("-", "/api/v1/first-user", "{}"),
    ("GET", "/api/v1/whoami"): ("", "/api/v1/whoami", ""),
}
# Statuses of valid requests other than 200 and 204: the server has users, so that nobody can create the first one any more; no
# query of this ID runs.
OTHERS = {("POST", "/api/v1/first-user"): (409,), ("GET", "/api/v1/queries/{id}/events"): (404,)}
METHODS = [
    "Handshake",
    "ListFlights",
    "GetFlightInfo",
    "PollFlightInfo",
    "GetSchema",
    "DoGet",
    "DoPut",
    "DoExchange",
    "DoAction",
    "ListActions",
    "NoSuchMethod",
]


def listed(node):
    """The routes of the server's OpenAPI document."""
    paths = node.ask("GET", "/api/v1/openapi.json", who=node.admin).json()["paths"]
    return {
        (method.upper(), path)
        for path, methods in paths.items()
        for method in methods
        if method in ("get", "put", "post", "delete", "patch")
    }


@attack("on", "proxy")
def every_route_asks_who_comes(field):
    node, holes = field.node, Holes()
    node.write(OWN, who=node.admin)
    unknown = listed(node) - set(ROUTES)
    expect(not unknown, f"routes that tests/python/hostile/doors.py does not try yet: {sorted(unknown)}")
    for (method, route), (right, path, body) in ROUTES.items():
        user, password = (text.replace(" ", "%20") for text in node.admin)
        good = path.format(user=user, password=password) if "login" in route else path
        reply = node.ask(method, good, body, node.admin)
        expected = OTHERS.get((method, route), (200, 204))
        expect(reply.status in expected, f"control: {method} {good}: {reply}")
        bad = path.format(user=user, password="wrong") if "login" in route else path
        for who in (None, "tl_1_wrong", "wrong", "tls_YWRtaW4.0.99999999999999.AAAA"):
            reply = node.ask(method, bad, body, who)
            holes.check(right == "-" or reply.status == 401, f"{method} {path} of {who}: {reply}")
        reply = node.ask(method, bad, body, node.nobody)
        holes.check(right != "*" or reply.status == 403, f"{method} {path} of a user without rights: {reply}")
    for method in METHODS:
        told = called(node, method, http2.message(b""), [])
        holes.check(told.get("grpc-status") == "16" or told.get(":status") in ("401", "404"), f"{method}: {told}")
    return holes.end()


@attack("on", "proxy")
def a_path_that_no_route_has_is_no_way_in(field):
    """An unknown or misspelt path is refused without credentials and reveals nothing."""
    node, holes = field.node, Holes()
    paths = [
        "/nosuch",
        "/assets",
        "/assets/nosuch.js",
        "/assets/../api/v1/log",
        "/assets/%2e%2e/api/v1/log",
        "/admin",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v1/nosuch",
        "/api/v9/sql",
        "/debug/pprof",
        "/metrics/",
        "/.env",
        "/arrow.flight.protocol.FlightService",
        "/arrow.flight.protocol.NoSuchService/DoGet",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ]
    for path in paths:
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"):
            reply = node.ask(method, path)
            holes.check(reply.status in (401, 404, 405), f"{method} {path}: {reply}")
            told = f"{reply.text} {dict(reply.headers)}"
            holes.check("openapi" not in told and OWN not in told, f"{method} {path} reveals to a stranger: {told[:200]}")
    # The console's page is for everybody, and the same for each server.
    reply = node.ask("GET", "/")
    holes.check(reply.status == 200 and OWN not in reply.text and "set-cookie" not in dict(reply.headers), f"GET /: {reply}")
    for path in (
        "//api/v1/log",
        "/api//v1/log",
        "/api/v1/log/",
        "/API/V1/LOG",
        "/api/v1/./log",
        "/api/v1/x/../log",
        "/health/../api/v1/log",
        "/health/%2e%2e/api/v1/log",
        "/api/v1/%6cog",
        "/api/v1/log%00",
        "/api/v1/log;x=1",
        "/api/v1/log?u=admin",
        "/api/v1/log#/health",
        "/ping?/../api/v1/log",
        "/api/v1/compact/",
        "//api/v1/compact",
    ):
        for method in ("GET", "POST", "PUT", "HEAD"):
            for who in (None, node.nobody):
                reply = node.ask(method, path, "info" if method == "PUT" else b"", who)
                holes.check(reply.status in (400, 401, 403, 404, 405) or path.startswith("/ping"), f"{method} {path} of {who}: {reply}")
                holes.check('"log"' not in reply.text and "folded_rows" not in reply.text, f"{method} {path} of {who}: {reply}")
    reply = node.ask("GET", f"http://127.0.0.1:{node.port}/api/v1/log")
    holes.check(reply.status in (400, 401), f"an absolute address: {reply}")
    expect(node.ask("GET", "/api/v1/log", who=node.admin).status == 200, "control: the administrator reads the log's filter")
    expect(node.ask("GET", "/nosuch", who=node.admin).status == 404, "control: a path that is none, of the administrator")
    return holes.end()


@attack("on", "proxy")
def what_is_for_administrators_is_refused_to_others(field):
    """Through every interface that takes statements; nothing changes."""
    node, holes = field.node, Holes()
    node.do("create user other password 'a long one of other'")
    statements = [
        "create user evil password 'a long one of evil' admin",
        "alter user nobody admin 1",
        "alter user admin password 'a long one of evil'",
        "alter user other password 'a long one of evil'",
        "grant admin to nobody",
        f"grant all on {OWN}.* to nobody",
        "grant all on *.* to nobody",
        "drop user other",
        "drop user admin",
        "create token stolen for admin",
        f"drop database {OWN}",
        f"alter database {OWN} keep 1",
        "create database evil",
        "alter user nobody limit queries 1000",
    ]
    for who in (node.nobody, node.writer):
        for statement in statements:
            for path in ("/api/v1/sql", "/rest/sql"):
                reply = node.ask("POST", path, statement, who)
                refused = reply.status in (403, 404) or (path == "/rest/sql" and reply.json().get("code") != 0)
                holes.check(refused, f"{statement} of {who[0]} at {path}: {reply}")
            descriptor = http2.command("CommandStatementUpdate", http2.field(1, statement))
            body = http2.message(http2.field(1, b"\x08\x02" + http2.field(2, descriptor)))
            told = called(node, "DoPut", body, credentials(who).items())
            holes.check(told.get("grpc-status") not in ("0", None), f"{statement} of {who[0]} by DoPut: {told}")
    users = {row[0] for row in node.do("show users")}
    holes.check("evil" not in users and "other" in users and "admin" in users, f"users are {users}")
    holes.check(OWN in node.databases() and "evil" not in node.databases(), f"databases are {node.databases()}")
    expect(node.run("select 1", node.admin).status == 200, "control: the administrator is still authenticated")
    node.do("drop user other")
    return holes.end()
