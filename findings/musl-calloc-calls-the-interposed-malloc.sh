#!/usr/bin/env bash
# musl 1.2.3 (Debian's package musl 1.2.3-1): an interposed allocator that forwards to the next definition is called again
# from inside the next definition.
#
# Expected by most: `dlsym(RTLD_NEXT, "calloc")` is a leaf, as in glibc. A library that counts allocations, or that puts a
# header in front of each block, sees one call per allocation.
# Seen: musl's calloc calls malloc by its public name, and musl's memalign calls aligned_alloc. One calloc of the program is
# two allocations for the counter, and the header is put on twice. With malloc replaced and aligned_alloc not, musl's
# posix_memalign fails with ENOMEM. glibc does neither.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
for package in musl musl-dev; do
    apt-get download -q -o APT::Sandbox::User=root "$package=1.2.3-1" >/dev/null
    dpkg-deb -x "$package"_*.deb .
done
musl=$(dirname "$(find "$scratch/usr/lib" -name crt1.o)")
loader=$(find "$scratch" -name 'ld-musl-*.so.1' | head -n 1)
cat >counter.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int mallocs, callocs;

void *malloc(size_t size)
{
	static void *(*next)(size_t);
	if (!next)
		next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	mallocs++;
	return next(size);
}

void *calloc(size_t count, size_t size)
{
	static void *(*next)(size_t, size_t);
	static char early[4096]; /* glibc's dlsym may allocate */
	static int inside;
	if (!next && inside)
		return early;
	inside = 1;
	if (!next)
		next = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
	callocs++;
	return next(count, size);
}
C
cat >program.c <<'C'
#include <stdio.h>
#include <stdlib.h>

extern int mallocs, callocs;

int main(void)
{
	int before = mallocs;
	void *volatile block = calloc(10, 10);
	void *aligned = NULL;
	int nested = mallocs - before;
	int status = posix_memalign(&aligned, 64, 100);
	printf("malloc inside calloc: %d, posix_memalign: %s\n", nested, status ? "fails" : "works");
	return block == NULL;
}
C
gcc -O1 -o glibc program.c counter.c -ldl
headers=$(dirname "$(find "$scratch/usr/include" -name stdlib.h | head -n 1)")
gcc -O1 -nostdinc -isystem "$headers" -nostdlib -o musl "$musl/crt1.o" "$musl/crti.o" program.c counter.c -Wl,--export-dynamic \
    "$(dirname "$loader")"/*/libc.so "$musl/crtn.o"
of_glibc=$(./glibc)
of_musl=$("$loader" ./musl)
echo "glibc: $of_glibc"
echo "musl:  $of_musl"
[ "$of_glibc" = "malloc inside calloc: 0, posix_memalign: works" ] &&
    [ "$of_musl" = "malloc inside calloc: 1, posix_memalign: fails" ] || { echo "the behaviour has changed"; exit 1; }
