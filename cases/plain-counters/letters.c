/*
 * Counts how often each letter occurs in a text, in threads. Each counts for itself, and the sums are made at
 * the end.
 *
 * Slow: the counters of a letter are adjacent, one for each thread.
 * Fixed (-DFIXED): the counters of a thread are adjacent, one for each letter.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, LETTERS = 32, TEXT = 1 << 16 };

#ifdef FIXED
static volatile uint32_t counters[THREADS][LETTERS] __attribute__((aligned(128)));
#define COUNTER(thread, letter) counters[thread][letter]
#else
static volatile uint32_t counters[LETTERS][THREADS] __attribute__((aligned(128)));
#define COUNTER(thread, letter) counters[letter][thread]
#endif

static uint8_t text[TEXT];
static long passes;

static __attribute__((noinline)) void count_text(uintptr_t thread)
{
	for (int i = 0; i < TEXT; i++)
		COUNTER(thread, text[i])++;
}

static void *count(void *thread)
{
	for (long pass = 0; pass < passes; pass++)
		count_text((uintptr_t)thread);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	uint64_t seed = 42;

	passes = (argc > 1 ? atol(argv[1]) : 5000) / THREADS;
	for (int i = 0; i < TEXT; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		text[i] = seed >> 59;
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, count, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int letter = 0; letter < 3; letter++)
		fprintf(stderr, "%c: %u\n", 'a' + letter, COUNTER(0, letter) + COUNTER(1, letter));
	printf("progress: %ld texts\n", passes * THREADS);
	return 0;
}
