/* THREADS SECONDS: threads that wait in many places, each on a futex word of its own, for different times.
 * The word gives the exact waiting time of each place. Its stack is the estimated value. Prints "WORD NAME"
 * for each. */
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PLACES 24
static int words[PLACES];
static volatile int over;

static void __attribute__((noinline)) pause_at(int place, long ns)
{
	struct timespec time = {0, ns};

	syscall(SYS_futex, &words[place], FUTEX_WAIT_PRIVATE, 0, &time, 0, 0);
}

#define PLACE(n) \
	static void __attribute__((noinline)) place_##n(unsigned random) \
	{ \
		pause_at(n, 1000 + (random >> 8) % (2000 * (n + 1) * (n % 5 + 1))); \
		__asm__ volatile(""); \
	}
PLACE(0) PLACE(1) PLACE(2) PLACE(3) PLACE(4) PLACE(5) PLACE(6) PLACE(7) PLACE(8) PLACE(9) PLACE(10) PLACE(11)
PLACE(12) PLACE(13) PLACE(14) PLACE(15) PLACE(16) PLACE(17) PLACE(18) PLACE(19) PLACE(20) PLACE(21) PLACE(22) PLACE(23)
static void (*const places[PLACES])(unsigned) = {
	place_0, place_1, place_2, place_3, place_4, place_5, place_6, place_7, place_8, place_9, place_10, place_11,
	place_12, place_13, place_14, place_15, place_16, place_17, place_18, place_19, place_20, place_21, place_22, place_23,
};

static void *run(void *seed)
{
	unsigned random = (unsigned)(uintptr_t)seed * 2654435761u | 1;

	while (!over) {
		random ^= random << 13;
		random ^= random >> 17;
		random ^= random << 5;
		places[random % PLACES](random);
	}
	return 0;
}

int main(int count, char **arguments)
{
	int threads = count > 1 ? atoi(arguments[1]) : 8;
	pthread_t thread;

	for (int place = 0; place < PLACES; place++)
		printf("%lu place_%d\n", (unsigned long)(uintptr_t)&words[place], place);
	fflush(stdout);
	for (int number = 1; number <= threads; number++)
		pthread_create(&thread, 0, run, (void *)(uintptr_t)number);
	sleep(count > 2 ? atoi(arguments[2]) : 5);
	over = 1;
	return 0;
}
