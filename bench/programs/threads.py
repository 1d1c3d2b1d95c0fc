"""Three threads that compute and sleep."""

import threading
import time


def work():
    for _ in range(300):
        sum(range(10_000))
        sorted(range(1000), key=lambda number: -number)
        time.sleep(0.001)


threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
