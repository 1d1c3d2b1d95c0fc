// What these libraries use of the program's libc. They are linked without a libc of their own, so that one file
// works in programs of glibc and of musl. Symbols have no version. A weak symbol that the libc lacks is NULL.
#ifndef HOLDUP_PRELOAD_LIBC_H
#define HOLDUP_PRELOAD_LIBC_H
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define WEAK __attribute__((weak))

// Before glibc 2.34, only programs that use libdl have it.
extern void *dlsym(void *handle, const char *name) WEAK;

// glibc's allocator by its internal names.
extern void *__libc_malloc(size_t) WEAK;
extern void *__libc_calloc(size_t, size_t) WEAK;
extern void *__libc_realloc(void *, size_t) WEAK;
extern void __libc_free(void *) WEAK;
extern void *__libc_memalign(size_t, size_t) WEAK;

// The next definition of `name` behind this library, `otherwise` if there is none.
static inline void *next_symbol(const char *name, void *otherwise)
{
	void *found = dlsym ? dlsym(RTLD_NEXT, name) : NULL;
	return found ? found : otherwise;
}

// Usable bytes of a block of glibc's allocator, for a program without dlsym. The word before the block holds the
// chunk's size and flags (glibc, malloc/malloc.c). Bit 1 is set for a chunk
// that is a mapping.
static inline size_t glibc_usable_size(void *block)
{
	size_t word = ((const size_t *)block)[-1];
	size_t head = word & 2 ? 2 * sizeof(size_t) : sizeof(size_t);
	return (word & ~(size_t)7) - head;
}

// Value of a decimal number, 0 for other text.
static inline uint64_t decimal(const char *text)
{
	uint64_t value = 0;
	for (; text && *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

#endif
