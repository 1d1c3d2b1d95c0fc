"""Counts primes in parts of a range, each part by a worker.

Slow (threads): the workers are threads of one interpreter and take turns at its lock.
Fixed (processes): each worker is a process with an interpreter of its own.
"""

import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

PARTS = 48


def is_prime(number):
    if number < 2 or number % 2 == 0:
        return number == 2
    divisor = 3
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 2
    return True


def count(bounds):
    return sum(is_prime(number) for number in range(*bounds))


def main():
    kind, workers, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    first = 1_000_000
    cuts = [first + length * part // PARTS for part in range(PARTS + 1)]
    pool = {"threads": ThreadPoolExecutor, "processes": ProcessPoolExecutor}[kind]
    with pool(workers) as executor:
        found = sum(executor.map(count, zip(cuts, cuts[1:])))
    print(found, "primes", file=sys.stderr)
    print(f"progress: {length} numbers")


if __name__ == "__main__":
    main()
