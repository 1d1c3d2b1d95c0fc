#!/bin/sh
# once.sh DIR PROGRAM BYTES: makes the file once, then reads it.
file=$1/file
[ -s "$file" ] || head -c 402653184 /dev/urandom >"$file" && sync "$file"
exec ../shared/limited.sh memory "$3" "$2" "$file"
