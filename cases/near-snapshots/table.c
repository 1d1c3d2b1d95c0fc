/*
 * A table of 128 MiB, in which two threads search all the time. Now and then the program forks: the child has
 * a snapshot of the table, computes a sum of it instead of saving it, and exits. No thread waits for it
 * before the end.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SEARCHERS = 2, LENGTH = 16 << 20, SEARCHES = 1000000 };

static uint64_t *table;

static void *search(void *number)
{
	uint64_t state = 1 + (uintptr_t)number, found = 0;

	for (long i = 0; i < SEARCHES; i++) {
		long low = 0;

		state = state * 6364136223846793005u + 1442695040888963407u;
		for (long step = LENGTH / 2; step; step /= 2)
			if (table[low + step] <= state >> 16)
				low += step;
		found += low;
	}
	return (void *)(uintptr_t)found;
}

static void save(void)
{
	uint64_t sum = 0;

	for (long i = 0; i < LENGTH; i += 64)
		sum += table[i];
	_exit(sum == 42);
}

int main(int argc, char **argv)
{
	int snapshots = argc > 1 ? atoi(argv[1]) : 8;
	struct timespec pause = { .tv_nsec = 100000000 };
	pthread_t threads[SEARCHERS];

	table = malloc(sizeof *table * LENGTH);
	for (long i = 0; i < LENGTH; i++)
		table[i] = (UINT64_MAX >> 16) / LENGTH * i;
	for (uintptr_t i = 0; i < SEARCHERS; i++)
		pthread_create(&threads[i], NULL, search, (void *)i);
	for (int i = 0; i < snapshots; i++) {
		if (!fork())
			save();
		nanosleep(&pause, NULL);
	}
	for (int i = 0; i < SEARCHERS; i++)
		pthread_join(threads[i], NULL);
	while (wait(NULL) > 0)
		;
	printf("progress: %d searches\n", SEARCHERS * SEARCHES);
	return 0;
}
