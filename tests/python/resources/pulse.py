"""A process that requests /health repeatedly and writes its measurements into a file: pulse.py PORT FILE.

The file holds four doubles: the slowest answer in seconds since the number was set to 0, the start of the open request (0: none), the
number of requests, the number of failed ones. Requests use a kept connection and new connections in turn."""

import mmap
import socket
import struct
import sys
import time

FORMAT = "dddd"
SIZE = struct.calcsize(FORMAT)
EVERY, PATIENCE = 0.01, 60
REQUEST = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def ask(port, stream):
    if stream is None:
        stream = socket.create_connection(("127.0.0.1", port), PATIENCE)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.sendall(REQUEST)
    reply = stream.recv(1 << 12)
    return stream, reply.startswith(b"HTTP/1.1 200")


def main(port, path):
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), SIZE) as shared:

        def put(at, value):
            shared[8 * at : 8 * at + 8] = struct.pack("d", value)

        def get(at):
            return struct.unpack("d", shared[8 * at : 8 * at + 8])[0]

        kept, number = None, 0
        while True:
            number += 1
            began = time.monotonic()
            put(1, began)
            try:
                if number % 2:
                    kept, well = ask(port, kept)
                else:
                    stream, well = ask(port, None)
                    stream.close()
            except OSError:
                kept, well = None, False
            took = time.monotonic() - began
            put(1, 0.0)
            put(0, max(get(0), took))
            put(2, get(2) + 1)
            put(3, get(3) + (not well))
            time.sleep(EVERY)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
