"""Makes digests of blocks of a megabyte in two threads.

hashlib releases the interpreter lock while it works on a large block. The threads run in parallel and hardly ever need the
interpreter at the same time.
"""

import hashlib
import sys
import threading


def digest(name, rounds, into):
    block = name.encode() * (1 << 20)
    last = b""
    for _ in range(rounds):
        made = hashlib.sha256(last)
        made.update(block)
        last = made.digest()
    into.append(last.hex())


def main():
    rounds = int(sys.argv[1])
    digests = []
    threads = [threading.Thread(target=digest, args=(name, rounds, digests)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(*sorted(digests))
    print(f"progress: {2 * rounds} digests")


main()
