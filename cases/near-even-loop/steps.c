/*
 * Heat spreads over a plate: each step is a parallel loop with a barrier at its end, and all rows are equally long.
 */
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 1000 };

static float plate[2][SIDE][SIDE];

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 2000;

	plate[0][SIDE / 2][SIDE / 2] = plate[1][SIDE / 2][SIDE / 2] = 1e6;
	for (int step = 0; step < steps; step++) {
		float (*from)[SIDE] = plate[step % 2], (*to)[SIDE] = plate[1 - step % 2];
#pragma omp parallel for schedule(static)
		for (int y = 1; y < SIDE - 1; y++)
			for (int x = 1; x < SIDE - 1; x++)
				to[y][x] = (from[y - 1][x] + from[y + 1][x] + from[y][x - 1] + from[y][x + 1]) / 4;
	}
	fprintf(stderr, "%g\n", plate[0][SIDE / 2][SIDE / 2 + 8]);
	printf("progress: %d steps\n", steps);
	return 0;
}
