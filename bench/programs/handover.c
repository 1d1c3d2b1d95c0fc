/* handover ROUNDS WORK CPU...: on each of the CPUs, two threads pass a byte to each other through pipes, with
 * some work before each. The CPU is never idle, and each turn blocks once. Prints blocks per second and the
 * CPU time of one (ns). */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct side {
	int cpu, in, out, first;
};

static long rounds, work;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void *take_turns(void *argument)
{
	struct side *side = argument;
	uint64_t sum = 1;
	cpu_set_t cpus;
	char byte = 0;

	CPU_ZERO(&cpus);
	CPU_SET(side->cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		exit(2);
	for (long round = 0; round < rounds; round++) {
		if ((!side->first || round) && read(side->in, &byte, 1) != 1)
			exit(3);
		for (long step = 0; step < work; step++)
			sum = sum * 6364136223846793005ull + 1442695040888963407ull;
		__asm__ volatile("" : : "r"(sum));
		if (write(side->out, &byte, 1) != 1)
			exit(4);
	}
	return 0;
}

int main(int count, char **words)
{
	pthread_t threads[64];
	static struct side sides[64];
	int sides_count = (count - 3) * 2;
	struct rusage used;
	double began, took_s;

	if (count < 4 || sides_count > 64)
		return 2;
	rounds = atol(words[1]);
	work = atol(words[2]);
	for (int i = 0; i < sides_count; i += 2) {
		int there[2], back[2];

		if (pipe(there) || pipe(back))
			return 2;
		sides[i] = (struct side){atoi(words[3 + i / 2]), back[0], there[1], 1};
		sides[i + 1] = (struct side){atoi(words[3 + i / 2]), there[0], back[1], 0};
	}
	began = now_s();
	for (int i = 0; i < sides_count; i++)
		pthread_create(&threads[i], NULL, take_turns, &sides[i]);
	for (int i = 0; i < sides_count; i++)
		pthread_join(threads[i], NULL);
	took_s = now_s() - began;
	getrusage(RUSAGE_SELF, &used);
	double cpu_s = used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
	double blocks = (double)rounds * sides_count;
	printf("%.0f %.1f %.6f\n", blocks / took_s, cpu_s * 1e9 / blocks, took_s);
	return 0;
}
