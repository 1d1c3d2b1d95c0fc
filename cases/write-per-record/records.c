/*
 * Several threads write records, each to a file of its own.
 *
 * Slow: each record is a write(2).
 * Fixed (-DFIXED): records are collected in a buffer of 64 KiB.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef FIXED
enum { RECORDS_AT_ONCE = 4096 };
#else
enum { RECORDS_AT_ONCE = 1 };
#endif

enum { THREADS_MAX = 64, ROUNDS = 40, RECORDS_PER_FILE = 100000 };

struct record {
	unsigned long key, value;
};

struct writer {
	pthread_t thread;
	const char *folder;
	int number;
	long records;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct record make(unsigned long number)
{
	struct record record = { number, number + 1 };

	for (int i = 0; i < ROUNDS; i++)
		record.value = (record.value ^ (record.value >> 29)) * 0xbf58476d1ce4e5b9UL + i;
	return record;
}

static void *run(void *argument)
{
	struct writer *writer = argument;
	struct record records[RECORDS_AT_ONCE];
	char path[4096];
	int file, filled = 0;

	snprintf(path, sizeof(path), "%s/%d.records", writer->folder, writer->number);
	file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (file < 0)
		die(path);
	for (long i = 0; i < writer->records; i++) {
		records[filled++] = make(i);
		if (filled == RECORDS_AT_ONCE || i + 1 == writer->records) {
			if (write(file, records, filled * sizeof(records[0])) < 0)
				die("write");
			filled = 0;
		}
		/* A ring of this number of records keeps the file small. */
		if ((i + 1) % RECORDS_PER_FILE == 0 && lseek(file, 0, SEEK_SET) < 0)
			die("lseek");
	}
	close(file);
	unlink(path);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct writer writers[THREADS_MAX];
	const char *folder = argc > 1 ? argv[1] : ".";
	int threads = argc > 2 ? atoi(argv[2]) : 2;
	long records = argc > 3 ? atol(argv[3]) : 1000000;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	for (int i = 0; i < threads; i++) {
		writers[i] = (struct writer){ .folder = folder, .number = i, .records = records };
		pthread_create(&writers[i].thread, NULL, run, &writers[i]);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(writers[i].thread, NULL);
	printf("progress: %ld records\n", records * threads);
	return 0;
}
