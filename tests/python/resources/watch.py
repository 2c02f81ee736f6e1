"""A server whose memory and responsiveness are measured while cases run against it."""

import contextlib
import mmap
import os
import struct
import subprocess
import sys
import threading
import time

from robust.server import Server, expect, until

from . import pulse

LIMIT, BUFFER, TIMEOUT = 256, 64, 2
OPTIONS = [
    *["--query-memory", f"{LIMIT}MiB", "--query-timeout", f"{TIMEOUT}s"],
    *["--statement-buffer", f"{BUFFER}MiB", "--ingest-buffer", f"{BUFFER}MiB"],
    *["--tail-cache", "64MiB", "--page-cache", "32MiB", "--slow-query", "0s", "--fold-interval", "1h"],
]
# MiB: what is kept between queries has budgets of its own, a quarter for manifests, rollups and sorted blocks and a sixteenth for plans.
KEPT = LIMIT // 4 + LIMIT // 16
# MiB: a server with more resident memory is killed to protect the machine.
MOST = 3 << 10
ROWS = 50_000
BROKEN_OFF = "result aborted after its headers were sent"
FIRST = 1_700_000_000_000


class Watched(Server):
    """A server with a table to read; another process requests /health all the time."""

    # Freed memory is given back at once: what is resident is in use, and how busy the machine is does not change it.
    environment = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}

    def __init__(self, binary, directory, name):
        super().__init__(binary, directory, name, *OPTIONS)
        self.command[self.command.index("--store") + 1] = os.path.join(directory, f"{name}.root")
        self.overgrown, self.beat = False, None
        self.file = os.path.join(directory, f"{name}.pulse")

    def start(self):
        super().start()
        self.load()
        with open(self.file, "wb") as file:
            file.write(bytes(pulse.SIZE))
        with open(self.file, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), pulse.SIZE)
        self.beat = subprocess.Popen([sys.executable, pulse.__file__, str(self.port), self.file])
        threading.Thread(target=self.guard, daemon=True).start()
        until(lambda: self.number(2) > 20, 20, "/health is not answered")
        # The baseline: resident memory of the idle server after everything was read and written once.
        for statement in ("select count(*), max(s), sum(v) from fuzz.rows", "select s from fuzz.rows order by s, v limit 10"):
            self.sql(statement)
        time.sleep(0.5)
        self.base = self.resident()[0]

    def load(self):
        self.sql("create database fuzz precision 'ms'")
        lines = (f'rows,g=g{n % 50} n={n}i,v={n * 0.37 % 100},s="text {n * 7919 % 9973}" {FIRST + n * 1_000}' for n in range(ROWS))
        status, _, body = self.post("/write?db=fuzz&precision=ms", "\n".join(lines), 120)
        expect(status == 204, f"{status}: {body}")
        self.sql("create stable fuzz.written (ts timestamp, v double) tags (g int)")
        status, _, body = self.post("/api/v1/compact?until=fold", "", 120)
        expect(status == 200, f"{status}: {body}")

    def number(self, at):
        return struct.unpack("d", self.shared[8 * at : 8 * at + 8])[0]

    def guard(self):
        while self.process.poll() is None:
            with contextlib.suppress(OSError, TypeError):
                if self.resident()[0] > MOST:
                    self.overgrown = True
                    self.kill()
            time.sleep(0.02)

    def begin(self):
        """Resets the peaks. The baseline of a round is the idle server with what it keeps between queries, up to the budgets of that."""
        self.idle = min(max(self.resident()[0], self.base), self.base + KEPT)
        self.forget_peak()
        self.shared[0:8] = struct.pack("d", 0.0)
        self.unwell, self.panics, self.broken = self.number(3), self.log().count("panicked"), self.log().count(BROKEN_OFF)

    def end(self):
        """The measurements since `begin`: MiB above the baseline, the slowest /health in seconds, faults."""
        is_alive = self.process.poll() is None
        grown = MOST if self.overgrown or not is_alive else self.resident()[1] - self.idle
        asked = self.number(1)
        slowest = max(self.number(0), time.monotonic() - asked if asked else 0.0)
        faults = []
        if self.overgrown:
            faults.append(f"more than {MOST} MiB were resident, so that it was ended")
        elif not is_alive:
            faults.append(f"the server ended with status {self.process.poll()}")
        elif self.number(3) > self.unwell:
            faults.append("/health was not answered")
        if (count := self.log().count("panicked") - self.panics) > 0:
            log = self.log()
            faults.append(f"{count} panics: {log[log.rfind('panicked') - 60 :][:300]!r}")
        return grown, slowest, faults

    def broken_off(self):
        """Whether a result ended with an error after its first rows since `begin`."""
        return self.log().count(BROKEN_OFF) > self.broken

    def rests(self, seconds=10):
        """Waits until no query runs; returns whether that happened."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(Exception):
                if self.queries() == 0:
                    return True
            time.sleep(0.02)
        return False

    def __exit__(self, kind, *_):
        # Killed: tests of shutdown are elsewhere.
        if self.beat:
            self.beat.kill()
            self.beat.wait()
        self.kill()
