/*
 * Four threads resolve names, like a crawler before it connects. The first of the two name servers receives
 * requests and never responds. The C library waits for a second, and then asks the other one, which responds
 * at once. `lookups servers` runs both servers.
 *
 * Slow: the dead server is the first of the list.
 * Fixed (-DFIXED): it is the last.
 */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netinet/in.h>
#include <pthread.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 4, DEAD = 15353, ALIVE = 15354 };

static long wanted, found;

static int bound(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int server = socket(AF_INET, SOCK_DGRAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(server, (struct sockaddr *)&address, sizeof address))
		exit(1);
	return server;
}

/* Every name has the same address. */
static int be_servers(void)
{
	static const unsigned char answer[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1 };
	int alive = bound(ALIVE);
	unsigned char packet[1024];
	struct sockaddr_in who;

	bound(DEAD);
	for (;;) {
		socklen_t length = sizeof who;
		ssize_t bytes = recvfrom(alive, packet, 512, 0, (struct sockaddr *)&who, &length);

		if (bytes < 12)
			continue;
		packet[2] |= 0x80; /* a response ... */
		packet[7] = 1;     /* ... with one answer, behind the question, and nothing more. */
		packet[11] = 0;
		memcpy(packet + bytes, answer, sizeof answer);
		sendto(alive, packet, bytes + sizeof answer, 0, (struct sockaddr *)&who, length);
	}
}

static void *look_up(void *unused)
{
#ifdef FIXED
	const int ports[] = { ALIVE, DEAD };
#else
	const int ports[] = { DEAD, ALIVE };
#endif
	struct __res_state state = { 0 };
	unsigned char reply[1024];
	char name[64];

	if (res_ninit(&state))
		exit(1);
	state.nscount = 2;
	state.retrans = 1;
	state.options &= ~(RES_USE_EDNS0 | RES_ROTATE);
	for (int i = 0; i < 2; i++) {
		state.nsaddr_list[i].sin_family = AF_INET;
		state.nsaddr_list[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		state.nsaddr_list[i].sin_port = htons(ports[i]);
	}
	for (;;) {
		long number = __atomic_fetch_sub(&wanted, 1, __ATOMIC_RELAXED);

		if (number <= 0)
			return unused;
		snprintf(name, sizeof name, "host%ld.example.", number);
		if (res_nquery(&state, name, ns_c_in, ns_t_a, reply, sizeof reply) > 0)
			__atomic_fetch_add(&found, 1, __ATOMIC_RELAXED);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "servers"))
		return be_servers();
	wanted = atol(argv[1]);
	/* The servers may not run yet: a request to a port without a server fails at once. */
	usleep(100000);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, look_up, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("progress: %ld names\n", found);
	return 0;
}
