// Loaded into a program by `holdup sweep`. Shifts its large allocations and pins its threads, controlled by
// two environment variables:
//
// - HOLDUP_MALLOC_PAD=n: the k-th allocation of at least LARGE bytes begins k * n bytes later (modulo SPAN,
//   in steps of 16 bytes). Arrays at equal offsets in a page are then at different ones.
// - HOLDUP_PIN=spread: the k-th thread runs only on the k-th CPU (modulo their number), distant CPUs first.
// - HOLDUP_PIN=pack: the same, neighbouring CPUs first. The program's own thread affinities are then ignored.
//
// glibc's allocator is called by its internal names, another one (musl's) as the next definition.
#define _GNU_SOURCE
#include "libc.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *next_malloc(size_t size)
{
	static void *(*next)(size_t);
	if (!next)
		next = __libc_malloc ? __libc_malloc : (void *(*)(size_t))next_symbol("malloc", NULL);
	return next ? next(size) : NULL;
}

// Set while musl's calloc runs, which calls malloc by its public name, and so this library's.
static __thread int unchanged __attribute__((tls_model("initial-exec")));

static void *next_calloc(size_t count, size_t size)
{
	static void *(*next)(size_t, size_t);
	if (!next)
		next = __libc_calloc ? __libc_calloc : (void *(*)(size_t, size_t))next_symbol("calloc", NULL);
	unchanged++;
	void *memory = next ? next(count, size) : NULL;
	unchanged--;
	return memory;
}

static void *next_realloc(void *memory, size_t size)
{
	static void *(*next)(void *, size_t);
	if (!next)
		next = __libc_realloc ? __libc_realloc : (void *(*)(void *, size_t))next_symbol("realloc", NULL);
	return next ? next(memory, size) : NULL;
}

static void next_free(void *memory)
{
	static void (*next)(void *);
	if (!next)
		next = __libc_free ? __libc_free : (void (*)(void *))next_symbol("free", NULL);
	if (next)
		next(memory);
}

#define LARGE ((size_t)64 << 10)
#define SPAN ((size_t)64 << 10)
#define SLOTS ((size_t)1 << 16)
#define PROBES 32
#define GONE ((uintptr_t)1)

// Where the allocations lie that were moved, and by how much.
static _Atomic uintptr_t moved[SLOTS];
static _Atomic uint32_t by[SLOTS];
static _Atomic size_t number;
static _Atomic size_t pad;
static _Atomic int asked;

static size_t padding(void)
{
	if (!atomic_load(&asked)) {
		atomic_store(&pad, decimal(getenv("HOLDUP_MALLOC_PAD")));
		atomic_store(&asked, 1);
	}
	return atomic_load(&pad);
}

static size_t slot_of(uintptr_t place)
{
	return (size_t)((place >> 4) * 0x9e3779b97f4a7c15ull >> 40) % SLOTS;
}

static int remember(uintptr_t place, uint32_t bytes)
{
	for (size_t probe = 0; probe < PROBES; probe++) {
		size_t slot = (slot_of(place) + probe) % SLOTS;
		uintptr_t there = atomic_load(&moved[slot]);
		if ((there == 0 || there == GONE) &&
		    atomic_compare_exchange_strong(&moved[slot], &there, place)) {
			atomic_store(&by[slot], bytes);
			return 1;
		}
	}
	return 0;
}

// Shift of a block. `forget` removes the entry.
static uint32_t moved_by(void *memory, int forget)
{
	uintptr_t place = (uintptr_t)memory;
	for (size_t probe = 0; probe < PROBES; probe++) {
		size_t slot = (slot_of(place) + probe) % SLOTS;
		uintptr_t there = atomic_load(&moved[slot]);
		if (there == 0)
			return 0;
		if (there == place) {
			uint32_t bytes = atomic_load(&by[slot]);
			if (forget)
				atomic_store(&moved[slot], GONE);
			return bytes;
		}
	}
	return 0;
}

static void *allocate(size_t size, int zeroed)
{
	size_t step = padding();
	if (step == 0 || unchanged || size < LARGE || size > SIZE_MAX - SPAN)
		return zeroed ? next_calloc(1, size) : next_malloc(size);
	size_t bytes = (atomic_fetch_add(&number, 1) * step) % SPAN & ~(size_t)15;
	char *memory = zeroed ? next_calloc(1, size + bytes) : next_malloc(size + bytes);
	if (!memory || bytes == 0 || !remember((uintptr_t)memory + bytes, (uint32_t)bytes))
		return memory;
	return memory + bytes;
}

void *malloc(size_t size)
{
	return allocate(size, 0);
}

void *calloc(size_t count, size_t size)
{
	size_t all;
	if (__builtin_mul_overflow(count, size, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	return allocate(all, 1);
}

void free(void *memory)
{
	if (memory)
		next_free((char *)memory - moved_by(memory, 1));
}

void *realloc(void *memory, size_t size)
{
	uint32_t bytes = memory ? moved_by(memory, 0) : 0;
	if (bytes == 0)
		return memory ? next_realloc(memory, size) : allocate(size, 0);
	if (size > SIZE_MAX - bytes) {
		errno = ENOMEM;
		return NULL;
	}
	// Removed first, because another block may get the old place.
	moved_by(memory, 1);
	char *again = next_realloc((char *)memory - bytes, size + bytes);
	if (!again) {
		remember((uintptr_t)memory, bytes);
		return NULL;
	}
	if (remember((uintptr_t)again + bytes, bytes))
		return again + bytes;
	memmove(again, again + bytes, size);
	return again;
}

// musl's aligned_alloc fails in a program that replaces malloc and not aligned_alloc.
void *aligned_alloc(size_t alignment, size_t size)
{
	static void *(*real)(size_t, size_t);
	if (!real)
		real = (void *(*)(size_t, size_t))next_symbol("aligned_alloc", __libc_memalign);
	return real ? real(alignment, size) : NULL;
}

size_t malloc_usable_size(void *memory)
{
	static size_t (*real)(void *);
	if (!real)
		real = (size_t (*)(void *))next_symbol("malloc_usable_size", __libc_malloc ? glibc_usable_size : NULL);
	uint32_t bytes = memory ? moved_by(memory, 0) : 0;
	return real && memory ? real((char *)memory - bytes) - bytes : 0;
}

// The k-th thread's CPU among the allowed CPUs, in order. "Distant first" alternates between the first and
// the second half, because hardware threads of a core have adjacent numbers or are half the machine apart.
static int cpu_of(size_t thread, int spread, cpu_set_t *allowed)
{
	int count = CPU_COUNT(allowed);
	if (count < 1)
		return -1;
	int wanted = (int)(thread % (size_t)count);
	if (spread && count > 2)
		wanted = wanted / 2 + (wanted % 2) * ((count + 1) / 2);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, allowed) && wanted-- == 0)
			return cpu;
	return -1;
}

static cpu_set_t allowed_at_start;

__attribute__((constructor)) static void begin(void)
{
	sched_getaffinity(0, sizeof allowed_at_start, &allowed_at_start);
}

// "" if threads are not to be pinned.
static const char *pinning(void)
{
	const char *pin = getenv("HOLDUP_PIN");
	return pin ? pin : "";
}

static int set_thread(pthread_t thread, size_t size, const cpu_set_t *cpus)
{
	static int (*real)(pthread_t, size_t, const cpu_set_t *);
	if (!real)
		real = (int (*)(pthread_t, size_t, const cpu_set_t *))next_symbol("pthread_setaffinity_np", NULL);
	return real ? real(thread, size, cpus) : ENOSYS;
}

// A program's own binding would undo the experiment. The call succeeds without effect.
int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *cpus)
{
	return *pinning() ? 0 : set_thread(thread, size, cpus);
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *cpus)
{
	int is_ours = pid == 0 || syscall(SYS_tgkill, getpid(), pid, 0) == 0;
	if (*pinning() && is_ours)
		return 0;
	return (int)syscall(SYS_sched_setaffinity, pid, size, cpus);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	static _Atomic size_t threads;
	if (!real)
		real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))next_symbol(
			"pthread_create", NULL);
	if (!real)
		return EAGAIN;
	int result = real(thread, attributes, start, argument);
	const char *pin = pinning();
	if (result == 0 && *pin) {
		int cpu = cpu_of(atomic_fetch_add(&threads, 1), strcmp(pin, "spread") == 0, &allowed_at_start);
		cpu_set_t one;
		CPU_ZERO(&one);
		if (cpu >= 0) {
			CPU_SET(cpu, &one);
			set_thread(*thread, sizeof one, &one);
		}
	}
	return result;
}
