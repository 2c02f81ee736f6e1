#!/usr/bin/env python3
"""VictoriaMetrics on 127.0.0.1: accepts line protocol, merges, measures and queries in MetricsQL.

    victoriametrics.py --engines-dir DIR --work DIR [--group 0 --percent 10,100 --repeat 5]

Each row is a sample of devices_temperature and one of devices_humidity, with the tags as labels. Input and
output format: adapter.py.
"""

import argparse
import json
import os
import re
import sys

import adapter

# The first row, and the length of a minute, in seconds.
FIRST, MINUTE = 1563249700, 60


class VictoriaMetrics:
    """The engine, with the interface of adapter.serve."""

    peer = "VictoriaMetrics"
    server = None

    def start(self, args, work):
        program = os.path.join(args.engines_dir, "victoriametrics/usr/bin/victoria-metrics")
        # The program does not know its version; the stamp of its installation does: victoria-metrics 1.79.5+ds1-2+b5 ….
        with open(os.path.join(args.engines_dir, "victoriametrics.installed"), encoding="ascii") as stamp:
            self.version = stamp.read().split()[1].split("+")[0]
        self.work = work
        port = adapter.free_port()
        options = {
            "storageDataPath": f"{work}/store",
            "httpListenAddr": f"127.0.0.1:{port}",
            "retentionPeriod": "100y",
            "search.disableCache": "true",
            "search.latencyOffset": "0s",
            "search.maxQueryDuration": f"{adapter.REPLY_SECONDS}s",
            "search.maxUniqueTimeseries": "1000000",
            "search.maxSeries": "1000000",
        }
        command = [program, *(f"-{name}={value}" for name, value in options.items())]
        self.server = adapter.Server(command, port, f"{work}/log")
        self.server.wait_until("/health")
        self.url = f"http://127.0.0.1:{port}"

    def settle(self):
        """Flushes to files, forces a merge of each partition, and waits until the store has settled."""
        self.server.get("/internal/force_flush")
        self.server.get("/internal/force_merge")

        def state():
            merges = re.findall(rb"^vm_active_merges\{[^}]*\} (\d+)", self.server.get("/metrics"), re.MULTILINE)
            return sum(map(int, merges)), adapter.bytes_of(*self.stored())

        seconds = adapter.rest(state)
        self.end = self.last_minute()
        return seconds, self.total("count_over_time")

    def stored(self):
        return [f"{self.work}/store/data", f"{self.work}/store/indexdb"]

    def last_minute(self):
        """The end of the last minute with samples, in seconds since 1970."""
        found = self.server.get("/api/v1/query", query="max(tlast_over_time(devices_temperature[10y]))", time="1700000000")
        # tlast_over_time gives seconds.
        last = float(json.loads(found)["data"]["result"][0]["value"][1])
        return (int(last) // MINUTE + 1) * MINUTE

    def total(self, function):
        found = self.run(self.at_end(f"sum({function}({self.everything('')}))"))
        return int(float(json.loads(found)["data"]["result"][0]["value"][1]))

    def everything(self, labels):
        # A window excludes its start and includes its end, so ends are a millisecond before a minute.
        return f"devices_temperature{labels}[{self.end - FIRST + MINUTE}s]"

    def at_end(self, query):
        return json.dumps({"path": "/api/v1/query", "query": query, "time": f"{self.end - 0.001:.3f}"})

    def statement(self, question):
        if question.family == "q1":
            match = f'{{__name__=~"devices_temperature|devices_humidity",devgroup="{question.group}"}}'
            return json.dumps({"path": "/api/v1/export", "match[]": match})
        labels = "" if question.percent >= 100 else f'{{devgroup=~"{alternatives(question.percent)}"}}'
        if question.family == "q2":
            return self.at_end(q2(question.function, self.everything(labels)))
        both = 'aggr_over_time(("count_over_time", "sum_over_time"), '
        if question.family == "q3":
            return self.at_end(f"sum({both}{self.everything(labels)})) by (devgroup, rollup)")
        query = f"sum({both}devices_temperature{labels}[{MINUTE}s])) by (rollup)"
        first = FIRST // MINUTE * MINUTE + MINUTE - 0.001
        span = {"start": f"{first:.3f}", "end": f"{self.end - 0.001:.3f}", "step": f"{MINUTE}s", "nocache": "1"}
        return json.dumps({"path": "/api/v1/query_range", "query": query, **span})

    def run(self, statement):
        parameters = json.loads(statement)
        return self.server.get(parameters.pop("path"), **parameters)

    def rows(self, question, found):
        if question.family == "q1":
            return q1(found)
        series = json.loads(found)["data"]["result"]
        if question.family == "q2":
            value = float(series[0]["value"][1])
            return [[value if question.function in ("avg", "spread") else int(value)]]
        counts, sums = {}, {}
        for one in series:
            of = counts if one["metric"]["rollup"] == "count_over_time" else sums
            if question.family == "q3":
                of[int(one["metric"]["devgroup"])] = int(float(one["value"][1]))
            else:
                of.update((ts, int(float(value))) for ts, value in one["values"])
        return [[counts[key], sums[key], sums[key] / counts[key]] for key in sorted(counts)]

    def stop(self):
        if self.server is not None:
            self.server.stop()


def q2(function, everything):
    """One number over all samples of a range."""
    if function == "count":
        return f"sum(count_over_time({everything}))"
    if function == "avg":
        return f"sum(sum_over_time({everything})) / sum(count_over_time({everything}))"
    if function == "spread":
        return f"max(max_over_time({everything})) - min(min_over_time({everything}))"
    return f"{function}({function}_over_time({everything}))"


def q1(found):
    """The sums over an export: a line of values and times for each series."""
    devices = {}
    for line in found.splitlines():
        one = json.loads(line)
        devices.setdefault(one["metric"]["devid"], {})[one["metric"]["__name__"]] = one
    count, ts, temperature, humidity, devids = 0, 0, 0, 0.0, 0
    for devid, names in devices.items():
        one, other = names["devices_temperature"], names["devices_humidity"]
        if one["timestamps"] != other["timestamps"]:
            sys.exit(f"device {devid}: temperature and humidity have other times")
        count += len(one["timestamps"])
        ts += sum(one["timestamps"])
        temperature += int(sum(one["values"]))
        humidity += sum(other["values"])
        devids += int(devid) * len(one["timestamps"])
    return [[count, ts, temperature, humidity, devids]]


def alternatives(bound):
    """Returns a regular expression of the integers 0..bound: labels are strings."""
    return "|".join(str(group) for group in range(bound))


def main():
    parser = adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    adapter.serve(VictoriaMetrics(), parser.parse_args())


if __name__ == "__main__":
    main()
