#!/usr/bin/env python3
"""DuckDB with a table of its own, sorted by (devgroup, devid, ts), in this process.

    duckdb_table.py --work DIR [--group 0 --percent 10,100 --repeat 5]

Reads the rows from standard input. Output format: adapter.py.
"""

import argparse

import adapter
import duckdb

# Sorting spills beyond this into the work directory.
MEMORY = "8GB"


class Table:
    """A table in an engine of its own: what all workloads need."""

    version = duckdb.__version__

    def __init__(self, peer, name):
        self.peer, self.name = peer, name

    def open(self, args, work):
        self.work = work
        self.connection = duckdb.connect(f"{work}/store.duckdb")
        self.connection.execute(f"set memory_limit = '{MEMORY}'")
        self.connection.execute(f"set temp_directory = '{work}/spilled'")

    def settle(self):
        self.connection.execute("checkpoint")
        return self.connection.execute(f"select count(*) from {self.name}").fetchall()[0][0]

    def stored(self):
        return [self.work]

    def close(self):
        self.connection.close()


class DuckDB(Table):
    """The engine, with the interface of adapter.embed."""

    def __init__(self):
        super().__init__("DuckDB (own table)", "devices")

    def load(self, reader):
        self.connection.execute("create table devices as select * from reader order by devgroup, devid, ts")

    def statement(self, question):
        return adapter.sql(question, "time_bucket(interval '1 minute', ts)")

    def run(self, statement):
        return self.connection.sql(statement).to_arrow_table()

    def rows(self, question, found):
        rows = adapter.rows_of_table(question, found)
        if question.family == "q1":
            return rows
        # A sum of 64-bit integers has 128 bits, which Arrow gives as a decimal.
        return [[whole(name, value) for name, value in zip(found.column_names, row)] for row in rows]


def whole(name, value):
    """Converts decimal sums to integers."""
    return int(value) if name.startswith("sum(") else value


def main():
    adapter.embed(DuckDB(), adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0])).parse_args())


if __name__ == "__main__":
    main()
