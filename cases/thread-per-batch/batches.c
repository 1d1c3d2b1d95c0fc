/*
 * A meter adds up readings, a batch of some thousand at a time: `batches BATCHES`.
 *
 * As it is, each batch gets a thread of its own, up to eight at a time. -DFIXED: four threads are started once, and
 * take the next batch as long as there is one.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define READINGS (1 << 16)
#define BATCH 2048
#define AT_ONCE 8
#define WORKERS 4

static uint32_t readings[READINGS];
static _Atomic uint64_t total;

/* What the batch adds up to, each reading mixed with the one before. */
static uint64_t sum_of(long batch)
{
	const uint32_t *first = readings + batch * BATCH % READINGS;
	uint64_t sum = 0, last = batch;

	for (int i = 0; i < BATCH; i++) {
		last = (last ^ first[i]) * 0x9e3779b97f4a7c15;
		sum += last >> 40;
	}
	return sum;
}

#ifdef FIXED
static atomic_long next_batch;

static void *worker(void *batches)
{
	long batch;

	while ((batch = atomic_fetch_add(&next_batch, 1)) < *(long *)batches)
		total += sum_of(batch);
	return NULL;
}

static void meter(long batches)
{
	pthread_t threads[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, worker, &batches);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
}
#else
static sem_t room;

static void *one_batch(void *number)
{
	total += sum_of((long)number);
	sem_post(&room);
	return NULL;
}

static void meter(long batches)
{
	pthread_attr_t detached;
	pthread_t thread;

	sem_init(&room, 0, AT_ONCE);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	for (long batch = 0; batch < batches; batch++) {
		sem_wait(&room);
		if (pthread_create(&thread, &detached, one_batch, (void *)batch))
			exit(1);
	}
	for (int i = 0; i < AT_ONCE; i++)
		sem_wait(&room);
}
#endif

int main(int count, char **words)
{
	long batches = count > 1 ? atol(words[1]) : 40000;

	for (int i = 0; i < READINGS; i++)
		readings[i] = i * 2654435761u;
	meter(batches);
	printf("sum %llu\n", (unsigned long long)total);
	printf("progress: %ld batches\n", batches);
	return 0;
}
