# pack.sh FOLDER COUNT: packs COUNT files of 4 MiB, as many at a time as there are CPUs.
mkdir -p "$1" && cd "$1" || exit 1
seq 700000 | head -c 4194304 | tee $(seq -f %g.txt "$2") >/dev/null
printf '%s\n' *.txt | xargs -P "$(nproc)" -n 1 gzip -6f
echo "progress: $2 files"
