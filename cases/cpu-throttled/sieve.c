/*
 * Counts primes in blocks of numbers, with one thread per CPU. It does not know its CPU limit.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

static atomic_long next_block, primes;
static long blocks;

static long primes_in(uint64_t first, char *composite)
{
	long found = 0;

	memset(composite, 0, BLOCK);
	for (uint64_t factor = 2; factor * factor < first + BLOCK; factor++) {
		uint64_t start = (first + factor - 1) / factor * factor;

		for (uint64_t n = start < factor * factor ? factor * factor : start; n < first + BLOCK; n += factor)
			composite[n - first] = 1;
	}
	for (uint64_t n = first < 2 ? 2 - first : 0; n < BLOCK; n++)
		found += !composite[n];
	return found;
}

static void *count(void *unused)
{
	char *composite = malloc(BLOCK);
	long block;

	while ((block = atomic_fetch_add(&next_block, 1)) < blocks)
		atomic_fetch_add(&primes, primes_in(block * (uint64_t)BLOCK, composite));
	free(composite);
	return unused;
}

int main(int argc, char **argv)
{
	int threads = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t running[threads];

	blocks = argc > 1 ? atol(argv[1]) : 2000;
	for (int i = 0; i < threads; i++)
		pthread_create(&running[i], NULL, count, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(running[i], NULL);
	fprintf(stderr, "%ld primes\n", atomic_load(&primes));
	printf("progress: %ld blocks\n", blocks);
	return 0;
}
