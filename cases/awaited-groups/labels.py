"""A shop sends new prices to its shelf labels, 16 under way at a time, through a hub.

A label answers when its radio wakes up: most do so within a few milliseconds, some sleep through a beacon or two. `groups` sends 16,
waits until all of them have answered (asyncio.gather), and sends the next 16. `lanes` sends the next one as soon as any has answered.
`beacons` sends 16 at each beacon, which comes every 150 ms.
"""

import asyncio
import os
import signal
import struct
import sys
import zlib

IN_FLIGHT = 16
BEACON_S = 0.15


def answer_s(label):
    """How long a label takes (s)."""
    draw = (label * 2654435761 % 4294967296) >> 16
    if draw % 100 < 5:
        return 0.08 + draw % 7 * 0.01
    return 0.005 + draw % 8 * 0.001


async def label(reader, writer):
    """Answers the requests of one connection."""
    try:
        while True:
            number, price = struct.unpack("<II", await reader.readexactly(8))
            await asyncio.sleep(answer_s(number))
            writer.write(struct.pack("<I", (number * 31 + price) % 65521))
    except asyncio.IncompleteReadError:
        writer.close()


async def hub(address, ready):
    """Serves until it is ended."""
    server = await asyncio.start_unix_server(label, address)
    os.write(ready, b"1")
    async with server:
        await server.serve_forever()


def picture(number):
    """Returns the size of a label's packed picture, which represents the price."""
    lines = [bytes((number * line + dot * dot) % 251 for dot in range(96)) for line in range(48)]
    return len(zlib.compress(b"".join(lines)))


async def send(connection, number):
    """Sends a price to a label, and has its checksum."""
    reader, writer = connection
    writer.write(struct.pack("<II", number, picture(number)))
    return struct.unpack("<I", await reader.readexactly(4))[0]


async def groups(connections, numbers):
    """Sends one price per connection at once, and waits for all responses before the next group."""
    total = 0
    for first in range(0, len(numbers), len(connections)):
        group = numbers[first : first + len(connections)]
        total += sum(await asyncio.gather(*map(send, connections, group)))
    return total


async def beacons(connections, numbers):
    """Sends one price per connection at each beacon, because the radio takes no more."""
    clock = asyncio.get_running_loop()
    begun, total = clock.time(), 0
    for first in range(0, len(numbers), len(connections)):
        group = numbers[first : first + len(connections)]
        total += sum(await asyncio.gather(*map(send, connections, group)))
        beacon = begun + BEACON_S * (first // len(connections) + 1)
        await asyncio.sleep(max(0, beacon - clock.time()))
    return total


async def lanes(connections, numbers):
    """The next as soon as any has answered."""
    left = iter(numbers)

    async def lane(connection):
        return sum([await send(connection, number) for number in left])

    return sum(await asyncio.gather(*map(lane, connections)))


async def shop(address, how, count):
    """Sends all prices."""
    connections = [await asyncio.open_unix_connection(address) for _ in range(IN_FLIGHT)]
    total = await {"groups": groups, "lanes": lanes, "beacons": beacons}[how](connections, range(count))
    for _, writer in connections:
        writer.close()
    print(f"checksums: {total}\nprogress: {count} labels")


def main():
    """Runs it."""
    how, count = sys.argv[1], int(sys.argv[2])
    # No file: a name that begins with 0.
    address = f"\0labels-{os.getpid()}"
    told, ready = os.pipe()
    child = os.fork()
    if child == 0:
        asyncio.run(hub(address, ready))
        os._exit(0)
    os.read(told, 1)
    asyncio.run(shop(address, how, count))
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)


main()
