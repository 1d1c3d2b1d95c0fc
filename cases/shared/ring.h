/* A ring of io_uring that reads blocks of a file, by the kernel's own interface. */
#ifndef CASES_RING_H
#define CASES_RING_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
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

enum { DEPTH = 32, BLOCK = 4096, BLOCKS = 16384 };

static struct io_uring_params params;
static int ring;
static char *submissions, *completions;
static struct io_uring_sqe *entries;

static _Atomic uint32_t *word(char *base, uint32_t offset)
{
	return (_Atomic uint32_t *)(base + offset);
}

static int set_up(void)
{
	int prot = PROT_READ | PROT_WRITE;
	size_t queue;

	ring = syscall(SYS_io_uring_setup, DEPTH, &params);
	if (ring < 0)
		return 0;
	queue = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
	submissions = mmap(NULL, queue, prot, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	queue = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	completions = mmap(NULL, queue, prot, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	entries = mmap(NULL, params.sq_entries * sizeof *entries, prot, MAP_SHARED, ring, IORING_OFF_SQES);
	return submissions != MAP_FAILED && completions != MAP_FAILED && entries != MAP_FAILED;
}

/* The next entry to submit. `data` is returned with its completion. The kernel reads the entry at
 * io_uring_enter.
 */
static struct io_uring_sqe *next_entry(int opcode, int file, uint64_t data)
{
	uint32_t tail = atomic_load(word(submissions, params.sq_off.tail));
	uint32_t slot = tail & *word(submissions, params.sq_off.ring_mask);
	struct io_uring_sqe *entry = &entries[slot];

	memset(entry, 0, sizeof *entry);
	entry->opcode = opcode;
	entry->fd = file;
	entry->user_data = data;
	*word(submissions, params.sq_off.array + slot * sizeof slot) = slot;
	atomic_store(word(submissions, params.sq_off.tail), tail + 1);
	return entry;
}

static void prepare(int file, void *buffer, uint64_t block, uint64_t data)
{
	struct io_uring_sqe *entry = next_entry(IORING_OP_READ, file, data);

	entry->addr = (uintptr_t)buffer;
	entry->len = BLOCK;
	entry->off = block * BLOCK;
}

/* Submits the prepared entries, and waits for the same number of completions. Ends the program on failure. */
static void enter(int count)
{
	if (syscall(SYS_io_uring_enter, ring, count, count, IORING_ENTER_GETEVENTS, NULL, 0) != count)
		exit(1);
}

/* Takes the next completion. Ends the program if it is not a whole block. */
static struct io_uring_cqe answer(void)
{
	uint32_t head = atomic_load(word(completions, params.cq_off.head));
	uint32_t slot = head & *word(completions, params.cq_off.ring_mask);
	struct io_uring_cqe done = ((struct io_uring_cqe *)(completions + params.cq_off.cqes))[slot];

	atomic_store(word(completions, params.cq_off.head), head + 1);
	if (done.res != BLOCK)
		exit(1);
	return done;
}

/* A file of numbered blocks. Bypasses the page cache if possible. */
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

/* The next of the blocks, in an order that looks random. */
static uint64_t next_block(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (*state >> 33) % BLOCKS;
}

#endif
