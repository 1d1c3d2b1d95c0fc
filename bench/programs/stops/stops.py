"""Three threads that compute, of which the interpreter lets one at a time; says how long each had a CPU and lived."""

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
