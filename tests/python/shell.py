"""The interactive shell on a terminal: shell.py BINARY URL. Uses the standard library alone."""

import json
import os
import pty
import re
import select
import signal
import sys
import tempfile
import time
import urllib.request

BINARY, URL = sys.argv[1:]
LIMIT = 60
ENDLESS = "select count(*) from generate_series(1, 1000000000000) where value % 7 = 3"


class Shell:
    def __init__(self, *arguments):
        self.seen = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(BINARY, [BINARY, "sql", "--url", URL, *arguments])

    def expect(self, pattern):
        """Reads until the pattern occurs after the previously expected text."""
        end = time.monotonic() + LIMIT
        while True:
            found = re.search(pattern, self.seen)
            if found:
                text, self.seen = self.seen[: found.end()], self.seen[found.end() :]
                return text
            left = end - time.monotonic()
            assert left > 0, f"no {pattern!r} in {LIMIT} s, but {self.seen!r}"
            if select.select([self.terminal], [], [], left)[0]:
                try:
                    data = os.read(self.terminal, 65536)
                except OSError:
                    data = b""
                assert data, f"the shell ended without {pattern!r}: {self.seen!r}"
                self.seen += data.decode(errors="replace")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def end(self):
        """Waits for the shell's end; returns the exit code."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.terminal], [], [], 0.05)[0]:
                try:
                    os.read(self.terminal, 65536)
                except OSError:
                    pass
        raise AssertionError("the shell does not end")


def rows(statement):
    body = json.dumps({"sql": statement}).encode()
    request = urllib.request.Request(f"{URL}/api/v1/sql", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT) as reply:
        return reply.read().decode()


def until(holds, what):
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def runs():
    """Whether the server executes the query: a query that is only planned cannot be cancelled by ID."""
    return any(row[1] == "running" and "generate_series" in row[-1] for row in json.loads(rows("show queries"))["data"])


history = os.path.join(tempfile.mkdtemp(), "history")
shell = Shell("--history", history)
shell.expect("tidelake> ")

# Ctrl-C during a query cancels it on the server, and the shell continues.
shell.type(ENDLESS + ";\r")
until(runs, "the query does not run")
shell.type("\x03")
shell.expect("error: query cancelled")
until(lambda: not runs(), "the query still runs")
shell.type("select 6 * 7 as n;\r")
shell.expect(r"\| 42 ")

# Ctrl-C at the prompt clears the input, also of several lines.
shell.type("select nonsense\r")
shell.expect(r"\.\.\.> ")
shell.type("\x03")
shell.expect("tidelake> ")
shell.type("select 6 * 8 as n;\r")
shell.expect(r"\| 48 ")

# Unknown databases are refused; help, quit and exit are commands.
for statement in ["use nosuch;", "\\u nosuch"]:
    shell.type(statement + "\r")
    shell.expect('error: database not found: "nosuch"')
shell.type("help\r")
shell.expect("tables of the database")

# The history is saved although the shell is killed.
os.kill(shell.pid, signal.SIGKILL)
os.waitpid(shell.pid, 0)
with open(history, encoding="utf-8") as kept:
    kept = kept.read()
assert "generate_series" in kept and "6 * 8" in kept, kept

for farewell in ["exit\r", "quit;\r", "\x04"]:
    shell = Shell("--history", history)
    shell.expect("tidelake> ")
    shell.type(farewell)
    assert shell.end() == 0, farewell

shell = Shell("--history", history, "-d", "nosuch")
shell.expect('database not found: "nosuch"')
assert shell.end() == 1
