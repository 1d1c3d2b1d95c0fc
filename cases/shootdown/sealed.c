/*
 * A table of routes that nobody may write to by mistake: its pages are sealed (read-only) except while the one thread that
 * changes it does so. Other threads look routes up all the while. To seal a page, the kernel interrupts every CPU that runs a
 * thread of the process, for each may have the old permission at hand, and waits until all have answered.
 *
 * Slow: opened and sealed for each change.
 * Fixed (-DFIXED): for a batch of 256 changes.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { READERS = 2, ROUTES = 1 << 14, LOOKUPS_PER_CHANGE = 40 };
#ifdef FIXED
enum { BATCH = 256 };
#else
enum { BATCH = 1 };
#endif

static _Atomic uint32_t *routes;
static long changes;

static void *look_up(void *number)
{
	uint64_t state = 1 + (uintptr_t)number, sum = 0;

	for (long i = 0; i < changes * LOOKUPS_PER_CHANGE; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		sum += atomic_load_explicit(&routes[state >> 50], memory_order_relaxed);
	}
	return (void *)(uintptr_t)sum;
}

static void seal(int protection)
{
	if (mprotect((void *)routes, ROUTES * sizeof *routes, protection))
		exit(1);
}

static void *change(void *unused)
{
	uint64_t state = 42;

	for (long done = 0; done < changes; done += BATCH) {
		seal(PROT_READ | PROT_WRITE);
		for (int i = 0; i < BATCH; i++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			atomic_store_explicit(&routes[state >> 50], (uint32_t)state, memory_order_relaxed);
		}
		seal(PROT_READ);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t readers[READERS], writer;

	changes = argc > 1 ? atol(argv[1]) : 150000;
	routes = mmap(NULL, ROUTES * sizeof *routes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (routes == MAP_FAILED)
		return 1;
	for (uintptr_t i = 0; i < READERS; i++)
		pthread_create(&readers[i], NULL, look_up, (void *)i);
	pthread_create(&writer, NULL, change, NULL);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	pthread_join(writer, NULL);
	printf("progress: %ld changes\n", changes);
	return 0;
}
