/*
 * A table of routes that is protected against accidental writes: its pages are read-only, except while the
 * one updating thread changes it. Others look up routes all the time, one per further CPU, until the last
 * change is made. To seal a page, the kernel interrupts every CPU that runs a thread of the process, because
 * each may have cached the old permission. It waits until all have confirmed.
 *
 * Slow: opened and sealed for each change.
 * Fixed (-DFIXED): the table is mapped a second time, writable, at an address that only the updating thread
 * knows.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READERS_MAX = 15, ROUTES = 1 << 14, STEPS = 4000 };

static _Atomic uint32_t *routes, *writable;
static long changes;
static _Atomic bool made;

static uint64_t next(uint64_t state)
{
	return state * 6364136223846793005u + 1442695040888963407u;
}

static void *look_up(void *number)
{
	uint64_t state = 1 + (uintptr_t)number, sum = 0;

	while (!atomic_load_explicit(&made, memory_order_relaxed)) {
		state = next(state);
		sum += atomic_load_explicit(&routes[state >> 50], memory_order_relaxed);
	}
	return (void *)(uintptr_t)sum;
}

static void seal(int protection)
{
#ifndef FIXED
	if (mprotect((void *)routes, ROUTES * sizeof *routes, protection))
		exit(1);
#else
	(void)protection;
#endif
}

static void *change(void *unused)
{
	uint64_t state = 42;

	for (long done = 0; done < changes; done++) {
		for (int step = 0; step < STEPS; step++) /* where the route leads */
			state = next(state);
		seal(PROT_READ | PROT_WRITE);
		atomic_store_explicit(&writable[state >> 50], (uint32_t)state, memory_order_relaxed);
		seal(PROT_READ);
	}
	return unused;
}

static void *map(int file, int protection)
{
	void *place = mmap(NULL, ROUTES * sizeof *routes, protection, MAP_SHARED, file, 0);

	if (place == MAP_FAILED)
		exit(1);
	return place;
}

int main(int argc, char **argv)
{
	pthread_t readers[READERS_MAX], writer;
	long others = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	long count = others < 1 ? 1 : others > READERS_MAX ? READERS_MAX : others;
	int file = memfd_create("routes", 0);

	changes = argc > 1 ? atol(argv[1]) : 60000;
	if (file < 0 || ftruncate(file, ROUTES * sizeof *routes))
		return 1;
	routes = map(file, PROT_READ);
	writable = routes;
#ifdef FIXED
	writable = map(file, PROT_READ | PROT_WRITE);
#endif
	for (long i = 0; i < count; i++)
		pthread_create(&readers[i], NULL, look_up, (void *)i);
	pthread_create(&writer, NULL, change, NULL);
	pthread_join(writer, NULL);
	atomic_store(&made, true);
	for (long i = 0; i < count; i++)
		pthread_join(readers[i], NULL);
	printf("progress: %ld changes\n", changes);
	return 0;
}
