"""Four threads need one lock most of the time, and its holder sleeps. faulthandler writes their stacks to a file."""

import faulthandler
import sys
import threading
import time

lock = threading.Lock()
until = time.monotonic() + 4


def wait_for_lock():
    lock.acquire()


def under_lock():
    time.sleep(0.003)


def work():
    while time.monotonic() < until:
        sum(range(2000))
        wait_for_lock()
        under_lock()
        lock.release()


faulthandler.dump_traceback_later(0.05, repeat=True, file=open(sys.argv[1], "w"))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
faulthandler.cancel_dump_traceback_later()
