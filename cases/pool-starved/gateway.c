/*
 * A gateway: workers take requests from a queue, send a request to a backend over a connection, and wait for
 * its response. Clients send requests in batches, and the next batch after all responses. `gateway backend
 * PATH` is the backend: it takes a few milliseconds per response, for any number of parallel requests.
 *
 * Slow: as many workers as CPUs. Both wait for the backend, and no worker takes the next request.
 * Fixed (-DFIXED): enough workers for the waiting requests.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef FIXED
enum { WORKERS = 48 };
#else
enum { WORKERS = 2 };
#endif
enum { BATCH = 40 };

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static long queued, unanswered, sum;

static void *answer_slowly(void *connection)
{
	uint32_t question;

	while (read((intptr_t)connection, &question, sizeof question) == sizeof question) {
		usleep(3000 + question % 1000);
		if (write((intptr_t)connection, &question, sizeof question) != sizeof question)
			break;
	}
	close((intptr_t)connection);
	return NULL;
}

static int be_backend(void)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	pthread_t thread;

	unlink(address.sun_path);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
		return 1;
	for (;;) {
		intptr_t connection = accept(listener, NULL, NULL);

		pthread_create(&thread, NULL, answer_slowly, (void *)connection);
		pthread_detach(thread);
	}
}

static int connected(void)
{
	int backend = socket(AF_UNIX, SOCK_STREAM, 0);

	/* It may not be there yet. */
	for (int tries = 0; connect(backend, (struct sockaddr *)&address, sizeof address); tries++)
		if (usleep(10000), tries > 500)
			exit(1);
	return backend;
}

static void *work(void *unused)
{
	int backend = connected();

	pthread_mutex_lock(&lock);
	for (uint32_t request, answer;;) {
		while (!queued)
			pthread_cond_wait(&came, &lock);
		request = queued--;
		pthread_mutex_unlock(&lock);
		if (write(backend, &request, sizeof request) != sizeof request ||
		    read(backend, &answer, sizeof answer) != sizeof answer)
			exit(1);
		pthread_mutex_lock(&lock);
		sum += answer;
		if (--unanswered == 0)
			pthread_cond_signal(&done);
	}
	return unused;
}

int main(int argc, char **argv)
{
	int batches = argc > 2 ? atoi(argv[1]) : 20;
	pthread_t worker;

	if (argc < 3 || strlen(argv[argc - 1]) >= sizeof address.sun_path)
		return 2;
	strcpy(address.sun_path, argv[argc - 1]);
	if (!strcmp(argv[1], "backend"))
		return be_backend();
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&worker, NULL, work, NULL);
	for (int i = 0; i < batches; i++) {
		pthread_mutex_lock(&lock);
		queued = unanswered = BATCH;
		pthread_cond_broadcast(&came);
		while (unanswered)
			pthread_cond_wait(&done, &lock);
		pthread_mutex_unlock(&lock);
	}
	printf("progress: %d requests\n", batches * BATCH);
	return 0;
}
