#!/usr/bin/env python3
"""ClickHouse (chdb) with the rows of `tidelake-loadtest tsbs` in this process: a MergeTree by (hostname, ts), merged.

    tsbs_clickhouse.py --work DIR

Reads the rows and then statements from standard input. Formats: adapter.py.
"""

import argparse

import adapter
import clickhouse
import pyarrow

THREADS = 2
# Columns of windows, which ClickHouse returns as seconds in 32 bits.
WINDOWS = ["minute", "five_minutes", "hour"]


class ClickHouse(clickhouse.Table):
    """The engine, with the interface of adapter.converse."""

    def __init__(self):
        super().__init__("tsbs", "cpu")

    def open(self, args, work):
        super().open(args, work)
        self.session.query(f"set max_threads = {THREADS}")

    def load(self, reader):
        columns = ["ts DateTime64(3, 'UTC')"]
        for field in list(reader.schema)[1:]:
            kind = "LowCardinality(String)" if pyarrow.types.is_dictionary(field.type) else "Int64"
            columns.append(f"{field.name} {kind}")
        self.session.query(f"create table {self.name} ({', '.join(columns)}) engine = MergeTree order by (hostname, ts)")
        super().load(reader)

    def client(self):
        return lambda statement: clickhouse.arrow_of(self.session.query(statement, "Arrow").bytes())

    def plain(self, table):
        for name in WINDOWS:
            if name in table.column_names and pyarrow.types.is_uint32(table.schema.field(name).type):
                at = table.column_names.index(name)
                seconds = table[name].cast(pyarrow.int64()).cast(pyarrow.timestamp("s"))
                table = table.set_column(at, name, seconds)
        return table


def main():
    adapter.converse(
        ClickHouse(), adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0])).parse_args()
    )


if __name__ == "__main__":
    main()
