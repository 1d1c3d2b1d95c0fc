/*
 * Threads blur pictures of 4 MiB. Each has two buffers, which it allocates once and uses for all pictures. It
 * keeps a copy of one line of each picture, and prints a line about every tenth.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, WIDTH = 2048, HEIGHT = 2048 };

static long frames;
static unsigned char kept[THREADS][WIDTH];

static void blur(const unsigned char *from, unsigned char *to)
{
	for (int y = 1; y < HEIGHT - 1; y++)
		for (int x = 1; x < WIDTH - 1; x++) {
			const unsigned char *at = from + y * WIDTH + x;

			to[y * WIDTH + x] = (4 * at[0] + at[-1] + at[1] + at[-WIDTH] + at[WIDTH]) / 8;
		}
}

static void *work(void *number)
{
	uintptr_t own = (uintptr_t)number;
	unsigned char *picture = malloc(WIDTH * HEIGHT), *blurred = malloc(WIDTH * HEIGHT);

	for (int i = 0; i < WIDTH * HEIGHT; i++)
		picture[i] = blurred[i] = i * 2654435761u >> 24;
	for (long frame = 0; frame < frames; frame++) {
		unsigned char *next = blurred;

		blur(picture, blurred);
		memcpy(kept[own], blurred + WIDTH * (frame % HEIGHT), WIDTH);
		if (frame % 10 == 0)
			fprintf(stderr, "thread %lu: picture %ld, %.1f %% grey\n", (unsigned long)own, frame,
				blurred[WIDTH + 1] / 2.55);
		blurred = picture;
		picture = next;
	}
	free(picture);
	free(blurred);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	frames = argc > 1 ? atol(argv[1]) : 250;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("progress: %ld pictures\n", frames * THREADS);
	return 0;
}
