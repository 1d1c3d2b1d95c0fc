/*
 * Reads random blocks of 4 KiB of a file through io_uring, without the page cache where the file system allows.
 *
 * Slow: each read is submitted, and waited for, by a call of its own.
 * Fixed (-DFIXED): 32 reads with one call, and 32 answers by one.
 */
#include "ring.h"

#ifdef FIXED
enum { BATCH = 32 };
#else
enum { BATCH = 1 };
#endif

static char *buffers;

/* The sum of what one batch has read. */
static uint64_t finish(void)
{
	uint64_t sum = 0;

	enter(BATCH);
	for (int i = 0; i < BATCH; i++)
		sum += *(uint64_t *)(buffers + answer().user_data * BLOCK);
	return sum;
}

int main(int argc, char **argv)
{
	long reads = argc > 2 ? atol(argv[2]) : 100000;
	int file = argc > 1 ? made_file(argv[1]) : -1;
	uint64_t state = 42, sum = 0;

	buffers = aligned_alloc(BLOCK, BATCH * BLOCK);
	if (file < 0 || !buffers || !set_up())
		return 1;
	for (long done = 0; done < reads; done += BATCH) {
		for (int nth = 0; nth < BATCH; nth++)
			prepare(file, buffers + nth * BLOCK, next_block(&state), nth);
		sum += finish();
	}
	fprintf(stderr, "sum %lu, %ld calls\n", (unsigned long)sum, (reads + BATCH - 1) / BATCH);
	printf("progress: %ld blocks\n", reads);
	return 0;
}
