// Loaded into a program by `holdup run --allocs`. Samples the bytes that it allocates, and reports address,
// size and free of each sampled allocation.
//
// HOLDUP_ALLOCS=n: mean sampling interval in bytes. Each byte is sampled independently (Poisson). OWN_BYTES
// are added to the size of each allocation, so that objects of a few bytes are seen too. An allocation of s
// bytes is sampled with probability 1 - exp(-(s + OWN_BYTES) / n).
//
// A report is a call of one of two empty functions. BPF has a probe on each (bpf/allocs.h), which takes the
// stack. This library therefore writes nothing and takes no lock. An allocation that is not sampled costs a
// subtraction and a comparison. A mark before the block shows that it was sampled. It is in the place of
// glibc's block size, and no size can have its value.
//
// Calls are passed on to the allocator that the program would otherwise use, glibc's or another shared
// library's.
#define _GNU_SOURCE
#include "libc.h"
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OURS __attribute__((visibility("hidden")))
#define SLOW __attribute__((noinline, cold))
#define RARE(condition) __builtin_expect(!!(condition), 0)

#define PAGE_MASK ((uintptr_t)4095)
#define HEAD ((size_t)16)
#define OWN_BYTES ((size_t)32) // as holdup_events::tables::ALLOCATION_OWN_BYTES
// Stored before a sampled block. As a block size of glibc, it would exceed the address space.
#define MARK 0xa3d5b1e79c4f8263ull
#define KEY 0x5bd1e995a7c3f00dull
#define SIZE_LIMIT ((size_t)PTRDIFF_MAX / 2)

// Probed: a nop first, which the kernel need not run by itself.
#define MARKER(name)                                                                                          \
	__asm__(".text\n.hidden " name "\n.globl " name "\n.type " name ",@function\n" name ":\n.cfi_startproc\n" \
		"nop\nret\n.cfi_endproc\n.size " name ",.-" name "\n")
MARKER("holdup_allocated");
MARKER("holdup_freed");
extern OURS void holdup_allocated(void *block, size_t bytes, uint64_t every_bytes);
extern OURS void holdup_freed(void *block);

static void *first_malloc(size_t);
static void *first_calloc(size_t, size_t);
static void *first_realloc(void *, size_t);
static void first_free(void *);
static void *first_memalign(size_t, size_t);
static size_t first_usable(void *);

// The allocator behind this one.
static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	void *(*memalign)(size_t, size_t);
	size_t (*usable)(void *);
} next = { first_malloc, first_calloc, first_realloc, first_free, first_memalign, first_usable };

extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) WEAK;
extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void)) WEAK;
// glibc's has a word before each block, also before one that begins a page.
static int is_glibc;
// 0 until it is known.
static uint64_t every_bytes;
static int begun;

struct thread {
	uint64_t until; // bytes until the next sampled one, 0 before the first
	uint64_t random;
	int seeded;
	int busy; // allocations in the meantime (by a signal handler) are not sampled
};
static __thread struct thread mine __attribute__((tls_model("initial-exec")));

// Memory for allocations of dlsym(3) while it looks up the allocator. Never freed.
static char early[8192] __attribute__((aligned(16)));
static size_t early_used;
static int resolving;

static void *mark(char *base, size_t offset, int told);

static void *early_block(size_t size)
{
	size_t bytes = (size + HEAD + 15) & ~(size_t)15;
	if (size > sizeof early || early_used + bytes > sizeof early) {
		errno = ENOMEM;
		return NULL;
	}
	early_used += bytes;
	return mark(early + early_used - bytes, HEAD, 0); // so that free looks twice
}

static int is_early(const void *block)
{
	return (const char *)block >= early && (const char *)block < early + sizeof early;
}

static void *(*musl_calloc)(size_t, size_t);

// musl's calloc calls malloc by its public name, and so this library's: that call is not sampled or counted again.
static void *calloc_of_musl(size_t count, size_t size)
{
	int busy = mine.busy;
	uint64_t until = mine.until;
	mine.busy = 1;
	void *block = musl_calloc(count, size);
	mine.busy = busy;
	mine.until = until;
	return block;
}

// The first call comes from the dynamic linker, before there is a second thread.
static SLOW int resolve(void)
{
	if (resolving)
		return 0;
	resolving = 1;
	void *(*malloc_)(size_t) = (void *(*)(size_t))next_symbol("malloc", __libc_malloc);
	void *(*calloc_)(size_t, size_t) = (void *(*)(size_t, size_t))next_symbol("calloc", __libc_calloc);
	void *(*realloc_)(void *, size_t) = (void *(*)(void *, size_t))next_symbol("realloc", __libc_realloc);
	void (*free_)(void *) = (void (*)(void *))next_symbol("free", __libc_free);
	// musl's memalign calls aligned_alloc by its public name, and so this library's.
	const char *aligned = __libc_malloc ? "memalign" : "aligned_alloc";
	next.memalign = (void *(*)(size_t, size_t))next_symbol(aligned, __libc_memalign);
	next.usable = (size_t (*)(void *))next_symbol("malloc_usable_size", __libc_malloc ? glibc_usable_size : NULL);
	if (!malloc_ || !calloc_ || !realloc_ || !free_ || !next.memalign || !next.usable)
		abort(); // no program without an allocator was ever linked
	next.malloc = malloc_;
	musl_calloc = calloc_;
	next.calloc = __libc_malloc ? calloc_ : calloc_of_musl;
	next.realloc = realloc_;
	next.free = free_;
	is_glibc = __libc_malloc && malloc_ == __libc_malloc;
	resolving = 0;
	return 1;
}

static void *first_malloc(size_t size)
{
	return resolve() ? next.malloc(size) : early_block(size);
}

static void *first_calloc(size_t count, size_t size)
{
	return resolve() ? next.calloc(count, size) : count && size > sizeof early / count ? NULL : early_block(count * size);
}

static void *first_realloc(void *block, size_t size)
{
	return resolve() ? next.realloc(block, size) : block ? NULL : early_block(size);
}

static void first_free(void *block)
{
	if (resolve())
		next.free(block);
}

static void *first_memalign(size_t alignment, size_t size)
{
	return resolve() ? next.memalign(alignment, size) : NULL;
}

static size_t first_usable(void *block)
{
	return resolve() ? next.usable(block) : 0;
}

// Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
static uint64_t random_number(struct thread *thread)
{
	uint64_t z = thread->random += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

// -ln(k / 2^53): k = m * 2^e with m around 1, ln m = 2 artanh((m - 1) / (m + 1)). The mathematical library is not ours to
// load into a program.
static double minus_ln(uint64_t k)
{
	int e = 63 - __builtin_clzll(k);
	double m = (double)k / (double)(1ull << e);
	if (m > 1.4142135623730951) {
		m /= 2;
		e++;
	}
	double z = (m - 1) / (m + 1), z2 = z * z, sum = 0;
	for (int n = 15; n >= 1; n -= 2)
		sum = sum * z2 + 1.0 / n;
	return (53 - e) * 0.6931471805599453 - 2 * z * sum;
}

// Bytes up to the next sampled one.
static uint64_t draw(struct thread *thread)
{
	double bytes = minus_ln((random_number(thread) >> 11) + 1) * (double)every_bytes;
	return bytes >= 1e18 ? (uint64_t)1e18 : (uint64_t)bytes + 1;
}

static void seed(struct thread *thread)
{
	static uint64_t seeds;
	struct timespec now = { 0 };
	clock_gettime(CLOCK_MONOTONIC, &now);
	thread->random = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
	thread->random ^= (uint64_t)getpid() << 40 ^ (uintptr_t)thread ^ __atomic_fetch_add(&seeds, 1, __ATOMIC_RELAXED) << 20;
	thread->seeded = 1;
	thread->until = every_bytes ? draw(thread) : UINT64_MAX;
}

// Whether an allocation of `size` that reaches the next sampled byte is sampled.
static int is_drawn(struct thread *thread, size_t size)
{
	if (thread->busy || !begun || size > SIZE_LIMIT)
		return 0;
	if (!thread->seeded)
		seed(thread);
	if (size + OWN_BYTES < thread->until) {
		thread->until -= size + OWN_BYTES;
		return 0;
	}
	thread->until = draw(thread);
	return 1;
}

#define TOLD ((uint64_t)64) // its allocation was reported, and its free will be

// Marks the block at `base` + `offset`, a power of two. The mark holds the block's address, the offset, and
// whether it was reported.
static void *mark(char *base, size_t offset, int told)
{
	uint64_t *block = (uint64_t *)(base + offset);
	uint64_t shift = (uint64_t)__builtin_ctzll(offset);
	block[-2] = ((uintptr_t)block << 16 | (told ? TOLD : 0) | shift) ^ KEY;
	block[-1] = MARK;
	return block;
}

// Offset in its allocation of a block with a valid MARK, 0 for any other block.
static size_t offset_of(const void *block)
{
	uint64_t head = ((const uint64_t *)block)[-2] ^ KEY;
	unsigned shift = head & 63;
	return head >> 16 == ((uintptr_t)block << 16) >> 16 && shift >= 4 ? (size_t)1 << shift : 0;
}

// Whether the memory before the block may be read for MARK. Another allocator may begin a mapping with a
// block.
static int may_be_marked(const void *block)
{
	return block && (is_glibc || ((uintptr_t)block & PAGE_MASK)) && !is_early(block);
}

static size_t marked_offset(const void *block)
{
	return may_be_marked(block) && ((const uint64_t *)block)[-1] == MARK ? offset_of(block) : 0;
}

static void tell(void *block, size_t size)
{
	mine.busy = 1;
	holdup_allocated(block, size, every_bytes);
	mine.busy = 0;
}

static SLOW void *malloc_at_draw(size_t size)
{
	char *base = is_drawn(&mine, size) ? next.malloc(size + HEAD) : NULL;
	if (!base)
		return next.malloc(size);
	void *block = mark(base, HEAD, 1);
	tell(block, size);
	return block;
}

void *malloc(size_t size)
{
	if (RARE(size + OWN_BYTES >= mine.until))
		return malloc_at_draw(size);
	mine.until -= size + OWN_BYTES;
	return next.malloc(size);
}

static SLOW void *calloc_at_draw(size_t count, size_t size)
{
	char *base = is_drawn(&mine, count * size) ? next.calloc(1, count * size + HEAD) : NULL;
	if (!base)
		return next.calloc(count, size);
	void *block = mark(base, HEAD, 1);
	tell(block, count * size);
	return block;
}

void *calloc(size_t count, size_t size)
{
	size_t all;
	if (RARE(__builtin_mul_overflow(count, size, &all)))
		return next.calloc(count, size); // it reports the overflow
	if (RARE(all + OWN_BYTES >= mine.until))
		return calloc_at_draw(count, size);
	mine.until -= all + OWN_BYTES;
	return next.calloc(count, size);
}

static SLOW void *memalign_at_draw(size_t alignment, size_t size)
{
	int power = alignment >= HEAD && (alignment & (alignment - 1)) == 0 && alignment <= SIZE_LIMIT / 2;
	int can = power && (is_glibc || alignment <= PAGE_MASK);
	char *base = can && is_drawn(&mine, size) ? next.memalign(alignment, size + alignment) : NULL;
	if (!base)
		return next.memalign(alignment, size);
	void *block = mark(base, alignment, 1);
	tell(block, size);
	return block;
}

void *memalign(size_t alignment, size_t size)
{
	if (alignment < HEAD && alignment && (alignment & (alignment - 1)) == 0)
		return malloc(size); // aligned to 16 bytes as it is
	if (RARE(size + OWN_BYTES >= mine.until))
		return memalign_at_draw(alignment, size);
	mine.until -= size + OWN_BYTES;
	return next.memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
	if (alignment < sizeof(void *) || (alignment & (alignment - 1)))
		return EINVAL;
	int before = errno;
	void *block = memalign(alignment, size);
	errno = before;
	if (!block)
		return ENOMEM;
	*place = block;
	return 0;
}

void *valloc(size_t size)
{
	return memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

void *pvalloc(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), whole;
	if (__builtin_add_overflow(size, page - 1, &whole)) {
		errno = ENOMEM;
		return NULL;
	}
	return memalign(page, whole & ~(page - 1));
}

// Ends a marked block: reports the free if its allocation was reported. Returns the address that the
// allocator gave.
static void *unmark(void *block, size_t offset)
{
	uint64_t *head = (uint64_t *)block - 2;
	if ((head[0] ^ KEY) & TOLD)
		holdup_freed(block);
	head[0] = head[1] = 0; // a later block at this place must not be taken for it
	return (char *)block - offset;
}

static SLOW void free_unusual(void *block)
{
	if (is_early(block))
		return;
	size_t offset = marked_offset(block);
	next.free(offset ? unmark(block, offset) : block);
}

void free(void *block)
{
	// Nothing, too, begins a page.
	if (RARE(((uintptr_t)block & PAGE_MASK) == 0) || RARE(((const uint64_t *)block)[-1] == MARK))
		return free_unusual(block);
	next.free(block);
}

// To another place, by hand.
static void *move(void *block, size_t bytes, size_t size)
{
	void *copy = malloc(size);
	if (!copy)
		return NULL;
	memcpy(copy, block, bytes < size ? bytes : size);
	free(block);
	return copy;
}

// A marked block stays marked, so that further growth needs no manual copy. It is reported again if it is
// sampled.
static void *realloc_marked(void *block, size_t offset, size_t size)
{
	int drawn = is_drawn(&mine, size);
	char *base = next.realloc(unmark(block, offset), size + offset);
	if (!base) {
		mark((char *)block - offset, offset, 0); // as before, but not reported
		return NULL;
	}
	void *grown = mark(base, offset, drawn);
	if (drawn)
		tell(grown, size);
	return grown;
}

static SLOW void *realloc_unusual(void *block, size_t size)
{
	if (is_early(block))
		return move(block, (size_t)(early + early_used - (char *)block), size);
	size_t offset = marked_offset(block);
	if (offset > HEAD) // its alignment is not realloc's to keep
		return move(block, next.usable((char *)block - offset) - offset, size);
	if (offset && size && size <= SIZE_LIMIT)
		return realloc_marked(block, offset, size);
	if (offset || !is_drawn(&mine, size))
		return next.realloc(offset ? unmark(block, offset) : block, size);
	size_t before = next.usable(block);
	char *base = next.malloc(size + HEAD);
	if (!base)
		return next.realloc(block, size);
	void *grown = mark(base, HEAD, 1);
	memcpy(grown, block, before < size ? before : size);
	next.free(block);
	tell(grown, size);
	return grown;
}

void *realloc(void *block, size_t size)
{
	if (!block)
		return malloc(size);
	if (RARE(size + OWN_BYTES >= mine.until) || RARE(((uintptr_t)block & PAGE_MASK) == 0) ||
	    RARE(((const uint64_t *)block)[-1] == MARK))
		return realloc_unusual(block, size);
	mine.until -= size + OWN_BYTES;
	return next.realloc(block, size);
}

size_t malloc_usable_size(void *block)
{
	size_t offset = marked_offset(block);
	return is_early(block) ? 0 : next.usable((char *)block - offset) - offset;
}

// Parent and child would draw the same from here on.
static void after_fork(void)
{
	mine.seeded = 0;
	mine.until = 0;
}

__attribute__((constructor)) static void begin(void)
{
	every_bytes = decimal(getenv("HOLDUP_ALLOCS"));
	if (__register_atfork)
		__register_atfork(NULL, NULL, after_fork, &begun); // the handle is any address in this library
	else if (pthread_atfork)
		pthread_atfork(NULL, NULL, after_fork);
	begun = 1;
}
