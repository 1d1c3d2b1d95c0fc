/* Estimates pi with random points, in threads. Each thread has a generator of its own.
 *
 * Slow: the generators' states are adjacent, several in one cache line, and each random number writes to one.
 * Fixed: each state has a line of its own. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_MAX 16

/* xoshiro256+ by Blackman and Vigna. */
struct generator {
	uint64_t s[4];
#ifdef FIXED
} __attribute__((aligned(128)));
#else
};
#endif

static struct generator generators[THREADS_MAX] __attribute__((aligned(128)));
static long points;

static uint64_t rotated(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static __attribute__((noinline)) double draw(struct generator *generator)
{
	uint64_t *s = generator->s, sum = s[0] + s[3], shifted = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= shifted;
	s[3] = rotated(s[3], 45);
	return (double)(sum >> 11) * 0x1p-53;
}

static void *throw_points(void *of)
{
	struct generator *generator = of;
	long inside = 0;

	for (long point = 0; point < points; point++) {
		double x = draw(generator), y = draw(generator);

		inside += x * x + y * y < 1;
	}
	return (void *)inside;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t running[THREADS_MAX];
	long inside = 0;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	points = (argc > 2 ? atol(argv[2]) : 100000000) / threads;
	for (int number = 0; number < threads; number++) {
		generators[number] = (struct generator){ { 1, 2, 3 + number, 88172645463325252u } };
		pthread_create(&running[number], NULL, throw_points, &generators[number]);
	}
	for (int number = 0; number < threads; number++) {
		void *found;

		pthread_join(running[number], &found);
		inside += (long)found;
	}
	printf("pi is about %.4f\n", 4.0 * inside / points / threads);
	printf("progress: %ld points\n", points * threads);
}
