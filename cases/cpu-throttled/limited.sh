#!/bin/sh
# limited.sh QUOTA PROGRAM ARGS...: runs it with this CPU time (µs) in each 100 ms.
exec "$(dirname "$0")/../shared/limited.sh" cpu "$@"
