// Allocates and frees small blocks, with some work in between. Prints the CPU time per block (ns).
//
// rate COUNT WORK
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **words)
{
	static void *ring[256];
	long blocks = count > 1 ? atol(words[1]) : 10000000;
	int work = count > 2 ? atoi(words[2]) : 0;
	uint64_t random = 1, sum = 0;
	struct timespec from, to;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	for (long block = 0; block < blocks; block++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		void **place = &ring[(random >> 40) & 255];
		free(*place);
		*place = malloc(16 + (random >> 56));
		*(volatile char *)*place = 1;
		for (int step = 0; step < work; step++)
			sum += sum * 31 + (uint64_t)step;
		__asm__ volatile("" : : "r"(sum));
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	printf("%.3f\n", ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / (double)blocks);
	return 0;
}
