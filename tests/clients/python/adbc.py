"""ADBC's Flight SQL driver for Python, with pandas and polars on top of it: the steps of adbc_steps, in this order."""

from adbc_steps import connections, frames, ingest, metadata, parameters, queries, sessions, stopping, writes
from adbc_steps.common import ask, connect
from steps import Steps

steps = Steps("adbc")
with connect(None) as connection:
    ask(connection, "drop database if exists adbc")
    ask(connection, "create database adbc")
for subject in [connections, queries, writes, parameters, metadata, sessions, ingest, stopping, frames]:
    subject.run(steps)
steps.end()
