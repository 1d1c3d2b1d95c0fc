/* Programs of two threads that share cache lines: `sharing NAME SECONDS`. -DPADDED: only read-only data is
 * shared.
 *
 * Each thread runs until it is stopped, which it checks every BATCH steps. The last line is the number of
 * steps. Standard error has the address of the shared memory. Needs -fno-toplevel-reorder, so that the first
 * variables are adjacent. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 2, BATCH = 4096, TABLE = 512 };

#ifdef PADDED
#define APART __attribute__((aligned(256)))
#else
#define APART
#endif
#define NOINLINE __attribute__((noinline))

struct account { uint64_t paid, drawn; } APART;
struct meter { _Atomic uint64_t ticks; } APART;
struct settings { uint64_t limit; uint64_t seen APART; };
struct half {
	uint64_t count;
} __attribute__((aligned(
#ifdef PADDED
	256
#else
	64
#endif
)));
struct word { uint64_t value; } APART;

static struct word first_total __attribute__((aligned(256))), second_total;
static struct account accounts[THREADS] __attribute__((aligned(256)));
static struct settings settings __attribute__((aligned(256))) = { .limit = 1 };
static struct half halves[THREADS] __attribute__((aligned(256)));
static struct meter requests[THREADS] __attribute__((aligned(256)));
static struct account events[THREADS] __attribute__((aligned(256)));
static uint64_t table[TABLE] __attribute__((aligned(256)));

static atomic_int is_over __attribute__((aligned(256)));
static struct meter *meters;
static struct account *on_stack;
static uint64_t steps[THREADS * 32] __attribute__((aligned(256)));

/* Where all threads touch the same element: with padding, each has one of its own. */
#ifdef PADDED
#define SAME(me) (me)
#else
#define SAME(me) 0
#endif

static NOINLINE void bump(volatile uint64_t *total)
{
	for (int i = 0; i < BATCH; i++)
		*total += i;
}
static void global_words(long me) { bump(me ? &second_total.value : &first_total.value); }

static NOINLINE void array_of_structs(long me)
{
	volatile struct account *mine = &accounts[me];

	for (int i = 0; i < BATCH; i++) {
		mine->paid += i;
		mine->drawn ^= mine->paid;
	}
}

static NOINLINE void heap_atomics(long me)
{
	for (int i = 0; i < BATCH; i++)
		atomic_fetch_add_explicit(&meters[me].ticks, 1, memory_order_relaxed);
}

static NOINLINE void stack_of_main(long me)
{
	volatile struct account *mine = &on_stack[me];

	for (int i = 0; i < BATCH; i++)
		mine->drawn += i;
}

/* One thread writes next to the data that the other reads. */
static NOINLINE uint64_t below_limit(void)
{
	uint64_t below = 0;

	for (int i = 0; i < BATCH; i++)
		below += *(volatile uint64_t *)&settings.limit > (uint64_t)i;
	return below;
}
static NOINLINE void count_seen(void)
{
	for (int i = 0; i < BATCH; i++)
		*(volatile uint64_t *)&settings.seen += 1;
}
static void read_beside_written(long me)
{
	if (me)
		count_seen();
	else
		below_limit();
}

static NOINLINE void neighbouring_lines(long me)
{
	volatile uint64_t *mine = &halves[me].count;

	for (int i = 0; i < BATCH; i++)
		*mine += i;
}

static NOINLINE void shared_atomic(long me)
{
	for (int i = 0; i < BATCH; i++)
		atomic_fetch_add(&requests[SAME(me)].ticks, 1);
}

static NOINLINE void shared_plain(long me)
{
	volatile struct account *all = &events[SAME(me)];

	for (int i = 0; i < BATCH; i++)
		all->paid += 1;
}

static NOINLINE void read_only(long me)
{
	uint64_t at = me;

	for (int i = 0; i < BATCH; i++)
		at = *(volatile uint64_t *)&table[at % TABLE] + i;
}

static const struct program {
	const char *name;
	void (*step)(long me);
	void *memory;
	size_t bytes;
} programs[] = {
	{ "global-words", global_words, &first_total, sizeof first_total },
	{ "array-of-structs", array_of_structs, accounts, sizeof accounts },
	{ "heap-atomics", heap_atomics, 0, THREADS * sizeof *meters },
	{ "stack-of-main", stack_of_main, 0, THREADS * sizeof *on_stack },
	{ "read-beside-written", read_beside_written, &settings, sizeof settings },
	{ "neighbouring-lines", neighbouring_lines, halves, sizeof halves },
	{ "shared-atomic", shared_atomic, requests, sizeof requests },
	{ "shared-plain", shared_plain, events, sizeof events },
	{ "read-only", read_only, table, sizeof table },
};
static const struct program *program;

static void *work(void *number)
{
	long me = (long)number;
	uint64_t made = 0;

	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		program->step(me);
		made += BATCH;
	}
	steps[me * 32] = made;
	return 0;
}

int main(int argc, char **argv)
{
	struct account parts[THREADS] __attribute__((aligned(256))) = { { 0 } };
	double seconds = argc > 2 ? atof(argv[2]) : 1;
	pthread_t threads[THREADS];
	uint64_t sum = 0;

	for (size_t i = 0; argc > 1 && i < sizeof programs / sizeof *programs; i++)
		if (!strcmp(argv[1], programs[i].name))
			program = &programs[i];
	if (!program)
		return 2;
	meters = aligned_alloc(256, 1024);
	memset(meters, 0, 1024);
	on_stack = parts;
	for (int i = 0; i < TABLE; i++)
		table[i] = (uint64_t)i * 7919;
	uintptr_t memory = (uintptr_t)program->memory;
	if (program->step == heap_atomics)
		memory = (uintptr_t)meters;
	if (program->step == stack_of_main)
		memory = (uintptr_t)parts;
	fprintf(stderr, "memory: %#lx %#lx\n", (long)memory, (long)(memory + program->bytes));
	for (long me = 0; me < THREADS; me++)
		pthread_create(&threads[me], 0, work, (void *)me);
	usleep(seconds * 1e6);
	atomic_store(&is_over, 1);
	for (int me = 0; me < THREADS; me++) {
		pthread_join(threads[me], 0);
		sum += steps[me * 32];
	}
	printf("progress: %lu steps\n", sum);
}
