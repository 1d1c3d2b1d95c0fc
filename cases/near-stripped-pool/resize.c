// Four workers of a pool scale pictures that the first thread reads. Reading takes longer, so the workers are
// mostly idle.
//
// musl's condition variable lets each idle worker wait for a word on its own stack, as if for a lock. Without
// symbols the functions' names do not show the difference.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { WORKERS = 4, PICTURES = 1500, READ = 900000, SCALE = 200000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static int waiting, unfinished, closed;
static uint64_t sums[WORKERS + 1];

static uint64_t work(uint64_t seed, int steps)
{
	for (int i = 0; i < steps; i++)
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return seed;
}

static void *worker(void *sum)
{
	pthread_mutex_lock(&mutex);
	for (;;) {
		while (!waiting && !closed)
			pthread_cond_wait(&more, &mutex);
		if (!waiting)
			break;
		waiting--;
		pthread_mutex_unlock(&mutex);
		*(uint64_t *)sum += work(1, SCALE);
		pthread_mutex_lock(&mutex);
		unfinished--;
		pthread_cond_signal(&done);
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	pthread_t threads[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, worker, &sums[i]);
	for (int i = 0; i < PICTURES; i++) {
		sums[WORKERS] += work(i, READ);
		pthread_mutex_lock(&mutex);
		waiting++;
		unfinished++;
		pthread_mutex_unlock(&mutex);
		pthread_cond_signal(&more);
	}
	pthread_mutex_lock(&mutex);
	while (unfinished)
		pthread_cond_wait(&done, &mutex);
	closed = 1;
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	printf("progress: %d pictures\n", PICTURES);
	return 0;
}
