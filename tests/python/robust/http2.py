"""Hand-made HTTP/2 and gRPC: libraries do not send invalid frames or stop reading."""

import json
import select
import socket
import struct
import time

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW = 4
SERVICE = "/arrow.flight.protocol.FlightService/"


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    """A frame, optionally with a wrong length."""
    return (len(payload) if length is None else length).to_bytes(3, "big") + struct.pack("!BBI", kind, flags, stream) + payload


def settings(**values):
    return frame(SETTINGS, payload=b"".join(struct.pack("!HI", int(k[1:]), v) for k, v in values.items()))


def varint(number):
    size = b""
    while number > 127:
        size, number = size + bytes([number & 127 | 128]), number >> 7
    return size + bytes([number])


def literal(name, value):
    """A literal HPACK header."""

    def text(data):
        return (bytes([len(data)]) if len(data) < 127 else b"\x7f" + varint(len(data) - 127)) + data

    return b"\0" + text(name.encode()) + text(value.encode())


def request(path, *more):
    pairs = [(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", path), *more]
    return b"".join(literal(*pair) for pair in pairs)


def call(method, *more):
    """The headers of a Flight call."""
    return request(SERVICE + method, ("content-type", "application/grpc"), ("te", "trailers"), *more)


def message(data, length=None):
    """A gRPC message, optionally with a wrong length."""
    return b"\0" + (len(data) if length is None else length).to_bytes(4, "big") + data


def field(number, value):
    """A length-delimited Protobuf field: text, bytes or message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def command(name, *fields):
    return field(1, f"type.googleapis.com/arrow.flight.protocol.sql.{name}") + field(2, b"".join(fields))


def question(sql, database):
    """A statement in a DoGet ticket, as sent by InfluxDB 3 clients."""
    return json.dumps({"database": database, "sql_query": sql, "query_type": "sql"}).encode()


def ticket(sql, database):
    return field(1, question(sql, database))


def opened(port, seconds=5, receive=None):
    """A connection to a server, optionally with a small receive buffer."""
    stream = socket.socket()
    stream.settimeout(seconds)
    try:
        if receive:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        stream.connect(("127.0.0.1", port))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        stream.close()
        raise
    return stream


def shout(stream, data, seconds=5):
    """Sends what the server accepts within a time, and discards replies; returns whether it accepted everything."""
    stream.setblocking(False)
    rest, deadline = memoryview(data), time.monotonic() + seconds
    while rest and time.monotonic() < deadline:
        readable, writable, _ = select.select([stream], [stream], [], 0.1)
        try:
            if readable and not stream.recv(1 << 16):
                return False
            if writable:
                rest = rest[stream.send(rest[: 1 << 16]) :]
        except BlockingIOError:
            continue
        except OSError:
            return False
    return not rest


def closed(stream, seconds):
    """Whether the server closes a connection within a time; earlier replies are discarded."""
    stream.setblocking(True)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        stream.settimeout(left)
        try:
            if not stream.recv(1 << 16):
                return True
        except TimeoutError:
            return False
        except OSError:
            return True
    return False


class Client:
    """An HTTP/2 connection: sends frames, and records replies per stream."""

    def __init__(self, port, seconds=10, window=65_535, receive=None):
        self.stream, self.seconds, self.next = opened(port, seconds, receive), seconds, 1
        self.decoder, self.rest = hpack.Decoder(max_header_list_size=1 << 20), b""
        # Per stream: headers, number of data bytes, and end.
        self.headers, self.bytes, self.ended, self.over = {}, {}, {}, None
        # Send windows: initial per stream, with updates; the connection's under 0.
        self.window, self.credit = 65_535, {0: 65_535}
        self.stream.sendall(PREFACE + settings(_4=window))

    def close(self):
        self.stream.close()

    def send(self, data):
        self.stream.settimeout(self.seconds)
        self.stream.sendall(data)

    def call(self, headers, body=b"", end=True):
        """Opens a stream; returns its number."""
        number, self.next = self.next, self.next + 2
        flags = END_HEADERS | (END_STREAM if end and not body else 0)
        data = frame(DATA, END_STREAM if end else 0, number, body) if body else b""
        self.send(frame(HEADERS, flags, number, headers) + data)
        return number

    def feed(self, number, data, seconds):
        """Sends data of a stream within its window, without end; returns whether the server accepted everything."""
        self.take(1)
        sent, deadline = 0, time.monotonic() + seconds
        while sent < len(data) and not self.over and number not in self.ended and time.monotonic() < deadline:
            room = min(16_384, len(data) - sent, self.credit[0], self.window + self.credit.get(number, 0) - sent)
            if room <= 0:
                self.take(0.1)
                continue
            self.send(frame(DATA, 0, number, data[sent : sent + room]))
            sent, self.credit[0] = sent + room, self.credit[0] - room
        return sent == len(data)

    def take(self, seconds):
        """Waits for the next frame; returns whether one came."""
        readable, _, _ = select.select([self.stream], [], [], seconds)
        if not readable or self.over:
            return False
        try:
            got = self.stream.recv(1 << 16)
        except OSError:
            got = b""
        if not got:
            self.over = self.over or "closed"
            return False
        self.rest += got
        while len(self.rest) >= 9 and len(self.rest) >= 9 + (length := int.from_bytes(self.rest[:3], "big")):
            kind, flags, number = struct.unpack("!BBI", self.rest[3:9])
            payload, self.rest = self.rest[9 : 9 + length], self.rest[9 + length :]
            self.came(kind, flags, number, payload)
        return True

    def came(self, kind, flags, number, payload):
        if kind == HEADERS:
            self.headers.setdefault(number, {}).update(self.decoder.decode(payload))
        elif kind == DATA:
            self.bytes[number] = self.bytes.get(number, 0) + len(payload)
        elif kind == SETTINGS and not flags & ACK:
            values = dict(struct.iter_unpack("!HI", payload))
            self.window = values.get(INITIAL_WINDOW, self.window)
            self.send(frame(SETTINGS, ACK))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, payload=payload))
        elif kind == WINDOW_UPDATE:
            self.credit[number] = self.credit.get(number, 0) + int.from_bytes(payload, "big")
        elif kind == RST_STREAM:
            self.ended[number] = f"reset {int.from_bytes(payload, 'big')}"
        elif kind == GOAWAY:
            self.over = f"goaway {int.from_bytes(payload[4:8], 'big')} {payload[8:].decode(errors='replace')}"
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self.ended[number] = "end"

    def wait(self, numbers, seconds):
        """Waits until the streams or the connection have ended; returns the unfinished streams."""
        deadline = time.monotonic() + seconds
        while (left := [n for n in numbers if n not in self.ended]) and not self.over:
            if time.monotonic() > deadline:
                break
            self.take(min(0.1, max(0.0, deadline - time.monotonic())))
        return left if not self.over else []
