"""Every write protocol once over the function's URL; its rows are seen at once by who brings the answer's token. Faults, large
answers, and who has no token."""

import gzip
import json
import tempfile

from server import server

LINES = b"v1,host=h1 usage=1.5,n=2i 1700000000000\nv1,host=h2 usage=2 1700000000001"
POINTS = [
    {"metric": "temp", "timestamp": 1_700_000_000, "value": 21.5, "tags": {"room": "x"}},
    {"metric": "temp", "timestamp": 1_700_000_001, "value": 22, "tags": {"room": "y"}},
]
STATEMENTS = [
    ("/rest/sql", "create database site precision 'ms'"),
    ("/rest/sql/site", "create stable m (ts timestamp, v int) tags (area int)"),
    ("/rest/sql/site", "insert into d1 using m tags (1) values (1700000000000, 1) (1700000000001, 2)"),
]
# Requests at fault: target, body, headers.
REFUSED = [
    ("/write?db=wire&precision=ms", b"cpu v=1 1\nnonsense\ncpu v=2 2", {}),
    ("/write?db=wire&precision=hours", b"cpu v=1", {}),
    ("/write", b"cpu v=1", {}),
    ("/write?db=wire", b"no gzip", {"content-encoding": "gzip"}),
    ("/api/v2/write?precision=s", b"cpu v=1 1", {}),
    ("/api/put?db=wire&details", b'[{"metric": "temp", "timestamp": 1, "value": "warm", "tags": {}}]', {}),
    ("/api/put?db=wire", b"{", {}),
    ("/rest/sql", b"create database wire precision 'years'", {}),
    ("/rest/sql/nowhere", b"insert into d1 values (1, 1)", {}),
]


def run(deployment, checks):
    ingest = deployment.ingest

    def written(name, target, body, headers=()):
        reply, _ = ingest.send_again(target, body, headers)
        checks.equal(f"{name} is taken", (reply.status, reply.data[:200]), (204, b""))
        token = reply.headers.get("x-tidelake-token")
        checks.true(f"{name} is answered with a token", token, dict(reply.headers))
        return token

    def seen(name, sql, token, expected):
        checks.equal(f"{name} is seen at once with its token", deployment.rows(sql, token), expected)

    with checks.part("write protocols"):
        token = written("line protocol, v1", "/write?db=wire&precision=ms", LINES)
        seen(
            "line protocol, v1",
            "select host, usage, n from wire.v1 order by host",
            token,
            [["h1", 1.5, 2], ["h2", 2.0, None]],
        )
        token = written("line protocol, v2", "/api/v2/write?bucket=wire&precision=s", b"v2,host=h3 usage=4 1700000004")
        seen(
            "line protocol, v2",
            "select host, usage, cast(ts as varchar) like '%22:13:24%' from wire.v2",
            token,
            [["h3", 4.0, True]],
        )
        packed = gzip.compress(b"packed,host=h4 usage=5 1700000005")
        token = written("gzip", "/write?db=wire&precision=s", packed, {"content-encoding": "gzip"})
        seen("gzip", "select host, usage from wire.packed", token, [["h4", 5.0]])
        token = written("OpenTSDB", "/api/put?db=wire", json.dumps(POINTS).encode(), {"content-type": "application/json"})
        seen("OpenTSDB", "select room, value from wire.temp order by room", token, [["x", 21.5], ["y", 22.0]])
        for target, statement in STATEMENTS:
            reply, _ = ingest.send_again(target, statement.encode())
            checks.equal(f"TDengine: {statement}", (reply.status, json.loads(reply.data).get("code")), (200, 0))
        token = reply.headers.get("x-tidelake-token")
        seen("TDengine SQL", "select tbname, v, area from site.m order by ts", token, [["d1", 1, 1], ["d1", 2, 1]])

    with checks.part("an answer larger than the platform hands on"):
        sql = "select repeat('x', 7000000) as a"
        reply, _ = deployment.query.send_again("/api/v1/sql", sql.encode())
        checks.equal("it is behind a link", (reply.status, reply.headers.get("location", "").count("/results/")), (303, 1))
        checks.equal("and whole", deployment.rows(sql), [["x" * 7_000_000]])
    with checks.part("answers to faults are the server's"), tempfile.TemporaryDirectory() as directory:
        with server(directory) as other:
            for target, body, headers in REFUSED:
                expected, _ = other.send_again(target, body, headers)
                found, _ = ingest.send_again(target, body, headers)
                checks.equal(f"{target}: {body[:40]}", (found.status, found.data), (expected.status, expected.data))
    with checks.part("requests without a token are refused"):
        if deployment.authorization:
            for url, target in ((deployment.ingest, "/write?db=wire"), (deployment.query, "/api/v1/sql")):
                for name, header in (("none", ""), ("another", "Bearer not-one-of-the-tokens")):
                    reply, _ = url.send_again(target, b"m v=1", {"authorization": header})
                    checks.equal(f"{target} with {name}", reply.status, 401)
