"""Makes checksums of many small files with cksum(1).

Slow (each): a process for each file.
Fixed (together): a process for each hundred files.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

WORKERS = 2


def write_files(folder, count):
    paths = []
    for number in range(count):
        path = os.path.join(folder, f"{number}.txt")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"file {number}\n" * 200)
        paths.append(path)
    return paths


def sums(paths):
    done = subprocess.run(["cksum", *paths], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in done.stdout.splitlines()]


def main():
    folder, count, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    paths = write_files(folder, count)
    at_once = {"each": 1, "together": 100}[how]
    groups = [paths[at : at + at_once] for at in range(0, count, at_once)]
    with ThreadPoolExecutor(WORKERS) as pool:
        done = sum(len(part) for part in pool.map(sums, groups))
    print(f"progress: {done} files")


if __name__ == "__main__":
    main()
