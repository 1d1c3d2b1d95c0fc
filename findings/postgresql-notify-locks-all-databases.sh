#!/usr/bin/env bash
# PostgreSQL 16.2 (pgserver 0.1.4): the COMMIT of a transaction with NOTIFY waits for the COMMIT of another such
# transaction in another database, for as long as that one waits for the disk or for a standby.
#
# Expected by most: databases of one server are independent, and NOTIFY is as cheap as an INSERT.
# Seen: a lock of type `object` on database 0, mode AccessExclusiveLock, is taken before the commit record is written and
# is held until the commit is through. All commits with NOTIFY of a server happen one after the other. Commits without
# NOTIFY pass. In a profile this is a wait for a heavyweight lock below PreCommit_Notify, with no row or table to name.
#
# The first session waits for a standby that does not exist; that stands for any slow commit.
set -euo pipefail
scratch=$(mktemp -d)
trap 'kill %% 2>/dev/null || true; [ -z "${bin:-}" ] || as_user "$bin/pg_ctl" -D "$scratch/run/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q --no-deps pgserver==0.1.4
bin=$(echo "$scratch"/venv/lib/python3*/site-packages/pgserver/pginstall/bin)

# The server refuses to run as root.
as_user() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; }
mkdir "$scratch/run"
[ "$(id -u)" != 0 ] || chown 65534:65534 "$scratch/run"
as_user "$bin/initdb" -D "$scratch/run/data" -U user -A trust >/dev/null
as_user "$bin/pg_ctl" -D "$scratch/run/data" -w -l "$scratch/run/log" \
    -o "-k $scratch/run -c listen_addresses= -c synchronous_standby_names=nobody" start >/dev/null
sql() { local database=$1; shift; "$bin/psql" -X -A -t -q -h "$scratch/run" -U user -d "$database" "$@"; }

"$bin/postgres" --version
sql postgres -c "SET synchronous_commit = local" -c "CREATE DATABASE other" -c "CREATE TABLE t (x int)"
sql postgres -c "BEGIN; INSERT INTO t VALUES (1); NOTIFY a; COMMIT" >/dev/null 2>&1 &
waiting() { sql postgres -c "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"; }
for _ in $(seq 100); do [ "$(waiting)" = 1 ] && break; sleep 0.1; done
echo "postgres: COMMIT of NOTIFY waits for its standby"

plain=$(PGOPTIONS='-c synchronous_commit=local -c lock_timeout=3s' sql other -c "CREATE TABLE t (x int)" && echo passed)
echo "other:    COMMIT without NOTIFY: $plain"
notify=$(PGOPTIONS='-c synchronous_commit=local -c lock_timeout=3s' sql other -c "NOTIFY b" 2>&1 || true)
echo "other:    COMMIT with NOTIFY: ${notify:-passed}"
held=$(sql postgres -c "SELECT locktype, database, mode FROM pg_locks WHERE locktype = 'object' AND granted")
echo "held:     $held"
[ "$plain" = passed ] && [[ $notify == *"canceling statement due to lock timeout"* ]] && [ "$held" = "object|0|AccessExclusiveLock" ] ||
    { echo "the behaviour has changed"; exit 1; }
