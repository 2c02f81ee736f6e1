"""Invalid requests: the server refuses them, and serves other clients meanwhile."""

import random
import socket
import time

from . import http2
from .http2 import CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, PUSH_PROMISE, RST_STREAM
from .http2 import SETTINGS, WINDOW_UPDATE, command, field, frame, literal, message
from .server import Control, Server, expect, until

SEED = 20190716
# Maximum resident memory of the server in MiB, including 90 of the program: memory held for garbage is bounded.
RESIDENT = 768
HEADER_SECONDS = 3
OPTIONS = ["--query-memory", "256MiB", "--ingest-buffer", "64MiB", "--tail-cache", "64MiB", "--page-cache", "32MiB", "--header-timeout", f"{HEADER_SECONDS}s"]
RESETS = 20_000


def run(binary, directory, check, _):
    with Server(binary, directory, "garbage", *OPTIONS) as server:
        Control.prepare(server)
        for name, attack in ATTACKS.items():
            check(name, lambda attack=attack: under(attack, server))
        check("nothing of it stays", lambda: gone(server))


def under(attack, server):
    server.forget_peak()
    with Control(server) as control:
        found = attack(server.port, random.Random(SEED))
    server.calm()
    return f"{found}; {control}; at most {server.within(RESIDENT)} MiB"


def gone(server):
    def left():
        return f"{server.connections()} connections and {server.queries()} queries stay"

    return f"after {until(lambda: server.connections() == server.queries() == 0, 2 * HEADER_SECONDS + 5, left):.1f} s"


def everywhere(port, data, count=1, seconds=5):
    """Sends the same bytes on several connections in sequence; returns how many accepted all of them."""
    taken = 0
    for _ in range(count):
        stream = http2.opened(port)
        taken += http2.shout(stream, data, seconds)
        try:
            # So that the server closes the connection as soon as it has read everything.
            stream.shutdown(socket.SHUT_WR)
            http2.closed(stream, 1)
        except OSError:
            pass
        stream.close()
    return taken


def noise(port, rng):
    """Random bytes as HTTP/1.1, after the HTTP/2 preface, and as HTTP/2 frames."""
    for _ in range(150):
        everywhere(port, rng.randbytes(rng.randrange(1, 4_096)))
        everywhere(port, PREFACE + http2.settings() + rng.randbytes(rng.randrange(1, 4_096)))
        frames = b""
        for _ in range(20):
            frames += frame(rng.randrange(12), rng.randrange(256), rng.choice([0, 1, 2, 3, 2**31 - 1]), rng.randbytes(rng.randrange(64)))
        everywhere(port, PREFACE + http2.settings() + frames)
    return "450 connections"


def messages(rng):
    """For each Flight method a valid message, and truncated or altered ones."""
    query = command("CommandStatementQuery", field(1, "select 1"))
    update = command("CommandStatementUpdate", field(1, "create database if not exists garbage"))
    ingest = command("CommandStatementIngest", field(2, "t"), field(3, "garbage"))
    handle = command("CommandPreparedStatementQuery", field(1, rng.randbytes(64)))
    statement = command("ActionCreatePreparedStatementRequest", field(1, "select ?"))
    prepare = field(1, "CreatePreparedStatement") + field(2, statement)
    schema = field(1, "schema") + field(2, field(1, "control"))
    options = field(1, "SetSessionOptions") + field(2, field(1, schema))
    batch = field(2, rng.randbytes(300)) + field(1000, rng.randbytes(300))

    def descriptor(cmd):
        return b"\x08\x02" + field(2, cmd)

    def data(cmd, *more):
        return field(1, descriptor(cmd)) + b"".join(more)

    right = {
        "Handshake": [b"\x08\x01" + field(2, b"payload")],
        "ListFlights": [field(1, b"criteria")],
        "ListActions": [b""],
        "GetFlightInfo": [descriptor(query), descriptor(handle)],
        "PollFlightInfo": [descriptor(query)],
        "GetSchema": [descriptor(query)],
        "DoGet": [field(1, handle), field(1, command("CommandGetTables", field(2, "%"))), http2.ticket("select 1", "control")],
        "DoPut": [data(update), data(ingest, batch), data(handle, field(2, b"\xff" * 40))],
        "DoExchange": [data(query)],
        "DoAction": [prepare, options, field(1, "ClosePreparedStatement") + field(2, handle)],
    }
    for method, originals in right.items():
        for original in originals:
            altered = [rng.randbytes(rng.randrange(200))]
            altered += [original[:at] for at in range(0, len(original), max(1, len(original) // 12))]
            for _ in range(20):
                copy = bytearray(original or b"\0")
                for _ in range(rng.randrange(1, 4)):
                    copy[rng.randrange(len(copy))] = rng.randrange(256)
                altered.append(bytes(copy))
            yield method, original, altered


def flight(port, rng):
    """Every Flight method with truncated or altered messages or frames: each call is answered."""
    calls, codes = 0, {}
    for method, original, altered in messages(rng):
        envelopes = [message(data) for data in altered]
        whole = message(original)
        envelopes += [whole[:3], whole[:-1], message(original, 2**32 - 1), message(original, 1 << 26), b"\1" + whole[1:], b"\x09" * 9, b""]
        client, begun = None, []
        for envelope in [*envelopes, None]:
            # Replace a connection that the server has closed.
            if client and (client.over or envelope is None or len(begun) == 50):
                left = client.wait(begun, 10)
                expect(not left, f"{len(left)} of {len(begun)} calls of {method} are not answered")
                for headers in client.headers.values():
                    code = headers.get("grpc-status", headers[":status"])
                    codes[code] = codes.get(code, 0) + 1
                client.close()
                client = None
            if envelope is not None:
                if client is None:
                    client, begun = http2.Client(port), []
                begun.append(client.call(http2.call(method), envelope) if envelope else client.call(http2.call(method)))
                calls += 1
    # UNAVAILABLE would make a client retry; UNKNOWN gives no reason.
    expect(not codes.keys() & {"2", "14"}, f"wrong calls are answered with codes {codes}")
    return f"{calls} calls, codes {dict(sorted(codes.items(), key=lambda item: int(item[0])))}"


def lengths(port, rng):
    """Announced lengths without content: of frames, messages, bodies and paddings."""
    begun = PREFACE + http2.settings()
    for kind in range(10):
        everywhere(port, begun + frame(kind, 0, 1, b"x", 0xFFFFFF))
        everywhere(port, begun + frame(kind, 0xFF, 1, b"\xff", None))
    for claimed in [1 << 20, (1 << 26) - 1, 1 << 26, 1 << 31, (1 << 32) - 1]:
        for method in ["GetFlightInfo", "DoGet", "DoPut", "DoAction", "DoExchange"]:
            head = frame(HEADERS, END_HEADERS, 1, http2.call(method))
            everywhere(port, begun + head + frame(DATA, 0, 1, message(b"x" * 100, claimed)))
    for path in ["/api/v1/sql", "/write?db=garbage", "/rest/sql"]:
        for length in ["67108864", "4294967296", "18446744073709551615", "99999999999999999999999", "-1", "1e9", "0x10", "1, 2"]:
            everywhere(port, f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\nselect".encode())
    return "94 connections"


def resets(port, rng):
    """Streams that are reset immediately: no statement is executed for long."""
    body = message(http2.ticket("select count(*) from control.rows", "control"))
    head = http2.call("DoGet")
    connections, sent = 0, 0
    while sent < RESETS and connections < 1_000:
        stream, connections = http2.opened(port), connections + 1
        stream.settimeout(5)
        try:
            stream.sendall(PREFACE + http2.settings())
            for first in range(0, RESETS - sent, 100):
                burst = b""
                for number in range(2 * first + 1, 2 * first + 201, 2):
                    burst += frame(HEADERS, END_HEADERS, number, head) + frame(DATA, END_STREAM, number, body)
                    burst += frame(RST_STREAM, 0, number, b"\0\0\0\x08")
                if not http2.shout(stream, burst):
                    break
                sent += 100
        except OSError:
            # The server has closed this connection.
            pass
        finally:
            stream.close()
    expect(sent >= RESETS, f"{sent} resets in {connections} connections")
    return f"{sent} streams by {connections} connections"


def headers(port, rng):
    """Endless headers, and few bytes that decompress to many."""
    begun = PREFACE + http2.settings()
    first = frame(HEADERS, 0, 1, http2.call("DoGet"))
    taken = everywhere(port, begun + first + frame(CONTINUATION, 0, 1, literal("x", "y")) * 500_000)
    taken += everywhere(port, begun + first + frame(CONTINUATION, 0, 1) * 500_000)
    taken += everywhere(port, begun + first + frame(CONTINUATION, 0, 1, literal("x", "y" * 16_000)) * 2_000)
    expect(taken == 0, "headers without an end were taken whole")
    # A table entry of 4 000 bytes with 10 000 references: 40 MB per block.
    entry = b"\x40" + literal("bomb", "b" * 3_900)[1:]
    for _ in range(5):
        block = http2.call("DoGet") + entry + b"\xbe" * 10_000
        everywhere(port, begun + b"".join(frame(HEADERS, END_HEADERS | END_STREAM, n, block) for n in range(1, 200, 2)))
    many = b"".join(b"x-%d: y\r\n" % n for n in range(200_000))
    everywhere(port, b"GET /ping HTTP/1.1\r\nhost: localhost\r\n" + many + b"\r\n")
    everywhere(port, b"GET /" + b"a" * (16 << 20) + b" HTTP/1.1\r\n\r\n")
    everywhere(port, b"GET /ping HTTP/1.1\r\nhost: localhost\r\nlong: " + b"y" * (16 << 20))
    return "11 connections"


def floods(port, rng):
    """Cheap frames whose unread replies may accumulate."""
    begun = PREFACE + http2.settings()
    head = frame(HEADERS, END_HEADERS, 1, http2.call("DoPut"))
    for flood in [
        frame(SETTINGS) * 300_000,
        http2.settings(_1=0) * 200_000,
        http2.settings(_4=2**31 - 1) * 100_000,
        http2.settings(_4=2**31) * 10,
        frame(PING, payload=b"pingpong") * 300_000,
        frame(PRIORITY, 0, 1, b"\0\0\0\x03\x10") * 300_000,
        frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 1_000,
        head + frame(DATA, 0, 1) * 500_000,
        head + frame(DATA, 8, 1, b"\xff" + b"\0" * 255) * 20_000,
        frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02" + http2.call("DoGet")) * 1_000,
        frame(GOAWAY, 0, 0, b"\0" * 8) * 10_000,
        frame(HEADERS, END_HEADERS | END_STREAM, 2, http2.call("DoGet")) * 1_000,
        b"".join(frame(HEADERS, END_HEADERS, n, http2.call("DoPut")) for n in range(1, 40_000, 2)),
    ]:
        everywhere(port, begun + flood, seconds=3)
    # Pings whose replies are not read.
    stream = http2.opened(port)
    stream.settimeout(1)
    try:
        stream.sendall(begun + frame(PING, payload=b"pingpong") * 1_000_000)
    except OSError:
        pass
    stream.close()
    return "14 connections"


def plain(port, rng):
    """Malformed HTTP/1.1: invalid lines, two lengths, invalid chunks."""
    post = b"POST /write?db=garbage HTTP/1.1\r\nhost: localhost\r\n"
    for data in [
        b"GET\r\n\r\n",
        b"GET /ping HTTP/9.9\r\n\r\n",
        b"GET /ping HTTP/1.1\r\n\r\n",
        b"\r\n" * 100_000,
        b"\0" * 100_000,
        b"GET /ping HTTP/1.1\r\nhost: localhost\r\n: y\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nhost: localhost\r\na\0b: y\r\n\r\n",
        b"GET /\xff\xfe%zz?q=%%%&&&=== HTTP/1.1\r\nhost: \xff\r\n\r\n",
        post + b"content-length: 5\r\ncontent-length: 6\r\n\r\nm a=1 ",
        post + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /ping HTTP/1.1\r\n\r\n",
        post + b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nm a=1",
        post + b"transfer-encoding: chunked\r\n\r\n-1\r\nm a=1",
        post + b"transfer-encoding: chunked\r\n\r\n" + b"1;" + b"x" * (1 << 20) + b"\r\n",
        post + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 200_000,
        post + b"transfer-encoding: gzip, chunked, chunked\r\n\r\n0\r\n\r\n",
        post + b"expect: 100-continue\r\ncontent-length: 10\r\n\r\n",
        post + b"content-encoding: gzip\r\ncontent-length: 10\r\n\r\n" + rng.randbytes(10),
        post + b"upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: \xff\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nhost: localhost\r\n\r\n" + rng.randbytes(1_000),
        b"GET /ping HTTP/1.1\r\nhost: localhost\r\n\r\n" * 5_000,
    ]:
        everywhere(port, data, 3)
    return "60 connections"


def slow(port, rng):
    """Clients that send a byte from time to time, or half a preface: each is disconnected by the header timeout."""
    begun = time.monotonic()
    streams = []
    for name, start, drip in [
        ("HTTP/1.1", b"GET /ping HTTP/1.1\r\nhost: localhost\r\nx: ", b"y"),
        ("half a method", b"", b"G"),
        ("half a preface", PREFACE[:1], None),
        ("nothing", b"", None),
        ("HTTP/2 without a request", PREFACE + http2.settings(), None),
        ("HTTP/2 without the end of headers", PREFACE + http2.settings() + frame(HEADERS, 0, 1, http2.call("DoGet")), None),
    ]:
        for _ in range(50):
            stream = http2.opened(port)
            if start:
                stream.sendall(start)
            streams.append([name, stream, drip, 0])
    while time.monotonic() - begun < HEADER_SECONDS + 1:
        for entry in streams:
            name, stream, drip, sent = entry
            try:
                if drip:
                    stream.send(drip)
                elif name == "half a preface" and sent + 1 < len(PREFACE):
                    stream.send(PREFACE[sent + 1 : sent + 2])
                entry[3] += 1
            except OSError:
                pass
        time.sleep(0.3)
    left = {}
    deadline = time.monotonic() + HEADER_SECONDS + 5
    for name, stream, _, _ in streams:
        if not http2.closed(stream, max(0.001, deadline - time.monotonic())):
            left[name] = left.get(name, 0) + 1
        stream.close()
    expect(not left, f"still open {time.monotonic() - begun:.0f} s after they came, where headers may take {HEADER_SECONDS} s: {left}")
    return f"{len(streams)} connections, all closed"


def bodies(port, rng):
    """Bodies without their last byte: statements over HTTP and gRPC messages, 1 GiB each in total."""
    size, count = 32 << 20, 32
    streams, taken = [], {"HTTP": 0, "gRPC": 0}
    try:
        for _ in range(count):
            streams.append(http2.opened(port))
            head = f"POST /api/v1/sql HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\n\r\n"
            taken["HTTP"] += http2.shout(streams[-1], head.encode() + b" " * (size - 1), 1)
        for _ in range(count):
            streams.append(client := http2.Client(port))
            number = client.call(http2.call("GetFlightInfo"), end=False)
            taken["gRPC"] += client.feed(number, message(b"\0" * (size - 1), size), 1)
    finally:
        for stream in streams:
            stream.close()
    return f"taken of {count} each: {taken}"


ATTACKS = {
    "noise": noise,
    "calls of Flight": flight,
    "claimed lengths": lengths,
    "rapid resets": resets,
    "headers": headers,
    "floods": floods,
    "HTTP/1.1": plain,
    "slow clients": slow,
    "bodies": bodies,
}
