#!/usr/bin/env python3
"""Runs the papers' queries on other engines over Parquet, in this process, and prints their times.

    parquet_engines.py --root DIR        Tidelake's data files, DIR/data/<table>/<partition>/*.parquet
                       --work DIR        files with pyarrow's defaults; made from standard input unless DIR has them
                       --percent 10,100  which percentages of q2-q4
                       --repeat 5        runs of each; more until adapter.py's SAMPLE_SECONDS or SAMPLE_RUNS is reached
                       --engines datafusion,duckdb,pyarrow

Standard input, read only if the files in --work do not exist: an Arrow IPC stream of the generator's rows, columns
ts, temperature, humidity, devid, devname, devgroup, sorted by (devid, ts).

Standard output: the answers, in the format of adapter.py.
"""

import argparse
import glob
import os
import sys
import tempfile
import time

import adapter
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

MINUTE = {"datafusion": "date_bin(interval '1 minute', ts)", "duckdb": "time_bucket(interval '1 minute', ts)"}
# Rows of one file with pyarrow's defaults, and of one of its row groups (pyarrow's own default).
FILE_ROWS = 10_000_000
GROUP_ROWS = 1024 * 1024


def make_default_files(directory):
    """Writes standard input as Parquet with pyarrow's defaults (snappy, dictionaries), once."""
    done = os.path.join(directory, "complete")
    if not os.path.exists(done):
        os.makedirs(directory, exist_ok=True)
        for leftover in glob.glob(os.path.join(directory, "*.parquet")):
            os.remove(leftover)
        reader = pa.ipc.open_stream(sys.stdin.buffer)
        held, held_rows, number, file_rows, writer = [], 0, 0, 0, None
        started = time.perf_counter()

        def flush():
            nonlocal held, held_rows, number, file_rows, writer
            if not held_rows:
                return
            if writer is None:
                writer = pq.ParquetWriter(os.path.join(directory, f"default{number}.parquet"), reader.schema)
                number += 1
            writer.write_table(pa.Table.from_batches(held))
            file_rows += held_rows
            held, held_rows = [], 0
            if file_rows >= FILE_ROWS:
                writer.close()
                writer, file_rows = None, 0

        for batch in reader:
            while len(batch):
                part = batch.slice(0, GROUP_ROWS - held_rows)
                held.append(part)
                held_rows += len(part)
                batch = batch.slice(len(part))
                if held_rows >= GROUP_ROWS:
                    flush()
        flush()
        if writer is not None:
            writer.close()
        print(f"files with pyarrow's defaults written in {time.perf_counter() - started:.1f} s", file=sys.stderr)
        with open(done, "w", encoding="ascii"):
            pass


def our_files(root):
    """All data files under a root that hold the papers' devices."""
    found = sorted(glob.glob(os.path.join(root, "data", "**", "*.parquet"), recursive=True))
    wanted = {"ts", "temperature", "humidity", "devid", "devname", "devgroup"}
    return [path for path in found if wanted <= set(pq.read_schema(path).names)]


def measure(peer, version, question, statement, run, repeat):
    """Times a query and prints the times; `run` returns the answer's rows."""
    adapter.measure(peer, version, question, statement, run, lambda rows: rows, repeat, in_process=True)


def datafusion(label, directory, percents, repeat):
    """Plain DataFusion: a listing table over the directory, as many partitions as cores, all else by default."""
    import datafusion as df

    context = df.SessionContext(df.SessionConfig().with_target_partitions(os.cpu_count() or 1))
    context.register_parquet("devices", directory)
    for question in adapter.questions([], percents):
        statement = adapter.sql(question, MINUTE["datafusion"])
        run = lambda statement=statement: rows_of(context.sql(statement).collect())
        measure(f"DataFusion ({label})", df.__version__, question, statement, run, repeat)


def duckdb(label, directory, percents, repeat):
    """DuckDB: a view over the directory, all else by default."""
    import duckdb as dd

    connection = dd.connect()
    connection.execute(f"create view devices as select * from read_parquet('{directory}/*.parquet')")
    for question in adapter.questions([], percents):
        statement = adapter.sql(question, MINUTE["duckdb"])
        run = lambda statement=statement: [list(row) for row in connection.execute(statement).fetchall()]
        measure(f"DuckDB ({label})", dd.__version__, question, statement, run, repeat)


def pyarrow(label, directory, percents, repeat):
    """pyarrow's dataset scan and group_by: q2 and q3 alone, as it has no SQL."""
    dataset = ds.dataset(sorted(glob.glob(os.path.join(directory, "*.parquet"))), format="parquet")
    aggregates = [("temperature", "count"), ("temperature", "sum"), ("temperature", "mean")]

    def scan(percent, columns):
        where = None if percent >= 100 else pc.field("devgroup") < percent
        return dataset.scanner(columns=columns, filter=where).to_table()

    def q2(percent, name):
        if name == "count":
            return dataset.count_rows(filter=None if percent >= 100 else pc.field("devgroup") < percent)
        values = scan(percent, ["temperature"])["temperature"]
        if name == "spread":
            bounds = pc.min_max(values)
            return float(bounds["max"].as_py() - bounds["min"].as_py())
        return {"avg": pc.mean, "sum": pc.sum, "max": pc.max, "min": pc.min}[name](values).as_py()

    def q3(percent):
        table = scan(percent, ["devgroup", "temperature"]).group_by("devgroup").aggregate(aggregates)
        table = table.sort_by("devgroup")
        return rows_of(table.select([f"{column}_{what}" for column, what in aggregates]).to_batches())

    for question in adapter.questions([], percents):
        if question.family == "q2":
            run = lambda question=question: [[q2(question.percent, question.function)]]
            measure(f"pyarrow ({label})", pa.__version__, question, f"scan, {question.function}", run, repeat)
        elif question.family == "q3":
            run = lambda question=question: q3(question.percent)
            measure(f"pyarrow ({label})", pa.__version__, question, "scan, group_by(devgroup)", run, repeat)


def rows_of(batches):
    """Rows of record batches, by position (two columns may have one name)."""
    return [list(row) for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns))]


ENGINES = {"datafusion": datafusion, "duckdb": duckdb, "pyarrow": pyarrow}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", help="root directory of a server; its data files are read where they are")
    parser.add_argument("--work", help="directory of the files with pyarrow's defaults")
    parser.add_argument("--percent", type=adapter.numbers, default=[10, 20, 30, 40, 50, 60, 70, 80, 90, 100])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--engines", default="datafusion,duckdb,pyarrow")
    args = parser.parse_args()
    engines = [ENGINES[name] for name in args.engines.split(",")]
    with tempfile.TemporaryDirectory() as links:
        sets = []
        if args.root:
            # One flat directory of links: the engines then see these files and nothing else of the root.
            ours = our_files(args.root)
            if not ours:
                sys.exit(f"no data files of the papers' devices under {args.root}/data: compact first")
            for number, path in enumerate(ours):
                os.symlink(os.path.abspath(path), os.path.join(links, f"{number}.parquet"))
            sets.append(("our files", links))
        if args.work:
            make_default_files(args.work)
            sets.append(("default files", args.work))
        for label, directory in sets:
            for engine in engines:
                engine(label, directory, args.percent, max(args.repeat, 1))


if __name__ == "__main__":
    main()
