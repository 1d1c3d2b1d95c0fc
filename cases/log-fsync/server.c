/*
 * Handles requests with several threads. Each request is work and one line in a durable log.
 *
 * Slow: the log is forced to the disk after every line.
 * Fixed (-DFIXED): it is forced once for every 200 lines of a thread, and at the end.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_MAX = 64, WORK_PER_REQUEST = 20000 };

#ifdef FIXED
enum { LINES_PER_SYNC = 200 };
#else
enum { LINES_PER_SYNC = 1 };
#endif

struct worker {
	pthread_t thread;
	int number, log;
	long requests, done;
};

static unsigned long handle(unsigned long request)
{
	unsigned long answer = request;

	for (int i = 0; i < WORK_PER_REQUEST; i++)
		answer = (answer ^ (answer >> 29)) * 0xbf58476d1ce4e5b9UL + i;
	return answer;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *serve(void *argument)
{
	struct worker *worker = argument;
	char line[80];

	for (long i = 0; i < worker->requests; i++) {
		int length = snprintf(line, sizeof(line), "worker %d request %ld answer %016lx\n", worker->number, i,
				      handle(i));
		if (write(worker->log, line, length) != length)
			die("write");
		if ((i + 1) % LINES_PER_SYNC == 0 && fdatasync(worker->log) != 0)
			die("fdatasync");
		worker->done++;
	}
	if (fdatasync(worker->log) != 0)
		die("fdatasync");
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	const char *path = argc > 1 ? argv[1] : "requests.log";
	int threads = argc > 2 ? atoi(argv[2]) : 2;
	long requests = argc > 3 ? atol(argv[3]) : 1000, done = 0;
	int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);

	if (log < 0)
		die(path);
	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .number = i, .log = log, .requests = requests / threads };
		pthread_create(&workers[i].thread, NULL, serve, &workers[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		done += workers[i].done;
	}
	close(log);
	unlink(path);
	printf("progress: %ld requests\n", done);
	return 0;
}
