"""Reads every data file of one table with pyarrow, DuckDB and ClickHouse: engines.py FILE...

Prints, as JSON, what each of them finds: the encodings of the files' chunks, the columns' names, and all rows, with floating-point numbers as hexadecimal digits of their 64 bits, bytes as hexadecimal digits, and times as integers."""

import json
import struct
import sys

import chdb
import duckdb
import pyarrow
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet


def shown(column):
    """A column in lossless JSON form."""
    kind = column.type
    if pyarrow.types.is_timestamp(kind):
        column = column.cast(pyarrow.int64())
    elif pyarrow.types.is_floating(kind):
        return [None if value is None else struct.pack(">d", value).hex() for value in column.to_pylist()]
    elif pyarrow.types.is_binary(kind):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    return column.to_pylist()


def rows(table):
    """Each a list."""
    return list(zip(*(shown(column) for column in table.columns)))


def alike(table, schema):
    """The table with the types that pyarrow found: an engine may have types of its own for the same values."""
    return pyarrow.table([table[field.name].combine_chunks().cast(field.type) for field in schema], schema=schema)


def by_clickhouse(files, schema):
    columns = ", ".join(f"`{name}`" for name in schema.names)
    parts = []
    for file in files:
        answer = chdb.query(f"select {columns} from file('{file}', Parquet)", "Arrow")
        parts.append(alike(chdb.to_arrowTable(answer), schema))
    return pyarrow.concat_tables(parts)


files = sys.argv[1:]
with_dictionaries = dataset.dataset(files, format="parquet").to_table()
plain = pyarrow.schema(
    [
        pyarrow.field(field.name, field.type.value_type if pyarrow.types.is_dictionary(field.type) else field.type)
        for field in with_dictionaries.schema
    ]
)
by_pyarrow = alike(with_dictionaries, plain)
by_duckdb = alike(duckdb.execute("select * from read_parquet(?)", [files]).to_arrow_table(), plain)
encodings = set()
for file in files:
    metadata = parquet.ParquetFile(file).metadata
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            encodings.update(metadata.row_group(group).column(column).encodings)
found = {"pyarrow": by_pyarrow, "duckdb": by_duckdb, "clickhouse": by_clickhouse(files, plain)}
print(
    json.dumps(
        {
            "encodings": sorted(encodings),
            "columns": plain.names,
            "rows": {engine: rows(table) for engine, table in found.items()},
        }
    )
)
