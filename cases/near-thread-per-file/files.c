/*
 * Sums blocks of some megabytes, each in a thread of its own, two at a time: `files BLOCKS`. The threads are
 * many and short, but their work takes a hundred times as long as starting them.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS (1 << 19)

static uint64_t words[WORDS];

static void *sum_of(void *number)
{
	uint64_t sum = (uint64_t)number;

	for (int round = 0; round < 8; round++)
		for (int i = 0; i < WORDS; i++)
			sum = (sum ^ words[i]) * 0x100000001b3;
	return (void *)sum;
}

int main(int count, char **arguments)
{
	long blocks = count > 1 ? atol(arguments[1]) : 300;
	uint64_t total = 0;

	for (int i = 0; i < WORDS; i++)
		words[i] = i * 0x9e3779b97f4a7c15;
	for (long block = 0; block < blocks; block += 2) {
		pthread_t pair[2];
		void *sum;

		for (long i = 0; i < 2; i++)
			pthread_create(&pair[i], NULL, sum_of, (void *)(block + i));
		for (int i = 0; i < 2; i++) {
			pthread_join(pair[i], &sum);
			total += (uint64_t)sum;
		}
	}
	printf("sum %llx\n", (unsigned long long)total);
	printf("progress: %ld blocks\n", blocks);
	return 0;
}
