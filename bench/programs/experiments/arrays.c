/*
 * arrays PASSES: walks over several large arrays from malloc in parallel. glibc takes each from the kernel,
 * so that all of them begin at the same offset of a page. The same element of all arrays falls into one set
 * of the L1 cache.
 * arrays PASSES steady: the same amount of arithmetic without memory, which no layout can change.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 20, LENGTH = 65536 };

static __attribute__((noinline)) float walk(float **arrays)
{
	float sum = 0;

	for (int i = 0; i < LENGTH; i++) {
		float each = 0;

		for (int k = 0; k < ARRAYS; k++)
			each += arrays[k][i];
		arrays[i % ARRAYS][i] = each * 0.05f;
		sum += each;
	}
	return sum;
}

static __attribute__((noinline)) float steady(uint64_t state)
{
	uint64_t sum = 0;

	for (int i = 0; i < LENGTH * ARRAYS; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		sum += state;
	}
	return sum;
}

int main(int argc, char **argv)
{
	float *arrays[ARRAYS], sum = 0;
	int passes = argc > 1 ? atoi(argv[1]) : 0;

	for (int k = 0; k < ARRAYS; k++) {
		arrays[k] = malloc(LENGTH * sizeof(float));
		if (!arrays[k])
			return 1;
		for (int i = 0; i < LENGTH; i++)
			arrays[k][i] = i % 7;
	}
	for (int i = 0; i < passes; i++)
		sum += argc > 2 && !strcmp(argv[2], "steady") ? steady(i + 1) : walk(arrays);
	printf("%g\n", sum);
	return passes < 1;
}
