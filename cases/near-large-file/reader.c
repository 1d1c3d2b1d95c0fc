/* Reads a file once, piece after piece, and sums it up. Two threads, half of the file each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS 2
#define PIECE (256 << 10)

static int fd;
static uint64_t half;

static void *sum_up(void *number)
{
	uint64_t begin = (uintptr_t)number * half, sum = 0;
	uint64_t *piece = malloc(PIECE);

	for (uint64_t at = 0; at + PIECE <= half; at += PIECE) {
		if (pread(fd, piece, PIECE, (off_t)(begin + at)) != PIECE)
			exit(1);
		for (int i = 0; i < PIECE / 8; i++)
			sum += piece[i] >> (i & 7);
	}
	free(piece);
	return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	struct stat file;
	uint64_t sum = 0;

	if (argc < 2 || (fd = open(argv[1], O_RDONLY)) < 0 || fstat(fd, &file)) {
		fprintf(stderr, "usage: reader FILE\n");
		return 2;
	}
	/* What others left in memory is not this program's. */
	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	half = (uint64_t)file.st_size / THREADS;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, sum_up, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		void *part;
		pthread_join(threads[i], &part);
		sum += (uintptr_t)part;
	}
	printf("%llu\n", (unsigned long long)sum);
	printf("progress: %llu pieces\n", (unsigned long long)(half / PIECE * THREADS));
	return 0;
}
