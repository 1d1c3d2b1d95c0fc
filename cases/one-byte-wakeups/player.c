/*
 * A player's decoder and renderer share a ring of frames. The decoder wakes the renderer through a pipe.
 *
 * Slow: for each frame a byte is written, for every second one another ("the picture may have changed"). The
 * renderer reads one byte per frame, so the pipe is full most of the time and many writes fail with EAGAIN.
 * Before each frame, it queries the number of available bytes instead of reading a clock.
 * Fixed (-DFIXED): the renderer takes all available frames, and is woken only if it sleeps.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { RING = 4096, ROUNDS = 100 };

struct frame {
	unsigned long number, sum;
};

static struct frame ring[RING];
static atomic_long made, shown;
#ifdef FIXED
static atomic_int asleep;
#endif
static int pipe_ends[2];
static long frames_max;

static unsigned long mix(unsigned long value)
{
	for (int i = 0; i < ROUNDS; i++)
		value = (value ^ (value >> 29)) * 0xbf58476d1ce4e5b9UL + i;
	return value;
}

static void wake(void)
{
	char byte = 1;

	if (write(pipe_ends[1], &byte, 1) < 0 && errno != EAGAIN) {
		perror("write");
		exit(1);
	}
}

static void wait_for_byte(void)
{
	struct pollfd waits = { .fd = pipe_ends[0], .events = POLLIN };

	poll(&waits, 1, 100);
}

static unsigned long show(long number)
{
	return mix(ring[number % RING].sum);
}

static void *render(void *unused)
{
	unsigned long sum = 0;
	char bytes[4096];

	(void)unused;
	for (long next = 0; next < frames_max;) {
#ifdef FIXED
		while (next < atomic_load(&made)) {
			sum ^= show(next++);
			atomic_store(&shown, next);
		}
		if (next == frames_max)
			break;
		atomic_store(&asleep, 1);
		if (next == atomic_load(&made))
			wait_for_byte();
		atomic_store(&asleep, 0);
		while (read(pipe_ends[0], bytes, sizeof(bytes)) == sizeof(bytes))
			;
#else
		int waiting = 0;

		ioctl(pipe_ends[0], FIONREAD, &waiting);
		if (!waiting && next == atomic_load(&made))
			wait_for_byte();
		if (read(pipe_ends[0], bytes, 1) < 0 && errno != EAGAIN)
			exit(1);
		if (next < atomic_load(&made)) {
			sum ^= show(next++);
			atomic_store(&shown, next);
		}
#endif
	}
	ring[0].sum = sum;
	return NULL;
}

static void decode(void)
{
	for (long next = 0; next < frames_max; next++) {
		while (next - atomic_load(&shown) >= RING)
			usleep(100);
		ring[next % RING] = (struct frame){ next, mix(next) };
		atomic_store(&made, next + 1);
#ifdef FIXED
		if (atomic_exchange(&asleep, 0))
			wake();
#else
		wake();
		if (next % 2)
			wake();
#endif
	}
	wake();
}

int main(int argc, char **argv)
{
	pthread_t renderer;

	frames_max = argc > 1 ? atol(argv[1]) : 1500000;
	if (pipe2(pipe_ends, O_NONBLOCK) || fcntl(pipe_ends[1], F_SETPIPE_SZ, 4096) < 0) {
		perror("pipe");
		return 1;
	}
	pthread_create(&renderer, NULL, render, NULL);
	decode();
	pthread_join(renderer, NULL);
	printf("progress: %ld frames\n", frames_max);
	return 0;
}
