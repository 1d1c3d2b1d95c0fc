/*
 * Reads random blocks of 4 KiB of a file through io_uring, without the page cache where the file system allows.
 *
 * 32 reads with one call, and 32 answers by one.
 *
 * Slow: each read has a buffer, an operation and a result made for it, and a batch has lists of them; all are given back.
 * Fixed (-DFIXED): buffers and places for 32 results are made once.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BATCH = 32, BLOCK = 4096, BLOCKS = 16384 };

/* What one read is, and what became of it. */
struct operation {
	struct operation *next;
	char *buffer;
	uint64_t block;
	int result;
};

static struct io_uring_params params;
static int ring;
static char *submissions, *completions;
static long allocations, allocated;
static struct io_uring_sqe *entries;

static _Atomic uint32_t *word(char *base, uint32_t offset)
{
	return (_Atomic uint32_t *)(base + offset);
}

static int set_up(void)
{
	int prot = PROT_READ | PROT_WRITE;
	size_t queue;

	ring = syscall(SYS_io_uring_setup, BATCH, &params);
	if (ring < 0)
		return 0;
	queue = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
	submissions = mmap(NULL, queue, prot, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	queue = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	completions = mmap(NULL, queue, prot, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	entries = mmap(NULL, params.sq_entries * sizeof *entries, prot, MAP_SHARED, ring, IORING_OFF_SQES);
	return submissions != MAP_FAILED && completions != MAP_FAILED && entries != MAP_FAILED;
}

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

static void prepare(int file, struct operation *operation)
{
	uint32_t tail = atomic_load(word(submissions, params.sq_off.tail));
	uint32_t slot = tail & *word(submissions, params.sq_off.ring_mask);
	struct io_uring_sqe *entry = &entries[slot];

	memset(entry, 0, sizeof *entry);
	entry->opcode = IORING_OP_READ;
	entry->fd = file;
	entry->addr = (uintptr_t)operation->buffer;
	entry->len = BLOCK;
	entry->off = operation->block * BLOCK;
	entry->user_data = (uintptr_t)operation;
	*word(submissions, params.sq_off.array + slot * sizeof slot) = slot;
	atomic_store(word(submissions, params.sq_off.tail), tail + 1);
}

/* The sum of what one batch has read; ends the program if a read failed. */
static uint64_t finish(void)
{
	uint64_t sum = 0;

	if (syscall(SYS_io_uring_enter, ring, BATCH, BATCH, IORING_ENTER_GETEVENTS, NULL, 0) != BATCH)
		exit(1);
	for (int i = 0; i < BATCH; i++) {
		uint32_t head = atomic_load(word(completions, params.cq_off.head));
		uint32_t slot = head & *word(completions, params.cq_off.ring_mask);
		struct io_uring_cqe *done = &((struct io_uring_cqe *)(completions + params.cq_off.cqes))[slot];

		struct operation *operation = (struct operation *)done->user_data;

		operation->result = done->res;
		if (operation->result != BLOCK)
			exit(1);
		sum += *(uint64_t *)operation->buffer;
		atomic_store(word(completions, params.cq_off.head), head + 1);
	}
	return sum;
}

/* A file of numbered blocks; the cache is bypassed if that can be. */
static int made_file(const char *path)
{
	uint64_t block[BLOCK / 8] = { 0 };
	int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

	for (block[0] = 0; block[0] < BLOCKS; block[0]++)
		if (write(file, block, sizeof block) != sizeof block)
			exit(1);
	fsync(file);
	close(file);
	file = open(path, O_RDONLY | O_DIRECT);
	return file >= 0 ? file : open(path, O_RDONLY);
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
		for (struct operation *operation = batch; operation; operation = operation->next) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			operation->block = (state >> 33) % BLOCKS;
			prepare(file, operation);
		}
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
