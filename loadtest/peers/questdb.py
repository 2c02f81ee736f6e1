#!/usr/bin/env python3
"""QuestDB on 127.0.0.1: accepts line protocol, applies its log, measures and queries in SQL.

    questdb.py --engines-dir DIR --work DIR [--group 0 --percent 10,100 --repeat 5]

Input and output format: adapter.py.
"""

import argparse
import glob
import json
import os
import re
import shutil

import adapter

# Heap of the JVM; columns are memory-mapped files outside it.
JVM = ["-Xmx1g"]
# Applied log files are removed after 1 s (default 30 s).
CONFIGURATION = """
http.bind.to=127.0.0.1:{port}
http.min.enabled=false
http.receive.max.payload.size=64m
pg.enabled=false
line.tcp.enabled=false
line.udp.enabled=false
telemetry.enabled=false
log.level.verbose=false
shared.worker.count=2
cairo.wal.purge.interval=1000
"""
CREATE = """
create table devices (
    devid symbol capacity 16384, devname symbol capacity 16384, devgroup symbol capacity 256,
    temperature int, humidity float, ts timestamp
) timestamp(ts) partition by hour wal
"""


class QuestDB:
    """The engine, with the interface of adapter.serve."""

    peer = "QuestDB"
    server = None

    def start(self, args, work):
        [jar] = glob.glob(os.path.join(args.engines_dir, "questdb/questdb-*.jar"))
        self.version = re.search(r"questdb-(.+)\.jar", jar).group(1)
        self.work, self.jar = work, jar
        os.makedirs(f"{work}/conf")
        self.begin()
        self.server.get("/exec", query=CREATE)
        self.url = f"http://127.0.0.1:{self.server.port}"

    def begin(self):
        """Starts the server on its existing directory."""
        port = adapter.free_port()
        with open(f"{self.work}/conf/server.conf", "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(port=port))
        java = shutil.which("java") or "java"
        command = [java, *JVM, "-p", self.jar, "-m", "io.questdb/io.questdb.ServerMain", "-d", self.work]
        self.server = adapter.Server(command, port, f"{self.work}/log")
        self.server.wait_until("/exec?query=select%201")

    def settle(self):
        """Waits until the log is applied, then restarts: a running server's files are longer than their rows."""

        def state():
            [[written, applied]] = self.dataset("select sequencerTxn, writerTxn from wal_tables() where name = 'devices'")
            return written - applied, adapter.bytes_of(*self.stored())

        seconds = adapter.rest(state)
        behind, _ = state()
        if behind:
            raise RuntimeError(f"QuestDB has come to rest {behind} transactions behind its log")
        self.server.stop()
        self.begin()
        return seconds, self.dataset("select count() from devices")[0][0]

    def stored(self):
        return glob.glob(f"{self.work}/db/devices~*")

    def statement(self, question):
        if question.family == "q1":
            return f"select * from devices where devgroup = '{question.group}'"
        groups = ",".join(f"'{group}'" for group in range(question.percent or 0))
        where = "" if question.percent >= 100 else f" where devgroup in ({groups})"
        if question.family == "q2":
            return f"select {adapter.FUNCTIONS[question.function]} from devices{where}"
        if question.family == "q3":
            return f"select devgroup, {adapter.THREE} from devices{where} group by devgroup"
        return f"select ts, {adapter.THREE} from devices{where} sample by 1m"

    def run(self, statement):
        return self.server.get("/exec", query=statement)

    def rows(self, question, found):
        reply = json.loads(found)
        rows = reply["dataset"]
        if question.family == "q1":
            names = [column["name"] for column in reply["columns"]]
            at = [names.index(name) for name in ("ts", "temperature", "humidity", "devid")]
            picked = ([row[index] for index in at] for row in rows)
            return adapter.q1_sums((millis(ts), temperature, humidity, int(devid)) for ts, temperature, humidity, devid in picked)
        if question.family == "q2":
            return rows
        rows.sort(key=lambda row: int(row[0]) if question.family == "q3" else row[0])
        return [row[1:] for row in rows]

    def dataset(self, statement):
        return json.loads(self.run(statement))["dataset"]

    def stop(self):
        if self.server is not None:
            self.server.stop()


def millis(text):
    """Converts QuestDB's text of a UTC time to milliseconds since 1970."""
    from datetime import datetime, timezone

    time = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    return int(time.timestamp()) * 1000 + time.microsecond // 1000


def main():
    parser = adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    adapter.serve(QuestDB(), parser.parse_args())


if __name__ == "__main__":
    main()
