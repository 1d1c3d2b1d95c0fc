// Three threads for a while: one computes, one does nothing but syscalls, one computes half of the time and sleeps the other.
//
// mixed SECONDS
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS 5000000

static _Atomic int over;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void spend(long until_ns)
{
	volatile unsigned long sum = 0;

	while (now_ns() < until_ns)
		for (int i = 0; i < 1000; i++)
			sum += i;
}

static void *compute(void *nothing)
{
	pthread_setname_np(pthread_self(), "compute");
	while (!over)
		spend(now_ns() + NAP_NS);
	return nothing;
}

static void *calls(void *nothing)
{
	pthread_setname_np(pthread_self(), "calls");
	while (!over)
		syscall(SYS_getppid);
	return nothing;
}

static void *naps(void *nothing)
{
	struct timespec nap = { .tv_nsec = NAP_NS };

	pthread_setname_np(pthread_self(), "naps");
	while (!over) {
		spend(now_ns() + NAP_NS);
		nanosleep(&nap, 0);
	}
	return nothing;
}

int main(int count, char **words)
{
	void *(*work[])(void *) = { compute, calls, naps };
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, work[i], 0);
	usleep((useconds_t)((count > 1 ? atof(words[1]) : 5) * 1e6));
	over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	return 0;
}
