/*
 * A shop: a clerk handles orders, and reads the stock under its lock. A book-keeper adds up the stock now and
 * then, at low priority. An analyst computes all the time. Both of these are bound to the first CPU, so that
 * the other one is free.
 *
 * Slow: the book-keeper adds up under the lock. Once the analyst preempts it, it does not run for long, and
 * the clerk waits for a lock whose holder does not run.
 * Fixed (-DFIXED): it takes a copy under the lock, and adds that up.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { ANALYSTS = 1, ITEMS = 2048, PASSES = 8000 };

static pthread_mutex_t stock_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t stock[ITEMS];
static atomic_bool over;
static int orders[2], answers[2];

static uint64_t value_of(const uint32_t *items)
{
	uint64_t sum = 0;

	for (int pass = 0; pass < PASSES; pass++)
		for (int i = 0; i < ITEMS; i++)
			sum = sum * 31 + items[i];
	return sum;
}

static void stay_in_background(void)
{
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof first, &first);
}

static void *keep_books(void *unused)
{
	uint32_t copy[ITEMS];
	volatile uint64_t value;

	stay_in_background();
	setpriority(PRIO_PROCESS, gettid(), 15);
	while (!atomic_load(&over)) {
		pthread_mutex_lock(&stock_lock);
#ifdef FIXED
		memcpy(copy, stock, sizeof copy);
		pthread_mutex_unlock(&stock_lock);
		value = value_of(copy);
#else
		(void)copy;
		value = value_of(stock);
		pthread_mutex_unlock(&stock_lock);
#endif
		usleep(200);
	}
	(void)value;
	return unused;
}

static void *analyse(void *number)
{
	uint64_t state = (uintptr_t)number;

	stay_in_background();
	while (!atomic_load(&over))
		for (int i = 0; i < 10000; i++)
			state = state * 6364136223846793005u + 1442695040888963407u;
	return (void *)(uintptr_t)state;
}

static void *serve(void *unused)
{
	uint32_t order;

	while (read(orders[0], &order, sizeof order) == sizeof order) {
		pthread_mutex_lock(&stock_lock);
		stock[order % ITEMS]++;
		pthread_mutex_unlock(&stock_lock);
		if (write(answers[1], &order, sizeof order) != sizeof order)
			break;
	}
	return unused;
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atol(argv[1]) : 2) + 1;
	uint32_t number = 0;
	pthread_t analysts[ANALYSTS], clerk, keeper;

	if (pipe(orders) || pipe(answers))
		return 1;
	for (uintptr_t i = 0; i < ANALYSTS; i++)
		pthread_create(&analysts[i], NULL, analyse, (void *)i);
	pthread_create(&keeper, NULL, keep_books, NULL);
	pthread_create(&clerk, NULL, serve, NULL);
	for (uint32_t answer; time(NULL) < end; number++)
		if (write(orders[1], &(uint32_t){ number * 2654435761u }, 4) != 4 || read(answers[0], &answer, 4) != 4)
			return 1;
	close(orders[1]);
	pthread_join(clerk, NULL);
	atomic_store(&over, 1);
	pthread_join(keeper, NULL);
	for (int i = 0; i < ANALYSTS; i++)
		pthread_join(analysts[i], NULL);
	printf("progress: %u orders\n", number);
	return 0;
}
