"""A server under attack. Requests have exactly the headers that the attack names."""

import base64
import contextlib
import functools
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

import pyarrow.flight as flight

from robust.server import Fault, Server, expect, until

from .proxy import Proxy, client

ADMIN, PASSWORD = "admin", "a long one of the administrator"
# A user without any right, and a user with all rights on the database `own`.
NOBODY, WRITER = ("nobody", "a long one of nobody"), ("writer", "a long one of the writer")
OWN = "own"
# MiB: a server with more resident memory is killed to protect the machine.
MOST_RESIDENT = 3 << 10


@functools.cache
def settings(binary):
    """The flags of `serve --help`, each with the name of its value."""
    told = subprocess.run([binary, "serve", "--help"], capture_output=True, text=True, timeout=30, check=True).stdout
    return {name: value for name, value in re.findall(r"^\s+(?:-\w, )?--([a-z0-9-]+)(?: <([A-Z0-9_=]+)>)?", told, re.M)}


def setting(binary, *patterns):
    """The first flag that matches one of the patterns, or None."""
    for pattern in patterns:
        for name in settings(binary):
            if re.fullmatch(pattern, name):
                return name
    return None


class Reply:
    """The answer to one request."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.text = body.decode(errors="replace")

    def json(self):
        return json.loads(self.body)

    def __str__(self):
        return f"{self.status} {self.text[:200]}"


def credentials(who):
    """The Authorization header of (user, password) or of a token."""
    if who is None:
        return {}
    if isinstance(who, str):
        return {"authorization": f"Bearer {who}"}
    return {"authorization": "Basic " + base64.b64encode(":".join(who).encode()).decode()}


class Node(Server):
    """A server in one of the modes: `off` (no authentication), `on` (authentication), `proxy` (authentication, behind a load balancer).

    With authentication the users above exist. In mode `proxy` requests go through the load balancer."""

    def __init__(self, binary, directory, mode, name, *options, umask=0o22, environment=None, template=None):
        super().__init__(binary, directory, name)
        self.binary, self.mode, self.asks, self.umask = binary, mode, mode != "off", umask
        self.root = os.path.join(directory, f"{name}.root")
        chosen = [*options]
        for flag, value in (("--log", "info"), ("--log-format", "json"), ("--auth", "on" if self.asks else "auto")):
            if flag not in chosen:
                chosen += [flag, value]
        self.proxy, self.protocol, self.template = None, None, template
        if mode == "proxy":
            self.protocol = setting(binary, r"proxy-protocol.*", r".*proxy.*")
            if self.protocol and f"--{self.protocol}" not in chosen:
                chosen += [f"--{self.protocol}", proxied(settings(binary)[self.protocol])]
        self.command = [binary, "serve", "--store", self.root, "--listen", "127.0.0.1:0", *chosen]
        self.environment = {"TIDELAKE_ADMIN_PASSWORD": PASSWORD} | (environment or {})

    def start(self):
        if self.template and not os.path.exists(self.root):
            shutil.copytree(self.template, self.root)
        super().start()
        self.direct = self.port
        if self.mode == "proxy":
            self.proxy = Proxy(self.direct, self.protocol is not None)
            self.port = self.proxy.port
        self.watching = threading.Thread(target=self.watch, daemon=True)
        self.watching.start()
        if self.asks and not self.template:
            self.make_users()

    def start_again(self):
        """Restarts the server over the same root: the new process remembers no recent logins."""
        self.kill()
        self.close_proxy()
        self.template = self.template or self.root
        self.start()

    def close_proxy(self):
        if self.proxy:
            self.proxy.close()
            self.proxy = None

    def make_users(self):
        self.do(f"create database if not exists {OWN}")
        for name, password in (NOBODY, WRITER):
            self.do(f"create user if not exists {name} password '{password}'")
        self.do(f"grant all on {OWN}.* to {WRITER[0]}")

    def watch(self):
        while self.process.poll() is None:
            try:
                if self.resident()[0] > MOST_RESIDENT:
                    self.overgrown = True
                    self.kill()
            except (OSError, TypeError):
                return
            time.sleep(0.02)

    overgrown = False

    def __exit__(self, kind, *rest):
        try:
            # Killed, because an attack may have left work behind; tests of shutdown are elsewhere.
            if self.process.poll() is None:
                self.kill()
            if kind is None and not self.overgrown:
                self.calm()
        finally:
            self.close_proxy()

    def address(self, source):
        """The address that the server sees of a local client."""
        return client(source) if self.protocol else source

    @property
    def admin(self):
        return (ADMIN, PASSWORD) if self.asks else None

    @property
    def nobody(self):
        """The credentials with the fewest rights in this mode."""
        return NOBODY if self.asks else None

    @property
    def writer(self):
        return WRITER if self.asks else None

    def ask(self, method, path, body=b"", who=None, headers=None, host=None, source="127.0.0.1", seconds=20, port=None):
        """Sends a request with exactly these headers from a local address; `host` replaces the right Host header."""
        port = port or self.port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds, source_address=(source, 0))
        body = body.encode() if isinstance(body, str) else body
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", host or f"127.0.0.1:{port}")
            for name, value in (credentials(who) | (headers or {})).items():
                connection.putheader(name, value)
            if body or method in ("POST", "PUT"):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            reply = connection.getresponse()
            return Reply(reply.status, reply.headers, reply.read())
        finally:
            connection.close()

    def run(self, statement, who=None, database=None, **more):
        """The answer to a statement."""
        path = "/api/v1/sql" + (f"?database={database}" if database else "")
        return self.ask("POST", path, statement, who, **more)

    def do(self, statement, who=None, **more):
        """The rows of a statement that has to succeed; as administrator by default."""
        reply = self.run(statement, who or self.admin, **more)
        expect(reply.status == 200, f"{reply} for {statement[:200]}")
        return reply.json()["data"]

    def sql(self, statement, seconds=30):
        return self.do(statement, seconds=seconds)

    def databases(self):
        return {row[0] for row in self.do("show databases")}

    def write(self, database, table="m", who=None, seconds=20, **more):
        return self.ask("POST", f"/write?db={database}", f"{table} v=1 {time.time_ns()}", who, seconds=seconds, **more)

    def flight(self, who=None):
        """A Flight client and its call options."""
        pairs = [(name.encode(), value.encode()) for name, value in credentials(who).items()]
        return flight.FlightClient(f"grpc://127.0.0.1:{self.port}"), flight.FlightCallOptions(timeout=30, headers=pairs)

    def lines(self):
        """The JSON lines of the log so far."""
        for line in self.log().splitlines():
            if line.startswith("{"):
                with contextlib.suppress(ValueError):
                    yield json.loads(line)

    def audit(self):
        """The audit lines of the log so far, each as JSON text."""
        return [json.dumps(line) for line in self.lines() if str(line.get("target", "")).startswith("tidelake::audit")]

    def audited(self, *words, since=0, seconds=3):
        """Whether a new audit line contains all of these words in any case, within some seconds."""
        deadline = time.monotonic() + seconds
        while True:
            if any(all(word.lower() in line.lower() for word in words) for line in self.audit()[since:]):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)

    def stream(self, source="127.0.0.1", seconds=10):
        """A TCP connection from a local address."""
        return socket.create_connection(("127.0.0.1", self.port), seconds, (source, 0))


def proxied(value):
    """The value that turns the PROXY protocol on, by the name of the setting's value."""
    return "127.0.0.0/8" if value and re.search(r"ADDR|CIDR|NET|RANGE|IP|LIST|PEER|PROX", value) else "true"


class Pulse:
    """Requests /health repeatedly within `with`, each time by a new connection. `worst` is the slowest answer in seconds."""

    def __init__(self, node, most=20.0):
        self.node, self.most, self.worst, self.asked, self.fault = node, most, 0.0, 0, None
        self.over, self.thread = threading.Event(), threading.Thread(target=self.run)

    def run(self):
        while not self.over.is_set():
            began = time.monotonic()
            try:
                reply = self.node.ask("GET", "/health", seconds=self.most)
                if reply.status != 200:
                    self.fault = f"/health answers {reply}"
            except (OSError, http.client.HTTPException) as error:
                self.fault = f"/health does not answer: {error or type(error).__name__}"
            self.worst, self.asked = max(self.worst, time.monotonic() - began), self.asked + 1
            if self.fault and self.worst >= self.most:
                return
            self.over.wait(0.05)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def within(self, seconds):
        expect(not self.fault, self.fault)
        expect(self.worst <= seconds, f"/health was answered after {self.worst:.1f} s, which may take {seconds} s")
        return f"/health within {self.worst * 1000:.0f} ms"


__all__ = [
    "ADMIN",
    "NOBODY",
    "OWN",
    "PASSWORD",
    "WRITER",
    "Fault",
    "Node",
    "Pulse",
    "credentials",
    "expect",
    "setting",
    "settings",
    "until",
]
