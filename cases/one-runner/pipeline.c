/*
 * Reads records of numbers in batches: a feeder passes each batch to workers, which add up the numbers.
 *
 * Slow: the feeder parses the text, workers only add: nearly all work is the feeder's.
 * Fixed (-DFIXED): the feeder passes on raw text and the workers parse it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS_MAX = 64, FIELDS = 6, RECORDS_PER_BATCH = 2000, RECORD_BYTES_MAX = 80, QUEUE_MAX = 16 };

struct batch {
	const char *text;
	int records;
	double fields[RECORDS_PER_BATCH][FIELDS];
};

static struct batch *queue[QUEUE_MAX];
static int queued, closed;
static long records_done;
static double total;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;

static void put(struct batch *batch)
{
	pthread_mutex_lock(&queue_lock);
	while (queued == QUEUE_MAX)
		pthread_cond_wait(&not_full, &queue_lock);
	queue[queued++] = batch;
	pthread_cond_signal(&not_empty);
	pthread_mutex_unlock(&queue_lock);
}

static struct batch *take(void)
{
	struct batch *batch = NULL;

	pthread_mutex_lock(&queue_lock);
	while (queued == 0 && !closed)
		pthread_cond_wait(&not_empty, &queue_lock);
	if (queued > 0) {
		batch = queue[--queued];
		pthread_cond_signal(&not_full);
	}
	pthread_mutex_unlock(&queue_lock);
	return batch;
}

static void parse(struct batch *batch)
{
	const char *at = batch->text;
	char *end;

	for (int r = 0; r < batch->records; r++)
		for (int f = 0; f < FIELDS; f++) {
			batch->fields[r][f] = strtod(at, &end);
			at = end + 1;
		}
}

static void *work(void *unused)
{
	struct batch *batch;

	while ((batch = take())) {
		double sum = 0;
#ifdef FIXED
		parse(batch);
#endif
		for (int r = 0; r < batch->records; r++)
			for (int f = 0; f < FIELDS; f++)
				sum += batch->fields[r][f];
		pthread_mutex_lock(&queue_lock);
		total += sum;
		records_done += batch->records;
		pthread_mutex_unlock(&queue_lock);
		free(batch);
	}
	return unused;
}

/* One batch of text, read again and again: making new text would be the feeder's work too. */
static char *generate(void)
{
	char *text = malloc((size_t)RECORDS_PER_BATCH * RECORD_BYTES_MAX), *end = text;
	unsigned state = 7;

	for (int r = 0; r < RECORDS_PER_BATCH; r++)
		for (int f = 0; f < FIELDS; f++) {
			state = state * 1664525u + 1013904223u;
			end += sprintf(end, "%u.%02u%c", (state >> 8) % 10000, state >> 26, f + 1 < FIELDS ? ',' : '\n');
		}
	return text;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	int workers = argc > 1 ? atoi(argv[1]) : 4;
	long records = argc > 2 ? atol(argv[2]) : 100000;
	char *text = generate();

	if (workers < 1 || workers > THREADS_MAX)
		return 2;
	for (int i = 0; i < workers; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (long fed = 0; fed < records; fed += RECORDS_PER_BATCH) {
		struct batch *batch = malloc(sizeof(*batch));
		batch->text = text;
		batch->records = records - fed < RECORDS_PER_BATCH ? (int)(records - fed) : RECORDS_PER_BATCH;
#ifndef FIXED
		parse(batch);
#endif
		put(batch);
	}
	pthread_mutex_lock(&queue_lock);
	closed = 1;
	pthread_cond_broadcast(&not_empty);
	pthread_mutex_unlock(&queue_lock);
	for (int i = 0; i < workers; i++)
		pthread_join(threads[i], NULL);
	printf("progress: %ld records\n", records_done);
	return total > 0 && records_done == records ? 0 : 1;
}
