/*
 * Relaxes the rows of many independent grids, step after step. Each row takes some microseconds.
 *
 * Slow: the two halves of each row are handed to two workers, and the main thread waits for both before it takes the next row.
 * Fixed (-DFIXED): each worker is handed half of the grids, once a step.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { GRIDS = 100, WIDTH = 4096, WORKERS = 2 };

static float grid[GRIDS][WIDTH], before[GRIDS][WIDTH];

/* What one worker is to do: columns of some grids. */
struct part {
	int first_grid, grids, first, columns;
};

static struct part parts[WORKERS];
static pthread_barrier_t begin, done;
static int ended;

static void relax(const struct part *part)
{
	for (int g = part->first_grid; g < part->first_grid + part->grids; g++) {
		for (int i = part->first; i < part->first + part->columns; i++) {
			float left = before[g][i ? i - 1 : 0], right = before[g][i + 1 < WIDTH ? i + 1 : i];
			grid[g][i] = 0.5f * before[g][i] + 0.25f * (left + right);
		}
	}
}

static void *work(void *mine)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		if (ended)
			return NULL;
		relax(mine);
		pthread_barrier_wait(&done);
	}
}

/* Distributes `parts`, and waits until all are done. */
static void run_parts(void)
{
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&done);
}

static void step(void)
{
#ifdef FIXED
	for (int w = 0; w < WORKERS; w++)
		parts[w] = (struct part){ w * GRIDS / WORKERS, GRIDS / WORKERS, 0, WIDTH };
	run_parts();
#else
	for (int g = 0; g < GRIDS; g++) {
		for (int w = 0; w < WORKERS; w++)
			parts[w] = (struct part){ g, 1, w * WIDTH / WORKERS, WIDTH / WORKERS };
		run_parts();
	}
#endif
}

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 400;
	pthread_t workers[WORKERS];
	double sum = 0;

	for (int g = 0; g < GRIDS; g++)
		for (int i = 0; i < WIDTH; i++)
			before[g][i] = (float)((g * 31 + i * 17) % 101);
	pthread_barrier_init(&begin, NULL, WORKERS + 1);
	pthread_barrier_init(&done, NULL, WORKERS + 1);
	for (int w = 0; w < WORKERS; w++)
		pthread_create(&workers[w], NULL, work, &parts[w]);
	for (int s = 0; s < steps; s++) {
		step();
		for (int g = 0; g < GRIDS; g++)
			for (int i = 0; i < WIDTH; i++)
				before[g][i] = grid[g][i];
	}
	ended = 1;
	pthread_barrier_wait(&begin);
	for (int w = 0; w < WORKERS; w++)
		pthread_join(workers[w], NULL);
	for (int g = 0; g < GRIDS; g++)
		sum += grid[g][GRIDS];
	printf("sum %.3f\n", sum);
	printf("progress: %d steps\n", steps);
	return 0;
}
