"""Two hundred concurrent heavy queries on a server with 2 GiB: each result is correct, or an error gives the reason."""

import collections
import http.client
import io
import threading
import time

import duckdb
import pyarrow
import pyarrow.flight as flight

from . import data, http2
from .server import Server, expect, until

ROWS, QUERIES, QUERY_SECONDS = 5_000_000, 200, 25
# How often a query that runs alone is asked again when it ended at its limit: the limit is elapsed time, and a query takes
# three times as long while other tests use the processors.
TRIALS = 6
MEMORY = 2_048
# The budgets of a server with 2 GiB of memory. It would run 16 queries at once on two cores; on a slow machine none of
# the 16 would end within the timeout, so the server is given 4.
OPTIONS = ["--query-memory", "768MiB", "--ingest-buffer", "256MiB", "--tail-cache", "256MiB", "--page-cache", "32MiB", "--query-timeout", f"{QUERY_SECONDS}s"]
OPTIONS += ["--query-concurrency", "4"]
# Each with a total order, so that results are compared row by row.
STATEMENTS = {
    "groups": "select a % 2500009 as g, count(*) as n, sum(b) as s, max(a) as m from data.rows group by a % 2500009 order by g",
    "order": "select a, b from data.rows order by a",
    "join": "select x.b as b, count(*) as n, min(y.a) as m, max(x.a) as k from data.rows x join data.rows y on x.a = y.a "
    "group by x.b order by x.b",
    "window": "select b, max(r) as r, max(s % 1000003) as s from (select b, row_number() over (partition by b order by a) as r, "
    "sum(a % 1000) over (partition by b order by a) as s from data.rows) group by b order by b",
    "distinct": "select b % 10 as g, count(distinct cast(a as varchar)) as n from data.rows group by b % 10 order by g",
}
# Reasons for refused queries.
REASONS = ["query queue is full", "waited too long in the queue", "took longer than its limit", "memory"]


def run(binary, directory, check, _):
    with Server(binary, directory, "heavy", *OPTIONS) as server:
        data.load(server, "rows", ROWS)
        right = answers()
        check("each kind of query alone", lambda: alone(server, right))
        check(f"{QUERIES} heavy queries at once", lambda: together(server, right))
        check("afterwards", lambda: afterwards(server, right))


def answers():
    """DuckDB's result."""
    database = duckdb.connect()
    database.register("made", pyarrow.table(data.columns(0, ROWS)))
    database.execute("create schema data")
    database.execute("create table data.rows as select * from made")
    return {kind: database.sql(sql).to_arrow_table() for kind, sql in STATEMENTS.items()}


def same(found, right):
    def numbers(table):
        return [column.cast(pyarrow.int64()) for column in table.columns]

    return numbers(found) == numbers(right)


def by_flight(server, sql):
    """The result, or the error."""
    client = flight.FlightClient(f"grpc://127.0.0.1:{server.port}")
    try:
        options = flight.FlightCallOptions(timeout=4 * QUERY_SECONDS)
        return client.do_get(flight.Ticket(http2.question(sql, "data")), options).read_all()
    except (flight.FlightUnavailableError, flight.FlightServerError, pyarrow.ArrowException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        client.close()


def by_http(server, sql):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=4 * QUERY_SECONDS)
    try:
        connection.request("POST", "/api/v1/sql?format=arrow", sql)
        reply = connection.getresponse()
        body = reply.read()
        if reply.status == 200:
            return pyarrow.ipc.open_stream(io.BytesIO(body)).read_all()
        return f"{reply.status}: {body.decode(errors='replace')}"
    except http.client.IncompleteRead:
        return "broken off"
    finally:
        connection.close()


def is_reason(told):
    """Whether the error gives a reason and a retryable code."""
    code = told.startswith(("503: ", "429: ", "FlightUnavailableError: ")) or "RESOURCE_EXHAUSTED" in told
    return told == "broken off" or (code and any(reason in told for reason in REASONS))


def alone(server, right):
    took = {}
    for kind, sql in STATEMENTS.items():
        for _ in range(TRIALS):
            began = time.monotonic()
            found = by_flight(server, sql)
            if not (isinstance(found, str) and "took longer than its limit" in found):
                break
        expect(not isinstance(found, str), f"{kind}: {found}")
        told = f"{kind}: a wrong answer of {found.num_rows} rows, {right[kind].num_rows} are right: {found.slice(0, 5).to_pylist()}"
        expect(same(found, right[kind]), told)
        took[kind] = round(time.monotonic() - began, 1)
    return f"{took}; at most {server.within(MEMORY)} MiB"


def together(server, right):
    kinds, outcomes = list(STATEMENTS), []

    def ask(number):
        kind, ask = kinds[number % len(kinds)], (by_flight, by_http)[number // len(kinds) % 2]
        try:
            found = ask(server, STATEMENTS[kind])
            found = found if isinstance(found, str) else "right" if same(found, right[kind]) else "wrong"
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        outcomes.append((kind, ask.__name__, found))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(QUERIES)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        # If the server exhausts the machine's memory, the system must not kill this program.
        if server.resident()[1] > 2 * MEMORY:
            server.kill()
        time.sleep(0.2)
    server.calm()
    counts = collections.Counter(
        next((r for r in ["right", "wrong", "broken off", *REASONS] if r in told), "other") for _, _, told in outcomes
    )
    strange = [outcome for outcome in outcomes if outcome[2] != "right" and not is_reason(outcome[2])]
    expect(not strange, f"{len(strange)} are neither right nor told why, such as {strange[0] if strange else None}; {dict(counts)}")
    answered = collections.Counter(kind for kind, _, told in outcomes if told == "right")
    expect(answered, f"none was answered: {dict(counts)}")
    return f"{dict(counts)}; right {dict(answered)}; at most {server.within(MEMORY)} MiB"


def afterwards(server, right):
    until(lambda: server.queries() == 0, 10, "queries stay when their clients have been answered")
    found = alone(server, right)
    now, _ = server.resident()
    return f"{found}, now {now}"
