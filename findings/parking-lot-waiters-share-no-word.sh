#!/usr/bin/env bash
# parking_lot 0.12.5: threads that wait for one Mutex each wait on a futex word of their own, with FUTEX_WAIT and 1.
#
# Expected by most: who waits for a lock waits on the lock's word, so that waits can be counted by address.
# Seen: three threads that wait for one Mutex of parking_lot wait on three words, none of them the Mutex; for the Mutex of
# Rust's standard library (1.62 and later) on one word, with the value 2. Counted by address, one lock of parking_lot is as
# many as there are threads, and the words are used again for every other lock and condition variable of the thread.
set -euo pipefail
scratch=$(mktemp -d)
trap '[ -z "${program:-}" ] || kill "$program" 2>/dev/null || true; rm -rf "$scratch"' EXIT
mkdir "$scratch/src"
cat >"$scratch/Cargo.toml" <<'TOML'
[package]
name = "waiters"
version = "0.1.0"
edition = "2021"
[dependencies]
parking_lot = "=0.12.5"
parking_lot_core = "=0.9.12"
TOML
cat >"$scratch/src/main.rs" <<'RUST'
static OURS: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
static STANDARD: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn wait(ours: bool) {
    if ours {
        drop(OURS.lock());
    } else {
        drop(STANDARD.lock());
    }
}

fn main() {
    let ours = std::env::args().nth(1).as_deref() == Some("parking_lot");
    let (_first, _second) = (OURS.lock(), STANDARD.lock());
    for _ in 0..3 {
        std::thread::spawn(move || wait(ours));
    }
    std::thread::sleep(std::time::Duration::from_secs(3600));
}
RUST
cargo build -q --release --manifest-path "$scratch/Cargo.toml" --target-dir "$scratch/target"
# /proc/PID/task/TID/syscall: number, word, operation, value, ... 202 is futex(2) of x86-64.
for lock in parking_lot std; do
    "$scratch/target/release/waiters" $lock &
    program=$!
    for _ in $(seq 100); do
        [ "$(cat /proc/$program/task/*/syscall 2>/dev/null | grep -c '^202 ' || true)" = 3 ] && break
        sleep 0.1
    done
    cat /proc/$program/task/*/syscall | grep '^202 ' >"$scratch/waits"
    kill $program
    wait $program 2>/dev/null || true
    program=
    echo "$lock: $(cut -d' ' -f2 "$scratch/waits" | sort -u | wc -l) words; operation $(cut -d' ' -f3 "$scratch/waits" | sort -u | xargs), value $(cut -d' ' -f4 "$scratch/waits" | sort -u | xargs)"
done | tee "$scratch/seen"
diff "$scratch/seen" - <<'SEEN' || { echo "the behaviour has changed"; exit 1; }
parking_lot: 3 words; operation 0x80, value 0x1
std: 1 words; operation 0x89, value 0x2
SEEN
