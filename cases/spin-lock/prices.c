/*
 * An order book to which several threads write trades, each with the average over the paper's last trades.
 *
 * Slow: one spin lock guards the whole book, and is held while the average is computed. With more threads
 * than CPUs, a preempted holder makes all others spin for a whole time slice.
 * Fixed (-DFIXED): each paper has a mutex of its own. A thread that finds it locked sleeps.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAPERS = 64, LAST = 256, THREADS_MAX = 64 };

struct paper {
	double last[LAST];
	long trades;
	double average, deviation;
#ifdef FIXED
	pthread_mutex_t lock;
#endif
};

static struct paper book[PAPERS];
#ifndef FIXED
static pthread_spinlock_t book_lock;
#endif

struct trader {
	pthread_t thread;
	long trades;
	unsigned long random;
	double seen;
};

static unsigned long next_random(unsigned long *state)
{
	*state = *state * 6364136223846793005UL + 1442695040888963407UL;
	return *state >> 33;
}

/* Mean and spread of the last trades of a paper. */
static void average(const double *last, long trades, double *mean, double *deviation)
{
	long count = trades < LAST ? trades : LAST;
	double sum = 0, squares = 0;

	for (long i = 0; i < count; i++) {
		sum += last[i];
		squares += last[i] * last[i];
	}
	*mean = count ? sum / count : 0;
	*deviation = count ? squares / count - *mean * *mean : 0;
}

static void lock(struct paper *paper)
{
#ifdef FIXED
	pthread_mutex_lock(&paper->lock);
#else
	(void)paper;
	pthread_spin_lock(&book_lock);
#endif
}

static void unlock(struct paper *paper)
{
#ifdef FIXED
	pthread_mutex_unlock(&paper->lock);
#else
	(void)paper;
	pthread_spin_unlock(&book_lock);
#endif
}

static void trade(struct trader *trader)
{
	struct paper *paper = &book[next_random(&trader->random) % PAPERS];
	double price = 100 + (double)(next_random(&trader->random) % 1000) / 100;

	lock(paper);
	paper->last[paper->trades++ % LAST] = price;
	average(paper->last, paper->trades, &paper->average, &paper->deviation);
	trader->seen += paper->average + paper->deviation;
	unlock(paper);
}

static void *run(void *argument)
{
	struct trader *trader = argument;

	for (long i = 0; i < trader->trades; i++)
		trade(trader);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct trader traders[THREADS_MAX];
	int threads = argc > 1 ? atoi(argv[1]) : 4;
	long trades = argc > 2 ? atol(argv[2]) : 1000000;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
#ifdef FIXED
	for (int i = 0; i < PAPERS; i++)
		pthread_mutex_init(&book[i].lock, NULL);
#else
	pthread_spin_init(&book_lock, PTHREAD_PROCESS_PRIVATE);
#endif
	for (int i = 0; i < threads; i++) {
		traders[i].trades = trades / threads;
		traders[i].random = i;
		pthread_create(&traders[i].thread, NULL, run, &traders[i]);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(traders[i].thread, NULL);
	printf("progress: %ld trades\n", trades / threads * threads);
	return 0;
}
