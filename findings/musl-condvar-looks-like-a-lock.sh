#!/usr/bin/env bash
# musl 1.2.5 (as ziglang 0.14.1 brings it): a thread in pthread_cond_wait waits on a futex word of its own stack, with the
# value 2, which in the mutexes of glibc, Rust and Go says "locked, and others wait".
#
# Expected by most: threads that wait on one condition variable wait on one word inside of it, as with glibc; and a futex
# wait with the value 2 is for a lock.
# Seen: three idle workers of one queue wait on three words, each less than 1 KiB above the waiter's stack pointer, all with
# the value 2. A profiler that goes by the value sees three contended locks, held by the signalling thread.
set -euo pipefail
scratch=$(mktemp -d)
trap '[ -z "${workers:-}" ] || kill "$workers" 2>/dev/null || true; rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q ziglang==0.14.1
cat >"$scratch/idle.c" <<'C'
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;

static void *worker(void *unused)
{
	pthread_mutex_lock(&lock);
	for (;;)
		pthread_cond_wait(&filled, &lock);
	return unused;
}

int main(void)
{
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, worker, 0);
	pause();
	return 0;
}
C
# /proc/PID/task/TID/syscall: number, six arguments, stack pointer, program counter. 202 is futex(2) of x86-64.
waits() {
    local build=$1 waiting=0 task
    "$scratch/$build" &
    workers=$!
    for _ in $(seq 100); do
        waiting=$(cat /proc/$workers/task/*/syscall 2>/dev/null | grep -c '^202 ' || true)
        [ "$waiting" = 3 ] && break
        sleep 0.1
    done
    for task in /proc/$workers/task/*/syscall; do
        read -r number word operation value _ _ _ stack _ <"$task"
        [ "$number" != 202 ] || echo "$word $((value)) $((word - stack > 0 && word - stack < 1024))"
    done
    kill $workers
    wait $workers 2>/dev/null || true
    workers=
}
for libc in musl gnu; do
    "$scratch/venv/bin/python" -m ziglang cc -target x86_64-linux-$libc -O2 -pthread -o "$scratch/$libc" "$scratch/idle.c"
    waits $libc >"$scratch/$libc.waits"
    echo "$libc: $(cut -d' ' -f1 "$scratch/$libc.waits" | sort -u | wc -l) words; value $(cut -d' ' -f2 "$scratch/$libc.waits" | sort -u | xargs); on the waiter's stack: $(grep -c ' 1$' "$scratch/$libc.waits" || true) of $(wc -l <"$scratch/$libc.waits")"
done | tee "$scratch/seen"
diff "$scratch/seen" - <<'SEEN' || { echo "the behaviour has changed"; exit 1; }
musl: 3 words; value 2; on the waiter's stack: 3 of 3
gnu: 1 words; value 0; on the waiter's stack: 0 of 3
SEEN
