"""A reader of OCaml 5.3's ring files that shares nothing with holdup's: what `bench/account` and `bench/lateness` hold it to."""

import collections
import mmap
import struct

# Kinds of messages that begin and end a phase.
BEGIN, END = 2, 3

Message = collections.namedtuple("Message", "kind phase when")


def messages(path):
    """Yields each domain's slot, the number of words overwritten before, and the runtime's own messages in order."""
    # A file's room is for 128 domains, most of which there are not.
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    domains, header, size, elements, headers, body = struct.unpack_from("<6Q", data, 8)
    for domain in range(domains):
        head, tail = struct.unpack_from("<2Q", data, headers + domain * header)
        if tail:
            yield domain, head, list(walk(data, (body + domain * size, elements), (head, tail)))


def walk(data, place, words):
    (start, elements), (at, tail) = place, words
    while at < tail:
        word, when = struct.unpack_from("<2Q", data, start + at % elements * 8)
        length, is_user, kind, phase = word >> 54, word >> 53 & 1, word >> 49 & 15, word >> 36 & 0x1FFF
        if not length:
            return
        at += length
        if kind and not is_user:
            yield Message(kind, phase, when)
