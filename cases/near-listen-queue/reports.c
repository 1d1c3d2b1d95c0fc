/*
 * 8 clients ask a server for reports, each time by a new connection. Each report takes a second (another
 * machine makes it), and has a thread of its own: no client waits for a connection.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 8 };

static struct sockaddr_in address;
static int times;

static void *make(void *asked)
{
	struct timespec second = { 1, 0 };
	int client = (int)(intptr_t)asked;
	char order[16];

	if (read(client, order, sizeof(order)) > 0) {
		nanosleep(&second, NULL);
		if (write(client, "report", 6) != 6)
			perror("write");
	}
	close(client);
	return NULL;
}

static void *serve(void *listening)
{
	for (;;) {
		int client = accept(*(int *)listening, NULL, NULL);
		pthread_t maker;

		if (client < 0)
			return NULL;
		pthread_create(&maker, NULL, make, (void *)(intptr_t)client);
		pthread_detach(maker);
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

	times = argc > 1 ? atoi(argv[1]) : 3;
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listening, (struct sockaddr *)&address, sizeof(address)) || listen(listening, 128) ||
	    getsockname(listening, (struct sockaddr *)&address, &length)) {
		perror("listen");
		return 1;
	}
	pthread_create(&server, NULL, serve, &listening);
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&clients[i], NULL, ask, NULL);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	printf("progress: %d reports\n", CLIENTS * times);
	return 0;
}
