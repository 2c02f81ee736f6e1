#!/usr/bin/env python3
"""OpenTSDB 2.4 on an HBase of its own on 127.0.0.1: accepts OpenTSDB JSON, compacts, measures and queries.

    opentsdb.py --engines-dir DIR --work DIR [--group 0 --percent 10,100 --repeat 5]

Each row is a point of temperature and one of humidity with the tags, as in the papers. Input and output format: adapter.py.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

import adapter

# The whole minute that the first row lies in, and a time after all rows, in milliseconds: a minute's value bears the time of
# its beginning, and one before the question's span is left out.
FIRST, END = 1563249660000, 1600000000000
METRICS = ("temperature", "humidity")
# Maximum wait for HBase's tables: HBase starts in ten seconds, and takes several times longer on a busy machine.
TABLES_SECONDS = 180
# HBase runs in one process, which exits when its ZooKeeper sessions expire. Sessions last ten minutes instead of ten seconds, so
# that they survive on a busy machine. Clients wait for ZooKeeper as long as for the tables. Merged files are moved away after a
# second instead of two minutes.
HBASE = """<configuration>
  <property><name>hbase.rootdir</name><value>file://{work}/hbase</value></property>
  <property><name>hbase.tmp.dir</name><value>{work}/tmp</value></property>
  <property><name>hbase.unsafe.stream.capability.enforce</name><value>false</value></property>
  <property><name>hbase.wal.provider</name><value>filesystem</value></property>
  <property><name>hbase.zookeeper.quorum</name><value>127.0.0.1</value></property>
  <property><name>hbase.zookeeper.property.clientPort</name><value>{zookeeper_port}</value></property>
  <property><name>hbase.zookeeper.property.dataDir</name><value>{work}/zookeeper</value></property>
  <property><name>hbase.zookeeper.property.maxSessionTimeout</name><value>600000</value></property>
  <property><name>zookeeper.session.timeout.localHBaseCluster</name><value>600000</value></property>
  <property><name>zookeeper.registry.async.get.timeout</name><value>{tables_millis}</value></property>
  <property><name>hbase.master.hostname</name><value>127.0.0.1</value></property>
  <property><name>hbase.master.ipc.address</name><value>127.0.0.1</value></property>
  <property><name>hbase.master.port</name><value>0</value></property>
  <property><name>hbase.master.info.port</name><value>-1</value></property>
  <property><name>hbase.unsafe.regionserver.hostname</name><value>127.0.0.1</value></property>
  <property><name>hbase.regionserver.ipc.address</name><value>127.0.0.1</value></property>
  <property><name>hbase.regionserver.port</name><value>0</value></property>
  <property><name>hbase.regionserver.info.port</name><value>-1</value></property>
  <property><name>hbase.hfile.compaction.discharger.interval</name><value>1000</value></property>
</configuration>
"""
OPENTSDB = """
tsd.network.bind = 127.0.0.1
tsd.network.port = {port}
tsd.http.staticroot = {work}
tsd.http.cachedir = {work}/tmp
tsd.http.request.enable_chunked = true
tsd.http.request.max_chunk = 16777216
tsd.core.auto_create_metrics = true
tsd.storage.hbase.zk_quorum = 127.0.0.1:{zookeeper_port}
hbase.meta.scan = true
"""
LOGGING = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %level [%logger{{0}}] %msg%n</pattern></encoder>
  </appender>
  <root level="warn"><appender-ref ref="out"/></root>
</configuration>
"""
# JVM options that HBase needs on Java 17.
OPENS = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.nio", "sun.nio.ch")]

# Downsampling function and aggregator across series of each query. zimsum counts a missing value as zero, where sum would
# interpolate it.
COUNT, SUM, MAX, MIN = ("count", "zimsum"), ("sum", "zimsum"), ("max", "mimmax"), ("min", "mimmin")
OF_FUNCTION = {"count": [COUNT], "avg": [COUNT, SUM], "sum": [SUM], "max": [MAX], "min": [MIN], "spread": [MAX, MIN]}

# OpenTSDB's write counters by type: requests to HBase; cells that hold a whole row, and the cells they replace.
WRITTEN = (
    ("tsd.hbase.rpcs", "put"),
    ("tsd.hbase.rpcs", "delete"),
    ("tsd.compaction.writes", None),
    ("tsd.compaction.deletes", None),
)


class OpenTSDB:
    """The engine, with the interface of adapter.serve."""

    peer = "OpenTSDB"
    hbase = server = None

    def start(self, args, work):
        jars = [os.path.join(args.engines_dir, name) for name in ("opentsdb", "hbase")]
        self.version = " on HBase ".join(version(*names) for names in zip(jars, ("opentsdb", "hbase-shaded-testing-util")))
        logback = glob.glob(f"{jars[0]}/logback-*.jar")
        self.java = [shutil.which("java") or "java", "-XX:-UsePerfData", f"-Djava.io.tmpdir={work}/tmp"]
        self.hbase_path = ["-cp", ":".join([work, f"{jars[1]}/*", *logback])]
        self.work = work
        port, zookeeper_port = adapter.free_port(), adapter.free_port()
        settings = {"work": work, "port": port, "zookeeper_port": zookeeper_port, "tables_millis": TABLES_SECONDS * 1000}
        os.mkdir(f"{work}/tmp")
        for name, text in (("hbase-site.xml", HBASE), ("opentsdb.conf", OPENTSDB), ("logback.xml", LOGGING)):
            with open(f"{work}/{name}", "w", encoding="utf-8") as file:
                file.write(text.format(**settings))
        hbase = [*self.java, "-Xmx1g", *OPENS, *self.hbase_path, "org.apache.hadoop.hbase.master.HMaster", "start"]
        self.hbase = adapter.Server(hbase, zookeeper_port, f"{work}/hbase.log")
        self.tables("create", TABLES_SECONDS)
        tsd = [*self.java, "-Xmx1g", "-cp", f"{work}:{jars[0]}/*", "net.opentsdb.tools.TSDMain"]
        self.server = adapter.Server([*tsd, f"--config={work}/opentsdb.conf"], port, f"{work}/log")
        self.server.wait_until("/api/version")
        self.url = f"http://127.0.0.1:{port}"

    def tables(self, step, seconds):
        """Runs a command of HBaseTables.java."""
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "HBaseTables.java")
        command = [*self.java, "-Xmx256m", *self.hbase_path, program, step]
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=True,
                preexec_fn=adapter.die_with_parent,
            )
        except subprocess.TimeoutExpired:
            self.hbase.fail(f"HBase does not {step} its tables within {seconds} s")
        except subprocess.CalledProcessError as error:
            self.hbase.fail(f"HBase does not {step} its tables: {error.stderr[-1000:]}")

    def settle(self):
        """All points in HBase, those of a row (a series and an hour) in one cell, and one file of each family."""
        deadline = time.monotonic() + adapter.SETTLE_SECONDS
        seconds, (held, joined) = self.gather()
        while joined:
            adapter.tell(f"OpenTSDB: {joined} cells written or deleted to make rows of one")
            if time.monotonic() > deadline:
                sys.exit(f"OpenTSDB still joins cells after {adapter.SETTLE_SECONDS} s")
            took, (held, joined) = self.gather()
            seconds += took
        begun = time.perf_counter()
        self.tables("compact", adapter.SETTLE_SECONDS)
        seconds += time.perf_counter() - begun + adapter.rest(lambda: adapter.bytes_of(*self.stored()))
        families = glob.glob(f"{self.work}/hbase/data/default/*/[0-9a-f]*/[a-z]*")
        if any(len(os.listdir(family)) > 1 for family in families):
            sys.exit(f"HBase has not merged all files: {[os.listdir(family) for family in families]}")
        return seconds, held

    def gather(self):
        """Has OpenTSDB read all points, whereupon it writes those of each row in one cell and deletes the others.

        Gives the seconds until that was done, the points that each metric has, and the cells written and deleted.
        """
        seconds = adapter.rest(self.written, quiet=3.0)
        begun = time.perf_counter()
        before = self.written()
        temperatures, humidities = map(self.count, METRICS)
        seconds += time.perf_counter() - begun
        if temperatures != humidities:
            sys.exit(f"OpenTSDB has {temperatures} temperatures and {humidities} humidities")
        seconds += adapter.rest(self.written, quiet=3.0)
        return seconds, (temperatures, sum(self.written().values()) - sum(before.values()))

    def written(self):
        """Returns OpenTSDB's counts of cells written to and deleted from HBase so far."""
        stats = json.loads(self.server.get("/api/stats"))
        return {name: int(one["value"]) for one in stats if (name := (one["metric"], one["tags"].get("type"))) in WRITTEN}

    def count(self, metric):
        [[count]] = values(self.run(query([part(metric, "0all", COUNT)])))
        return int(count)

    def stored(self):
        return [f"{self.work}/hbase/data/default"]

    def statement(self, question):
        groups = group_filter(question)
        if question.family == "q1":
            return query([{"metric": metric, "aggregator": "none", "filters": groups} for metric in METRICS])
        if question.family == "q2":
            return query([part("temperature", "0all", of, groups) for of in OF_FUNCTION[question.function]])
        period = "0all" if question.family == "q3" else "1m"
        return query([part("temperature", period, of, groups) for of in (COUNT, SUM)])

    def run(self, statement):
        return self.server.request("POST", "/api/query?arrays=true", statement, {"Content-Type": "application/json"})

    def rows(self, question, found):
        if question.family == "q1":
            return adapter.q1_sums(q1(found))
        found = values(found)
        if question.family == "q2":
            one = [of for [of] in found]
            if question.function == "avg":
                return [[one[1] / one[0]]]
            return [[one[0] - one[1]]] if question.function == "spread" else [[int(one[0])]]
        return [[int(count), int(total), total / count] for count, total in zip(*found, strict=True)]

    def stop(self):
        for server in (self.server, self.hbase):
            if server is not None:
                server.stop()


def version(directory, artifact):
    """The version of a jar: 2.6.3 of hbase-shaded-testing-util-2.6.3-hadoop3.jar."""
    [jar] = glob.glob(f"{directory}/{artifact}-[0-9]*.jar")
    return re.search(rf"{artifact}-([0-9.]+[0-9])", jar).group(1)


def query(parts):
    """The body of a request for all times, in milliseconds, each part of whose reply says which one it answers."""
    return json.dumps({"start": FIRST, "end": END, "msResolution": True, "showQuery": True, "queries": parts})


def part(metric, period, of, filters=()):
    """A function of the points of each period, over all series or those of each group."""
    by_period, by_series = of
    return {"metric": metric, "aggregator": by_series, "downsample": f"{period}-{by_period}", "filters": list(filters)}


def group_filter(question):
    """Returns the groups of a query; q3 has an answer for each."""
    if question.family == "q1":
        groups = str(question.group)
    elif question.percent < 100:
        groups = "|".join(map(str, range(question.percent)))
    elif question.family == "q3":
        return [{"type": "wildcard", "tagk": "devgroup", "filter": "*", "groupBy": True}]
    else:
        return []
    return [{"type": "literal_or", "tagk": "devgroup", "filter": groups, "groupBy": question.family == "q3"}]


def series(found):
    """The series of a reply in the order of the query's parts, and in that of devgroup where there is one of each."""
    return sorted(json.loads(found), key=lambda one: (one["query"]["index"], int(one["tags"].get("devgroup", 0))))


def values(found):
    """Returns the values of each part of a query, by group and time."""
    parts = {}
    for one in series(found):
        parts.setdefault(one["query"]["index"], []).extend(value for _, value in one["dps"])
    return list(parts.values())


def q1(found):
    """The rows of an answer with a series of points for each device and metric."""
    devices = {}
    for one in series(found):
        devices.setdefault(one["tags"]["devid"], []).append(one["dps"])
    for devid, (temperatures, humidities) in devices.items():
        for (ts, temperature), (other, humidity) in zip(temperatures, humidities, strict=True):
            if ts != other:
                sys.exit(f"device {devid}: temperature and humidity have other times")
            yield ts, int(temperature), humidity, int(devid)


def main():
    parser = adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    adapter.serve(OpenTSDB(), parser.parse_args())


if __name__ == "__main__":
    main()
