/* Pairs of threads that pass a token to each other by a futex at a given rate: `handing SECONDS
 * SWITCHES_PER_SECOND`.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sixteen handings a batch: a sleep after each would be most of the work. */
#define BATCH 16

static _Atomic int token;
static _Atomic long handed;
static double seconds, rate;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void hand_to(int who)
{
	atomic_store(&token, who);
	syscall(SYS_futex, &token, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wait_for(int who)
{
	int seen;

	while ((seen = atomic_load(&token)) != who)
		syscall(SYS_futex, &token, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void *answer(void *unused)
{
	for (;;) {
		wait_for(1);
		hand_to(0);
	}
	return unused;
}

int main(int count, char **words)
{
	pthread_t other;
	double begin;

	if (count < 3)
		return 2;
	seconds = atof(words[1]);
	rate = atof(words[2]);
	pthread_create(&other, NULL, answer, NULL);
	begin = now();
	while (now() - begin < seconds) {
		/* Each handing there and back is two switches away from a thread. */
		double due = begin + handed * 2 / rate;

		while (now() < due)
			usleep(100);
		for (int i = 0; i < BATCH; i++) {
			hand_to(1);
			wait_for(0);
			handed++;
		}
	}
	printf("%.0f switches a second\n", handed * 2 / (now() - begin));
	fflush(stdout);
	_exit(0);
}
