// A thread refreshes a cached time every 10 ms, while another one waits for a helper process again and again.
// No thread waits for the ticks.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { REQUESTS = 120, HELP_US = 12000, TICK_STEPS = 300000, STEPS = 100000 };

static int to[2], from[2];
static volatile int stops;
static volatile uint64_t cached, sum;

static uint64_t work(uint64_t seed, int steps)
{
	for (int i = 0; i < steps; i++)
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return seed;
}

static void *tick(void *none)
{
	while (!stops) {
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		cached = work(cached, TICK_STEPS);
	}
	return none;
}

static void *ask(void *none)
{
	char byte = 0;

	for (int i = 0; i < REQUESTS; i++) {
		if (write(to[1], &byte, 1) < 1 || read(from[0], &byte, 1) < 1)
			return none;
		sum += work(i, STEPS);
	}
	return none;
}

static void help(void)
{
	char byte;

	close(to[1]);
	while (read(to[0], &byte, 1) > 0) {
		usleep(HELP_US);
		if (write(from[1], &byte, 1) < 1)
			break;
	}
	_exit(0);
}

int main(void)
{
	pthread_t ticker, asker;
	pid_t helper;

	if (pipe(to) || pipe(from))
		return 1;
	helper = fork();
	if (!helper)
		help();
	pthread_create(&ticker, NULL, tick, NULL);
	pthread_create(&asker, NULL, ask, NULL);
	pthread_join(asker, NULL);
	stops = 1;
	pthread_join(ticker, NULL);
	kill(helper, SIGKILL);
	printf("progress: %d requests\n", REQUESTS);
	return 0;
}
