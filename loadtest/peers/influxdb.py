#!/usr/bin/env python3
"""InfluxDB 1.6 on 127.0.0.1: accepts line protocol, compacts, measures and queries in InfluxQL.

    influxdb.py --engines-dir DIR --work DIR [--group 0 --percent 10,100 --repeat 5 | --load-only --database devops]

`--load-only` leaves the queries to the load test. Input and output format: adapter.py.
"""

import argparse
import glob
import json
import os
import subprocess
import sys

import adapter

# Compaction starts 5 s and 10 s after the last write (the defaults, 10 minutes and 4 hours, are too long for a test);
# logs and the monitor, which would write into the store, are off.
CONFIGURATION = """
reporting-disabled = true
bind-address = "127.0.0.1:{backup_port}"
[meta]
  dir = "{work}/meta"
[data]
  dir = "{work}/data"
  wal-dir = "{work}/wal"
  cache-snapshot-write-cold-duration = "5s"
  compact-full-write-cold-duration = "10s"
  query-log-enabled = false
[monitor]
  store-enabled = false
[http]
  bind-address = "127.0.0.1:{port}"
  log-enabled = false
  max-body-size = 0
[continuous_queries]
  enabled = false
"""

SELECT = {
    "count": "count(temperature)",
    "avg": "mean(temperature)",
    "sum": "sum(temperature)",
    "max": "max(temperature)",
    "min": "min(temperature)",
    "spread": "spread(temperature)",
}
THREE = "count(temperature), sum(temperature), mean(temperature)"


class InfluxDB:
    """The engine, with the interface of adapter.serve."""

    peer = "InfluxDB"
    server = None

    def start(self, args, work):
        program = os.path.join(args.engines_dir, "influxdb/usr/bin/influxd")
        told = subprocess.run([program, "version"], capture_output=True, text=True, timeout=30, check=True).stdout
        # InfluxDB v1.6.7~rc0 (git: …)
        self.version = told.split()[1].lstrip("v")
        self.database, self.work = args.database, work
        port = adapter.free_port()
        with open(f"{work}/influxdb.conf", "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(work=work, port=port, backup_port=adapter.free_port()))
        self.server = adapter.Server([program, "-config", f"{work}/influxdb.conf"], port, f"{work}/log")
        self.server.wait_until("/ping")
        self.server.post("/query", q=f"create database {self.database}")
        self.url = f"http://127.0.0.1:{port}"

    def settle(self):
        """Waits until no write-ahead log is left and no shard's files have changed for the time of three checks."""

        def files():
            log = sum(os.path.getsize(path) for path in glob.glob(f"{self.work}/wal/{self.database}/*/*/*.wal"))
            blocks = sorted(glob.glob(f"{self.work}/data/{self.database}/*/*/*.tsm*"))
            return log, [(path, os.path.getsize(path)) for path in blocks if os.path.exists(path)]

        seconds = adapter.rest(files, quiet=20.0)
        log, blocks = files()
        if log or any(path.endswith(".tmp") for path, _ in blocks):
            sys.exit(f"InfluxDB has come to rest with {log} bytes of log and the files {blocks}")
        adapter.tell(f"InfluxDB: {[os.path.basename(path) for path, _ in blocks]}")
        if self.database != "db":
            return seconds, None
        return seconds, self.values("select count(temperature) from devices")[0][1]

    def stored(self):
        return [f"{self.work}/data/{self.database}", f"{self.work}/wal/{self.database}"]

    def statement(self, question):
        if question.family == "q1":
            return f"select * from devices where devgroup = '{question.group}'"
        where = "" if question.percent >= 100 else f" where devgroup =~ /{below(question.percent)}/"
        if question.family == "q2":
            return f"select {SELECT[question.function]} from devices{where}"
        if question.family == "q3":
            return f"select {THREE} from devices{where} group by devgroup"
        span = "time >= 1563249700000ms and time < 1600000000000ms"
        joined = f"{where} and {span}" if where else f" where {span}"
        return f"select {THREE} from devices{joined} group by time(1m) fill(none)"

    def run(self, statement):
        return self.server.get("/query", db=self.database, epoch="ms", q=statement)

    def rows(self, question, found):
        series = self.series(found)
        if question.family == "q1":
            [one] = series
            at = [one["columns"].index(name) for name in ("time", "temperature", "humidity", "devid")]
            picked = ([row[index] for index in at] for row in one["values"])
            return adapter.q1_sums((ts, temperature, humidity, int(devid)) for ts, temperature, humidity, devid in picked)
        if question.family == "q3":
            series.sort(key=lambda one: int(one["tags"]["devgroup"]))
        return [row[1:] for one in series for row in one["values"]]

    def values(self, statement):
        [one] = self.series(self.run(statement))
        return one["values"]

    @staticmethod
    def series(found):
        [result] = json.loads(found)["results"]
        if "error" in result:
            sys.exit(f"InfluxDB: {result['error']}")
        return result.get("series", [])

    def stop(self):
        if self.server is not None:
            self.server.stop()


def below(bound):
    """Returns a regular expression of the integers 0..bound: InfluxQL does not order tags, which are strings."""
    tens, ones = divmod(bound, 10)
    words = [f"[0-{min(bound, 10) - 1}]"]
    if tens > 1:
        words.append(f"[1-{tens - 1}][0-9]")
    if tens and ones:
        words.append(f"{tens}[0-{ones - 1}]")
    return f"^({'|'.join(words)})$"


def main():
    parser = adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    parser.add_argument("--database", default="db", help="database that is written")
    adapter.serve(InfluxDB(), parser.parse_args())


if __name__ == "__main__":
    main()
