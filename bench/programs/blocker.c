/* blocker THREADS RATE SECONDS: each thread blocks RATE times a second, in calls a few deep. Prints the total
 * number of blocks, and the CPU time of one.
 *
 * The threads' turns are spread evenly, and a thread keeps its own. Otherwise the number of threads woken by
 * one interrupt would vary between runs. That changes the cost of a block by a factor of three. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

static long rate, seconds, threads_count, start_ns;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

__attribute__((noinline)) static long wait_below(int depth, const struct timespec *until)
{
	volatile long kept = depth;

	if (depth)
		return wait_below(depth - 1, until) + kept;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, until, NULL);
}

static void *work(void *number)
{
	long period = 1000000000L / rate, end = start_ns + seconds * 1000000000L, count = 0;
	long next = start_ns + (long)number * period / threads_count;

	prctl(PR_SET_TIMERSLACK, 1);
	for (; next < end; count++) {
		next += period;
		/* Late: missed turns are not repeated. */
		while (next < now_ns())
			next += period;
		struct timespec until = {next / 1000000000L, next % 1000000000L};
		wait_below(count % 8, &until);
	}
	return (void *)count;
}

int main(int argc, char **words)
{
	pthread_t threads[256];
	int count = argc > 3 ? atoi(words[1]) : 1;
	long blocks = 0;
	struct rusage used;

	if (count > 256 || argc < 4)
		return 2;
	rate = atol(words[2]);
	seconds = atol(words[3]);
	threads_count = count;
	start_ns = now_ns() + 10000000;
	for (long i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < count; i++) {
		void *own;

		pthread_join(threads[i], &own);
		blocks += (long)own;
	}
	getrusage(RUSAGE_SELF, &used);
	double cpu = used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
	printf("%.0f %.1f\n", (double)blocks / seconds, cpu * 1e9 / blocks);
}
