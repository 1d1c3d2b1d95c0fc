/*
 * Heat spreads over plates, one per thread. A separate thread writes a checkpoint some forty times per
 * second, makes it durable, and holds the journal's lock for it. No other thread takes that lock before the
 * end, and all CPUs are busy.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIDE = 400, THREADS_MAX = 64 };

struct plate {
	float now[SIDE][SIDE], next[SIDE][SIDE];
};

static struct plate *plates[THREADS_MAX];
static pthread_mutex_t journal = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool over;
static long steps, checkpoints;
static int file;

static void *spread(void *number)
{
	struct plate *plate = plates[(uintptr_t)number];

	for (long step = 0; step < steps; step++) {
		for (int y = 1; y < SIDE - 1; y++)
			for (int x = 1; x < SIDE - 1; x++)
				plate->next[y][x] = (plate->now[y - 1][x] + plate->now[y + 1][x] + plate->now[y][x - 1] +
						     plate->now[y][x + 1]) / 4;
		for (int y = 1; y < SIDE - 1; y++)
			memcpy(plate->now[y], plate->next[y], sizeof plate->now[y]);
	}
	return NULL;
}

static void *keep(void *unused)
{
	struct timespec pause = { .tv_nsec = 20000000 };

	while (!atomic_load(&over)) {
		pthread_mutex_lock(&journal);
		if (pwrite(file, plates[0]->now, sizeof plates[0]->now, 0) != sizeof plates[0]->now || fdatasync(file))
			exit(1);
		checkpoints++;
		pthread_mutex_unlock(&journal);
		nanosleep(&pause, NULL);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX], keeper;
	cpu_set_t cpus;

	steps = argc > 2 ? atol(argv[2]) : 3000;
	file = open(argc > 1 ? argv[1] : "checkpoint", O_CREAT | O_TRUNC | O_RDWR, 0600);
	sched_getaffinity(0, sizeof cpus, &cpus);
	int count = CPU_COUNT(&cpus) < THREADS_MAX ? CPU_COUNT(&cpus) : THREADS_MAX;
	for (uintptr_t i = 0; i < (uintptr_t)count; i++) {
		plates[i] = calloc(1, sizeof *plates[i]);
		plates[i]->now[SIDE / 2][SIDE / 2] = 1e6;
		pthread_create(&threads[i], NULL, spread, (void *)i);
	}
	pthread_create(&keeper, NULL, keep, NULL);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&over, 1);
	pthread_mutex_lock(&journal);
	fprintf(stderr, "%ld checkpoints\n", checkpoints);
	pthread_mutex_unlock(&journal);
	pthread_join(keeper, NULL);
	printf("progress: %ld steps\n", steps * count);
	return 0;
}
