/*
 * A player hands a block of sound on every 10 ms, by an absolute clock: it sleeps because it is not yet time. Another
 * thread encodes all the while, so the program never stands still.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SAMPLES = 480, BLOCK_NS = 10000000 };

static atomic_bool over;

static void *encode(void *encoded)
{
	double state = 0.5;

	while (!atomic_load(&over)) {
		for (int i = 0; i < 10000; i++)
			state = sin(state + i);
		++*(long *)encoded;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int blocks = argc > 1 ? atoi(argv[1]) : 200;
	float block[SAMPLES];
	struct timespec next;
	pthread_t encoder;
	long encoded = 0;
	double sum = 0;

	pthread_create(&encoder, NULL, encode, &encoded);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (int number = 0; number < blocks; number++) {
		for (int i = 0; i < SAMPLES; i++)
			sum += block[i] = sinf((number * SAMPLES + i) * 0.05f);
		if ((next.tv_nsec += BLOCK_NS) >= 1000000000)
			next.tv_nsec -= 1000000000, next.tv_sec++;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	atomic_store(&over, 1);
	pthread_join(encoder, NULL);
	fprintf(stderr, "%g, %ld encoded\n", sum, encoded);
	printf("progress: %d blocks\n", blocks);
	return 0;
}
