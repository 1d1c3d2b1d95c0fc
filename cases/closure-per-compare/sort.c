// Several threads sort records by three keys. The comparison is built again for each pair. It is a list of keys on
// the heap with a node for each key, as in a functional style of C. -DFIXED: it is built once per sort.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 2
#define RECORDS 20000

struct record {
	uint32_t keys[3];
};

struct key {
	int number;
	struct key *next;
};

static struct key *keys_then(int number, struct key *next)
{
	struct key *key = malloc(sizeof *key);
	if (!key)
		abort();
	key->number = number;
	key->next = next;
	return key;
}

static struct key *all_keys(void)
{
	return keys_then(0, keys_then(1, keys_then(2, NULL)));
}

static void drop_keys(struct key *key)
{
	while (key) {
		struct key *next = key->next;
		free(key);
		key = next;
	}
}

static int compare_by(const struct key *key, const struct record *a, const struct record *b)
{
	for (; key; key = key->next)
		if (a->keys[key->number] != b->keys[key->number])
			return a->keys[key->number] < b->keys[key->number] ? -1 : 1;
	return 0;
}

static __thread struct key *prepared;

static int compare(const void *a, const void *b)
{
#ifdef FIXED
	return compare_by(prepared, a, b);
#else
	struct key *keys = all_keys();
	int order = compare_by(keys, a, b);
	drop_keys(keys);
	return order;
#endif
}

static long rounds;

static void *sort(void *argument)
{
	struct record *records = malloc(RECORDS * sizeof *records);
	uint32_t random = (uint32_t)(uintptr_t)argument * 2654435761u + 1;
	if (!records)
		abort();
	prepared = all_keys();
	for (long round = 0; round < rounds; round++) {
		for (int n = 0; n < RECORDS; n++)
			for (int key = 0; key < 3; key++) {
				random = random * 1664525u + 1013904223u;
				records[n].keys[key] = random >> 28;
			}
		qsort(records, RECORDS, sizeof *records, compare);
	}
	drop_keys(prepared);
	free(records);
	return NULL;
}

int main(int count, char **words)
{
	pthread_t threads[THREADS];
	rounds = count > 1 ? atol(words[1]) : 100;
	for (intptr_t n = 0; n < THREADS; n++)
		pthread_create(&threads[n], NULL, sort, (void *)n);
	for (int n = 0; n < THREADS; n++)
		pthread_join(threads[n], NULL);
	printf("progress: %ld sorts\n", rounds * THREADS);
	return 0;
}
