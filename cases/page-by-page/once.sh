#!/bin/sh
# once.sh DIR PROGRAM: makes the file once, then has it read.
file=$1/readings
[ -s "$file" ] || head -c 201326592 /dev/urandom >"$file" && sync "$file"
exec "$2" "$file"
