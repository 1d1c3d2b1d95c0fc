/*
 * A client of a server that needs 20 to 60 ms of work for each response, and sends no other data. Its waits
 * are about as long as a delayed acknowledgement, but none of them is one.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *listener)
{
	int connection = accept(*(int *)listener, NULL, NULL);
	uint64_t question;

	while (read(connection, &question, sizeof question) == sizeof question) {
		long rounds = 8000000 + question * 2654435761u % 16000000;

		for (long i = 0; i < rounds; i++)
			question ^= question << 13, question ^= question >> 7, question ^= question << 17;
		if (write(connection, &question, sizeof question) != sizeof question)
			break;
	}
	close(connection);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int questions = argc > 1 ? atoi(argv[1]) : 40, server = socket(AF_INET, SOCK_STREAM, 0);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof address;
	uint64_t text = 42;
	pthread_t thread;

	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		return 1;
	pthread_create(&thread, NULL, serve, &listener);
	if (connect(server, (struct sockaddr *)&address, length))
		return 1;
	for (int i = 0; i < questions; i++)
		if (write(server, &text, sizeof text) != sizeof text || read(server, &text, sizeof text) != sizeof text)
			return 1;
	close(server);
	pthread_join(thread, NULL);
	fprintf(stderr, "%016lx\n", (unsigned long)text);
	printf("progress: %d answers\n", questions);
	return 0;
}
