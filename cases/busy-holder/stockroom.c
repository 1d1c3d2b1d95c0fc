/*
 * A shop: four clerks handle orders, and read the stock under its lock. A book-keeper adds up the stock now
 * and then, under the same lock. Analysts compute on all CPUs until the last order is done, and never use the
 * stock.
 *
 * Slow: the book-keeper has a low priority. The analysts hardly let it run, and the clerks wait for its lock.
 * Fixed (-DFIXED): the analysts have the low priority.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CLERKS = 4, ANALYSTS = 4, ITEMS = 2048, PASSES = 3000, PAUSE_US = 20000 };

static pthread_mutex_t stock_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t stock[ITEMS];
static atomic_bool over;

#ifdef FIXED
enum { SLOW = 0 };
#else
enum { SLOW = 1 };
#endif

static void stay_behind(int really)
{
	if (really)
		setpriority(PRIO_PROCESS, gettid(), 19);
}

static void *keep_books(void *unused)
{
	volatile uint64_t value;

	stay_behind(SLOW);
	while (!atomic_load(&over)) {
		uint64_t sum = 0;

		pthread_mutex_lock(&stock_lock);
		for (int pass = 0; pass < PASSES; pass++)
			for (int i = 0; i < ITEMS; i++)
				sum = sum * 31 + stock[i];
		pthread_mutex_unlock(&stock_lock);
		value = sum;
		usleep(PAUSE_US);
	}
	(void)value;
	return unused;
}

static void *analyse(void *number)
{
	uint64_t state = (uintptr_t)number;

	stay_behind(!SLOW);
	while (!atomic_load(&over))
		for (int i = 0; i < 10000; i++)
			state = state * 6364136223846793005u + 1442695040888963407u;
	return (void *)(uintptr_t)state;
}

static void *answer(void *orders)
{
	for (int order = 0; order < *(int *)orders; order++) {
		usleep(500);
		pthread_mutex_lock(&stock_lock);
		for (int i = order % 16; i < ITEMS; i += 16)
			stock[i]++;
		pthread_mutex_unlock(&stock_lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int orders = argc > 1 ? atoi(argv[1]) : 100;
	pthread_t clerks[CLERKS], analysts[ANALYSTS], books;

	for (intptr_t i = 0; i < ANALYSTS; i++)
		pthread_create(&analysts[i], NULL, analyse, (void *)i);
	pthread_create(&books, NULL, keep_books, NULL);
	for (int i = 0; i < CLERKS; i++)
		pthread_create(&clerks[i], NULL, answer, &orders);
	for (int i = 0; i < CLERKS; i++)
		pthread_join(clerks[i], NULL);
	atomic_store(&over, 1);
	for (int i = 0; i < ANALYSTS; i++)
		pthread_join(analysts[i], NULL);
	pthread_join(books, NULL);
	printf("progress: %d orders\n", CLERKS * orders);
	return 0;
}
