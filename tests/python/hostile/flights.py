"""Flight: compressed messages and handles, and tickets of other users."""

import contextlib
import threading

import pyarrow
import pyarrow.flight as flight
from pyarrow import ipc

from robust import http2
from robust.server import until

from .attacks import Holes, attack
from .node import OWN, Pulse, expect

# MiB: the message buffer, and the bound of the tests, which includes the prepared statements and parameters that a server keeps.
BUFFER = 64
OPTIONS = ["--query-memory", "256MiB", "--statement-buffer", f"{BUFFER}MiB", "--ingest-buffer", "64MiB", "--query-timeout", "10s"]
MOST = BUFFER + 256 + 64


def results(client, options, name, body):
    return [result.body.to_pybytes() for result in client.do_action(flight.Action(name, body), options)]


def fields(data):
    """The length-delimited fields of a Protobuf message by their number."""
    found, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 2:
            size = number()
            found[key >> 3], at = data[at : at + size], at + size
        else:
            number()
    return found


def prepared(client, options, sql):
    """Prepares a statement; returns its handle."""
    body = http2.command("ActionCreatePreparedStatementRequest", http2.field(1, sql))
    (reply,) = results(client, options, "CreatePreparedStatement", body)
    return fields(fields(reply)[2])[1]


def bind(client, options, handle, batch, packing="zstd", command="CommandPreparedStatementQuery"):
    """Binds parameters to a prepared statement by DoPut; returns None on success, else the error."""
    descriptor = flight.FlightDescriptor.for_command(http2.command(command, http2.field(1, handle)))
    write = ipc.IpcWriteOptions(compression=packing)
    call = flight.FlightCallOptions(timeout=options.timeout, headers=options.headers, write_options=write)
    try:
        writer, reader = client.do_put(descriptor, batch.schema, call)
        try:
            writer.write_batch(batch)
            writer.done_writing()
            reader.read()
        finally:
            writer.close()
    except (flight.FlightError, pyarrow.ArrowException, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def zeros(size, rows=1):
    """Rows of texts that have `size` zero bytes in total, which compress to almost nothing."""
    offsets = pyarrow.array([size * row // rows for row in range(rows + 1)], pyarrow.int64()).buffers()[1]
    buffers = [None, offsets, pyarrow.py_buffer(bytes(size))]
    return pyarrow.record_batch([pyarrow.Array.from_buffers(pyarrow.large_string(), rows, buffers)], names=["1"])


@attack("on", alone=True)
def packed_parameters_take_no_more_than_they_may(field):
    """29 KB that decompress to 900 MB, bound to a statement that every user may prepare."""
    holes = Holes()
    with field.server(*OPTIONS) as node:
        client, options = node.flight(node.nobody)
        handle = prepared(client, options, "select ?")
        small = pyarrow.record_batch([pyarrow.array(["a" * 1_000])], names=["1"])
        for packing in (None, "zstd", "lz4"):
            told = bind(client, options, handle, small, packing)
            expect(told is None, f"control: small parameters, packed by {packing}: {told}")
        for packing, size, count in (("zstd", 900 << 20, 1), ("lz4", 900 << 20, 1), ("zstd", 400 << 20, 4)):
            base = node.resident()[0]
            node.forget_peak()
            batch, told = zeros(size), []

            def one(packing=packing, batch=batch, told=told):
                with contextlib.closing(node.flight(node.nobody)[0]) as another:
                    told.append(bind(another, options, handle, batch, packing))

            with Pulse(node) as pulse:
                threads = [threading.Thread(target=one, daemon=True) for _ in range(count)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(40)
            what = f"{count} times {size >> 20} MiB packed by {packing}"
            holes.check(all(told) and len(told) == count, f"{what}: taken, {told}")
            if node.overgrown or node.process.poll() is not None:
                holes.check(False, f"{what}: the server took more than the machine may give, and was ended")
                return holes.end()
            grown = node.resident()[1] - base
            holes.check(grown <= MOST, f"{what}: {grown} MiB more were resident")
            holes.check(not pulse.fault and pulse.worst <= 2, f"{what}: /health within {pulse.worst:.1f} s: {pulse.fault}")
        client.close()
    return holes.end()


@attack("off", alone=True)
def packed_rows_of_an_ingest_take_no_more_than_they_may(field):
    holes = Holes()
    with field.server(*OPTIONS, "--max-bulk", "64MiB") as node:
        node.do(f"create database if not exists {OWN}")
        client, options = node.flight(node.writer)
        ingest = http2.command("CommandStatementIngest", http2.field(1, b"\x08\x01\x10\x02"), http2.field(2, "packed"), http2.field(3, OWN))

        def put(size, rows):
            times = pyarrow.array(range(1_700_000_000_000, 1_700_000_000_000 + rows), pyarrow.timestamp("ms"))
            batch = pyarrow.record_batch([times, zeros(size, rows).column(0)], names=["ts", "text"])
            call = flight.FlightCallOptions(timeout=60, headers=options.headers, write_options=ipc.IpcWriteOptions(compression="zstd"))
            try:
                writer, reader = client.do_put(flight.FlightDescriptor.for_command(ingest), batch.schema, call)
                try:
                    writer.write_batch(batch)
                    writer.done_writing()
                    reader.read()
                finally:
                    writer.close()
            except (flight.FlightError, pyarrow.ArrowException, OSError) as error:
                return f"{type(error).__name__}: {error}"
            return None

        expect(put(1_000, 10) is None, "control: a few rows, packed")
        base = node.resident()[0]
        node.forget_peak()
        # Texts of 60 000 bytes are allowed in a row.
        told = put(15_000 * 60_000, 15_000)
        holes.check(told is not None, "900 MiB packed are taken, where a stream may have 64 MiB")
        if not holes.check(not node.overgrown, "the server took more than the machine may give, and was ended"):
            return holes.end()
        grown = node.resident()[1] - base
        holes.check(grown <= MOST, f"{grown} MiB more were resident: {told}")
        client.close()
    return holes.end()


@attack("off", alone=True)
def packed_statements_of_tickets_take_no_more_than_they_may(field):
    """A handle of a few KB holds a statement of 40 MiB; thirty are executed at once."""
    holes = Holes()
    with field.server(*OPTIONS) as node:
        node.do(f"create database if not exists {OWN}")
        node.do(f"create stable {OWN}.p (ts timestamp, v double) tags (g int)")
        client, options = node.flight(node.writer)
        sql = f"insert into {OWN}.p (tbname, ts, v) values ('a', 1700000000000, 1)"
        handles = {}
        for what, length in (("small", 0), ("large", 40 << 20)):
            try:
                handles[what] = prepared(client, options, sql + " " * length)
            except (flight.FlightError, pyarrow.ArrowException) as error:
                # No handle, so nothing is decompressed.
                expect(what == "large", f"control: a small statement cannot be prepared: {error}")
                return f"a statement of 40 MiB is not prepared: {str(error)[:100]}"
        empty = pyarrow.record_batch([pyarrow.array([], pyarrow.int32())], names=["none"])
        told = bind(client, options, handles["small"], empty, None, "CommandPreparedStatementUpdate")
        expect(told is None, f"control: a prepared INSERT: {told}")
        base = node.resident()[0]
        node.forget_peak()

        def one():
            with contextlib.closing(node.flight(node.writer)[0]) as another:
                bind(another, options, handles["large"], empty, None, "CommandPreparedStatementUpdate")

        with Pulse(node) as pulse:
            threads = [threading.Thread(target=one, daemon=True) for _ in range(30)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        if not holes.check(not node.overgrown, "the server took more than the machine may give, and was ended"):
            return holes.end()
        grown = node.resident()[1] - base
        holes.check(grown <= MOST, f"handles of {len(handles['large'])} bytes, 30 at once: {grown} MiB more were resident")
        holes.check(not pulse.fault and pulse.worst <= 2, f"/health within {pulse.worst:.1f} s: {pulse.fault}")
        client.close()
    return holes.end()


def question(sql):
    return flight.FlightDescriptor.for_command(http2.command("CommandStatementQuery", http2.field(1, sql)))


@attack("on", "proxy")
def a_ticket_is_cancelled_by_its_owner_alone(field):
    node, holes = field.node, Holes()
    owner, owns = node.flight(node.writer)
    stranger, strange = node.flight(node.nobody)

    def cancel(client, options, info, name="CancelFlightInfo"):
        inner = http2.field(1, info.serialize())
        body = inner if name == "CancelFlightInfo" else http2.command("ActionCancelQueryRequest", inner)
        try:
            return results(client, options, name, body)
        except (flight.FlightError, pyarrow.ArrowException) as error:
            return f"{type(error).__name__}: {error}"

    for name in ("CancelFlightInfo", "CancelQuery"):
        info = owner.get_flight_info(question("select 1 as one"), owns)
        told = cancel(stranger, strange, info, name)
        holes.check(isinstance(told, str), f"{name} of a stranger is answered {told}")
        try:
            rows = owner.do_get(info.endpoints[0].ticket, owns).read_all().to_pylist()
            holes.check(rows == [{"one": 1}], f"after {name} of a stranger its owner reads {rows}")
        except (flight.FlightError, pyarrow.ArrowException) as error:
            holes.check(False, f"after {name} of a stranger its owner receives {error}")
        # The ticket itself does not let another user read.
        info = (
            owner.get_flight_info(question(f"select count(*) from {OWN}.m"), owns)
            if node.write(OWN, who=node.admin).status == 204
            else info
        )
        try:
            rows = stranger.do_get(info.endpoints[0].ticket, strange).read_all().to_pylist()
            holes.check(False, f"a stranger reads {rows} by the ticket of another")
        except (flight.FlightError, pyarrow.ArrowException):
            holes.check(True, "")
    info = owner.get_flight_info(question("select 1 as one"), owns)
    told = cancel(owner, owns, info)
    expect(not isinstance(told, str), f"control: its owner cannot cancel it: {told}")
    try:
        rows = owner.do_get(info.endpoints[0].ticket, owns).read_all()
        expect(False, f"control: what its owner has cancelled is read: {rows.to_pylist()}")
    except (flight.FlightError, pyarrow.ArrowException):
        pass
    until(lambda: node.queries() == 0, 10, "a query stays")
    owner.close()
    stranger.close()
    return holes.end()
