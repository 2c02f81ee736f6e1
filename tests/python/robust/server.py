"""A test server, its resource usage, and a query that must always be answered."""

import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time

START_SECONDS = 60
# After SIGTERM running requests have 20 s; flushing their rows takes additional time.
STOP_SECONDS = 30
TICKS = os.sysconf("SC_CLK_TCK")


class Fault(AssertionError):
    """The server behaved incorrectly."""


def expect(holds, message):
    if not holds:
        raise Fault(message)


class Server:
    """Serves a directory on a free port of this machine, within `with`."""

    # Additional environment variables of the server, and its umask (-1: this program's).
    environment, umask = {}, -1

    def __init__(self, binary, directory, name, *options):
        self.options, self.log_path = options, os.path.join(directory, f"{name}.log")
        self.command = [binary, "serve", "--store", os.path.join(directory, "root"), "--listen", "127.0.0.1:0", "--log", "warn", *options]
        self.directory, self.process, self.port = directory, None, None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def start(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TIDELAKE_")} | {"RUST_BACKTRACE": "1"}
        environment |= self.environment
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(
                self.command,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=environment,
                umask=self.umask,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"HTTP +http://127\.0\.0\.1:(\d+)\s", self.log())
            if found:
                self.port = int(found[1])
                return
            time.sleep(0.05)
        raise Fault(f"the server did not start: {self.log()[-2000:]}")

    def __exit__(self, kind, *_):
        if kind is not None:
            self.kill()
        elif self.process.poll() is None:
            self.stop()
        self.calm()

    def log(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def calm(self):
        """No thread has panicked."""
        log = self.log()
        at = log.find("panicked")
        expect(at < 0, f"the server panicked: {log[max(0, at - 200) : at + 1500]}")

    def stop(self):
        """Ends the server by SIGTERM; returns the seconds that took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Fault(f"the server had not ended {STOP_SECONDS} s after SIGTERM: {self.log()[-1000:]}") from None
        expect(status == 0, f"the server ended with status {status} after SIGTERM: {self.log()[-1000:]}")
        return time.monotonic() - began

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def post(self, path, body, seconds=30, headers=None):
        """Status, headers and body of a POST on a new connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request("POST", path, body, headers or {})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read().decode(errors="replace")
        finally:
            connection.close()

    def sql(self, statement, seconds=30):
        """The rows of a statement."""
        status, _, body = self.post("/api/v1/sql", statement, seconds)
        expect(status == 200, f"{status} for {statement[:200]}: {body[:500]}")
        return json.loads(body)["data"]

    def connections(self):
        """Number of other connections."""
        return self.sql("select count(*) from system.connections")[0][0] - 1

    def queries(self):
        """Number of other running queries."""
        return self.sql("select count(*) from system.queries")[0][0] - 1

    def resident(self):
        """Resident memory in MiB: (current, peak)."""
        with open(f"/proc/{self.process.pid}/status") as file:
            text = file.read()
        return tuple(int(re.search(rf"{name}:\s*(\d+) kB", text)[1]) >> 10 for name in ("VmRSS", "VmHWM"))

    def within(self, limit):
        """Checks that the peak of resident memory is within a limit in MiB; returns the peak."""
        most = self.resident()[1]
        expect(most <= limit, f"{most} MiB were resident, the limit is {limit}")
        return most

    def forget_peak(self):
        """Resets the peak of resident memory."""
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")

    def processor(self):
        """CPU time in seconds."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def until(holds, seconds, message):
    """Waits until a condition holds; returns how long that took."""
    began = time.monotonic()
    while not holds():
        passed = time.monotonic() - began
        expect(passed < seconds, message if isinstance(message, str) else message())
        time.sleep(0.05)
    return time.monotonic() - began


class Control:
    """Repeats a query, each time on a new connection; within `with`.

    The result must be correct and arrive within `seconds`."""

    ROWS = 1_000

    def __init__(self, server, seconds=2.0):
        self.server, self.seconds, self.worst, self.asked, self.fault = server, seconds, 0.0, 0, None
        self.over, self.thread = threading.Event(), threading.Thread(target=self.run)

    @classmethod
    def prepare(cls, server):
        lines = "".join(f"rows n={n}i {1_700_000_000_000_000_000 + n}\n" for n in range(cls.ROWS))
        status, _, body = server.post("/write?db=control", lines)
        expect(status == 204, f"{status}: {body}")

    @classmethod
    def ask(cls, server, seconds):
        found = server.sql("select count(*), sum(n) from control.rows", seconds)
        expect(found == [[cls.ROWS, cls.ROWS * (cls.ROWS - 1) // 2]], f"a wrong answer: {found}")

    def run(self):
        while not self.over.is_set() and not self.fault:
            began = time.monotonic()
            try:
                self.ask(self.server, self.seconds)
            except (OSError, http.client.HTTPException, ValueError, Fault) as error:
                self.fault = f"the control query failed after {time.monotonic() - began:.1f} s: {error or type(error).__name__}"
            self.worst, self.asked = max(self.worst, time.monotonic() - began), self.asked + 1
            self.over.wait(0.1)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.thread.join()
        if kind is None:
            expect(not self.fault, self.fault)
            expect(self.asked > 0, "the control query was never asked")

    def __str__(self):
        return f"{self.asked} control queries, the slowest {self.worst * 1000:.0f} ms"
