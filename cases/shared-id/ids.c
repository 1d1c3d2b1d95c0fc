/* Gives every record of a batch a number and a checksum, in threads.
 *
 * Slow: each number comes from one counter that all threads share.
 * Fixed: a thread takes a thousand numbers at a time. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_MAX 16
#define AT_A_TIME 1000

static atomic_ulong next_id;
static long records;

static unsigned long take_id(unsigned long *from, unsigned long *to)
{
#ifdef FIXED
	if (*from == *to) {
		*from = atomic_fetch_add(&next_id, AT_A_TIME);
		*to = *from + AT_A_TIME;
	}
	return (*from)++;
#else
	(void)from;
	(void)to;
	return atomic_fetch_add(&next_id, 1);
#endif
}

static void *number_records(void *unused)
{
	unsigned long from = 0, to = 0;
	uint64_t sum = 0;

	(void)unused;
	for (long record = 0; record < records; record++) {
		uint64_t x = take_id(&from, &to);

		x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
		sum += x ^ x >> 33;
	}
	return (void *)sum;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t running[THREADS_MAX];
	uint64_t sum = 0;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	records = (argc > 2 ? atol(argv[2]) : 100000000) / threads;
	for (int number = 0; number < threads; number++)
		pthread_create(&running[number], NULL, number_records, NULL);
	for (int number = 0; number < threads; number++) {
		void *part;

		pthread_join(running[number], &part);
		sum += (uint64_t)part;
	}
	printf("checksum %016lx\n", (unsigned long)sum);
	printf("progress: %ld records\n", records * threads);
}
