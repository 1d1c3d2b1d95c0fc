/*
 * Threads look for the longest Collatz sequence, each bound to a CPU of its own. One more is bound to the
 * first CPU, and prints the progress every 20 ms. These two threads hardly ever need that CPU at once.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CPUS_MAX = 64, BLOCK = 20000 };

struct search {
	atomic_long done;
	int cpu, longest;
} __attribute__((aligned(128)));

static struct search searches[CPUS_MAX];
static long blocks;
static atomic_bool over;

static void bind_to(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

static void *look(void *own)
{
	struct search *search = own;

	bind_to(search->cpu);
	for (long block = 0; block < blocks; block++) {
		for (uint64_t first = block * BLOCK + 1; first <= (uint64_t)(block + 1) * BLOCK; first++) {
			int steps = 0;

			for (uint64_t n = first; n != 1; steps++)
				n = n & 1 ? 3 * n + 1 : n / 2;
			if (steps > search->longest)
				search->longest = steps;
		}
		atomic_fetch_add(&search->done, 1);
	}
	return NULL;
}

static void *tell(void *count)
{
	struct timespec pause = { .tv_nsec = 20000000 };
	long sum;

	bind_to(searches[0].cpu);
	while (!atomic_load(&over)) {
		nanosleep(&pause, NULL);
		sum = 0;
		for (long i = 0; i < (long)(intptr_t)count; i++)
			sum += atomic_load(&searches[i].done);
		fprintf(stderr, "%ld\n", sum);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[CPUS_MAX], teller;
	intptr_t count = 0;
	cpu_set_t cpus;

	blocks = argc > 1 ? atol(argv[1]) : 60;
	sched_getaffinity(0, sizeof cpus, &cpus);
	for (int cpu = 0; cpu < CPU_SETSIZE && count < CPUS_MAX; cpu++)
		if (CPU_ISSET(cpu, &cpus))
			searches[count++].cpu = cpu;
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, look, &searches[i]);
	pthread_create(&teller, NULL, tell, (void *)count);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&over, 1);
	pthread_join(teller, NULL);
	printf("progress: %ld blocks\n", blocks * (long)count);
	return 0;
}
