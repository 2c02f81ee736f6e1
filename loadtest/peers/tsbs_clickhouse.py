#!/usr/bin/env python3
"""ClickHouse (chdb) with the rows of `tidelake-loadtest tsbs` in this process: a MergeTree by (hostname, ts), merged.

    tsbs_clickhouse.py --work DIR

Reads the rows and then statements from standard input. Formats: adapter.py.
"""

import argparse

import adapter
import pyarrow
from chdb import session

# Rows of one insert: each makes a part, which OPTIMIZE FINAL merges.
INSERT_ROWS = 1_000_000
THREADS = 2
# Columns of windows, which ClickHouse returns as seconds in 32 bits.
WINDOWS = ["minute", "five_minutes", "hour"]


class ClickHouse:
    """The engine, with the interface of adapter.converse."""

    peer = "ClickHouse"

    def open(self, args, work):
        self.session = session.Session(f"{work}/store")
        self.version = self.value("select version()")
        self.session.query(f"set max_threads = {THREADS}")
        self.session.query("create database tsbs engine = Atomic")

    def load(self, reader):
        columns = ["ts DateTime64(3, 'UTC')"]
        for field in list(reader.schema)[1:]:
            kind = "LowCardinality(String)" if pyarrow.types.is_dictionary(field.type) else "Int64"
            columns.append(f"{field.name} {kind}")
        create = f"create table tsbs.cpu ({', '.join(columns)}) engine = MergeTree order by (hostname, ts)"
        self.session.query(create)
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
            self.session.query("insert into tsbs.cpu select * from Python(table)")

    def settle(self):
        self.session.query("optimize table tsbs.cpu final")
        return int(self.value("select count() from tsbs.cpu"))

    def stored(self):
        # Replaced parts remain for some minutes: count only the active ones.
        rows = self.session.query(
            "select path from system.parts where active and database = 'tsbs' and table = 'cpu'", "CSV"
        )
        return [line.strip('"') for line in str(rows).splitlines()]

    def client(self):
        def run(statement):
            found = self.session.query(statement, "Arrow").bytes()
            return pyarrow.ipc.open_file(pyarrow.BufferReader(found)).read_all()

        return run

    def plain(self, table):
        for name in WINDOWS:
            if name in table.column_names and pyarrow.types.is_uint32(table.schema.field(name).type):
                at = table.column_names.index(name)
                seconds = table[name].cast(pyarrow.int64()).cast(pyarrow.timestamp("s"))
                table = table.set_column(at, name, seconds)
        return table

    def value(self, statement):
        return str(self.session.query(statement, "TSV")).strip()

    def close(self):
        self.session.close()


def main():
    adapter.converse(
        ClickHouse(), adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0])).parse_args()
    )


if __name__ == "__main__":
    main()
