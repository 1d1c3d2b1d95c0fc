// Innocent: a tree of many small nodes for each request, from an arena that is allocated once per request and
// freed as a whole. It makes millions of objects with few calls of malloc.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 2
#define NODES 20000

struct node {
	struct node *left, *right;
	uint32_t key;
};

struct arena {
	struct node *nodes;
	int used;
};

static struct node *take(struct arena *arena, uint32_t key)
{
	struct node *node = &arena->nodes[arena->used++];
	*node = (struct node){ .key = key };
	return node;
}

static long requests;
static uint64_t depths[THREADS * 8];

static uint64_t answer(uint32_t random)
{
	struct arena arena = { malloc(NODES * sizeof(struct node)), 0 };
	struct node *root;
	uint64_t depth = 0;
	if (!arena.nodes)
		abort();
	root = take(&arena, random);
	while (arena.used < NODES) {
		struct node **place = &root;
		random = random * 1664525u + 1013904223u;
		for (; *place; depth++)
			place = random < (*place)->key ? &(*place)->left : &(*place)->right;
		*place = take(&arena, random);
	}
	free(arena.nodes);
	return depth;
}

static void *serve(void *argument)
{
	intptr_t own = (intptr_t)argument;
	for (long request = 0; request < requests; request++)
		depths[own * 8] += answer((uint32_t)(own * 7919 + request));
	return NULL;
}

int main(int count, char **words)
{
	pthread_t threads[THREADS];
	requests = count > 1 ? atol(words[1]) : 100;
	for (intptr_t n = 0; n < THREADS; n++)
		pthread_create(&threads[n], NULL, serve, (void *)n);
	for (int n = 0; n < THREADS; n++)
		pthread_join(threads[n], NULL);
	printf("progress: %ld requests\n", requests * THREADS);
	return depths[0] == 0;
}
