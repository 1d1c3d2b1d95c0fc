/*
 * A pool of eight workers for requests over a pipe. They come one at a time, from a client that thinks in
 * between. The workers wait nearly always, as intended: there is no other work.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKERS = 8 };

static int requests[2], answers[2];

static void *work(void *unused)
{
	uint64_t request;

	while (read(requests[0], &request, sizeof request) == sizeof request) {
		for (int i = 0; i < 100000; i++)
			request = request * 6364136223846793005u + 1442695040888963407u;
		if (write(answers[1], &request, sizeof request) != sizeof request)
			break;
	}
	return unused;
}

/* Work of the client between two requests: makes the next request from the last response. */
static uint64_t think(uint64_t answer)
{
	for (int i = 0; i < 2000000; i++)
		answer ^= answer << 13, answer ^= answer >> 7, answer ^= answer << 17;
	return answer;
}

int main(int argc, char **argv)
{
	long wanted = argc > 1 ? atol(argv[1]) : 300;
	pthread_t workers[WORKERS];
	uint64_t request = 88172645463325252u;

	if (pipe(requests) || pipe(answers))
		return 1;
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, work, NULL);
	for (long i = 0; i < wanted; i++) {
		request = think(request);
		if (write(requests[1], &request, sizeof request) != sizeof request ||
		    read(answers[0], &request, sizeof request) != sizeof request)
			return 1;
	}
	close(requests[1]);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	fprintf(stderr, "%016lx\n", (unsigned long)request);
	printf("progress: %ld requests\n", wanted);
	return 0;
}
