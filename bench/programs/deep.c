/* deep MILLISECONDS HZ: computes for this time, thirty calls deep, and reads the clock all the time. A jump
 * of the clock means that something else ran. Prints the CPU seconds used, and the median (ns) of the longest
 * jumps, as many as there are samples at HZ. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

#define JUMPS_MAX (1 << 20)
#define JUMP_NS 1000

static unsigned long jumps[JUMPS_MAX];
static size_t seen;
static double ticks_per_ns;
static long length_ms;

static double now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void calibrate(void)
{
	double began_ns = now_ns(CLOCK_MONOTONIC), took_ns = 0;
	unsigned long ticks = __rdtsc();

	while (took_ns < 2e7)
		took_ns = now_ns(CLOCK_MONOTONIC) - began_ns;
	ticks_per_ns = (__rdtsc() - ticks) / took_ns;
}

__attribute__((noinline)) static long descend(int depth)
{
	volatile long kept = depth;

	if (depth)
		return descend(depth - 1) + kept;
	unsigned long now, last = __rdtsc(), end = last + length_ms * 1e6 * ticks_per_ns;
	unsigned long shortest = JUMP_NS * ticks_per_ns;
	for (; last < end; last = now) {
		now = __rdtsc();
		if (now - last > shortest && seen < JUMPS_MAX)
			jumps[seen++] = now - last;
	}
	return kept;
}

static int longer_first(const void *one, const void *other)
{
	unsigned long a = *(const unsigned long *)one, b = *(const unsigned long *)other;

	return a < b ? 1 : a > b ? -1 : 0;
}

int main(int count, char **words)
{
	if (count < 3)
		return 2;
	length_ms = atol(words[1]);
	calibrate();
	double cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	descend(27);
	cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
	qsort(jumps, seen, sizeof(*jumps), longer_first);
	size_t samples = cpu_ns * atol(words[2]) / 1e9;
	printf("%.6f %.0f\n", now_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9, seen > samples / 2 ? jumps[samples / 2] / ticks_per_ns : 0.0);
	return 0;
}
