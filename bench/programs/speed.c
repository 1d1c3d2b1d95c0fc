/* speed STEPS: on each CPU that it may use a thread takes so many steps, all at once. Prints the mean CPU time of one (ns): how
 * fast the CPUs are just now. Virtual ones that share a core now and then are slower by a factor of two than when they do not. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long steps;

static void *step(void *argument)
{
	static double took_ns[CPU_SETSIZE];
	long cpu = (long)argument;
	struct timespec from, to;
	uint64_t sum = 1;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (long i = 0; i < steps; i++)
		sum += (sum >> 7) * 31 + (uint64_t)i;
	__asm__ volatile("" : : "r"(sum));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	took_ns[cpu] = (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
	return &took_ns[cpu];
}

int main(int count, char **words)
{
	pthread_t threads[CPU_SETSIZE];
	double sum_ns = 0;
	cpu_set_t cpus;
	int started = 0;

	steps = count > 1 ? atol(words[1]) : 50000000;
	sched_getaffinity(0, sizeof(cpus), &cpus);
	for (long cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus))
			pthread_create(&threads[started++], NULL, step, (void *)cpu);
	for (int i = 0; i < started; i++) {
		void *took_ns;

		pthread_join(threads[i], &took_ns);
		sum_ns += *(double *)took_ns;
	}
	printf("%.4f\n", sum_ns / started / steps);
	return 0;
}
