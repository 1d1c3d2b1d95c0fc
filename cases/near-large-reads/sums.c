/*
 * Threads read a file of 64 MiB, which is in memory, again and again, a megabyte with each call, and make a
 * quick sum. Most of their time is in the kernel, which copies. But the calls are few and long.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 2, PIECE = 1 << 20, PIECES = 64 };

static int file;
static long rounds;

static void *sum_up(void *number)
{
	uint64_t *words = malloc(PIECE), sum = (uintptr_t)number;

	for (long piece = 0; piece < rounds * PIECES; piece++) {
		if (pread(file, words, PIECE, (off_t)(piece % PIECES) * PIECE) != PIECE)
			exit(1);
		for (int i = 0; i < PIECE / 8; i += 8)
			sum ^= words[i];
	}
	free(words);
	return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	uint64_t *words = malloc(PIECE);

	rounds = argc > 2 ? atol(argv[2]) : 60;
	file = open(argc > 1 ? argv[1] : "text", O_CREAT | O_TRUNC | O_RDWR, 0600);
	for (int piece = 0; piece < PIECES; piece++) {
		for (int i = 0; i < PIECE / 8; i++)
			words[i] = (uint64_t)(piece + i) * 6364136223846793005u;
		if (write(file, words, PIECE) != PIECE)
			return 1;
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, sum_up, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("progress: %ld megabytes\n", rounds * PIECES * THREADS);
	return 0;
}
