"""Password guessing is slowed per client address; the right password from another address is not."""

import socket
import time

from robust import http2

from .attacks import Holes, attack
from .node import ADMIN, expect, setting
from .proxy import SIGNATURE, Proxy, first

ATTACKER, OTHER = "127.0.0.66", "127.0.0.77"
GUESSES = 12


def guess(node, source, count=GUESSES, user=ADMIN, **more):
    """Sends wrong passwords one after the other; returns the last answer and the seconds that it took."""
    for number in range(count):
        began = time.monotonic()
        reply = node.run("select 1", (user, f"wrong {number}"), source=source, **more)
    return reply, time.monotonic() - began


def is_slowed(reply, took):
    """A guess is refused with the advice to wait, or waits itself."""
    return reply.status in (401, 429) and ("wait" in reply.text or took >= 0.4)


@attack("on", "proxy")
def wrong_passwords_of_a_stranger_do_not_lock_the_administrator_out(field):
    """Neither from another address nor from the administrator's own, which may be that of a load balancer."""
    with field.server() as node:
        holes = Holes()
        for who in (node.admin, node.writer):
            expect(node.run("select 1", who, source=OTHER).status == 200, f"control: {who[0]} is authenticated")
        # A new process remembers no recent logins.
        node.start_again()
        for who, where, source in ((node.writer, "another address", OTHER), (node.admin, "the attacker's address", ATTACKER)):
            last, took = guess(node, ATTACKER, user=who[0])
            # The right password may have to wait for its turn.
            reply = node.run("select 1", who, source=source, seconds=30)
            holes.check(reply.status == 200, f"after {GUESSES} wrong passwords {who[0]} from {where}: {reply}")
            expect(is_slowed(last, took), f"control: {GUESSES} wrong passwords from one address are not slowed: {last} after {took:.1f} s")
        return holes.end()


@attack("on", "proxy")
def wrong_passwords_for_all_users_do_not_lock_others_out(field):
    """More than a hundred wrong passwords from one address."""
    with field.server() as node:
        holes = Holes()
        for number in range(110):
            last = node.run("select 1", (f"user{number}", "wrong"), source=ATTACKER)
        for who in (node.admin, node.writer):
            reply = node.run("select 1", who, source=OTHER)
            holes.check(reply.status == 200, f"{who[0]} from another address: {reply}")
        expect(last.status in (401, 429), f"control: 110 wrong passwords from one address: {last}")
        return holes.end()


@attack("on", "proxy")
def headers_do_not_make_up_an_address(field):
    """A new X-Forwarded-For with each guess does not avoid the limit."""
    with field.server() as node:
        holes = Holes()
        for number in range(GUESSES):
            made = f"192.0.2.{number}"
            headers = {"x-forwarded-for": made, "forwarded": f"for={made}", "x-real-ip": made, "true-client-ip": made, "x-client-ip": made}
            began = time.monotonic()
            reply = node.run("select 1", (ADMIN, f"wrong {number}"), source=ATTACKER, headers=headers)
        holes.check(is_slowed(reply, time.monotonic() - began), f"guess {GUESSES} with made up addresses: {reply}")
        holes.check(not any("192.0.2." in line for line in node.audit()), "the audit log has an address that a header made up")
        expect(node.run("select 1", node.admin, source=OTHER).status == 200, "control: the administrator from another address")
        return holes.end()


@attack("proxy")
def clients_behind_a_proxy_are_told_apart(field):
    with field.server() as node:
        holes = Holes()
        for source in (ATTACKER, OTHER):
            since = len(node.audit())
            node.run("select 1", ("admin", "wrong"), source=source)
            address = node.address(source)
            holes.check(node.audited(address, since=since), f"the line of a refusal does not name {address}: {node.audit()[since:]}")
        with Proxy(node.direct, node.protocol is not None) as proxy:
            expect(node.run("select 1", node.admin, port=proxy.port).status == 200, "control: through another load balancer")
        told = [line for line in node.do("select * from system.connections") for line in [str(line)] if node.address("127.0.0.1") in line]
        holes.check(told, "system.connections does not name the client")
        return holes.end()


@attack("proxy")
def what_is_no_header_of_the_proxy_is_not_served(field):
    """With the PROXY protocol configured, a connection without a valid PROXY header is not served."""
    if not setting(field.binary, r"proxy-protocol.*", r".*proxy.*"):
        return "the server has no setting of the PROXY protocol"
    with field.server() as node:
        holes = Holes()
        request = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
        right = first("203.0.113.5", 4_242, node.direct, 1) + request
        expect(sent(node.direct, right).startswith(b"HTTP/1.1 200"), "control: a header of version 1")
        right = first("203.0.113.5", 4_242, node.direct, 2) + request
        expect(sent(node.direct, right).startswith(b"HTTP/1.1 200"), "control: a header of version 2")
        for what, data in {
            "nothing before the request": request,
            "the preface of HTTP/2": http2.PREFACE + http2.settings(),
            "an address that is none": b"PROXY TCP4 999.0.0.1 198.51.100.1 1 2\r\n" + request,
            "a header without an end": b"PROXY TCP4 " + b"1" * 4_000,
            "a port that is none": b"PROXY TCP4 203.0.113.5 198.51.100.1 99999 2\r\n" + request,
            "too few words": b"PROXY TCP4 203.0.113.5\r\n" + request,
            "two headers": first("203.0.113.5", 1, 2, 1) + first("203.0.113.6", 1, 2, 1) + request,
            "another version": SIGNATURE + b"\x31\x11\0\x0c" + bytes(12) + request,
            "a length that is too short": SIGNATURE + b"\x21\x11\0\x04" + bytes(4) + request,
            "a length beyond all that comes": SIGNATURE + b"\x21\x11\xff\xff" + bytes(12) + request,
        }.items():
            reply = sent(node.direct, data, 3)
            holes.check(not reply.startswith(b"HTTP/1.1 2"), f"{what} is answered {reply[:60]}")
        # A load balancer's own health checks carry no client address.
        for data in (b"PROXY UNKNOWN\r\n", SIGNATURE + b"\x20\0\0\0"):
            expect(sent(node.direct, data + request).startswith(b"HTTP/1.1 200"), f"control: {data} of the load balancer itself")
        expect(node.run("select 1", node.admin).status == 200, "control: the server serves after all that")
        return holes.end()


@attack("on", "off")
def a_client_without_a_proxy_does_not_make_up_its_address(field):
    """Without the setting a PROXY header is not a valid request."""
    node, holes = field.node, Holes()
    request = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
    expect(sent(node.direct, request).startswith(b"HTTP/1.1 200"), "control: a request")
    for version in (1, 2):
        reply = sent(node.direct, first("203.0.113.5", 4_242, node.direct, version) + request, 3)
        holes.check(not reply.startswith(b"HTTP/1.1 2"), f"version {version} is answered {reply[:60]}")
    return holes.end()


def sent(port, data, seconds=10):
    """The server's answer to these bytes."""
    with socket.create_connection(("127.0.0.1", port), seconds) as stream:
        try:
            stream.sendall(data)
            reply = b""
            while more := stream.recv(1 << 12):
                reply += more
            return reply
        except OSError:
            return b""
