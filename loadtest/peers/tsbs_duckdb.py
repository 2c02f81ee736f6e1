#!/usr/bin/env python3
"""DuckDB with the rows of `tidelake-loadtest tsbs`, in order of arrival, in this process; tags are enumerations.

    tsbs_duckdb.py --work DIR

Reads the rows and then statements from standard input. Formats: adapter.py.
"""

import argparse
import itertools

import adapter
import duckdb_table
import pyarrow

THREADS = 2


class DuckDB(duckdb_table.Table):
    """The engine, with the interface of adapter.converse."""

    def __init__(self):
        super().__init__("DuckDB", "tsbs.cpu")

    def open(self, args, work):
        super().open(args, work)
        self.connection.execute(f"set threads = {THREADS}")
        self.connection.execute("create schema tsbs")

    def load(self, reader):
        first = reader.read_next_batch()
        columns = []
        for field, column in zip(reader.schema, first.columns):
            if pyarrow.types.is_dictionary(field.type):
                # Each batch has all values of a tag.
                values = ", ".join(f"'{value}'" for value in column.dictionary.to_pylist())
                self.connection.execute(f"create type tsbs.of_{field.name} as enum ({values})")
                columns.append(f"{field.name} tsbs.of_{field.name}")
            else:
                columns.append(f"{field.name} {'timestamp' if field.name == 'ts' else 'bigint'}")
        self.connection.execute(f"create table tsbs.cpu ({', '.join(columns)})")
        # DuckDB finds the rows by the variable's name.
        rows = pyarrow.RecordBatchReader.from_batches(reader.schema, itertools.chain([first], reader))  # noqa: F841
        self.connection.execute("insert into tsbs.cpu select * from rows")

    def client(self):
        connection = self.connection.cursor()
        return lambda statement: connection.sql(statement).to_arrow_table()

    def plain(self, table):
        return table


def main():
    adapter.converse(DuckDB(), adapter.arguments(argparse.ArgumentParser(description=__doc__.splitlines()[0])).parse_args())


if __name__ == "__main__":
    main()
