/*
 * Threads book amounts on accounts of their own. Each account has a lock, which is taken for each booking,
 * millions of times per second. But two threads never take the same one.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, ACCOUNTS = 64 };

struct account {
	pthread_mutex_t lock;
	uint64_t balance, bookings;
} __attribute__((aligned(128)));

static struct account accounts[THREADS][ACCOUNTS];
static long bookings_each;

static void *book(void *number)
{
	struct account *own = accounts[(uintptr_t)number];
	uint64_t state = 1 + (uintptr_t)number;

	for (long i = 0; i < bookings_each; i++) {
		struct account *account = &own[(state = state * 6364136223846793005u + 1442695040888963407u) >> 58];

		pthread_mutex_lock(&account->lock);
		account->balance += state >> 40;
		account->bookings++;
		pthread_mutex_unlock(&account->lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	uint64_t bookings = 0;

	bookings_each = (argc > 1 ? atol(argv[1]) : 100000000) / THREADS;
	for (int i = 0; i < THREADS * ACCOUNTS; i++)
		pthread_mutex_init(&accounts[i / ACCOUNTS][i % ACCOUNTS].lock, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, book, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS * ACCOUNTS; i++)
		bookings += accounts[i / ACCOUNTS][i % ACCOUNTS].bookings;
	printf("progress: %lu bookings\n", (unsigned long)bookings);
	return 0;
}
