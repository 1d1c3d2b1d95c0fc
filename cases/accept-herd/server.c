/*
 * A server whose threads wait for connections, each with an epoll instance of its own on the same listening
 * socket. Clients connect one after the other, send a request, and get a response.
 *
 * Slow: a connection wakes every thread. One accepts it, the others find nothing.
 * Fixed (-DFIXED): EPOLLEXCLUSIVE wakes only one.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 24, CLIENTS = 2 };

static int listener;
static struct sockaddr_in address;
static long asks_each;

static void answer(int connection)
{
	uint64_t question;

	while (read(connection, &question, sizeof question) == sizeof question) {
		for (int i = 0; i < 5000; i++)
			question = question * 6364136223846793005u + 1442695040888963407u;
		if (write(connection, &question, sizeof question) != sizeof question)
			break;
	}
	close(connection);
}

static void *serve(void *unused)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);

#ifdef FIXED
	event.events |= EPOLLEXCLUSIVE;
#endif
	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
	while (epoll_wait(epoll, &event, 1, -1) >= 0) {
		int connection = accept4(listener, NULL, NULL, 0);

		if (connection >= 0)
			answer(connection);
	}
	return unused;
}

static void *ask(void *sum)
{
	for (long i = 0; i < asks_each; i++) {
		int connection = socket(AF_INET, SOCK_STREAM, 0);
		uint64_t question = i, reply;

		if (connect(connection, (struct sockaddr *)&address, sizeof address) ||
		    write(connection, &question, sizeof question) != sizeof question ||
		    read(connection, &reply, sizeof reply) != sizeof reply)
			exit(1);
		*(uint64_t *)sum ^= reply;
		close(connection);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	socklen_t length = sizeof address;
	pthread_t thread, clients[CLIENTS];
	uint64_t sums[CLIENTS * 16] = { 0 };

	asks_each = (argc > 1 ? atol(argv[1]) : 10000) / CLIENTS;
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 128) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, serve, NULL);
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&clients[i], NULL, ask, &sums[i * 16]);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	fprintf(stderr, "%016lx\n", (unsigned long)(sums[0] ^ sums[16]));
	printf("progress: %ld connections\n", asks_each * CLIENTS);
	return 0;
}
