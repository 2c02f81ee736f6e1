#!/usr/bin/env python3
"""ClickHouse in this process (chdb): a MergeTree by (devgroup, devid, ts), with the codecs that make it smallest.

    clickhouse.py --work DIR [--group 0 --percent 10,100 --repeat 5]

Reads the rows from standard input. Output format: adapter.py.
"""

import argparse

import adapter
import pyarrow
from chdb import session

# Rows of one insert: each makes a part, which OPTIMIZE FINAL merges.
INSERT_ROWS = 2_000_000
CREATE = """
create table db.devices (
    ts DateTime64(3, 'UTC') codec(DoubleDelta, ZSTD(3)),
    temperature Int32 codec(T64, ZSTD(3)),
    humidity Float32 codec(ZSTD(3)),
    devid Int32 codec(Delta, ZSTD(3)),
    devname LowCardinality(String) codec(ZSTD(3)),
    devgroup Int32 codec(Delta, ZSTD(3))
) engine = MergeTree order by (devgroup, devid, ts)
"""


def arrow_of(found):
    """The Arrow table of an answer in the format Arrow."""
    return pyarrow.ipc.open_file(pyarrow.BufferReader(found)).read_all()


class Table:
    """A table in an engine of its own: what all workloads need."""

    peer = "ClickHouse"

    def __init__(self, database, table):
        self.database, self.table, self.name = database, table, f"{database}.{table}"

    def open(self, args, work):
        self.work = work
        self.session = session.Session(f"{work}/store")
        self.version = self.value("select version()")
        self.session.query(f"create database {self.database} engine = Atomic")

    def load(self, reader):
        held, count = [], 0
        for batch in reader:
            held.append(batch)
            count += len(batch)
            if count >= INSERT_ROWS:
                self.insert(held)
                held, count = [], 0
        self.insert(held)

    def insert(self, batches):
        """Inserts the rows of some batches; ClickHouse finds the table by the variable's name."""
        if batches:
            table = pyarrow.Table.from_batches(batches)  # noqa: F841
            self.session.query(f"insert into {self.name} select * from Python(table)")

    def settle(self):
        self.session.query(f"optimize table {self.name} final")
        adapter.tell(f"ClickHouse: {len(self.stored())} active parts")
        return int(self.value(f"select count() from {self.name}"))

    def stored(self):
        # Replaced parts remain for some minutes: count only the active ones.
        parts = f"from system.parts where active and database = '{self.database}' and table = '{self.table}'"
        return [line.strip('"') for line in str(self.session.query(f"select path {parts}", "CSV")).splitlines()]

    def value(self, statement):
        return str(self.session.query(statement, "TSV")).strip()

    def close(self):
        self.session.close()


class ClickHouse(Table):
    """The engine, with the interface of adapter.embed."""

    def __init__(self):
        super().__init__("db", "devices")

    def open(self, args, work):
        super().open(args, work)
        self.session.query(CREATE)

    def statement(self, question):
        text = adapter.sql(question, "toStartOfMinute(ts)", "db.devices")
        return text.replace("cast(max(temperature) - min(temperature) as double)", "toFloat64(max(temperature) - min(temperature))")

    def run(self, statement):
        return self.session.query(statement, "Arrow").bytes()

    def rows(self, question, found):
        return adapter.rows_of_table(question, arrow_of(found))


def main():
    parser = adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    adapter.embed(ClickHouse(), parser.parse_args())


if __name__ == "__main__":
    main()
