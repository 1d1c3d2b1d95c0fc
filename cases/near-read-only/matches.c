/*
 * Threads look up words in one small table without writes. They read the same cache lines all the time, and
 * each CPU has a copy of them.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, WORDS = 32 };

static uint64_t table[WORDS] __attribute__((aligned(128)));
static long lookups_each;

static __attribute__((noinline)) long position(uint64_t word)
{
	long low = 0;

	for (long step = WORDS / 2; step; step /= 2)
		if (*(volatile uint64_t *)&table[low + step] <= word)
			low += step;
	return low;
}

static void *look_up(void *number)
{
	uint64_t word = (uintptr_t)number, sum = 0;

	for (long i = 0; i < lookups_each; i++) {
		word = word * 6364136223846793005u + 1442695040888963407u;
		sum += position(word);
	}
	return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	uintptr_t sum = 0;
	void *part;

	lookups_each = (argc > 1 ? atol(argv[1]) : 60000000) / THREADS;
	for (int i = 0; i < WORDS; i++)
		table[i] = UINT64_MAX / WORDS * i;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, look_up, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &part);
		sum += (uintptr_t)part;
	}
	fprintf(stderr, "%lu\n", (unsigned long)sum);
	printf("progress: %ld look-ups\n", lookups_each * THREADS);
	return 0;
}
