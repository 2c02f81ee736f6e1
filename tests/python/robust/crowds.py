"""Overload: idle connections, and readers that stop reading."""

import json
import select
import time

from . import http2
from .data import load
from .http2 import PREFACE
from .server import Control, Server, expect, until

IDLE = 10_000
READERS = 1_000
# Each query returns about 8 MiB, more than the system buffers per connection.
READER_ROWS = 400_000
QUERY_SECONDS = 5
# MiB, including 90 of the program.
IDLE_RESIDENT, READERS_RESIDENT, RUNNING_RESIDENT = 768, 1_024, 2_560
OPTIONS = ["--query-memory", "256MiB", "--ingest-buffer", "64MiB", "--tail-cache", "64MiB", "--page-cache", "32MiB"]


def run(binary, directory, check, _):
    with Server(binary, directory, "idle", *OPTIONS, "--max-connections", str(IDLE + 1_000), "--max-client-connections", str(IDLE + 1_000)) as server:
        Control.prepare(server)
        check(f"{IDLE} idle connections", lambda: idle(server))
    limits = ["--max-connections", "64", "--max-client-connections", "64", "--header-timeout", "2s"]
    with Server(binary, directory, "full", *OPTIONS, *limits) as server:
        half, preface = b"GET /ping HTTP/1.1\r\n", PREFACE + http2.settings()
        for what, sent in [("nothing", b""), ("half a request", half), ("nothing after the preface of HTTP/2", preface)]:
            check(f"connections that send {what} fill a server", lambda sent=sent: full(server, sent))
    # Errors for stalled readers, at the default number of queries.
    with Server(binary, directory, "readers", *OPTIONS, "--query-timeout", f"{QUERY_SECONDS}s") as server:
        load(server, "rows", READER_ROWS)
        for kind in [PlainReader, FlightReader]:
            check(f"the query of a {kind.__name__} that stops can be killed", lambda kind=kind: killed(server, kind))
            check(f"the query of a {kind.__name__} that stops ends at its deadline", lambda kind=kind: late(server, kind))
        check(f"{READERS} readers that stop", lambda: readers(server))
    with Server(binary, directory, "beside", *OPTIONS) as server:
        Control.prepare(server)
        check("others are answered beside readers that stop", lambda: beside(server))
    # If all of them run at once.
    with Server(binary, directory, "running", *OPTIONS, "--query-concurrency", str(2 * READERS)) as server:
        Control.prepare(server)
        check(f"{READERS} readers that stop, all running", lambda: running(server))


def idle(server):
    """Half of the connections send nothing, some have had a reply and may send another request, some have negotiated HTTP/2."""
    streams = []
    try:
        for number in range(IDLE):
            streams.append(stream := http2.opened(server.port))
            if number % 4 == 1:
                stream.sendall(b"GET /ping HTTP/1.1\r\nhost: localhost\r\n\r\n")
                reply = stream.recv(4_096)
                expect(reply.startswith(b"HTTP/1.1 204"), f"connection {number} is answered {reply[:200]}")
            elif number % 4 == 3:
                stream.sendall(PREFACE + http2.settings())
                expect(stream.recv(9)[3:4] == bytes([http2.SETTINGS]), f"connection {number} is not answered settings")
        Control.prepare(server)
        with Control(server) as control:
            time.sleep(3)
            found = server.connections()
        most = server.within(IDLE_RESIDENT)
    finally:
        for stream in streams:
            stream.close()
    expect(found >= IDLE, f"{found} connections are listed")
    took = until(lambda: server.connections() == 0, 10, lambda: f"{server.connections()} connections are listed when all have gone")
    return f"{control}; {most} MiB; none listed {took:.1f} s after they went"


def full(server, sent):
    """The next client waits until connections without a request are closed by the header timeout."""
    streams = []
    try:
        for _ in range(64):
            streams.append(stream := http2.opened(server.port))
            stream.sendall(sent)
        began = time.monotonic()
        try:
            expect(server.sql("select 1", 8) == [[1]], "a wrong answer")
        except OSError:
            expect(False, "64 connections, where 64 may be and headers may take 2 s, keep others out for 8 s")
        return f"another one is answered after {time.monotonic() - began:.1f} s"
    finally:
        for stream in streams:
            stream.close()
        time.sleep(0.2)


# Reasons for refused queries.
REASONS = ["query queue is full", "waited too long in the queue"]
STATEMENT = "select ts, a, b from data.rows"


class PlainReader:
    """Sends a query over HTTP/1.1, and reads at most 256 bytes of the reply."""

    def __init__(self, server, statement=STATEMENT):
        self.stream, self.got = http2.opened(server.port, receive=4_096), b""
        head = f"POST /api/v1/sql?format=csv HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(statement)}\r\n\r\n"
        self.stream.sendall((head + statement).encode())

    def look(self):
        """State: None, `reads`, or the reason of a refusal."""
        self.stream.setblocking(False)
        try:
            while b"\r\n\r\n" not in self.got and (more := self.stream.recv(256)):
                self.got += more
        except BlockingIOError:
            return None
        head, _, rest = self.got.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 200"):
            return "reads"
        try:
            rest += self.stream.recv(4_096)
        except BlockingIOError:
            pass
        return f"{head[9:12].decode()} {json.loads(rest)['error']['message']}"

    def fileno(self):
        return self.stream.fileno()

    def close(self):
        self.stream.close()


class FlightReader:
    """Sends a query over Flight, and lets the server send 256 bytes of the result."""

    def __init__(self, server, statement=STATEMENT):
        self.client = http2.Client(server.port, window=256, receive=4_096)
        self.number = self.client.call(http2.call("DoGet"), http2.message(http2.ticket(statement, "data")))

    def look(self):
        while self.client.take(0):
            pass
        headers = self.client.headers.get(self.number, {})
        if "grpc-status" in headers:
            return f"{headers['grpc-status']} {headers['grpc-message']}".replace("%20", " ")
        if self.client.over:
            return self.client.over
        return "reads" if self.number in self.client.bytes else None

    def fileno(self):
        return self.client.stream.fileno()

    def close(self):
        self.client.close()


def looked(server, readers, limit, seconds):
    """States of readers, when all are answered or the time is over."""
    by, poll = {reader.fileno(): reader for reader in readers}, select.poll()
    for file in by:
        poll.register(file, select.POLLIN)
    found, deadline = {}, time.monotonic() + seconds
    while by and time.monotonic() < deadline:
        server.within(limit)
        for file, _ in poll.poll(100):
            if what := by[file].look():
                found[what] = found.get(what, 0) + 1
                poll.unregister(file)
                del by[file]
    return found | ({None: len(by)} if by else {})


def stopped(server, kind):
    """A stalled reader of a running query."""
    reader = kind(server)
    until(reader.look, 10, "a reader is not answered")
    # All buffers in between are full.
    time.sleep(1)
    expect(reader.look() == "reads", f"a reader receives {reader.look()}")
    return reader


def killed(server, kind):
    reader = stopped(server, kind)
    try:
        name = [row[0] for row in server.sql("show queries") if row[-1] == STATEMENT]
        expect(len(name) == 1, f"{len(name)} queries of one reader")
        server.sql(f"kill query '{name[0]}'")
        took = until(lambda: server.queries() == 0, 3, "it is under way 3 s after it was killed")
    finally:
        reader.close()
        until(lambda: server.queries() == 0, 5, "it stays when the reader has gone")
    return f"gone after {took * 1000:.0f} ms"


def late(server, kind):
    reader = stopped(server, kind)
    try:
        seconds = QUERY_SECONDS + 3
        told = f"it is under way {seconds} s after it began, where it may take {QUERY_SECONDS} s"
        took = until(lambda: server.queries() == 0, seconds, told)
    finally:
        reader.close()
        until(lambda: server.queries() == 0, 5, "it stays when the reader has gone")
    return f"gone after {took:.1f} s"


def crowd(server):
    return [(PlainReader if number % 2 else FlightReader)(server) for number in range(READERS)]


def readers(server):
    """16 queries run and 160 wait; the others are refused with a reason. Other clients are served after the timeout."""
    server.forget_peak()
    came = crowd(server)
    try:
        found = looked(server, came, READERS_RESIDENT, 3 * QUERY_SECONDS)
        for what, count in found.items():
            known = what == "reads" or any(reason in str(what) for reason in REASONS)
            expect(known, f"{count} readers receive '{what}': {found}")
        expect(found.get("reads", 0) >= 16, f"{found}")
        seconds = 2 * QUERY_SECONDS + 5
        told = f"no query is answered {seconds} s after readers came who stopped, each of whom may take {QUERY_SECONDS} s"
        until(lambda: answered(server), seconds, told)
    finally:
        for reader in came:
            reader.close()
    most = server.within(READERS_RESIDENT)
    took = until(lambda: answered(server) and server.queries() == 0, 10, "queries of readers that went stay")
    return f"{found}; {most} MiB; no query {took:.1f} s after they went"


def beside(server):
    """More stalled readers than permits."""
    came = [(PlainReader if number % 2 else FlightReader)(server) for number in range(40)]
    try:
        time.sleep(2)
        with Control(server, 5) as control:
            time.sleep(6)
    finally:
        for reader in came:
            reader.close()
    return control


def answered(server):
    try:
        status, _, body = server.post("/api/v1/sql", "select 1", 5)
    except TimeoutError:
        return False
    expect(status in (200, 503), f"{status} {body}")
    return status == 200


def running(server):
    """All processors are busy while the queries arrive; after the readers have stalled, the server is idle."""
    server.forget_peak()
    came = crowd(server)
    try:
        found = looked(server, came, RUNNING_RESIDENT, 60)
        expect(set(found) == {"reads"}, f"readers receive {found}")
        with Control(server) as control:
            time.sleep(2)
        most = server.within(RUNNING_RESIDENT)
    finally:
        for reader in came:
            reader.close()
    took = until(lambda: server.queries() == 0, 10, lambda: f"{server.queries()} queries of readers that went stay")
    return f"{control}; {most} MiB; no query {took:.1f} s after they went"
