/*
 * Counts, in a random point set, the pairs of points that are near each other: each pair once.
 *
 * Slow: the outer loop is cut into equal ranges. The first rows have the most pairs, so the first thread has
 * most of the work. The others wait for it at the loop's end, step after step.
 * Fixed (-DFIXED): rows are handed out a few at a time to free threads.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 6000 };

static float x[POINTS], y[POINTS];

static float next_random(unsigned long *state)
{
	*state = *state * 6364136223846793005UL + 1442695040888963407UL;
	return (float)(*state >> 40) / (1 << 24);
}

/* How many points behind the first are near it. */
static long near(int first, float reach)
{
	long found = 0;

	for (int other = first + 1; other < POINTS; other++) {
		float dx = x[first] - x[other], dy = y[first] - y[other];
		found += sqrtf(dx * dx + dy * dy) < reach;
	}
	return found;
}

/* All points move a little: the next step sees another picture. */
static void move_points(unsigned long *state)
{
	for (int i = 0; i < POINTS; i++) {
		x[i] += (next_random(state) - 0.5f) * 0.01f;
		y[i] += (next_random(state) - 0.5f) * 0.01f;
	}
}

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 60;
	unsigned long state = 42;
	long pairs = 0;

	for (int i = 0; i < POINTS; i++) {
		x[i] = next_random(&state);
		y[i] = next_random(&state);
	}
	for (int step = 0; step < steps; step++) {
#ifdef FIXED
#pragma omp parallel for schedule(dynamic, 32) reduction(+ : pairs)
#else
#pragma omp parallel for schedule(static) reduction(+ : pairs)
#endif
		for (int first = 0; first < POINTS; first++)
			pairs += near(first, 0.05f);
		move_points(&state);
	}
	fprintf(stderr, "%ld pairs\n", pairs);
	printf("progress: %d steps\n", steps);
	return 0;
}
