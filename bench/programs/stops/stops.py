"""Three threads compute, and the interpreter runs one at a time. Prints the CPU time and the lifetime of each."""

import json
import threading
import time

told = []


def work():
    began, ran = time.monotonic_ns(), time.thread_time_ns()
    total = 0
    for number in range(6_000_000):
        total += number
    told.append((time.monotonic_ns() - began, time.thread_time_ns() - ran))


threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(told))
