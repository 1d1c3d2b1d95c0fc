/*
 * A client sends requests to a server over TCP, one after the other.
 *
 * Slow: it writes the head of a message, then its body. The second small segment is held back until the first
 * one is acknowledged (Nagle). The server delays that acknowledgement by 40 ms, because it has nothing to
 * send yet.
 * Fixed (-DFIXED): one write for both.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct head { uint32_t length, number; };
struct body { char text[24]; };

static int read_all(int from, void *to, size_t length)
{
	for (size_t had = 0; had < length;) {
		ssize_t got = read(from, (char *)to + had, length - had);

		if (got <= 0)
			return 0;
		had += got;
	}
	return 1;
}

static void *serve(void *listener)
{
	int connection = accept(*(int *)listener, NULL, NULL);
	struct head head;
	struct body body;

	while (read_all(connection, &head, sizeof head) && read_all(connection, &body, sizeof body))
		if (write(connection, &head, sizeof head) != sizeof head)
			break;
	close(connection);
	return NULL;
}

static void send_question(int server, uint32_t number)
{
	struct head head = { sizeof(struct body), number };
	struct body body = { "what is the time, please" };
#ifdef FIXED
	struct iovec parts[] = { { &head, sizeof head }, { &body, sizeof body } };

	if (writev(server, parts, 2) != sizeof head + sizeof body)
		exit(1);
#else
	if (write(server, &head, sizeof head) != sizeof head || write(server, &body, sizeof body) != sizeof body)
		exit(1);
#endif
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int questions = argc > 1 ? atoi(argv[1]) : 50, server = socket(AF_INET, SOCK_STREAM, 0);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof address;
	struct head answer;
	pthread_t thread;

	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		return 1;
	pthread_create(&thread, NULL, serve, &listener);
	if (connect(server, (struct sockaddr *)&address, length))
		return 1;
	for (int i = 0; i < questions; i++) {
		send_question(server, i);
		if (!read_all(server, &answer, sizeof answer) || answer.number != (uint32_t)i)
			return 1;
	}
	close(server);
	pthread_join(thread, NULL);
	printf("progress: %d answers\n", questions);
	return 0;
}
