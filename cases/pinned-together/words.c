/*
 * Looks for the longest run of a letter in random text, in threads.
 *
 * Slow: the main thread takes a CPU for itself, so as to have its memory near, before it starts the others: they inherit
 * that, and all share one CPU.
 * Fixed (-DFIXED): the main thread takes its CPU after it has started them.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, LETTERS = 1 << 20 };

static long texts_each;

static void stay_on_first_cpu(void)
{
	cpu_set_t allowed;
	int first = 0;

	sched_getaffinity(0, sizeof allowed, &allowed);
	while (!CPU_ISSET(first, &allowed))
		first++;
	CPU_ZERO(&allowed);
	CPU_SET(first, &allowed);
	sched_setaffinity(0, sizeof allowed, &allowed);
}

static void *search(void *number)
{
	uint64_t state = 1 + (uintptr_t)number;
	uintptr_t longest = 0, run = 0;
	char *text = malloc(LETTERS), last = 0;

	for (long i = 0; i < texts_each; i++) {
		for (int at = 0; at < LETTERS; at++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			text[at] = 'a' + (state >> 60) % 4;
		}
		for (int at = 0; at < LETTERS; at++) {
			run = text[at] == last ? run + 1 : 1;
			last = text[at];
			longest = run > longest ? run : longest;
		}
	}
	free(text);
	return (void *)longest;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	void *longest;

	texts_each = (argc > 1 ? atol(argv[1]) : 600) / THREADS;
#ifndef FIXED
	stay_on_first_cpu();
#endif
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, search, (void *)i);
#ifdef FIXED
	stay_on_first_cpu();
#endif
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &longest);
		fprintf(stderr, "%lu\n", (unsigned long)(uintptr_t)longest);
	}
	printf("progress: %ld texts\n", texts_each * THREADS);
	return 0;
}
