/*
 * Twelve threads take a reading of their sensor each 5 ms, by an absolute clock, and filter it for a moment.
 * Their turns do not overlap, so each takes a free CPU, often another than before. One more thread computes
 * all the time.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SENSORS = 12, PERIOD_NS = 5000000 };

static long readings;
static double filtered[SENSORS][16];
static atomic_bool over;

static void *watch(void *number)
{
	uintptr_t sensor = (uintptr_t)number;
	struct timespec next;
	double state = sensor;

	clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_nsec += PERIOD_NS / SENSORS * (long)sensor;
	for (long i = 0; i < readings; i++) {
		if ((next.tv_nsec += PERIOD_NS) >= 1000000000)
			next.tv_nsec -= 1000000000, next.tv_sec++;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		for (int step = 0; step < 8000; step++)
			state = 0.9 * state + sin(state + step);
	}
	filtered[sensor][0] = state;
	return NULL;
}

static void *fit(void *unused)
{
	double sum = 0;

	while (!atomic_load(&over))
		for (int i = 0; i < 100000; i++)
			sum += cos(sum + i);
	filtered[0][1] = sum;
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[SENSORS], fitter;

	readings = argc > 1 ? atol(argv[1]) : 300;
	pthread_create(&fitter, NULL, fit, NULL);
	for (uintptr_t i = 0; i < SENSORS; i++)
		pthread_create(&threads[i], NULL, watch, (void *)i);
	for (int i = 0; i < SENSORS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&over, 1);
	pthread_join(fitter, NULL);
	fprintf(stderr, "%g\n", filtered[0][0] + filtered[0][1]);
	printf("progress: %ld readings\n", readings * SENSORS);
	return 0;
}
