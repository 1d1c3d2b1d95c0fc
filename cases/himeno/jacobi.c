/*
 * Jacobi iteration for the pressure in a box: each cell becomes the weighted mean of its neighbours, with
 * coefficients for each cell. Fourteen large arrays are walked in parallel.
 *
 * The argument is the additional offset of each array in its allocation (bytes). With 0, all begin at the
 * same offset of a page, like malloc's large blocks. Then the same cell of all arrays falls into the same set
 * of the cache.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X = 64, Y = 64, Z = 128, ARRAYS = 14 };

typedef float array[X][Y][Z];

/* The pressure, its next value, the source, the bound, four weights, three products, three sums. */
enum { P, NEXT, SOURCE, BOUND, A, B = A + 4, C = B + 3 };

static array *arrays[ARRAYS];

static int make_arrays(size_t padding)
{
	for (int i = 0; i < ARRAYS; i++) {
		char *memory = malloc(sizeof(array) + i * padding);
		float value = i == A + 3 ? 1.0f / 6 : i == BOUND || i == A || i == A + 1 || i == A + 2 || i >= C ? 1 : 0;

		if (!memory)
			return 0;
		arrays[i] = (array *)(memory + i * padding);
		for (float *cell = (float *)arrays[i]; cell < (float *)(arrays[i] + 1); cell++)
			*cell = value;
	}
	for (int x = 0; x < X; x++)
		for (int y = 0; y < Y; y++)
			for (int z = 0; z < Z; z++)
				(*arrays[P])[x][y][z] = (float)(x * x) / ((X - 1) * (X - 1));
	return 1;
}

#define AT(which, dx, dy, dz) (*arrays[which])[x + (dx)][y + (dy)][z + (dz)]

static __attribute__((noinline)) float iterate(void)
{
	float change = 0;

	for (int x = 1; x < X - 1; x++)
		for (int y = 1; y < Y - 1; y++)
			for (int z = 1; z < Z - 1; z++) {
				float sum = AT(A, 0, 0, 0) * AT(P, 1, 0, 0) + AT(A + 1, 0, 0, 0) * AT(P, 0, 1, 0) +
					    AT(A + 2, 0, 0, 0) * AT(P, 0, 0, 1);

				sum += AT(B, 0, 0, 0) * (AT(P, 1, 1, 0) - AT(P, 1, -1, 0) - AT(P, -1, 1, 0) + AT(P, -1, -1, 0));
				sum += AT(B + 1, 0, 0, 0) * (AT(P, 0, 1, 1) - AT(P, 0, -1, 1) - AT(P, 0, 1, -1) + AT(P, 0, -1, -1));
				sum += AT(B + 2, 0, 0, 0) * (AT(P, 1, 0, 1) - AT(P, -1, 0, 1) - AT(P, 1, 0, -1) + AT(P, -1, 0, -1));
				sum += AT(C, 0, 0, 0) * AT(P, -1, 0, 0) + AT(C + 1, 0, 0, 0) * AT(P, 0, -1, 0) +
				       AT(C + 2, 0, 0, 0) * AT(P, 0, 0, -1) + AT(SOURCE, 0, 0, 0);
				sum = (sum * AT(A + 3, 0, 0, 0) - AT(P, 0, 0, 0)) * AT(BOUND, 0, 0, 0);
				change += sum * sum;
				AT(NEXT, 0, 0, 0) = AT(P, 0, 0, 0) + 0.8f * sum;
			}
	memcpy((*arrays[P])[1], (*arrays[NEXT])[1], sizeof(array) / X * (X - 2));
	return change;
}

int main(int argc, char **argv)
{
	size_t padding = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	int rounds = argc > 2 ? atoi(argv[2]) : 100;
	float change = 0;

	if (padding % 4 || !make_arrays(padding))
		return 1;
	for (int i = 0; i < rounds; i++)
		change = iterate();
	fprintf(stderr, "change %g\n", change);
	printf("progress: %d iterations\n", rounds);
	return 0;
}
