"""SIGTERM while clients write and read: the server ends in time, and after a restart each acknowledged row is present once.

And a client that ends in the middle of a bulk ingest: none of its rows are stored.
"""

import http.client
import threading
import time

import pyarrow
import pyarrow.flight as flight

from . import http2
from .crowds import FlightReader, PlainReader
from .data import FIRST, ingest, load
from .server import Control, Fault, Server, expect

LINES, BATCH = 200, 2_000
WRITERS = 3
# DRAIN of the server is 20 s, followed by a flush; stalled readers make it wait for all of that.
QUIET_SECONDS, STALLED_SECONDS = 10, 28
OPTIONS = ["--query-memory", "256MiB", "--ingest-buffer", "128MiB", "--tail-cache", "64MiB", "--page-cache", "32MiB"]


def run(binary, directory, check, _):
    with Server(binary, directory, "load", *OPTIONS) as server:
        Control.prepare(server)
        load(server, "rows", 400_000)
        server.sql("create database ending precision 'ns'")
        check("a DoPut that its client gives up", lambda: given_up(server))
    for round in range(2):
        check("SIGTERM under load", lambda round=round: ended(binary, directory, round, QUIET_SECONDS))
    check("SIGTERM with connections and readers that do nothing", lambda: ended(binary, directory, 2, STALLED_SECONDS))


def given_up(server):
    """A stream of batches that is reset by its deadline, concurrent with an equal stream that ends."""
    client = flight.FlightClient(f"grpc://127.0.0.1:{server.port}")
    batch = pyarrow.record_batch({"ts": pyarrow.array(range(FIRST, FIRST + 1_000), pyarrow.timestamp("ns")), "n": list(range(1_000))})
    for table, is_whole in (("whole", True), ("broken", False)):
        descriptor = flight.FlightDescriptor.for_command(ingest("ending", table))
        writer, reader = client.do_put(descriptor, batch.schema, flight.FlightCallOptions(timeout=1.5))
        for _ in range(3):
            writer.write_batch(batch)
        if is_whole:
            writer.done_writing()
            reader.read()
            writer.close()
            continue
        time.sleep(2)
        try:
            writer.close()
        except flight.FlightTimedOutError:
            pass
        else:
            raise Fault("the stream did not reach its deadline")
    client.close()
    time.sleep(1)
    expect(server.sql("select count(*) from ending.whole") == [[1_000]], "a whole stream is not there")
    # The first batch creates the table.
    tables = server.sql("select table_name from information_schema.tables where table_schema = 'ending' and table_name = 'broken'")
    rows = server.sql("select count(*) from ending.broken") if tables else [[0]]
    expect(rows == [[0]], f"rows of a stream that was given up: {rows}")
    return "nothing of it is there"


class Writer(threading.Thread):
    """Sends rows until it is refused; returns the times of acknowledged requests, and of the others.

    Each request has `rows` rows with unique times."""

    def __init__(self, server, table, rows, send):
        super().__init__()
        self.server, self.table, self.rows, self.send = server, table, rows, send
        self.acknowledged, self.unknown, self.refused, self.strange, self.over = [], [], [], None, threading.Event()

    def run(self):
        for number in range(1 << 30):
            if self.over.is_set():
                return
            times = range(number * self.rows, (number + 1) * self.rows)
            told = self.send(self, times)
            (self.acknowledged if told == "ok" else self.refused if told == "refused" else self.unknown).append(number)
            if told not in ("ok", "refused", "lost"):
                self.strange = told
            if told != "ok":
                return

    def by_lines(self, times):
        body = "".join(f"{self.table} n={n}i {FIRST + n}\n" for n in times)
        try:
            status, _, text = self.server.post("/write?db=ending", body, 30)
        except (OSError, http.client.HTTPException) as error:
            return "refused" if isinstance(error, ConnectionRefusedError) else "lost"
        return "ok" if status == 204 else "refused" if status == 503 else f"{status}: {text}"

    def by_flight(self, times):
        client = flight.FlightClient(f"grpc://127.0.0.1:{self.server.port}")
        descriptor = flight.FlightDescriptor.for_command(ingest("ending", self.table))
        n = pyarrow.array(times, pyarrow.int64())
        batch = pyarrow.record_batch({"ts": pyarrow.array([FIRST + t for t in times], pyarrow.timestamp("ns")), "n": n})
        try:
            writer, reader = client.do_put(descriptor, batch.schema, flight.FlightCallOptions(timeout=30))
            try:
                writer.write_batch(batch)
                writer.done_writing()
                told = reader.read()
            finally:
                writer.close()
            # DoPutUpdateResult: record_count
            expected = b"\x08" + http2.varint(len(times))
            return "ok" if told is not None and told.to_pybytes() == expected else f"a result of {told and told.to_pybytes()}"
        except (flight.FlightUnavailableError, flight.FlightCancelledError, flight.FlightTimedOutError):
            return "lost"
        except (flight.FlightError, pyarrow.ArrowException) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            client.close()


def ended(binary, directory, round, seconds):
    stalled = []
    with Server(binary, directory, f"ending{round}", *OPTIONS) as server:
        writers = [Writer(server, f"lines_{round}_{n}", LINES, Writer.by_lines) for n in range(WRITERS)]
        writers += [Writer(server, f"flight_{round}_{n}", BATCH, Writer.by_flight) for n in range(WRITERS)]
        readers = [threading.Thread(target=read, args=(server,)) for _ in range(2)]
        try:
            for thread in writers + readers:
                thread.start()
            if seconds == STALLED_SECONDS:
                stalled += [http2.opened(server.port), http2.Client(server.port), PlainReader(server), FlightReader(server)]
            time.sleep(3)
            took = server.stop()
        finally:
            for writer in writers:
                writer.over.set()
            for thread in writers + readers:
                if thread.is_alive():
                    thread.join(40)
            for one in stalled:
                one.close()
    expect(took <= seconds, f"the server ended {took:.1f} s after SIGTERM, not within {seconds} s")
    for writer in writers:
        expect(not writer.strange, f"a writer of {writer.table} receives {writer.strange}")
    with Server(binary, directory, f"after{round}", *OPTIONS) as server:
        found = [there(server, writer) for writer in writers]
    acknowledged, rows = (sum(counts) for counts in zip(*found, strict=True))
    return f"ended after {took:.1f} s; {acknowledged} rows were acknowledged, {rows} are there"


def read(server):
    """Sends queries until there is no reply."""
    try:
        while True:
            server.sql("select count(*), sum(n) from control.rows")
            server.sql("select max(a) from data.rows where a % 7 = 3")
    except (OSError, http.client.HTTPException, ValueError, Fault):
        return


def there(server, writer):
    """Checks that all acknowledged rows are present, none twice, and that unacknowledged requests are present as a whole or not at all."""
    expect(len(writer.acknowledged) > 0, f"no request of {writer.table} was acknowledged")
    listed = server.sql(f"select n, ts = arrow_cast({FIRST} + n, 'Timestamp(Nanosecond, None)') from ending.{writer.table}", 60)
    rows = [n for n, _ in listed]
    expect(all(right for _, right in listed), f"{writer.table} has rows with other values than were sent")
    expect(len(set(rows)) == len(rows), f"{writer.table} has {len(rows) - len(set(rows))} rows twice")
    requests = {}
    for n in rows:
        requests[n // writer.rows] = requests.get(n // writer.rows, 0) + 1
    missing = [number for number in writer.acknowledged if requests.get(number) != writer.rows]
    expect(not missing, f"{len(missing)} acknowledged requests of {writer.table} are not whole after a restart, such as {missing[:5]}")
    strange = set(requests) - set(writer.acknowledged) - set(writer.unknown)
    expect(not strange, f"{writer.table} has rows of requests that were refused or never sent: {sorted(strange)[:5]}")
    return len(writer.acknowledged) * writer.rows, len(rows)
