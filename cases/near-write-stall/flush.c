// Four writers fill a table in memory. When it is full they wait until a background thread has written it to a
// file, as a storage engine stalls its writers.
//
// They continue together, as after a barrier. But the background thread works only on their request: it is no
// member that comes late.
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WRITERS = 4, RECORDS = 60000, FULL = 1500, STEPS = 20000, FLUSH_STEPS = 2000000, PIECES = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t room = PTHREAD_COND_INITIALIZER, full = PTHREAD_COND_INITIALIZER;
static int fill, flushes, closed, records;

static uint64_t work(uint64_t seed, int steps)
{
	for (int i = 0; i < steps; i++)
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return seed;
}

static void *writer(void *sum)
{
	for (;;) {
		*(uint64_t *)sum = work(*(uint64_t *)sum, STEPS);
		pthread_mutex_lock(&mutex);
		while (flushes)
			pthread_cond_wait(&room, &mutex);
		if (records >= RECORDS)
			break;
		records++;
		if (++fill >= FULL) {
			flushes = 1;
			pthread_cond_signal(&full);
		}
		pthread_mutex_unlock(&mutex);
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void *background(void *path)
{
	static char piece[1 << 20];
	uint64_t sum = 1;
	int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	pthread_mutex_lock(&mutex);
	for (;;) {
		while (!flushes && !closed)
			pthread_cond_wait(&full, &mutex);
		if (closed)
			break;
		pthread_mutex_unlock(&mutex);
		sum = work(sum, FLUSH_STEPS);
		piece[0] = (char)sum;
		for (int i = 0; i < PIECES; i++) {
			if (pwrite(file, piece, sizeof(piece), 0) < 0 || fdatasync(file))
				exit(1);
		}
		pthread_mutex_lock(&mutex);
		fill = flushes = 0;
		pthread_cond_broadcast(&room);
	}
	pthread_mutex_unlock(&mutex);
	close(file);
	return NULL;
}

int main(int argc, char **argv)
{
	static uint64_t sums[WRITERS];
	pthread_t threads[WRITERS], flusher;

	if (argc < 2)
		return 1;
	pthread_create(&flusher, NULL, background, argv[1]);
	for (int i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, writer, &sums[i]);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_lock(&mutex);
	closed = 1;
	pthread_cond_signal(&full);
	pthread_mutex_unlock(&mutex);
	pthread_join(flusher, NULL);
	printf("progress: %d records\n", RECORDS);
	return 0;
}
