"""One environment of a function: its `bootstrap` as a process, with the Runtime API on its own port.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html

Between two events the process is frozen, as on the platform: it is stopped when it requests its next event, and continued
when there is one. A process that ended, or was killed by its timeout, is replaced at the next event.
"""

import os
import platform
import queue
import select
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

API = "/2018-06-01/runtime"
INIT_SECONDS = 10


class NotStarted(Exception):
    """The process ended, failed or timed out before it requested its first event."""


@dataclass
class Invocation:
    """An event on its way to the process."""

    request_id: str
    payload: bytes
    function_arn: str = ""
    trace_id: str = ""


@dataclass
class Outcome:
    """Result of an invocation: bytes of the function, or an error of the function or the platform."""

    body: bytes = b""
    error_type: str | None = None
    message: str = ""
    log: str = ""
    milliseconds: float = 0.0
    peak_megabytes: int = 0


def command(program):
    """Command prefix that starts a program: an emulator (Debian's qemu-user) if it was built for another machine."""
    machines = {0x3E: "x86_64", 0xB7: "aarch64"}
    with open(program, "rb") as file:
        head = file.read(20)
    machine = machines.get(int.from_bytes(head[18:20], "little")) if head[:4] == b"\x7fELF" else None
    if machine in (None, platform.machine()):
        return [str(program)]
    return [f"qemu-{machine}", "-L", f"/usr/{machine}-linux-gnu", str(program)]


class Life:
    """One process of an environment with its own Runtime API."""

    def __init__(self, program, variables):
        self.waits, self.events, self.answers = threading.Event(), queue.Queue(), queue.Queue()
        self.init_error = None
        self.started = threading.Event()
        self.api = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.api.daemon_threads = True
        self.api.life = self
        threading.Thread(target=self.api.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.process = subprocess.Popen(
            command(program),
            cwd=program.parent,
            env={**variables, "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self.api.server_port}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        self.started.set()

    @property
    def ended(self):
        return self.process.poll() is not None

    def next_event(self):
        """The next event for the process, which is frozen until then."""
        self.started.wait()
        self.waits.set()
        self.process.send_signal(signal.SIGSTOP)
        event = self.events.get()
        self.process.send_signal(signal.SIGCONT)
        return event

    def end(self):
        """Kills the process if it runs, and closes its API."""
        self.process.kill()
        self.process.wait()
        self.events.put(None)  # for the thread that waits to answer it
        self.api.shutdown()
        self.api.server_close()


class Handler(BaseHTTPRequestHandler):
    """The Runtime API."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        """No log: the function's own log is used."""

    def reply(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)

    def do_GET(self):
        if self.path != f"{API}/invocation/next":
            return self.reply(404)
        event = self.server.life.next_event()
        try:
            if event is None:
                return self.reply(410)
            invocation, deadline = event
            self.reply(
                200,
                invocation.payload,
                [
                    ("Content-Type", "application/json"),
                    ("Lambda-Runtime-Aws-Request-Id", invocation.request_id),
                    ("Lambda-Runtime-Deadline-Ms", str(int(deadline * 1000))),
                    ("Lambda-Runtime-Invoked-Function-Arn", invocation.function_arn),
                    ("Lambda-Runtime-Trace-Id", invocation.trace_id),
                ],
            )
        except OSError:
            pass  # the process is gone; the waiting caller detects that

    def do_POST(self):
        body, life = self.body(), self.server.life
        if self.path == f"{API}/init/error":
            life.init_error = body
            life.waits.set()
            return self.reply(202)
        match self.path.removeprefix(API).split("/"):
            case ["", "invocation", request_id, ("response" | "error") as kind]:
                life.waits.clear()
                error_type = self.headers.get("Lambda-Runtime-Function-Error-Type", "Unhandled")
                life.answers.put((request_id, body, error_type if kind == "error" else None))
                return self.reply(202)
        return self.reply(404)


class Environment:
    """A function's environment: answers one event at a time."""

    def __init__(self, program, variables, timeout):
        self.program, self.variables, self.timeout = Path(program), dict(variables), timeout
        self.life = None
        self.log, self.told, self.lock = bytearray(), 0, threading.Lock()

    def start(self):
        """Starts a process to replace one that ended, and waits until it requests an event."""
        if self.life:
            self.life.end()
        life = self.life = Life(self.program, self.variables)
        threading.Thread(target=self.follow, args=(life,), daemon=True).start()
        until = time.monotonic() + INIT_SECONDS
        while not life.waits.wait(0.005):
            if life.ended:
                self.read(life)
                raise NotStarted(f"Runtime exited with exit status {life.process.returncode}: {self.last_log()}")
            if time.monotonic() > until:
                life.end()
                raise NotStarted(f"it asked for no event within {INIT_SECONDS} s: {self.last_log()}")
        if life.init_error is not None:
            life.end()
            raise NotStarted(life.init_error.decode("utf-8", "replace"))

    def follow(self, life):
        """Reads the output of the process, so that it never blocks on a full pipe."""
        while True:
            select.select([life.process.stdout], [], [])
            if not self.read(life):
                return

    def read(self, life):
        """Reads the pipe; false at its end."""
        with self.lock:
            while True:
                try:
                    piece = os.read(life.process.stdout.fileno(), 1 << 16)
                except BlockingIOError:
                    return True
                if not piece:
                    return False
                self.log += piece

    def last_log(self):
        """The last part of the output."""
        with self.lock:
            return bytes(self.log[-10_000:]).decode("utf-8", "replace")

    def invoke(self, invocation):
        """Processes an event."""
        begun = time.time()
        try:
            if self.life.ended:
                self.start()
        except NotStarted as error:
            message = f"RequestId: {invocation.request_id} Error: {error}".replace("\n", " ")
            return Outcome(error_type="Runtime.ExitError", message=message, log=self.untold())
        life = self.life
        deadline = begun + self.timeout
        life.events.put((invocation, deadline))
        outcome = self.answer(life, invocation.request_id, deadline)
        outcome.milliseconds = (time.time() - begun) * 1000
        # The process requests its next event after it has written all output of this one.
        while not life.ended and not life.waits.wait(0.02) and time.time() < deadline + 1:
            pass
        self.read(life)
        outcome.log, outcome.peak_megabytes = self.untold(), peak_megabytes(life.process.pid)
        return outcome

    def answer(self, life, request_id, deadline):
        while True:
            try:
                answered, body, error_type = life.answers.get(timeout=0.02)
                if answered == request_id:
                    return Outcome(body, error_type)
                continue
            except queue.Empty:
                pass
            if life.ended:
                return Outcome(
                    error_type="Runtime.ExitError",
                    message=f"RequestId: {request_id} Error: Runtime exited with exit status {life.process.returncode}",
                )
            if time.time() > deadline:
                life.process.kill()
                life.process.wait()
                return Outcome(
                    error_type="Sandbox.Timedout",
                    message=f"RequestId: {request_id} Error: Task timed out after {self.timeout:.2f} seconds",
                )

    def untold(self):
        """Output since the end of the last invocation."""
        with self.lock:
            told, self.told = self.told, len(self.log)
            return bytes(self.log[told:]).decode("utf-8", "replace")

    def stop(self):
        if self.life:
            self.life.end()


def peak_megabytes(pid):
    """Peak memory of the process; 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    peak = next((line for line in status.splitlines() if line.startswith("VmHWM")), "VmHWM: 0")
    return int(peak.split()[1]) // 1024
