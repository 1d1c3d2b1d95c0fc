#!/bin/sh
# memory.sh DIR PROGRAM BYTES LOOKUPS: makes the table once (48 MB that no file system can compress to nothing), then looks rows up.
table=$1/table
[ -s "$table" ] || head -c 50331648 /dev/urandom >"$table" && sync "$table"
exec ../shared/limited.sh memory "$3" "$2" "$table" "$4"
