/*
 * Two threads compute. A third one waits for requests at a control socket, with a timeout of 0.1 s. At each
 * timeout, it writes down the progress of the others. No request comes, and no thread waits for it.
 */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 2 };

static int control[2];
static FILE *notes;
static long wanted, done;
static uint64_t sums[THREADS][16];

static void *compute(void *number)
{
	uint64_t value = (uintptr_t)number + 1;

	while (__atomic_sub_fetch(&wanted, 1, __ATOMIC_RELAXED) >= 0) {
		for (int i = 0; i < 1000000; i++)
			value ^= value << 13, value ^= value >> 7, value ^= value << 17;
		__atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
	}
	sums[(uintptr_t)number][0] = value;
	return NULL;
}

static void *answer(void *unused)
{
	struct pollfd asked = { .fd = control[0], .events = POLLIN };
	char question;

	while (!poll(&asked, 1, 100) || read(control[0], &question, 1) == 1) {
		fprintf(notes, "%ld done\n", __atomic_load_n(&done, __ATOMIC_RELAXED));
		fflush(notes);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS + 1];
	long all = argc > 1 ? atol(argv[1]) : 400;

	notes = fopen("/dev/null", "w");
	if (!notes || socketpair(AF_UNIX, SOCK_STREAM, 0, control))
		return 1;
	wanted = all;
	pthread_create(&threads[THREADS], NULL, answer, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, compute, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	close(control[1]);
	pthread_join(threads[THREADS], NULL);
	fprintf(stderr, "%016lx\n", (unsigned long)(sums[0][0] ^ sums[1][0]));
	printf("progress: %ld rounds\n", all);
	return 0;
}
