#!/usr/bin/env bash
# GCC's libgomp (from scikit-learn 1.5.2): a parallel region that wants fewer threads than the one before ends the rest of
# the team, and the next larger region starts new ones.
#
# Expected by most: OpenMP keeps a pool, so that threads are started once, whatever num_threads says.
# Seen: 200 regions of 4 threads run on 4 threads in all; 200 regions of 4 and 2 threads by turns start 198 more. In a
# profile these are short-lived threads, started below GOMP_parallel; a library that sets its own number of threads
# (num_threads, omp_set_num_threads, threadpoolctl around calls) is enough to cause it.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q --no-deps --only-binary :all: scikit-learn==1.5.2
library=$(echo "$scratch"/venv/lib/python3*/site-packages/scikit_learn.libs/libgomp-*.so*)
echo "library: $(basename "$library")"
cat >"$scratch/regions.py" <<'PYTHON'
import ctypes
import os
import sys
import threading

gomp = ctypes.CDLL(sys.argv[1])
BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
seen = set()
lock = threading.Lock()


@BODY
def body(_):
    # Numbers of threads are reused only after all others: within so few they tell threads apart.
    with lock:
        seen.add(threading.get_native_id())


for region in range(200):
    gomp.GOMP_parallel(body, None, int(sys.argv[2 + region % 2]), 0)
print(len(seen))
os._exit(0)
PYTHON
count() { "$scratch/venv/bin/python" "$scratch/regions.py" "$library" "$@"; }
same=$(count 4 4)
changing=$(count 4 2)
echo "200 regions of 4 threads:              $same threads"
echo "200 regions of 4 and 2 threads by turns: $changing threads"
[ "$same" = 4 ] && [ "$changing" -ge 190 ] || { echo "the behaviour has changed"; exit 1; }
