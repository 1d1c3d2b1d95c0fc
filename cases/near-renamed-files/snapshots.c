/*
 * Stores documents with several threads. Each document is written under a temporary name and renamed when it is complete, so that
 * a reader never sees half of one. The files stay.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_MAX = 64 };

struct worker {
	pthread_t thread;
	int number;
	const char *folder;
	long documents;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void store(const struct worker *worker, long document)
{
	char path[512], final[512], text[2048];
	unsigned long random = document * 0x9e3779b97f4a7c15UL + worker->number;
	int length = 0, file;

	for (int line = 0; line < 40; line++) {
		random = (random ^ (random >> 29)) * 0xbf58476d1ce4e5b9UL;
		length += snprintf(text + length, sizeof(text) - length, "%04d field %016lx\n", line, random);
	}
	snprintf(path, sizeof(path), "%s/part-XXXXXX", worker->folder);
	snprintf(final, sizeof(final), "%s/%d-%ld", worker->folder, worker->number, document);
	file = mkstemp(path);
	if (file < 0)
		die(path);
	if (write(file, text, length) != length || close(file) != 0 || rename(path, final) != 0)
		die(final);
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	for (long i = 0; i < worker->documents; i++)
		store(worker, i);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	const char *folder = argc > 1 ? argv[1] : ".";
	int threads = argc > 2 ? atoi(argv[2]) : 2;
	long documents = argc > 3 ? atol(argv[3]) : 1000, done = 0;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .number = i, .folder = folder, .documents = documents / threads };
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		done += workers[i].documents;
	}
	printf("progress: %ld documents\n", done);
	return 0;
}
