# pack.sh FOLDER COUNT: packs COUNT files of 4 MiB, as many at a time as there are CPUs.
mkdir -p "$1"
seq 700000 | head -c 4194304 >"$1/first"
for number in $(seq "$2"); do cp "$1/first" "$1/$number.txt"; done
ls "$1"/*.txt | xargs -P "$(nproc)" -n 1 gzip -6f
echo "progress: $2 files"
