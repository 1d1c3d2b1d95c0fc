/*
 * Pairs of threads hand datagrams of 8 KiB to each other over the loopback, a window of them at a time. The kernel's network
 * code runs in whichever thread sends, as a soft interrupt: running that no other machine took.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LENGTH = 8192, WINDOW = 8 };

static long datagrams;

static int bound(struct sockaddr_in *address)
{
	socklen_t length = sizeof *address;
	int socket_number = socket(AF_INET, SOCK_DGRAM, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(socket_number, (struct sockaddr *)address, length) ||
	    getsockname(socket_number, (struct sockaddr *)address, &length))
		exit(1);
	return socket_number;
}

static int ends[2];

/* Makes its next message from the last received one. */
static void *receive(void *unused)
{
	unsigned char text[LENGTH];
	long got = 0;

	while (got < datagrams && read(ends[1], text, LENGTH) == LENGTH) {
		for (int i = 0; i < LENGTH; i++)
			text[i] = text[i] * 31 + i;
		if (++got % WINDOW == 0 && write(ends[1], text, 1) != 1)
			exit(1);
	}
	return unused;
}

int main(int argc, char **argv)
{
	struct sockaddr_in here, there;
	unsigned char text[LENGTH];
	pthread_t receiver;

	datagrams = (argc > 1 ? atol(argv[1]) : 60000) / WINDOW * WINDOW;
	ends[0] = bound(&here);
	ends[1] = bound(&there);
	if (connect(ends[0], (struct sockaddr *)&there, sizeof there) ||
	    connect(ends[1], (struct sockaddr *)&here, sizeof here))
		return 1;
	pthread_create(&receiver, NULL, receive, NULL);
	for (long i = 0; i < datagrams; i++) {
		memset(text, (int)i, LENGTH);
		if (write(ends[0], text, LENGTH) != LENGTH || ((i + 1) % WINDOW == 0 && read(ends[0], text, LENGTH) != 1))
			return 1;
	}
	pthread_join(receiver, NULL);
	printf("progress: %ld datagrams\n", datagrams);
	return 0;
}
