// Allocates in forty functions at different rates and sizes, in several threads. Frees some of it in other
// threads, and keeps some. Prints the real allocations of each function, one line each: NAME BYTES OBJECTS
// KEPT_BYTES ELSEWHERE_BYTES.
//
// sites SECONDS-WORTH THREADS SEED
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SITES 40
#define RING 4096

struct truth {
	_Atomic uint64_t bytes, objects, kept, elsewhere;
};
static struct truth truths[SITES];

struct block {
	void *memory;
	size_t size;
	int site;
};
struct mailbox {
	pthread_mutex_t lock;
	struct block blocks[RING];
	size_t count;
};
static struct mailbox boxes[16];
static int threads;
static long rounds;

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

// Each is a function of its own, and in its own way: malloc, calloc, realloc, posix_memalign.
#define SITE(n)                                                                                    \
	__attribute__((noinline)) static void *site_##n(size_t size)                               \
	{                                                                                          \
		void *memory = NULL;                                                               \
		switch (n % 8) {                                                                   \
		case 5: memory = calloc(1, size); break;                                           \
		case 6: memory = realloc(malloc(1), size); break;                                  \
		case 7: if (posix_memalign(&memory, 64, size)) abort(); break;                     \
		default: memory = malloc(size);                                                    \
		}                                                                                  \
		atomic_fetch_add(&truths[n].bytes, size + (n % 8 == 6));                           \
		atomic_fetch_add(&truths[n].objects, 1 + (n % 8 == 6));                            \
		memset(memory, n, size < 64 ? size : 64);                                          \
		return memory;                                                                     \
	}
#define TEN(d) SITE(d##0) SITE(d##1) SITE(d##2) SITE(d##3) SITE(d##4) SITE(d##5) SITE(d##6) SITE(d##7) SITE(d##8) SITE(d##9)
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7) SITE(8) SITE(9) TEN(1) TEN(2) TEN(3)
#define NAME(n) site_##n
#define NAMES(d) NAME(d##0), NAME(d##1), NAME(d##2), NAME(d##3), NAME(d##4), NAME(d##5), NAME(d##6), NAME(d##7), NAME(d##8), NAME(d##9)
static void *(*const sites[SITES])(size_t) = { NAME(0), NAME(1), NAME(2), NAME(3), NAME(4), NAME(5), NAME(6), NAME(7),
					       NAME(8), NAME(9), NAMES(1), NAMES(2), NAMES(3) };

static void give(int to, struct block block)
{
	struct mailbox *box = &boxes[to];
	pthread_mutex_lock(&box->lock);
	if (box->count < RING)
		box->blocks[box->count++] = block, block.memory = NULL;
	pthread_mutex_unlock(&box->lock);
	if (block.memory)
		atomic_fetch_add(&truths[block.site].kept, block.size);
	else
		atomic_fetch_add(&truths[block.site].elsewhere, block.size);
}

static void empty(int own)
{
	struct mailbox *box = &boxes[own];
	pthread_mutex_lock(&box->lock);
	while (box->count)
		free(box->blocks[--box->count].memory);
	pthread_mutex_unlock(&box->lock);
}

static void *work(void *argument)
{
	int own = (int)(intptr_t)argument;
	uint64_t state = 88172645463325252ull + (uint64_t)own * 7919;
	for (long round = 0; round < rounds; round++) {
		uint64_t random = next(&state);
		// The k-th site is used half as often as the one four before it, but asks for more.
		int site = (int)(__builtin_ctzll(random | 1ull << 9) * 4 + (random >> 60) % 4) % SITES;
		size_t size = (16 + (random >> 20) % 48) << (site / 6);
		struct block block = { sites[site](size), size, site };
		switch ((random >> 40) % 16) {
		case 0: give((own + 1) % threads, block); break;
		case 1:
			if (round % 64 == 1) {
				atomic_fetch_add(&truths[site].kept, size);
				break;
			} // fall through
		default: free(block.memory);
		}
		if (round % 1024 == 0)
			empty(own);
	}
	return NULL;
}

int main(int count, char **words)
{
	rounds = count > 1 ? atol(words[1]) : 1000000;
	threads = count > 2 ? atoi(words[2]) : 2;
	if (threads < 1 || threads > 16)
		return 2;
	pthread_t ids[16];
	for (int n = 0; n < 16; n++)
		pthread_mutex_init(&boxes[n].lock, NULL);
	for (int n = 0; n < threads; n++)
		pthread_create(&ids[n], NULL, work, (void *)(intptr_t)n);
	for (int n = 0; n < threads; n++)
		pthread_join(ids[n], NULL);
	for (int n = 0; n < threads; n++)
		empty(n);
	for (int n = 0; n < SITES; n++)
		printf("site_%d %lu %lu %lu %lu\n", n, truths[n].bytes, truths[n].objects, truths[n].kept, truths[n].elsewhere);
	return 0;
}
