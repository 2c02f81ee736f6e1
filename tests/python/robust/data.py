"""Rows that a formula makes, sent by DoPut in pieces of a million: the answers are known without asking."""

import numpy
import pyarrow
import pyarrow.flight as flight

from . import http2
from .server import expect

FIRST = 1_700_000_000_000_000_000
PIECE = 1_000_000
# Of `a`, by a step that is prime to it, so that its order is not that of time; of `b`.
VALUES, STEP, GROUPS = 1 << 40, 0x9E3779B97F, 1_000


def columns(first, rows):
    """Rows of numbers: time, a number that hardly repeats, one that often does."""
    n = numpy.arange(first, first + rows, dtype=numpy.int64)
    return {"ts": FIRST + n, "a": n * STEP % VALUES, "b": n * 7 % GROUPS}


def ingest(database, table):
    """The command of a DoPut: the table is made where there is none, and gets rows where there is one."""
    create_or_append = b"\x08\x01\x10\x02"
    return http2.command("CommandStatementIngest", http2.field(1, create_or_append), http2.field(2, table), http2.field(3, database))


def load(server, table, rows):
    """Writes rows into data.TABLE."""
    client = flight.FlightClient(f"grpc://127.0.0.1:{server.port}")
    descriptor = flight.FlightDescriptor.for_command(ingest("data", table))
    server.sql("create database if not exists data precision 'ns'")
    for first in range(0, rows, PIECE):
        made = columns(first, min(PIECE, rows - first))
        made["ts"] = pyarrow.array(made["ts"]).cast(pyarrow.timestamp("ns"))
        batch = pyarrow.record_batch(made)
        writer, reader = client.do_put(descriptor, batch.schema, flight.FlightCallOptions(timeout=120))
        with writer:
            for at in range(0, batch.num_rows, 100_000):
                writer.write_batch(batch.slice(at, 100_000))
            writer.done_writing()
            reader.read()
    client.close()
    status, _, body = server.post("/api/v1/compact?until=fold", "", 300 + rows // 1_000_000)
    expect(status == 200, f"{status}: {body}")
    found = server.sql(f"select count(*) from data.{table}", 120)
    expect(found == [[rows]], f"{found} rows after {rows} were sent")
