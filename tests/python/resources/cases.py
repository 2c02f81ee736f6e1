"""A case of the fuzz: a request made from a seed and a number alone, and the way it is sent."""

import contextlib
import functools
import gzip
import http.client
import json
import random
import socket
import time

import pyarrow
import pyarrow.flight as flight

from hostile.flights import bind, prepared, zeros
from robust import http2

from .grammar import Grammar

# The client gives up after this many seconds, which counts as no answer.
PATIENCE = 20.0
# Weights: statements over HTTP and Flight, and requests with expensive bodies.
DOORS = {"http": 52, "tdengine": 8, "flight": 15, "prepared": 5, "bodies": 12, "parameters": 4, "lines": 4}


# What bodies decompress to: a piece, and how often it is repeated. Lines that are rows are few, because they are stored.
BOMBS = [
    (bytes(1 << 10), 1 << 10),
    (bytes(1 << 10), 1 << 18),
    (b"# comment\n", 1 << 24),
    (b"m,a=b v=1\n", 1 << 12),
    (b"m v\n", 1 << 22),
    (b"[", 1 << 26),
]


@functools.cache
def packed(way, piece, count):
    data = piece * count
    return gzip.compress(data, 1) if way == "gzip" else pyarrow.compress(data, "zstd", asbytes=True)


class Answer:
    """The outcome of a case: `status` is an HTTP status or a Flight error, None when the connection ended without an answer."""

    def __init__(self, status, text=""):
        self.status, self.text, self.took = status, text, 0.0


class Case:
    """The case with this number of a seed."""

    def __init__(self, seed, number, more=((), ())):
        self.seed, self.number = seed, number
        rng = random.Random(f"{seed}/{number}")
        self.door = rng.choices(list(DOORS), list(DOORS.values()))[0]
        self.rng = rng
        if self.door in ("bodies", "parameters", "lines"):
            self.kind, self.is_statement = self.door, False
            self.text = None
        else:
            self.kind, self.text = Grammar(rng, more).statement()
            self.is_statement = self.kind != "writes"
        self.format = rng.choice(["json", "csv", "ndjson", "arrow", "parquet"])
        # The buffers that the request may fill beside the memory for queries; known once it was sent.
        self.buffers = set()

    def __str__(self):
        text = self.text or ""
        text = text if len(text) <= 600 else text[:500] + " … " + text[-80:]
        return f"case {self.number} of seed {self.seed} ({self.door}, {self.kind}): {text}"

    def run(self, port):
        """Sends it and waits for the whole answer."""
        began = time.monotonic()
        try:
            answer = getattr(self, "by_" + self.door)(port)
        except TimeoutError:
            answer = Answer(None, f"no answer within {PATIENCE:.0f} s")
        except (OSError, http.client.HTTPException) as error:
            answer = Answer(None, f"no answer: {error or type(error).__name__}")
        answer.took = time.monotonic() - began
        return answer

    def by_http(self, port):
        return post(port, f"/api/v1/sql?format={self.format}", self.text.encode())

    def by_tdengine(self, port):
        return post(port, "/rest/sql", self.text.encode())

    def by_flight(self, port):
        return called(lambda client, options: client.do_get(flight.Ticket(http2.question(self.text, "fuzz")), options), port)

    def by_prepared(self, port):
        def run(client, options):
            handle = prepared(client, options, self.text)
            ticket = http2.command("CommandPreparedStatementQuery", http2.field(1, handle))
            return client.do_get(flight.Ticket(ticket), options)

        return called(run, port)

    def by_bodies(self, port):
        """Wrong lengths, and bodies that decompress to more than the limit."""
        rng = self.rng
        path = rng.choice(["/api/v1/sql", "/rest/sql", "/write?db=fuzz", "/api/v2/write?bucket=fuzz", "/api/put?db=fuzz", "/query"])
        way = rng.choice(["short", "gzip", "zstd", "nested", "json", "chunks", "form", "parameters"])
        path = {"json": "/api/put?db=fuzz", "form": "/query", "parameters": "/api/v1/sql"}.get(way, path)
        if way == "nested":
            depth = rng.choice([100, 10_000, 1_000_000])
            path = rng.choice(["/api/put?db=fuzz", "/api/v1/sql"])
        self.text = f"{way} to {path}"
        self.buffers = {"statement" if path.startswith(("/api/v1/sql", "/rest/")) else "ingest"}
        if way == "short":
            return short(
                port,
                path,
                rng.choice([1, 1 << 10, 1 << 20, 64 << 20, 1 << 40, 2**63 - 1, 2**64]),
                rng.choice([b"", b"x", b"select 1", bytes(1 << 20)]),
            )
        if way in ("gzip", "zstd"):
            return post(port, path, packed(way, *rng.choice(BOMBS)), {"content-encoding": way})
        if way == "nested":
            return post(port, path, b"[" * depth + b"]" * depth, {"content-type": "application/json"})
        if way == "json":
            point = {
                "metric": "m",
                "timestamp": 1_700_000_000,
                "value": 1,
                "tags": {f"t{n}": "x" * rng.choice([1, 1_000]) for n in range(rng.choice([1, 100, 1_000]))},
            }
            return post(port, path, json.dumps([point] * rng.choice([1, 100])).encode())
        if way == "chunks":
            piece = b"%x\r\n%b\r\n" % (1 << 16, b" " * (1 << 16))
            head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n".encode()
            return raw(port, [head, *[piece] * rng.choice([1, 100, 2_000]), b"0\r\n\r\n"])
        if way == "form":
            return post(
                port,
                path,
                b"q=" + b"SHOW+DATABASES%3B" * rng.choice([1, 1_000, 60_000]),
                {"content-type": "application/x-www-form-urlencoded"},
            )
        count, size = rng.choice([1, 1_000, 100_000]), rng.choice([1, 10_000])
        # Written once and repeated: the encoder would keep this process from sending the other cases of the round.
        values = b",".join([b'"' + b"x" * size + b'"'] * min(count, (64 << 20) // size))
        marks = b",".join([b"?"] * min(count, 1_000))
        body = b'{"sql":"select ' + marks + b'","params":[' + values + b"]}"
        return post(port, path, body[: 64 << 20], {"content-type": "application/json"})

    def by_parameters(self, port):
        """Flight parameters that decompress to far more than was sent."""
        rng = self.rng
        size, packing = rng.choice([1 << 10, 10 << 20, 200 << 20]), rng.choice(["zstd", "lz4", None])
        size = min(size, 10 << 20) if packing is None else size
        statement = rng.choice(["select ?", "select length(?)", "insert into fuzz.written (tbname, ts, v) values ('p', now(), ?)"])
        self.text = f"{size} bytes, packed by {packing}, to {statement}"
        self.buffers = {"statement"} | ({"ingest"} if statement.startswith("insert") else set())

        def run(client, options):
            told = bind(client, options, prepared(client, options, statement), zeros(size, rng.choice([1, 100])), packing)
            return told or "ok"

        return called(run, port)

    def by_lines(self, port):
        """Line protocol with many names, tags, columns or large texts."""
        rng = self.rng
        way = rng.choice(["tables", "columns", "tags", "texts", "series", "escapes"])
        count = rng.choice([10, 1_000, 12_000])
        self.text = f"{count} {way}"
        self.buffers = {"ingest"}
        lines = {
            "tables": lambda: (f"z{n} v=1" for n in range(min(count, 500))),
            "columns": lambda: ("z " + ",".join(f"c{n}=1" for n in range(min(count, 4_000))) for _ in range(3)),
            "tags": lambda: ("z," + ",".join(f"t{n}=x" for n in range(min(count, 500))) + " v=1" for _ in range(3)),
            "texts": lambda: (f'z,g={n} s="{"x" * 60_000}" {n}' for n in range(min(count, 1_000))),
            "series": lambda: (f"z,g={rng.randrange(1 << 30)} v={n}" for n in range(count)),
            "escapes": lambda: ('z,g=\\,\\ \\= s="\\"\\\\" ' + "9" * 30 for _ in range(count)),
        }[way]()
        return post(port, "/write?db=lines&precision=ms", "\n".join(lines).encode())


def post(port, path, body, headers=None):
    """Sends a POST and reads the answer to its end or to the point where it breaks off."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        # The server may answer and close before it has read the whole body.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", path, body, headers or {})
        reply = connection.getresponse()
        text, size = b"", 0
        try:
            while more := reply.read(1 << 20):
                size += len(more)
                text = text or more[:300]
        except http.client.IncompleteRead:
            text += b" (broken off)"
        return Answer(reply.status, f"{text[:300].decode(errors='replace')} ({size} bytes)")
    finally:
        connection.close()


def raw(port, pieces):
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as stream:
        # The server may answer and close before it has read everything.
        with contextlib.suppress(OSError):
            for piece in pieces:
                stream.sendall(piece)
            stream.shutdown(socket.SHUT_WR)
        reply = b""
        with contextlib.suppress(ConnectionResetError):
            while more := stream.recv(1 << 16):
                reply += more
    words = reply[:64].split(b" ")
    return Answer(int(words[1]) if len(words) > 1 and words[1][:3].isdigit() else "closed", reply[:300].decode(errors="replace"))


def short(port, path, length, body):
    """A body that ends before its announced length: the server may answer or close the connection."""
    return raw(port, [f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n".encode() + body])


def called(run, port):
    """Runs a Flight call and reads the answer to its end."""
    client = flight.FlightClient(f"grpc://127.0.0.1:{port}", generic_options=[("grpc.enable_retries", 0)])
    try:
        reader = run(client, flight.FlightCallOptions(timeout=PATIENCE))
        if isinstance(reader, str):
            return Answer(reader.partition(":")[0], reader[:300])
        size = 0
        for chunk in reader:
            size += chunk.data.nbytes
        return Answer("ok", f"{size} bytes")
    except (flight.FlightError, pyarrow.ArrowException) as error:
        text = str(error)
        # The server never answered, or closed the connection.
        lost = isinstance(error, flight.FlightTimedOutError) or any(
            word in text for word in ("Socket closed", "Connection reset", "failed to connect")
        )
        return Answer(None if lost else type(error).__name__, text[:300])
    finally:
        client.close()
