/*
 * Takes uploads with several threads: each body is stored, then read again to be checked and counted.
 *
 * Slow: each body goes into a file of its own in the spool directory, which is removed once the body is checked.
 * Fixed (-DFIXED): a body stays in memory, as a stream with the same interface.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 64, BODY_MAX = 8192 };

struct worker {
	pthread_t thread;
	int number;
	const char *spool;
	long uploads;
	unsigned long sum;
	char memory[BODY_MAX];
};

struct store {
	FILE *body;
	char path[512];
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

#ifdef FIXED
static void begin(struct store *store, struct worker *worker)
{
	store->body = fmemopen(worker->memory, sizeof(worker->memory), "w+");
}

static void end(struct store *store)
{
	fclose(store->body);
}
#else
static void begin(struct store *store, struct worker *worker)
{
	int file;

	snprintf(store->path, sizeof(store->path), "%s/upload-XXXXXX", worker->spool);
	file = mkstemp(store->path);
	if (file < 0)
		die(store->path);
	store->body = fdopen(file, "w+");
}

static void end(struct store *store)
{
	fclose(store->body);
	unlink(store->path);
}
#endif

/* What a client sends: lines of text, some kilobytes. */
static void receive(FILE *body, int number, long upload)
{
	unsigned long random = upload * 0x9e3779b97f4a7c15UL + number;

	for (int line = 0; line < 60; line++) {
		random = (random ^ (random >> 29)) * 0xbf58476d1ce4e5b9UL;
		fprintf(body, "%04d field %016lx value %016lx\n", line, random, ~random);
	}
	fflush(body);
}

static unsigned long check(FILE *body)
{
	unsigned long sum = 0;
	char line[128];

	rewind(body);
	while (fgets(line, sizeof(line), body))
		for (char *at = line; *at; at++)
			sum = sum * 31 + (unsigned char)*at;
	return sum;
}

static void *serve(void *argument)
{
	struct worker *worker = argument;
	struct store store;

	for (long i = 0; i < worker->uploads; i++) {
		begin(&store, worker);
		if (!store.body)
			die("stream");
		receive(store.body, worker->number, i);
		worker->sum += check(store.body);
		end(&store);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	const char *spool = argc > 1 ? argv[1] : ".";
	int threads = argc > 2 ? atoi(argv[2]) : 2;
	long uploads = argc > 3 ? atol(argv[3]) : 1000, done = 0;
	unsigned long sum = 0;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .number = i, .spool = spool, .uploads = uploads / threads };
		pthread_create(&workers[i].thread, NULL, serve, &workers[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		done += workers[i].uploads;
		sum += workers[i].sum;
	}
	printf("checksum %016lx\nprogress: %ld uploads\n", sum, done);
	return 0;
}
