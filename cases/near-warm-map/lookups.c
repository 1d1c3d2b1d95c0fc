/* Looks up meters in an index that is mapped and in memory already. The first access to each page is a fault
 * without a disk read.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 2
#define BYTES (256ul << 20)
#define LOOKUPS 6000000

static const uint64_t *index_of;

static void *look_up(void *number)
{
	uint64_t at = 88172645463325252ull + (uintptr_t)number, sum = 0;

	for (int i = 0; i < LOOKUPS; i++) {
		at ^= at << 13, at ^= at >> 7, at ^= at << 17;
		sum += index_of[at % (BYTES / sizeof *index_of)] ^ at;
	}
	return (void *)(uintptr_t)sum;
}

static int make(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	uint64_t *made;

	if (fd < 0 || ftruncate(fd, BYTES))
		return -1;
	made = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (made == MAP_FAILED)
		return -1;
	for (size_t i = 0; i < BYTES / sizeof *made; i += 64)
		made[i] = i * 2654435761u;
	munmap(made, BYTES);
	return fd;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	uint64_t sum = 0;
	int fd = argc < 2 ? -1 : make(argv[1]);

	if (fd < 0) {
		fprintf(stderr, "usage: lookups FILE\n");
		return 2;
	}
	index_of = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (index_of == MAP_FAILED)
		return 1;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, look_up, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		void *part;
		pthread_join(threads[i], &part);
		sum += (uintptr_t)part;
	}
	unlink(argv[1]);
	printf("%llu\n", (unsigned long long)sum);
	printf("progress: %d look-ups\n", THREADS * LOOKUPS);
	return 0;
}
