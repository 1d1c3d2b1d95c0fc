/*
 * 24 clients ask one server, each time by a new connection. The server accepts one connection at a time,
 * responds, and closes it. Its listen queue holds 3 connections (one more than it requested). A connection
 * that arrives while the queue is full is dropped, and retried after a second. With FIXED the queue holds as
 * many as there are clients.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef FIXED
enum { QUEUE = 128 };
#else
enum { QUEUE = 2 };
#endif

enum { CLIENTS = 24, ANSWER_NS = 1000000 };

static struct sockaddr_in address;
static int times;

static void *serve(void *listening)
{
	struct timespec answer = { 0, ANSWER_NS };
	char order[16];

	for (;;) {
		int kiosk = accept(*(int *)listening, NULL, NULL);

		if (kiosk < 0)
			return NULL;
		if (read(kiosk, order, sizeof(order)) > 0) {
			nanosleep(&answer, NULL);
			if (write(kiosk, "ok", 2) != 2)
				perror("write");
		}
		close(kiosk);
	}
}

static void *ask(void *none)
{
	char answer[16];

	for (int i = 0; i < times; i++) {
		int server = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(server, (struct sockaddr *)&address, sizeof(address)) || write(server, "order", 5) != 5)
			perror("order");
		else
			while (read(server, answer, sizeof(answer)) > 0)
				;
		close(server);
	}
	return none;
}

int main(int argc, char **argv)
{
	int listening = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof(address);
	pthread_t server, clients[CLIENTS];

	times = argc > 1 ? atoi(argv[1]) : 20;
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listening, (struct sockaddr *)&address, sizeof(address)) || listen(listening, QUEUE) ||
	    getsockname(listening, (struct sockaddr *)&address, &length)) {
		perror("listen");
		return 1;
	}
	pthread_create(&server, NULL, serve, &listening);
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&clients[i], NULL, ask, NULL);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	printf("progress: %d orders\n", CLIENTS * times);
	return 0;
}
