"""Idle connections: other clients still get one."""

import contextlib
import time

from robust import http2

from .attacks import Holes, attack
from .node import credentials, expect, setting

PLACES, IDLE = 48, 2
ATTACKER, OTHER = "127.0.0.66", "127.0.0.77"
# Another client waits no longer than this for a place; idle connections end after a few times the header timeout.
SECONDS = 12


def options(field):
    """Few places, and a short time for connections that ask for nothing."""
    idle = setting(field.binary, r"idle-timeout", r".*idle.*")
    return ["--max-connections", str(PLACES), "--header-timeout", f"{IDLE}s", *([f"--{idle}", f"{IDLE}s"] if idle else [])]


class Idle(http2.Client):
    """An HTTP/2 connection that sends one request and from then on only answers pings."""

    def __init__(self, node, source, pairs):
        self.stream, self.seconds, self.next = node.stream(source), 10, 1
        self.decoder, self.rest = http2.hpack.Decoder(), b""
        self.headers, self.bytes, self.ended, self.over = {}, {}, {}, None
        self.window, self.credit = 65_535, {0: 65_535}
        self.stream.sendall(http2.PREFACE + http2.settings(_4=65_535))
        headers = [(":method", "GET"), (":scheme", "http"), (":authority", f"127.0.0.1:{node.port}"), (":path", "/health"), *pairs]
        self.call(b"".join(http2.literal(*pair) for pair in headers))


@attack()
def idle_connections_of_one_address_keep_nobody_out(field):
    """As many connections as the server allows, each of which sent one request."""
    with field.server(*options(field)) as node:
        holes, held = Holes(), []
        try:
            for _ in range(PLACES):
                with contextlib.suppress(OSError):
                    held.append(Idle(node, ATTACKER, credentials(node.nobody).items()))
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline:
                turn(held)
            taken = sum(bool(one.headers) for one in held)
            expect(taken >= 1, "control: no connection was answered")
            began, answered, tries = time.monotonic(), None, 0
            while answered is None and time.monotonic() - began < SECONDS:
                turn(held)
                tries += 1
                with contextlib.suppress(OSError):
                    reply = node.run("select 1", node.admin, source=OTHER, seconds=2)
                    answered = time.monotonic() - began if reply.status == 200 else None
            holes.check(answered is not None, f"{taken} idle connections, where {PLACES} may be, kept another address out for {SECONDS} s")
            # Idle connections are closed by the server.
            while not all(one.over for one in held) and time.monotonic() - began < 3 * SECONDS:
                turn(held)
                time.sleep(0.1)
            left = sum(not one.over for one in held)
            holes.check(
                left == 0, f"{left} of {len(held)} are open {time.monotonic() - began:.0f} s after they asked, headers may take {IDLE} s"
            )
        finally:
            for one in held:
                one.close()
        return f"{holes.end()}; {taken} answered, another after {answered:.1f} s"


def turn(held):
    for one in held:
        if not one.over:
            with contextlib.suppress(OSError):
                one.take(0)


@attack("on", "off")
def a_connection_that_works_is_not_idle(field):
    """Control: a connection with regular requests and one with a long query stay open."""
    with field.server(*options(field), "--query-timeout", "12s") as node:
        slow = http2.Client(node.port)
        sql = "select count(*) from generate_series(1,2000) a cross join generate_series(1,2000) b cross join generate_series(1,30) c"
        number = slow.call(http2.call("DoGet", *credentials(node.admin).items()), http2.message(http2.ticket(sql, "information_schema")))
        asking = Idle(node, OTHER, credentials(node.admin).items())
        streams = [1]
        began = time.monotonic()
        while time.monotonic() - began < 3 * IDLE + 2:
            path = [(":method", "GET"), (":scheme", "http"), (":authority", "127.0.0.1"), (":path", "/health")]
            streams.append(asking.call(b"".join(http2.literal(*pair) for pair in path)))
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline:
                slow.take(0.1)
                asking.take(0.1)
        left = asking.wait(streams, 5)
        expect(not left and not asking.over, f"a connection that asks each second was ended: {asking.over}, {len(left)} unanswered")
        slow.wait([number], 40)
        told = slow.headers.get(number, {})
        expect(told.get("grpc-status") is not None, f"a query of more than the time for headers was cut off: {slow.over} {told}")
        slow.close()
        asking.close()
        return f"{len(streams)} asked, the query ended with {told['grpc-status']}"


@attack("on", "off")
def connections_of_many_addresses_are_served(field):
    """Control of the limit per address: several clients behind one address, and clients of many addresses."""
    with field.server("--max-connections", "64") as node:
        holes, held = Holes(), []
        try:
            for number in range(24):
                held.append(Idle(node, f"127.0.1.{1 + number}", credentials(node.nobody).items()))
            for _ in range(4):
                held.append(Idle(node, OTHER, credentials(node.nobody).items()))
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline and not all(one.headers for one in held):
                turn(held)
            unanswered = sum(not one.headers for one in held)
            holes.check(unanswered == 0, f"{unanswered} of {len(held)} connections of many addresses are not served")
        finally:
            for one in held:
                one.close()
        return holes.end()
