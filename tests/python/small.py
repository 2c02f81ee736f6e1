#!/usr/bin/env python3
"""A server in a small memory group: it serves, folds and answers, and is never killed.

    small.py TIDELAKE [--memory 256MiB] [--seconds 600] [--writers 30] [--readers 20]

Writers send bodies of 1 to 20 000 lines, readers sort, join and group. A refusal (503, 507, 500 with "timeout") is within the
limits of the server; a death of the process, a lost or doubled row, or a log that is not folded afterwards is a failure.
Needs root and a writable memory controller (cgroup version 1 or 2).
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}
QUERIES = [
    "select host, v, ts from load.m order by v desc, host limit 100",
    "select a.host, count(*) from load.m a join load.m b on a.ts = b.ts and a.host = b.host group by a.host limit 10",
    "select host, avg(v), max(w), count(*) from load.m group by host order by 2",
    "select count(*) from load.m",
]
START_S = 120


def size(text):
    number, unit = re.fullmatch(r"(\d+)(MiB|GiB)", text).groups()
    return int(number) * UNITS[unit]


class Group:
    """A memory control group below that of this process."""

    def __init__(self, limit):
        self.path, self.kind = None, None
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                self.kind, base = 1, pathlib.Path("/sys/fs/cgroup/memory")
            elif controllers == "" and pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
                self.kind, base = 2, pathlib.Path("/sys/fs/cgroup")
            else:
                continue
            below = base / path.strip("/")
            # In a container the visible root is the container's group, whatever the path says.
            self.path = (below if below.is_dir() else base) / f"tidelake-small-{os.getpid()}"
            break
        if self.path is None:
            raise SystemExit("no memory controller")
        self.path.mkdir()
        if self.kind == 1:
            (self.path / "memory.limit_in_bytes").write_text(str(limit))
        else:
            (self.path / "memory.max").write_text(str(limit))
            try:
                (self.path / "memory.swap.max").write_text("0")
            except OSError:
                pass

    def join(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        name = "memory.max_usage_in_bytes" if self.kind == 1 else "memory.peak"
        try:
            return int((self.path / name).read_text())
        except OSError:
            return 0

    def close(self):
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.1)


class Server:
    def __init__(self, binary, store, group, log):
        self.command = [binary, "serve", "--store", store, "--listen", "127.0.0.1:0", "--auth", "off"]
        self.group, self.log, self.deaths, self.stopped = group, log, [], False
        self.port, self.process = 0, None
        self.start()
        threading.Thread(target=self.watch, daemon=True).start()

    def start(self):
        begin = self.log.tell() if self.log.tell() else os.fstat(self.log.fileno()).st_size
        self.process = subprocess.Popen(self.command, stderr=self.log, stdout=self.log, preexec_fn=self.group.join)
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            text = pathlib.Path(self.log.name).read_bytes()[begin:].decode(errors="replace")
            found = re.search(r"127\.0\.0\.1:(\d+)", text)
            if found:
                self.port = int(found.group(1))
                return
            time.sleep(0.1)

    def watch(self):
        while not self.stopped:
            code = self.process.wait()
            if self.stopped:
                return
            self.deaths.append(code)
            print(f"the server died: {code}", flush=True)
            self.start()

    def request(self, method, path, body=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def sql(self, text, timeout=120):
        return self.request("POST", "/api/v1/sql", json.dumps({"sql": text}), timeout)

    def stop(self):
        self.stopped = True
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def write(server, number, until, counts, lock):
    rng, sent = random.Random(number), 0
    while time.monotonic() < until:
        lines = int(10 ** rng.uniform(0, 4.3))
        body = "".join(
            f"m,host=h{number}_{rng.randrange(20)} v={rng.random()},w={rng.randrange(1000)}i {1_700_000_000_000_000_000 + sent + i}\n"
            for i in range(lines)
        )
        try:
            status, _ = server.request("POST", "/write?db=load", body)
        except OSError:
            status = 0
        with lock:
            counts[("write", status)] = counts.get(("write", status), 0) + 1
            if status == 204:
                counts["rows"] = counts.get("rows", 0) + lines
            else:
                # The outcome of a timed-out write is unknown.
                counts["open"] = counts.get("open", 0) + lines
        sent += lines
        if status != 204:
            time.sleep(0.2)


def read(server, number, until, counts, lock):
    rng = random.Random(1_000 + number)
    while time.monotonic() < until:
        try:
            status, _ = server.sql(rng.choice(QUERIES))
        except OSError:
            status = 0
        with lock:
            counts[("read", status)] = counts.get(("read", status), 0) + 1
        time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--writers", type=int, default=30)
    parser.add_argument("--readers", type=int, default=20)
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="tidelake-small-")
    group = Group(size(arguments.memory))
    failures = []
    with open(f"{directory}/log", "ab+") as log:
        server = Server(arguments.binary, f"{directory}/root", group, log)
        try:
            counts, lock, until = {}, threading.Lock(), time.monotonic() + arguments.seconds
            threads = [
                threading.Thread(target=run, args=(server, number, until, counts, lock))
                for run, many in ((write, arguments.writers), (read, arguments.readers))
                for number in range(many)
            ]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            found, until = None, time.monotonic() + 120
            while time.monotonic() < until:
                try:
                    status, reply = server.sql("select count(*) from load.m")
                except OSError:
                    status, reply = 0, b""
                if status == 200:
                    found = json.loads(reply)["data"][0][0]
                    break
                time.sleep(1)
            least, most = counts.get("rows", 0), counts.get("rows", 0) + counts.get("open", 0)
            if found is None or not least <= found <= most:
                failures.append(f"{found} rows, expected {least} to {most}")
            if counts.get(("read", 200), 0) == 0:
                failures.append("no query was answered")
        finally:
            server.stop()
            peak = group.peak()
            group.close()
    if server.deaths:
        failures.append(f"{len(server.deaths)} deaths: {server.deaths}")
    print(f"memory {arguments.memory}, peak of the group {peak >> 20} MiB (with its page cache)")
    print(", ".join(f"{key}: {value}" for key, value in sorted(counts.items(), key=str)))
    if failures:
        print(pathlib.Path(f"{directory}/log").read_text(errors="replace")[-4000:])
    shutil.rmtree(directory, ignore_errors=True)
    print("; ".join(failures) or "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
