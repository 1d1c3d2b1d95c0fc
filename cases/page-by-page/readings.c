/* Sums up the readings of meters, by hour, from a file that is mapped. Two threads, half of the file each.
 *
 * The mapping is shared with look-ups of single meters, for which the kernel's readahead was disabled
 * (madvise). With -DFIXED, the code that reads the whole file enables it again. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS 2
#define HOURS 24

struct reading {
	uint32_t meter, at, value, state;
};

static const struct reading *readings;
static size_t half;

struct sums {
	uint64_t by_hour[HOURS];
};

static void *sum_up(void *number)
{
	static struct sums sums[THREADS];
	struct sums *mine = &sums[(uintptr_t)number];
	const struct reading *reading = readings + (uintptr_t)number * half, *end = reading + half;

	for (; reading < end; reading++)
		if (reading->state % 16)
			mine->by_hour[reading->at / 3600 % HOURS] += reading->value;
	return mine;
}

static int map(const char *path)
{
	struct stat file;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &file))
		return -1;
	/* As in the morning: the file is not in memory. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	readings = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (readings == MAP_FAILED)
		return -1;
	madvise((void *)readings, (size_t)file.st_size, MADV_RANDOM);
#ifdef FIXED
	madvise((void *)readings, (size_t)file.st_size, MADV_SEQUENTIAL);
#endif
	half = (size_t)file.st_size / sizeof *readings / THREADS;
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	uint64_t sum = 0;

	if (argc < 2 || map(argv[1])) {
		fprintf(stderr, "usage: readings FILE\n");
		return 2;
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, sum_up, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		void *part;
		pthread_join(threads[i], &part);
		for (int hour = 0; hour < HOURS; hour++)
			sum += ((struct sums *)part)->by_hour[hour];
	}
	printf("%llu\n", (unsigned long long)sum);
	printf("progress: %zu readings\n", half * THREADS);
	return 0;
}
