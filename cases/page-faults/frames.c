/*
 * Blurs the frames of a film, in threads.
 *
 * Slow: each frame gets a new buffer, and gives it back. It is large, so the allocator has it from the kernel each time,
 * which clears every page and maps it when it is first touched.
 * Fixed (-DFIXED): each thread keeps its buffer.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, WIDTH = 1920, HEIGHT = 1080 };

static long frames_each;

/* Each line is the mean of two of the film, moved a little further in each frame. */
static uint32_t blur(uint8_t *to, const uint8_t *film, long frame)
{
	uint32_t sum = 0;

	for (int y = 0; y < HEIGHT; y++) {
		const uint8_t *line = film + (y + frame) % HEIGHT * WIDTH, *below = film + (y + frame + 1) % HEIGHT * WIDTH;

		for (int x = 0; x < WIDTH; x++)
			to[y * WIDTH + x] = (line[x] + below[x]) / 2;
		sum += to[y * WIDTH + y % WIDTH];
	}
	return sum;
}

static void *make_frames(void *film)
{
	uintptr_t sum = 0;
#ifdef FIXED
	uint8_t *kept = malloc(WIDTH * HEIGHT);
#endif

	for (long frame = 0; frame < frames_each; frame++) {
#ifdef FIXED
		sum += blur(kept, film, frame);
#else
		uint8_t *buffer = malloc(WIDTH * HEIGHT);

		sum += blur(buffer, film, frame);
		free(buffer);
#endif
	}
#ifdef FIXED
	free(kept);
#endif
	return (void *)sum;
}

int main(int argc, char **argv)
{
	uint8_t *film = malloc(WIDTH * HEIGHT);
	pthread_t threads[THREADS];
	uintptr_t sum = 0;
	void *part;

	frames_each = (argc > 1 ? atol(argv[1]) : 2000) / THREADS;
	for (int i = 0; i < WIDTH * HEIGHT; i++)
		film[i] = i * 2654435761u >> 24;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, make_frames, film);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &part);
		sum += (uintptr_t)part;
	}
	fprintf(stderr, "%lu\n", (unsigned long)sum);
	printf("progress: %ld frames\n", frames_each * THREADS);
	return 0;
}
