/*
 * Six workers process a tree of tasks, wave after wave: each task computes, and makes two more, down to the
 * leaves. A worker that makes tasks wakes a waiting one. Workers only wait when there are no tasks, not for a
 * resource of others.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 6, DEPTH = 5, ROOM = 1 << (DEPTH + 2) };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER, empty = PTHREAD_COND_INITIALIZER;
static int tasks[ROOM], count, unfinished, ended;
static uint64_t sum;

static uint64_t compute(int depth)
{
	uint64_t value = depth + 1;

	for (int i = 0; i < 200000; i++)
		value ^= value << 13, value ^= value >> 7, value ^= value << 17;
	return value;
}

static void *work(void *unused)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		int depth;
		uint64_t value;

		while (!count && !ended)
			pthread_cond_wait(&came, &lock);
		if (ended)
			break;
		depth = tasks[--count];
		pthread_mutex_unlock(&lock);
		value = compute(depth);
		pthread_mutex_lock(&lock);
		sum += value;
		for (int child = 0; child < 2 && depth > 0; child++) {
			tasks[count++] = depth - 1;
			unfinished++;
			pthread_cond_signal(&came);
		}
		if (--unfinished == 0)
			pthread_cond_signal(&empty);
	}
	pthread_mutex_unlock(&lock);
	return unused;
}

int main(int argc, char **argv)
{
	int waves = argc > 1 ? atoi(argv[1]) : 160;
	pthread_t workers[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, work, NULL);
	pthread_mutex_lock(&lock);
	for (int wave = 0; wave < waves; wave++) {
		tasks[count++] = DEPTH;
		unfinished = 1;
		pthread_cond_signal(&came);
		while (unfinished)
			pthread_cond_wait(&empty, &lock);
	}
	ended = 1;
	pthread_cond_broadcast(&came);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	fprintf(stderr, "%016lx\n", (unsigned long)sum);
	printf("progress: %d waves\n", waves);
	return 0;
}
