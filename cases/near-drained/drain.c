/*
 * A server reads messages of 4 KiB from non-blocking sockets, each until it is empty: the last read fails
 * with EAGAIN, as intended. It reads the clock for each message, which needs no syscall, and computes a sum.
 * It notifies a worker by an eventfd (8 bytes) once per many messages.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PEERS = 4, MESSAGE = 4096, BATCH = 64 };

static int pairs[PEERS][2], bell;
static long messages_each, batches, stamped;

static uint64_t sum_of(const unsigned char *text, int length)
{
	uint64_t sum = 5381;

	for (int round = 0; round < 4; round++)
		for (int i = 0; i < length; i++)
			sum = sum * 33 + text[i];
	return sum;
}

static void *send_all(void *unused)
{
	static unsigned char text[MESSAGE];

	for (long i = 0; i < messages_each * PEERS; i++) {
		text[i % MESSAGE]++;
		text[0] = sum_of(text + 1, MESSAGE / 2);
		if (write(pairs[i / 8 % PEERS][1], text, MESSAGE) != MESSAGE)
			exit(1);
	}
	for (int i = 0; i < PEERS; i++)
		close(pairs[i][1]);
	return unused;
}

static void *count_batches(void *unused)
{
	uint64_t rung;

	while (batches < messages_each * PEERS / BATCH && read(bell, &rung, sizeof rung) == sizeof rung)
		batches += rung;
	return unused;
}

/* All that a socket holds. True if the other end is closed. */
static int drain(int socket, uint64_t *sum)
{
	unsigned char text[MESSAGE];
	uint64_t one = 1;
	struct timespec now;
	ssize_t length;

	while ((length = read(socket, text, sizeof text)) > 0) {
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
		*sum += sum_of(text, length) ^ now.tv_nsec;
		if (++stamped % BATCH == 0 && write(bell, &one, sizeof one) != sizeof one)
			exit(1);
	}
	return length == 0;
}

int main(int argc, char **argv)
{
	int poll = epoll_create1(0), open_count = PEERS;
	struct epoll_event events[PEERS];
	pthread_t sender, worker;
	uint64_t sum = 0;

	messages_each = (argc > 1 ? atol(argv[1]) : 40000) / BATCH * BATCH;
	bell = eventfd(0, 0);
	for (int i = 0; i < PEERS; i++) {
		struct epoll_event wanted = { .events = EPOLLIN | EPOLLET, .data.fd = i };

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) || fcntl(pairs[i][0], F_SETFL, O_NONBLOCK) ||
		    epoll_ctl(poll, EPOLL_CTL_ADD, pairs[i][0], &wanted))
			return 1;
	}
	pthread_create(&worker, NULL, count_batches, NULL);
	pthread_create(&sender, NULL, send_all, NULL);
	while (open_count) {
		int count = epoll_wait(poll, events, PEERS, -1);

		for (int i = 0; i < count; i++)
			if (drain(pairs[events[i].data.fd][0], &sum)) {
				epoll_ctl(poll, EPOLL_CTL_DEL, pairs[events[i].data.fd][0], NULL);
				open_count--;
			}
	}
	pthread_join(sender, NULL);
	pthread_join(worker, NULL);
	fprintf(stderr, "%016lx, %ld batches\n", (unsigned long)sum, batches);
	printf("progress: %ld messages\n", messages_each * PEERS);
	return 0;
}
