#!/usr/bin/env python3
"""Cassandra 5 on 127.0.0.1: loads the rows from standard input over CQL, compacts, measures and queries.

    cassandra_cql.py --engines-dir DIR --work DIR [--group 0 --percent 10,100 --repeat 5]

Two tables: one by (devgroup), (devid, devname, ts), which q1 to q3 read as in the papers, and one by (minute) for q4, whose
loading and size are printed only on standard error. Output format: adapter.py.
"""

import argparse
import glob
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import adapter

# Writers at once, each a process with a connection of its own, and rows of a batch.
CLIENTS, BATCH_ROWS = 4, 1000
CONFIGURATION = """
cluster_name: loadtest
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "127.0.0.1:{storage_port}"}}]
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: {storage_port}
native_transport_port: {port}
endpoint_snitch: SimpleSnitch
num_tokens: 1
data_file_directories: [{work}/data]
commitlog_directory: {work}/commitlog
saved_caches_directory: {work}/saved_caches
hints_directory: {work}/hints
cdc_raw_directory: {work}/cdc
commitlog_sync: periodic
commitlog_sync_period: 10s
memtable_heap_space: 256MiB
batch_size_warn_threshold: 1MiB
batch_size_fail_threshold: 4MiB
read_request_timeout: 600s
range_request_timeout: 600s
write_request_timeout: 60s
request_timeout: 600s
"""
# JVM options that Cassandra needs on Java 17.
OPENS = (
    "java.base/sun.nio.ch java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.lang.reflect "
    "java.base/java.math java.base/java.net java.base/java.nio java.base/java.nio.charset java.base/java.nio.file.spi "
    "java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic java.base/jdk.internal.loader "
    "java.base/jdk.internal.math java.base/jdk.internal.misc java.base/jdk.internal.module java.base/jdk.internal.ref "
    "java.base/jdk.internal.reflect java.base/jdk.internal.util java.base/jdk.internal.util.jar java.base/sun.nio.fs "
    "java.rmi/sun.rmi.registry java.rmi/sun.rmi.server java.rmi/sun.rmi.transport java.rmi/sun.rmi.transport.tcp "
    "java.sql/java.sql jdk.management/com.sun.management.internal java.management.rmi/javax.management.remote.rmi "
    "java.management/sun.management java.logging/java.util.logging jdk.attach/sun.tools.attach "
    "jdk.compiler/com.sun.tools.javac.file"
).split()
TABLES = {
    "devices": """create table devices (devgroup int, devid int, devname text, ts timestamp, temperature int, humidity float,
        primary key ((devgroup), devid, devname, ts))""",
    "minutes": """create table minutes (minute timestamp, devgroup int, devid int, devname text, ts timestamp,
        temperature int, humidity float, primary key ((minute), devgroup, devid, devname, ts))""",
}
INSERTS = {
    "devices": "insert into devices (devgroup, devid, devname, ts, temperature, humidity) values (?, ?, ?, ?, ?, ?)",
    "minutes": "insert into minutes (minute, devgroup, devid, devname, ts, temperature, humidity) values (?, ?, ?, ?, ?, ?, ?)",
}
WIDE, DOUBLE = "cast(temperature as bigint)", "cast(temperature as double)"
THREE = f"count(temperature), sum({WIDE}), avg({DOUBLE})"
SELECT = {
    "count": "count(*)",
    "avg": f"avg({DOUBLE})",
    "sum": f"sum({WIDE})",
    "max": "max(temperature)",
    "min": "min(temperature)",
    "spread": "max(temperature), min(temperature)",
}


class Cassandra:
    """The engine, with the interface of adapter.embed."""

    peer, clients, rows_per_request = "Cassandra", CLIENTS, BATCH_ROWS
    server = cluster = None

    def open(self, args, work):
        jars = os.path.join(args.engines_dir, "cassandra")
        [jar] = glob.glob(f"{jars}/cassandra-all-*.jar")
        self.version = re.search(r"cassandra-all-(.+)\.jar", jar).group(1)
        self.work = work
        self.port, self.management_port = adapter.free_port(), adapter.free_port()
        with open(f"{work}/cassandra.yaml", "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(work=work, port=self.port, storage_port=adapter.free_port()))
        java = shutil.which("java") or "java"
        opens = [f"--add-opens={name}=ALL-UNNAMED" for name in OPENS]
        exports = [f"--add-exports={name}=ALL-UNNAMED" for name in OPENS]
        settings = {
            "cassandra.config": f"file://{work}/cassandra.yaml",
            "cassandra.storagedir": work,
            "cassandra.jmx.local.port": self.management_port,
            "cassandra-foreground": "yes",
            "cassandra.ring_delay_ms": 1,
            "cassandra.skip_wait_for_gossip_to_settle": 0,
            "java.io.tmpdir": work,
        }
        self.java = [java, *opens, *exports, "-cp", f"{jars}/*"]
        command = [java, "-Xmx1g", "-Xss1m", *opens, *exports, *(f"-D{name}={value}" for name, value in settings.items())]
        command += ["-cp", f"{jars}/*", "org.apache.cassandra.service.CassandraDaemon"]
        self.server = adapter.Server(command, self.port, f"{work}/log")
        self.wait_for_port()
        self.cluster, self.session = connect(self.port)
        simple = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self.session.execute(f"create keyspace db with replication = {simple}")
        self.session.set_keyspace("db")
        for create in TABLES.values():
            self.session.execute(create)

    def wait_for_port(self):
        deadline = time.monotonic() + adapter.START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self.server.process.poll() is not None or time.monotonic() > deadline:
                    self.server.fail(f"Cassandra does not serve within {adapter.START_SECONDS} s")
                time.sleep(0.2)

    def load(self, reader):
        """Reads all rows into memory and writes both tables; returns the seconds of the first table."""
        columns = ("devgroup", "devid", "devname", "ts", "temperature", "humidity")
        devices = {}
        for batch in reader:
            for row in zip(*(batch.column(name).to_pylist() for name in columns)):
                devices.setdefault(row[1], []).append(row)
        self.devices = list(devices.values())
        seconds, seconds_of_minutes = self.write("devices"), self.write("minutes")
        adapter.tell(f"Cassandra: table minutes, {sum(map(len, self.devices)) / seconds_of_minutes:.0f} rows/s")
        return seconds

    def write(self, table):
        """The seconds that the writers took, their connections apart."""
        shares = [self.devices[number::CLIENTS] for number in range(CLIENTS)]
        ready, go = multiprocessing.Barrier(CLIENTS + 1), multiprocessing.Event()
        writers = [multiprocessing.Process(target=writer, args=(self.port, table, share, ready, go)) for share in shares]
        for process in writers:
            process.start()
        ready.wait(adapter.START_SECONDS)
        begun = time.perf_counter()
        go.set()
        for process in writers:
            process.join(adapter.SETTLE_SECONDS)
        seconds = time.perf_counter() - begun
        for process in writers:
            if process.exitcode != 0:
                process.kill()
                sys.exit(f"a writer to Cassandra ended with {process.exitcode}")
        return seconds

    def settle(self):
        begun = time.perf_counter()
        for command in (["flush"], ["compact", "db"]):
            nodetool = [*self.java, "org.apache.cassandra.tools.NodeTool", "-p", str(self.management_port), *command]
            ran = subprocess.run(nodetool, capture_output=True, text=True, timeout=adapter.SETTLE_SECONDS)
            if ran.returncode:
                sys.exit(f"nodetool {' '.join(command)}: {ran.stdout[-1000:]} {ran.stderr[-1000:]}")
        adapter.tell(f"Cassandra: flushed and compacted in {time.perf_counter() - begun:.1f} s")
        adapter.rest(lambda: adapter.bytes_of(f"{self.work}/data/db"), quiet=5.0)
        minutes = adapter.bytes_of(*glob.glob(f"{self.work}/data/db/minutes-*"))
        adapter.tell(f"Cassandra: table minutes, {minutes / sum(map(len, self.devices)):.2f} bytes a row")
        return self.run("select count(*) from devices")[0][0]

    def stored(self):
        return glob.glob(f"{self.work}/data/db/devices-*")

    def statement(self, question):
        if question.family == "q1":
            return f"select ts, temperature, humidity, devid, devname, devgroup from devices where devgroup = {question.group}"
        groups = ", ".join(map(str, range(question.percent)))
        where = "" if question.percent >= 100 else f" where devgroup in ({groups})"
        if question.family == "q2":
            return f"select {SELECT[question.function]} from devices{where}"
        if question.family == "q3":
            return f"select devgroup, {THREE} from devices{where} group by devgroup"
        filtered = "" if question.percent >= 100 else f" where devgroup < {question.percent}"
        allowed = " allow filtering" if filtered else ""
        return f"select minute, {THREE} from minutes{filtered} group by minute{allowed}"

    def run(self, statement):
        return list(self.session.execute(statement))

    def rows(self, question, found):
        if question.family == "q1":
            return adapter.q1_sums((millis(row[0]), *row[1:4]) for row in found)
        if question.family == "q2":
            [row] = found
            return [[float(row[0] - row[1])]] if question.function == "spread" else [list(row)]
        return [list(row[1:]) for row in sorted(found, key=lambda row: row[0])]

    def close(self):
        if self.cluster is not None:
            self.cluster.shutdown()
        if self.server is not None:
            self.server.stop()


def connect(port):
    """Opens a connection without Nagle's delay; rows are tuples."""
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
    from cassandra.policies import RoundRobinPolicy
    from cassandra.query import tuple_factory

    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(), row_factory=tuple_factory, request_timeout=adapter.REPLY_SECONDS
    )
    cluster = Cluster(
        ["127.0.0.1"],
        port=port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        connect_timeout=adapter.START_SECONDS,
        control_connection_timeout=adapter.START_SECONDS,
    )
    return cluster, cluster.connect()


def writer(port, table, devices, ready, go):
    """A process that writes devices, rows of one partition to a batch."""
    from cassandra.query import BatchStatement, BatchType

    adapter.die_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    cluster, session = connect(port)
    session.set_keyspace("db")
    insert = session.prepare(INSERTS[table])
    ready.wait(adapter.START_SECONDS)
    go.wait(adapter.START_SECONDS)
    for rows in devices:
        for partition in partitions(table, rows):
            batch = BatchStatement(batch_type=BatchType.UNLOGGED)
            for row in partition:
                batch.add(insert, row)
            session.execute(batch)
    cluster.shutdown()


def partitions(table, rows):
    """Yields batches of rows of one device, each of one partition."""
    if table == "devices":
        for first in range(0, len(rows), BATCH_ROWS):
            yield rows[first : first + BATCH_ROWS]
        return
    minutes = {}
    for row in rows:
        minute = row[3].replace(second=0, microsecond=0)
        minutes.setdefault(minute, []).append((minute, *row))
    yield from minutes.values()


def millis(time):
    """Converts a naive UTC time to milliseconds since 1970."""
    return round((time - type(time)(1970, 1, 1)).total_seconds() * 1000)


def main():
    parser = adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    adapter.embed(Cassandra(), parser.parse_args())


if __name__ == "__main__":
    main()
