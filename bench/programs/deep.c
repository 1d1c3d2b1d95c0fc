/* deep SECONDS: computes for so much CPU time, thirty calls deep. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds;

static double used(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

__attribute__((noinline)) static long descend(int depth)
{
	volatile long sum = depth;

	if (depth)
		return descend(depth - 1) + sum;
	while (used() < seconds)
		for (int i = 0; i < 1000000; i++)
			sum += i;
	return sum;
}

int main(int count, char **words)
{
	seconds = count > 1 ? atof(words[1]) : 1;
	return descend(30) == 1;
}
