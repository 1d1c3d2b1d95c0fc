"""Worker processes take invoices from a queue, and store each in an archive that takes 8 ms for one.

    invoices.py PORTION WORKERS COUNT

A worker takes PORTION of them from the queue at once, and stores them one after the other.
"""

import asyncio
import os
import signal
import socket
import struct
import sys

STORE_S = 0.008


def address(name):
    """No file: a name that begins with 0."""
    return f"\0invoices-{name}-{os.environ['INVOICES']}"


def connect(name):
    """A connection to one of the services."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address(name))
    return connection


def numbers(connection, count):
    """Reads `count` numbers from a connection."""
    data = b""
    while len(data) < 4 * count:
        more = connection.recv(4 * count - len(data))
        if not more:
            raise EOFError
        data += more
    return struct.unpack(f"<{count}I", data)


async def queue(portion, count, ready):
    """Hands out portions. When no number is left, a worker gets an empty portion."""
    left = iter(range(1, count + 1))

    async def give(reader, writer):
        while await reader.read(1):
            given = [number for _, number in zip(range(portion), left)]
            writer.write(struct.pack(f"<{len(given) + 1}I", len(given), *given))
            if not given:
                break
        writer.close()

    await serve("queue", give, ready)


async def archive(ready):
    """Stores any number at once."""

    async def store(reader, writer):
        try:
            while True:
                (invoice,) = struct.unpack("<I", await reader.readexactly(4))
                await asyncio.sleep(STORE_S)
                writer.write(struct.pack("<I", invoice * 2654435761 % 65521))
        except asyncio.IncompleteReadError:
            writer.close()

    await serve("archive", store, ready)


async def serve(name, handle, ready):
    """Serves until it is ended."""
    server = await asyncio.start_unix_server(handle, address(name))
    os.write(ready, b"1")
    async with server:
        await server.serve_forever()


def worker(result):
    """Takes portions until there are none."""
    take, store = connect("queue"), connect("archive")
    stored, total = 0, 0
    while True:
        take.sendall(b"?")
        (count,) = numbers(take, 1)
        if count == 0:
            break
        for invoice in numbers(take, count):
            store.sendall(struct.pack("<I", invoice))
            total += numbers(store, 1)[0]
            stored += 1
    os.write(result, struct.pack("<II", stored, total))


def start(run):
    """Runs it in a child."""
    child = os.fork()
    if child == 0:
        run()
        os._exit(0)
    return child


def main():
    """Runs it."""
    portion, workers, count = map(int, sys.argv[1:4])
    os.environ["INVOICES"] = str(os.getpid())
    told, ready = os.pipe()
    services = [start(lambda: asyncio.run(queue(portion, count, ready))), start(lambda: asyncio.run(archive(ready)))]
    for _ in services:
        os.read(told, 1)
    results, result = os.pipe()
    children = [start(lambda: worker(result)) for _ in range(workers)]
    for child in children:
        os.waitpid(child, 0)
    sums = [struct.unpack("<II", os.read(results, 8)) for _ in children]
    for service in services:
        os.kill(service, signal.SIGTERM)
        os.waitpid(service, 0)
    print(f"checksums: {sum(total for _, total in sums)}\nprogress: {sum(stored for stored, _ in sums)} invoices")


main()
