/*
 * For each line that it reads, one worker holds a lock for 60 ms while another waits for it. Prints both. In
 * parallel, two threads pass a token to each other: `stalling SWITCHES_PER_SECOND`.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 4
/* Handings a batch: a sleep after each would be most of the work. */
#define BATCH 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t go[WORKERS], held, done;
static int holds[WORKERS];
static _Atomic int token;
static double rate;
static volatile int stalls;

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

/* Two switches a handing. */
static void *ask(void *unused)
{
	double begin = now();

	for (long handed = 0;; handed += BATCH) {
		double due = begin + 2 * handed / rate, wait = due - now();

		if (wait > 0)
			usleep(wait * 1e6);
		for (int i = 0; i < BATCH; i++) {
			hand_to(1);
			wait_for(0);
		}
	}
	return unused;
}

/* Holds the lock until it was waited for. */
__attribute__((noinline)) void stall(void)
{
	sem_post(&held);
	while (*(volatile int *)&lock.__data.__lock != 2)
		usleep(1000);
	usleep(60000);
	stalls++; /* or the sleep would be the caller's */
}

static void *work(void *number)
{
	long i = (long)number;

	for (;;) {
		sem_wait(&go[i]);
		pthread_mutex_lock(&lock);
		if (holds[i])
			stall();
		pthread_mutex_unlock(&lock);
		sem_post(&done);
	}
	return number;
}

int main(int count, char **words)
{
	pthread_t thread;
	char name[16], line[80];

	rate = count > 1 ? atof(words[1]) : 100000;
	sem_init(&held, 0, 0);
	sem_init(&done, 0, 0);
	for (long i = 0; i < WORKERS; i++) {
		sem_init(&go[i], 0, 0);
		pthread_create(&thread, 0, work, (void *)i);
		snprintf(name, sizeof name, "worker-%ld", i);
		pthread_setname_np(thread, name);
	}
	pthread_create(&thread, 0, answer, 0);
	pthread_create(&thread, 0, ask, 0);
	for (int round = 0; fgets(line, sizeof line, stdin); round++) {
		int holder = round % WORKERS, waiter = (round + 1) % WORKERS;

		holds[holder] = 1;
		holds[waiter] = 0;
		sem_post(&go[holder]);
		sem_wait(&held);
		sem_post(&go[waiter]);
		sem_wait(&done);
		sem_wait(&done);
		printf("worker-%d\n", waiter);
		fflush(stdout);
	}
	_exit(0);
}
