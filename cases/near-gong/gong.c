/*
 * Each round begins with a broadcast that wakes all eight workers at once, and each of them has work: no
 * wakeup is in vain.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gong = PTHREAD_COND_INITIALIZER, all_done = PTHREAD_COND_INITIALIZER;
static long round_now, rounds, at_work;

static void *work(void *number)
{
	uintptr_t state = (uintptr_t)number;

	for (long seen = 0; seen < rounds; seen++) {
		pthread_mutex_lock(&lock);
		while (round_now == seen)
			pthread_cond_wait(&gong, &lock);
		pthread_mutex_unlock(&lock);
		for (int i = 0; i < 4000000; i++)
			state = state * 6364136223846793005u + 1442695040888963407u;
		pthread_mutex_lock(&lock);
		if (--at_work == 0)
			pthread_cond_signal(&all_done);
		pthread_mutex_unlock(&lock);
	}
	return (void *)state;
}

int main(int argc, char **argv)
{
	pthread_t workers[WORKERS];

	rounds = argc > 1 ? atol(argv[1]) : 300;
	for (uintptr_t i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, work, (void *)i);
	for (long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&lock);
		at_work = WORKERS;
		round_now++;
		pthread_cond_broadcast(&gong);
		while (at_work)
			pthread_cond_wait(&all_done, &lock);
		pthread_mutex_unlock(&lock);
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	printf("progress: %ld rounds\n", rounds);
	return 0;
}
