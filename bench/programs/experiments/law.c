/*
 * Workers that follow the Universal Scalability Law with given coefficients. The work takes T with one
 * worker, and T * ((1 - sigma) / N + sigma + kappa * (N - 1)) with N. Each part is a function of its own. All
 * parts sleep instead of working, so that more workers than CPUs do not share CPUs.
 *
 * law WORKERS SIGMA KAPPA [MS]: T is 200 ms by default, times a number near one that differs from run to run.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

/* One standard deviation of a run's pace. */
#define SCATTER 0.02

static pthread_barrier_t all;
static int workers;
static double parallel_ns, serial_ns, exchange_ns;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* A macro, so that the calling function is the waiting one. */
#define NAP(ns) clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ (ns) / 1e9, (long)(ns) % 1000000000 }, NULL)

/* After the call, so that it is no jump and the function stays on the stack. */
#define KEEP __asm__ volatile("")

static __attribute__((noinline)) void compute(void)
{
	NAP(parallel_ns);
	KEEP;
}

static __attribute__((noinline)) void alone(void)
{
	NAP(serial_ns);
	KEEP;
}

static __attribute__((noinline)) void exchange(void)
{
	NAP(exchange_ns);
	KEEP;
}

static __attribute__((noinline)) void meet(void)
{
	pthread_barrier_wait(&all);
	KEEP;
}

static void *work(void *number)
{
	/* For this thread: sleeps end on time, not up to 50 microseconds later. */
	prctl(PR_SET_TIMERSLACK, 1);
	meet();
	compute();
	meet();
	if (!number)
		alone();
	meet();
	exchange();
	meet();
	return NULL;
}

static double pace(void)
{
	struct timespec now;
	double sum = -6;

	clock_gettime(CLOCK_REALTIME, &now);
	srand48(now.tv_nsec ^ now.tv_sec);
	for (int i = 0; i < 12; i++)
		sum += drand48();
	return exp(SCATTER * sum);
}

int main(int argc, char **argv)
{
	if (argc < 4 || (workers = atoi(argv[1])) < 1 || workers > 1000)
		return 2;
	double sigma = atof(argv[2]), kappa = atof(argv[3]);
	double whole_ns = (argc > 4 ? atof(argv[4]) : 200) * 1e6 * pace();
	pthread_t threads[workers];

	parallel_ns = whole_ns * (1 - sigma) / workers;
	serial_ns = whole_ns * sigma;
	exchange_ns = whole_ns * kappa * (workers - 1);
	pthread_barrier_init(&all, NULL, workers);
	for (long i = 1; i < workers; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			return 1;
	/* Threads are made before the work begins, as a pool's are. */
	NAP(10e6);

	double start = now_ns();
	work(NULL);
	printf("took %.6f\n", (now_ns() - start) / 1e9);
	for (int i = 1; i < workers; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
