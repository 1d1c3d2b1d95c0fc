/*
 * Reads random blocks of 4 KiB of a file through io_uring, without the page cache if the file system allows
 * it.
 *
 * 32 reads and 32 completions with one call.
 *
 * Slow: a buffer, an operation and a result are allocated for each read, and lists of them for each batch.
 * All are freed.
 * Fixed (-DFIXED): buffers and space for 32 results are allocated once.
 */
#include "ring.h"

enum { BATCH = DEPTH };

/* What one read is, and what became of it. */
struct operation {
	struct operation *next;
	char *buffer;
	int result;
};

static long allocations, allocated;

static void *allocate(size_t alignment, size_t size)
{
	allocations++;
	allocated += size;
	return aligned_alloc(alignment, size);
}

static struct operation *new_operation(struct operation *next)
{
	struct operation *operation = allocate(16, sizeof *operation);

	operation->buffer = allocate(BLOCK, BLOCK);
	operation->next = next;
	return operation;
}

/* The sum of what one batch has read. */
static uint64_t finish(void)
{
	uint64_t sum = 0;

	enter(BATCH);
	for (int i = 0; i < BATCH; i++) {
		struct io_uring_cqe done = answer();
		struct operation *operation = (struct operation *)done.user_data;

		operation->result = done.res;
		sum += *(uint64_t *)operation->buffer;
	}
	return sum;
}

int main(int argc, char **argv)
{
	long reads = argc > 2 ? atol(argv[2]) : 100000;
	int file = argc > 1 ? made_file(argv[1]) : -1;
	struct operation *batch = NULL;
	uint64_t state = 42, sum = 0;

	if (file < 0 || !set_up())
		return 1;
	for (long done = 0; done < reads; done += BATCH) {
		if (!batch)
			for (int nth = 0; nth < BATCH; nth++)
				batch = new_operation(batch);
		for (struct operation *operation = batch; operation; operation = operation->next)
			prepare(file, operation->buffer, next_block(&state), (uintptr_t)operation);
		sum += finish();
#ifndef FIXED
		for (struct operation *next; batch; batch = next) {
			next = batch->next;
			free(batch->buffer);
			free(batch);
		}
#endif
	}
	fprintf(stderr, "sum %lu\nAllocated total: %ld\nAllocated per: %ld in %.2f allocations\n", (unsigned long)sum,
		allocated, allocated / reads, (double)allocations / reads);
	printf("progress: %ld blocks\n", reads);
	return 0;
}
