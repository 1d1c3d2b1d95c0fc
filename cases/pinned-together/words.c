/*
 * Looks for the longest run of a letter in random text, in threads.
 *
 * Slow: each thread takes a CPU for itself, and skips every second one, in the belief that it is the other half of a
 * core. Where that is not so, two threads share each CPU that is taken.
 * Fixed (-DFIXED): they take one after the other.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LETTERS = 1 << 20 };

static long texts_each;

static int cpus;

static void stay_on_own_cpu(uintptr_t number)
{
	cpu_set_t allowed;

	CPU_ZERO(&allowed);
#ifdef FIXED
	CPU_SET(number % cpus, &allowed);
#else
	CPU_SET(2 * number % cpus, &allowed);
#endif
	sched_setaffinity(0, sizeof allowed, &allowed);
}

static void *search(void *number)
{
	uint64_t state = 1 + (uintptr_t)number;
	uintptr_t longest = 0, run = 0;
	char *text = malloc(LETTERS), last = 0;

	stay_on_own_cpu((uintptr_t)number);
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
	void *longest;

	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	texts_each = (argc > 1 ? atol(argv[1]) : 600) / cpus;
	pthread_t threads[cpus];
	for (intptr_t i = 0; i < cpus; i++)
		pthread_create(&threads[i], NULL, search, (void *)i);
	for (int i = 0; i < cpus; i++) {
		pthread_join(threads[i], &longest);
		fprintf(stderr, "%lu\n", (unsigned long)(uintptr_t)longest);
	}
	printf("progress: %ld texts\n", texts_each * cpus);
	return 0;
}
