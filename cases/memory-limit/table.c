/*
 * A mapped table on disk, and threads that read rows all over it. It needs no memory of its own, so its
 * container has a low limit. But the pages of the file count, too.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS 2
#define ROW 64

static const unsigned char *table;
static uint64_t rows, lookups;

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void *look_up(void *seed)
{
	uint64_t state = (uintptr_t)seed, sum = 0;

	for (uint64_t i = 0; i < lookups; i++) {
		const unsigned char *row = table + next(&state) % rows * ROW;
		for (int byte = 0; byte < ROW; byte++)
			sum += row[byte];
	}
	return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	struct stat file;
	uint64_t sum = 0;
	int fd;

	if (argc < 3 || (fd = open(argv[1], O_RDONLY)) < 0 || fstat(fd, &file)) {
		fprintf(stderr, "usage: table FILE LOOKUPS\n");
		return 2;
	}
	/* What others left in memory is not this program's. */
	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	rows = (uint64_t)file.st_size / ROW;
	lookups = strtoull(argv[2], NULL, 10) / THREADS;
	table = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (table == MAP_FAILED || rows == 0) {
		perror("mmap");
		return 2;
	}
	/* As stores do that look up here and there: a page at a time, nothing ahead. */
	madvise((void *)table, (size_t)file.st_size, MADV_RANDOM);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, look_up, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++) {
		void *part;
		pthread_join(threads[i], &part);
		sum += (uintptr_t)part;
	}
	printf("%llu\n", (unsigned long long)sum);
	printf("progress: %llu lookups\n", (unsigned long long)(lookups * THREADS));
	return 0;
}
