/*
 * Books seats. Each booking is a few instructions under a lock; more threads than CPUs book.
 *
 * Slow: the lock is fair: it is handed to whoever has waited longest. That one must be woken first: meanwhile the lock is
 * taken and nobody works under it, and who comes has to queue as well. The queue never ends.
 * Fixed (-DFIXED): an ordinary lock, which may be taken by whoever runs.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, SEATS = 4096 };

static long bookings_each;
static uint64_t booked[SEATS];

#ifdef FIXED
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_seats(void) { pthread_mutex_lock(&lock); }
static void unlock_seats(void) { pthread_mutex_unlock(&lock); }
#else
/* Whose ticket is `serving` has the lock. */
static _Atomic uint32_t drawn, serving;

static uint32_t bit_of(uint32_t ticket) { return 1u << ticket % 32; }

static __attribute__((noinline)) void lock_seats(void)
{
	uint32_t ticket = atomic_fetch_add(&drawn, 1), seen;

	while ((seen = atomic_load(&serving)) != ticket)
		syscall(SYS_futex, &serving, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL, bit_of(ticket));
}

static __attribute__((noinline)) void unlock_seats(void)
{
	uint32_t next = atomic_fetch_add(&serving, 1) + 1;

	if (atomic_load(&drawn) != next)
		syscall(SYS_futex, &serving, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, bit_of(next));
}
#endif

/* Which seat a customer wants: some thinking without the lock. */
static uint64_t chosen(uint64_t customer)
{
	for (int i = 0; i < 400; i++)
		customer = customer * 6364136223846793005u + 1442695040888963407u;
	return customer >> 33;
}

static void *book(void *number)
{
	uint64_t wish = (uintptr_t)number;

	for (long i = 0; i < bookings_each; i++) {
		wish = chosen(wish + i);
		lock_seats();
		booked[wish % SEATS]++;
		unlock_seats();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	uint64_t sum = 0;

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
