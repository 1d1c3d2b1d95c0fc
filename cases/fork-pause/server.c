/*
 * A server with a big cache: one thread starts a helper program again and again. Another serves requests,
 * each of which allocates new memory and frees it.
 *
 * Slow: the helper is started by fork and exec, so the page tables of the cache are copied each time.
 * Fixed (-DFIXED): by posix_spawn, which copies nothing.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 64 << 10, REQUESTS_PER_HELPER = 4000 };

static atomic_long served;
static long requests_max;

static void start_helper(void)
{
	char *arguments[] = { "/bin/true", NULL };
	pid_t child;

#ifdef FIXED
	if (posix_spawn(&child, arguments[0], NULL, NULL, arguments, NULL))
		exit(1);
#else
	child = fork();
	if (!child) {
		execv(arguments[0], arguments);
		_exit(127);
	}
#endif
	waitpid(child, NULL, 0);
}

static void *help(void *unused)
{
	while (atomic_load(&served) < requests_max)
		start_helper(), usleep(5000);
	return unused;
}

static void serve(void)
{
	char *piece = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (piece == MAP_FAILED)
		exit(1);
	memset(piece, 1, PIECE);
	munmap(piece, PIECE);
	atomic_fetch_add(&served, 1);
}

int main(int argc, char **argv)
{
	size_t bytes = (argc > 1 ? atol(argv[1]) : 2048) << 20;
	char *cache = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t helper;

	requests_max = (argc > 2 ? atol(argv[2]) : 20) * REQUESTS_PER_HELPER;
	if (cache == MAP_FAILED)
		return 1;
	madvise(cache, bytes, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < bytes; at += 4096)
		cache[at] = 1;
	pthread_create(&helper, NULL, help, NULL);
	while (atomic_load(&served) < requests_max)
		serve();
	pthread_join(helper, NULL);
	printf("progress: %ld requests\n", atomic_load(&served));
	return 0;
}
