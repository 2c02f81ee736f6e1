"""Reads every data file of one table with DuckDB and with pyarrow and prints, as JSON, the counts and averages of
temperature grouped by devgroup that each of them finds: engines.py FILE..."""

import json
import sys

import duckdb
import pyarrow.dataset as dataset

files = sys.argv[1:]
table = dataset.dataset(files, format="parquet").to_table(columns=["devgroup", "temperature"])
grouped = table.group_by("devgroup").aggregate([("temperature", "count"), ("temperature", "mean")])
by_pyarrow = {
    row["devgroup"]: [row["temperature_count"], row["temperature_mean"]] for row in grouped.to_pylist()
}
by_duckdb = {
    group: [count, mean]
    for group, count, mean in duckdb.execute(
        "select devgroup, count(temperature), avg(temperature) from read_parquet(?) group by devgroup", [files]
    ).fetchall()
}
print(json.dumps({"pyarrow": by_pyarrow, "duckdb": by_duckdb}))
