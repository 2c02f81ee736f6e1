"""A TCP load balancer that sends the client's address by the PROXY protocol, as network load balancers do."""

import asyncio
import ipaddress
import struct
import threading

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
TARGET = "198.51.100.1"


def client(address):
    """The public address that a local client address stands for: 203.0.113.9 for 127.0.0.9."""
    return "203.0.113." + address.rpartition(".")[2]


def first(address, port, server, version):
    """The PROXY header of a connection."""
    if version == 1:
        return f"PROXY TCP4 {address} {TARGET} {port} {server}\r\n".encode()
    pair = ipaddress.ip_address(address).packed + ipaddress.ip_address(TARGET).packed
    return SIGNATURE + bytes([0x21, 0x11]) + struct.pack("!H", 12) + pair + struct.pack("!HH", port, server)


class Proxy:
    """Forwards connections to a local server; with `announces` it sends PROXY headers of version 1 and 2 in turn, else it keeps the client's
    address as that of its own connection."""

    def __init__(self, server, announces):
        self.server, self.announces, self.count, self.port = server, announces, 0, None
        self.loop, begun = asyncio.new_event_loop(), threading.Event()
        self.tasks = set()
        self.thread = threading.Thread(target=self.run, args=(begun,), daemon=True)
        self.thread.start()
        begun.wait(10)

    def run(self, begun):
        asyncio.set_event_loop(self.loop)
        listening = self.loop.run_until_complete(asyncio.start_server(self.connected, "127.0.0.1", 0, backlog=1_024))
        self.port = listening.sockets[0].getsockname()[1]
        begun.set()
        self.loop.run_forever()
        listening.close()
        for task in self.tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*self.tasks, return_exceptions=True))
        self.loop.close()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def connected(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.add(task)
        try:
            await self.serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)

    async def serve(self, reader, writer):
        address, port = writer.get_extra_info("peername")[:2]
        try:
            kept = None if self.announces else (address, 0)
            onward, away = await asyncio.open_connection("127.0.0.1", self.server, local_addr=kept)
        except OSError:
            writer.close()
            return
        self.count += 1
        if self.announces:
            away.write(first(client(address), port, self.server, 1 + self.count % 2))
        try:
            await asyncio.gather(pump(reader, away), pump(onward, writer))
        finally:
            away.close()
            writer.close()


async def pump(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()
