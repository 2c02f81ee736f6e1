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


class DuckDB:
    """The engine, with the interface of adapter.embed."""

    peer, version = "DuckDB (own table)", duckdb.__version__

    def open(self, args, work):
        self.work = work
        self.connection = duckdb.connect(f"{work}/devices.duckdb")
        self.connection.execute(f"set memory_limit = '{MEMORY}'")
        self.connection.execute(f"set temp_directory = '{work}/spilled'")

    def load(self, reader):
        self.connection.execute("create table devices as select * from reader order by devgroup, devid, ts")

    def settle(self):
        self.connection.execute("checkpoint")
        return self.connection.execute("select count(*) from devices").fetchall()[0][0]

    def stored(self):
        return [self.work]

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

    def close(self):
        self.connection.close()


def whole(name, value):
    """Converts decimal sums to integers."""
    return int(value) if name.startswith("sum(") else value


def main():
    adapter.embed(DuckDB(), adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0])).parse_args())


if __name__ == "__main__":
    main()
