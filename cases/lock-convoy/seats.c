/*
 * Books seats. Each booking searches a row under a lock. There are more threads than CPUs.
 *
 * Slow: the lock inherits priorities, so the kernel hands it to the longest waiter. The waiter must be woken
 * first. Until then the lock is taken but unused, and new threads have to queue as well. The queue never
 * ends.
 * Fixed (-DFIXED): an ordinary lock, which any running thread may take.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, SEATS = 4096, ROW = 256 };

static long bookings_each;
static uint32_t booked[SEATS];

static pthread_mutex_t lock;

static void make_lock(void)
{
	pthread_mutexattr_t kind;

	pthread_mutexattr_init(&kind);
#ifndef FIXED
	pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
#endif
	pthread_mutex_init(&lock, &kind);
}

/* The least booked seat of the row. */
static __attribute__((noinline)) void book_in_row(uint32_t *row)
{
	int least = 0;

	for (int seat = 1; seat < ROW; seat++)
		least = row[seat] < row[least] ? seat : least;
	row[least]++;
}

/* Which seat a customer wants: some thinking without the lock. */
static uint64_t chosen(uint64_t customer)
{
	for (int i = 0; i < 200; i++)
		customer = customer * 6364136223846793005u + 1442695040888963407u;
	return customer >> 33;
}

static void *book(void *number)
{
	uint64_t wish = (uintptr_t)number;

	for (long i = 0; i < bookings_each; i++) {
		wish = chosen(wish + i);
		pthread_mutex_lock(&lock);
		book_in_row(&booked[wish % SEATS / ROW * ROW]);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	uint64_t sum = 0;

	make_lock();
	bookings_each = (argc > 1 ? atol(argv[1]) : 200000) / THREADS;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, book, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < SEATS; i++)
		sum += booked[i];
	printf("progress: %lu bookings\n", (unsigned long)sum);
	return 0;
}
