/*
 * A table of routes: three readers look up packets under a reader-writer lock, and write a log, still under
 * it. A writer applies updates.
 *
 * Slow: the lock prefers readers while there are any, as glibc's does by default. One reader or another
 * always holds it, and the writer waits until by chance both are outside.
 * Fixed (-DFIXED): a route is one word, which is read and written atomically without a lock. Preferring a
 * waiting writer over new readers would end its starvation. But it would still wait for current readers'
 * writes to the disk.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { READERS = 3, ROUTES = 1 << 15, RECORDS = 64 };

#ifdef FIXED
static void lock_to_read(void) {}
static void lock_to_write(void) {}
static void unlock(void) {}
#else
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static void lock_to_read(void) { pthread_rwlock_rdlock(&lock); }
static void lock_to_write(void) { pthread_rwlock_wrlock(&lock); }
static void unlock(void) { pthread_rwlock_unlock(&lock); }
#endif

static _Atomic uint32_t routes[ROUTES];
static atomic_bool over;
static atomic_long looked_up;
static int updates[2];
static const char *folder;

/* The best of the routes for a packet, among those near its hash. */
static uint32_t best_route(uint32_t packet)
{
	uint32_t best = 0;

	for (uint32_t i = 0; i < 500; i++) {
		uint32_t route = atomic_load_explicit(&routes[(packet + i) % ROUTES], memory_order_relaxed);
		best = (route ^ packet) > (best ^ packet) ? route : best;
	}
	return best;
}

static void *look_up(void *number)
{
	uint32_t packet = (uintptr_t)number, records[RECORDS];
	char path[4096];
	long found = 0;
	int log;

	snprintf(path, sizeof path, "%s/log-%u", folder, packet);
	log = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	while (!atomic_load(&over)) {
		lock_to_read();
		for (int i = 0; i < RECORDS; i++, found++)
			records[i] = packet = packet * 2654435761u + best_route(packet);
		if (pwrite(log, records, sizeof records, 0) != sizeof records || fdatasync(log))
			exit(1);
		unlock();
		/* The next packets: reading them needs no lock. */
		for (int i = 0; i < 30000; i++)
			packet ^= packet << 13, packet ^= packet >> 17, packet ^= packet << 5;
	}
	atomic_fetch_add(&looked_up, found);
	return (void *)(uintptr_t)packet;
}

/* Updates come from a neighbour, which sends the next one when it has the answer to the last. */
static void *apply_updates(void *answers)
{
	uint32_t update;

	while (read(updates[0], &update, sizeof update) == sizeof update) {
		lock_to_write();
		atomic_store_explicit(&routes[update % ROUTES], update, memory_order_relaxed);
		unlock();
		if (write(*(int *)answers, &update, sizeof update) != sizeof update)
			break;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long wanted = argc > 1 ? atol(argv[1]) : 500;
	pthread_t readers[READERS], writer;
	int answers[2];

	folder = argc > 2 ? argv[2] : ".";
	if (pipe(updates) || pipe(answers))
		return 1;
	for (uintptr_t i = 0; i < READERS; i++)
		pthread_create(&readers[i], NULL, look_up, (void *)i);
	pthread_create(&writer, NULL, apply_updates, &answers[1]);
	for (uint32_t i = 0, answer; i < wanted; i++)
		if (write(updates[1], &(uint32_t){ i * 2654435761u }, 4) != 4 || read(answers[0], &answer, 4) != 4)
			return 1;
	close(updates[1]);
	pthread_join(writer, NULL);
	atomic_store(&over, 1);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	fprintf(stderr, "%ld look-ups\n", atomic_load(&looked_up));
	printf("progress: %ld updates\n", wanted);
	return 0;
}
