/*
 * Workers wait for jobs at one condition variable. Jobs come one at a time.
 *
 * Slow: each job is announced to all workers. One finds it, the others check and sleep again.
 * Fixed (-DFIXED): each job is announced to one.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 24, AHEAD = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t job_came = PTHREAD_COND_INITIALIZER, job_done = PTHREAD_COND_INITIALIZER;
static long queued, unfinished;
static int over;
static uint64_t result;

static uint64_t do_job(uint64_t state)
{
	for (int i = 0; i < 20000; i++)
		state = state * 6364136223846793005u + 1442695040888963407u;
	return state;
}

static void *work(void *number)
{
	uint64_t state = (uintptr_t)number;

	pthread_mutex_lock(&lock);
	for (;;) {
		while (!queued && !over)
			pthread_cond_wait(&job_came, &lock);
		if (!queued)
			break;
		queued--;
		pthread_mutex_unlock(&lock);
		state = do_job(state);
		pthread_mutex_lock(&lock);
		result ^= state;
		unfinished--;
		pthread_cond_signal(&job_done);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(int argc, char **argv)
{
	long jobs = argc > 1 ? atol(argv[1]) : 20000;
	pthread_t workers[WORKERS];

	for (uintptr_t i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, work, (void *)i);
	for (long i = 0; i < jobs; i++) {
		pthread_mutex_lock(&lock);
		while (unfinished >= AHEAD)
			pthread_cond_wait(&job_done, &lock);
		queued++;
		unfinished++;
#ifdef FIXED
		pthread_cond_signal(&job_came);
#else
		pthread_cond_broadcast(&job_came);
#endif
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	over = 1;
	pthread_cond_broadcast(&job_came);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	fprintf(stderr, "%016lx\n", (unsigned long)result);
	printf("progress: %ld jobs\n", jobs);
	return 0;
}
