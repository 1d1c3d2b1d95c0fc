/* deep MILLIONS: so many million additions, thirty calls deep. */
#include <stdlib.h>

static long millions;

__attribute__((noinline)) static long descend(int depth)
{
	volatile long sum = depth;

	if (depth)
		return descend(depth - 1) + sum;
	for (long i = 0; i < millions * 1000000; i++)
		sum += i;
	return sum;
}

int main(int count, char **words)
{
	millions = count > 1 ? atol(words[1]) : 100;
	return descend(30) == 1;
}
