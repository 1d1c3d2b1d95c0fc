/*
 * growth FORM N: work that grows with N according to FORM, each form in a function of its own.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ull;

static inline uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t steps(uint64_t count)
{
	uint64_t sum = 0;

	while (count--)
		sum += next();
	return sum;
}

static __attribute__((noinline)) uint64_t linear(uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += steps(8);
	return sum;
}

static __attribute__((noinline)) uint64_t three_halves(uint64_t n)
{
	uint64_t sum = 0, root = sqrt(n);

	for (uint64_t i = 0; i < n; i++)
		sum += steps(root);
	return sum;
}

static __attribute__((noinline)) uint64_t square(uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += steps(n);
	return sum;
}

static void sift(uint64_t *heap, uint64_t at, uint64_t count)
{
	for (uint64_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && heap[child] < heap[child + 1])
			child++;
		if (heap[at] >= heap[child])
			return;
		uint64_t kept = heap[at];
		heap[at] = heap[child];
		heap[child] = kept;
	}
}

/* As a sort by halves, without the memory. */
static __attribute__((noinline)) uint64_t log_linear(uint64_t n)
{
	if (n < 2)
		return 1;
	return log_linear(n / 2) + log_linear(n - n / 2) + steps(n);
}

/* Sorts N numbers: beyond the caches each step takes longer, too. */
static __attribute__((noinline)) uint64_t heap_sort(uint64_t n)
{
	uint64_t *heap = malloc(n * sizeof(*heap)), sum = 0;

	if (!heap)
		exit(1);
	for (uint64_t i = 0; i < n; i++)
		heap[i] = next();
	for (uint64_t i = n / 2; i-- > 0;)
		sift(heap, i, n);
	for (uint64_t end = n; end > 1; end--) {
		uint64_t most = heap[0];

		heap[0] = heap[end - 1];
		heap[end - 1] = most;
		sift(heap, 0, end - 1);
		sum += most;
	}
	free(heap);
	return sum;
}

int main(int argc, char **argv)
{
	const struct { const char *name; uint64_t (*work)(uint64_t n); } forms[] = {
		{ "linear", linear }, { "three_halves", three_halves }, { "square", square },
		{ "log_linear", log_linear }, { "heap_sort", heap_sort },
	};

	for (int i = 0; argc == 3 && i < 5; i++) {
		if (!strcmp(argv[1], forms[i].name)) {
			printf("%llu\n", (unsigned long long)forms[i].work(strtoull(argv[2], NULL, 10)));
			return 0;
		}
	}
	return 2;
}
