/*
 * A table whose pages are opened and sealed for each change, as in the case shootdown. But the threads that
 * look up routes sleep until all changes are made. A CPU that runs no thread of the process has no
 * translations to flush, and is not interrupted: sealing is a syscall like any other.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READERS = 4, ROUTES = 1 << 14, STEPS = 4000 };

static volatile uint32_t *routes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static int made;

static void *look_up(void *unused)
{
	pthread_mutex_lock(&lock);
	while (!made)
		pthread_cond_wait(&over, &lock);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < ROUTES; i++)
		(void)routes[i];
	return unused;
}

static void seal(int protection)
{
	if (mprotect((void *)routes, ROUTES * sizeof *routes, protection))
		exit(1);
}

int main(int argc, char **argv)
{
	pthread_t readers[READERS];
	uint64_t state = 42;
	long changes = argc > 1 ? atol(argv[1]) : 100000;

	routes = mmap(NULL, ROUTES * sizeof *routes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (routes == MAP_FAILED)
		return 1;
	for (int i = 0; i < READERS; i++)
		pthread_create(&readers[i], NULL, look_up, NULL);
	for (long done = 0; done < changes; done++) {
		for (int step = 0; step < STEPS; step++) /* where the route leads */
			state = state * 6364136223846793005u + 1442695040888963407u;
		seal(PROT_READ | PROT_WRITE);
		routes[state >> 50] = (uint32_t)state;
		seal(PROT_READ);
	}
	pthread_mutex_lock(&lock);
	made = 1;
	pthread_cond_broadcast(&over);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	printf("progress: %ld changes\n", changes);
	return 0;
}
