"""Bodies that are announced but not sent, or sent slowly: they do not stop the writes of other clients."""

import contextlib
import time

from .attacks import Holes, attack
from .node import OWN, credentials, expect

# Two announced bodies are as large as the whole ingest buffer.
OPTIONS = ["--ingest-buffer", "64MiB", "--statement-buffer", "64MiB", "--max-body", "32MiB", "--body-timeout", "60s"]
CLAIMED = 32 << 20
# A write of another client may take this long on a busy machine.
SECONDS = 10


def announced(node, path, who, source="127.0.0.2", length=CLAIMED, body=b"m v=1"):
    """A connection that has sent the headers of a request and the first bytes of its body."""
    stream = node.stream(source)
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    body = b"%x\r\n%b\r\n" % (len(body), body) if length is None else body
    pairs = "".join(f"{name}: {value}\r\n" for name, value in credentials(who).items())
    stream.sendall(f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{node.port}\r\n{pairs}{size}\r\n\r\n".encode() + body)
    return stream


def others_write(node, holes, what):
    for number in range(6):
        began = time.monotonic()
        try:
            reply = node.write(OWN, who=node.writer or node.admin, source="127.0.0.3", seconds=SECONDS)
            if not holes.check(reply.status == 204, f"{what}: write {number} of somebody else: {reply}"):
                return
        except OSError as error:
            return holes.check(False, f"{what}: write {number} of somebody else after {time.monotonic() - began:.0f} s: {error}")


def attacked(field, who, kinds):
    """Other clients write while the server waits for the attacker's bodies."""
    holes = Holes()
    with field.server(*OPTIONS) as node:
        attacker = getattr(node, who)
        others_write(node, holes, "control")
        holes.end()
        for what, path, options in kinds:
            streams = []
            try:
                for _ in range(8):
                    # The server may refuse and close the connection at once.
                    with contextlib.suppress(OSError):
                        streams.append(announced(node, path, attacker, **options))
                time.sleep(0.5)
                others_write(node, holes, what)
                for stream in streams:
                    with contextlib.suppress(OSError):
                        stream.sendall(b"5")
                others_write(node, holes, f"{what}, a byte later")
            finally:
                for stream in streams:
                    stream.close()
        others_write(node, holes, "afterwards")
    return holes.end()


WRITES = [
    ("lines that do not come", f"/write?db={OWN}", {}),
    ("lines of InfluxDB 2 that do not come", f"/api/v2/write?bucket={OWN}", {}),
    ("points that do not come", f"/api/put?db={OWN}", {"body": b"["}),
    ("a form that does not come", "/query", {"length": 1 << 20, "body": b"q="}),
    ("chunks that do not come", f"/write?db={OWN}", {"length": None}),
    ("statements that do not come", "/api/v1/sql", {"body": b"select"}),
    ("statements of TDengine that do not come", "/rest/sql", {"body": b"insert"}),
]


@attack()
def bodies_that_do_not_come_stop_no_writes(field):
    """Bodies of the user with the fewest rights."""
    return attacked(field, "nobody", WRITES)


@attack("on", "proxy")
def bodies_that_do_not_come_of_a_user_who_may_write_stop_no_writes(field):
    return attacked(field, "writer", WRITES)


@attack()
def bodies_that_come_but_for_their_end_stop_no_writes(field):
    """One user's bytes do not fill the whole buffer."""
    body = b"m v=1\n" * (6 << 20)
    kinds = [
        ("lines without an end", f"/write?db={OWN}", {"length": len(body) + 1, "body": body[: 30 << 20]}),
        ("lines in chunks without an end", f"/write?db={OWN}", {"length": None, "body": body[: 30 << 20]}),
    ]
    holes = Holes()
    with field.server(*OPTIONS) as node:
        if node.asks:
            node.do("create user greedy password 'a long one of greedy'")
            node.do(f"grant all on {OWN}.* to greedy")
        else:
            node.do(f"create database if not exists {OWN}")
        who = ("greedy", "a long one of greedy") if node.asks else None
        base = node.resident()[0]
        node.forget_peak()
        for what, path, options in kinds:
            streams = []
            try:
                for _ in range(6):
                    with contextlib.suppress(OSError):
                        streams.append(announced(node, path, who, **options))
                time.sleep(0.5)
                if node.asks:
                    # Without authentication all clients are the same user.
                    others_write(node, holes, what)
            finally:
                for stream in streams:
                    stream.close()
        grown = node.resident()[1] - base
        holes.check(grown <= 192, f"{grown} MiB were taken, the buffer has 64")
        time.sleep(0.5)
        others_write(node, holes, "afterwards")
    return holes.end()


@attack("on", "proxy")
def a_write_without_the_right_is_refused_before_its_body_comes(field):
    holes = Holes()
    with field.server(*OPTIONS) as node:
        for what, path, options in WRITES[:3]:
            with announced(node, path, node.nobody, **options) as stream:
                stream.settimeout(SECONDS)
                try:
                    told = stream.recv(1 << 12).decode(errors="replace")
                except TimeoutError:
                    told = f"nothing for {SECONDS} s"
                holes.check(told.split(" ")[1:2] in (["403"], ["404"]), f"{what}: {told[:120]}")
        expect(node.write(OWN, who=node.writer).status == 204, "control: a write with the right")
        reply = node.write(OWN, who=node.nobody)
        expect(reply.status in (403, 404), f"control: a whole write without the right: {reply}")
    return holes.end()
