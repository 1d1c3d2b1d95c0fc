/*
 * A table of network flows. Packets mark their flow. A cleaner goes through all flows now and then, and frees
 * those without marks since. A bitmap marks the used slots. The table has one lock.
 *
 * Slow: for each flow, the cleaner searches for the next used slot from the bitmap's first bit: a loop within
 * a loop, n times n.
 * Fixed (-DFIXED): the search continues at the end of the last one.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *used;
static uint32_t *last_seen, now;
static long slots, expired, packets;
static atomic_bool over;

/* The first used slot that is not before `from`, or `slots`. */
static __attribute__((noinline)) long next_used(long from)
{
#ifdef FIXED
	long slot = from;
#else
	long slot = 0;
#endif

	while (slot < slots && (slot < from || !(used[slot / 8] & 1 << slot % 8)))
		slot++;
	return slot;
}

static void expire_flows(void)
{
	pthread_mutex_lock(&table_lock);
	now++;
	for (long slot = next_used(0); slot < slots; slot = next_used(slot + 1))
		if (now - last_seen[slot] > 2) {
			used[slot / 8] &= ~(1 << slot % 8);
			expired++;
		}
	pthread_mutex_unlock(&table_lock);
}

static void *clean(void *unused)
{
	while (!atomic_load(&over)) {
		expire_flows();
		usleep(2000);
	}
	return unused;
}

/* What else there is to do for a packet: its sum. */
static uint32_t sum_of(const uint32_t *packet, int words)
{
	uint64_t sum = 0;

	for (int i = 0; i < words; i++)
		sum += packet[i];
	return sum % 65521;
}

static void *forward(void *unused)
{
	uint32_t packet[375], state = 1, sums = 0;

	memset(packet, 42, sizeof packet);
	for (long i = 0; i < packets; i++) {
		state = state * 1664525 + 1013904223;
		packet[i % 375] = state;
		sums += sum_of(packet, 375);
		pthread_mutex_lock(&table_lock);
		long slot = state % slots;
		used[slot / 8] |= 1 << slot % 8;
		last_seen[slot] = now;
		pthread_mutex_unlock(&table_lock);
	}
	fprintf(stderr, "sums %u\n", sums);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t forwarder, cleaner;

	packets = argc > 1 ? atol(argv[1]) : 2000000;
	slots = argc > 2 ? atol(argv[2]) : 2000;
	used = calloc(slots / 8 + 1, 1);
	last_seen = calloc(slots, sizeof *last_seen);
	pthread_create(&cleaner, NULL, clean, NULL);
	pthread_create(&forwarder, NULL, forward, NULL);
	pthread_join(forwarder, NULL);
	atomic_store(&over, 1);
	pthread_join(cleaner, NULL);
	fprintf(stderr, "%ld expired\n", expired);
	printf("progress: %ld packets\n", packets);
	return 0;
}
