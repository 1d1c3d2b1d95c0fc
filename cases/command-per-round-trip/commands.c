// Counts page views in a store on the same machine, through one connection.
//
// Slow: each command waits for the response of the one before. Client and store take turns, and each sleeps until
// the other has sent. A round trip takes several times as long as the command itself.
// Fixed (-DFIXED): 64 commands go out in one message (pipelining), and their responses come back together.
// With -DSCAN (near-busy-store) each command also makes the store search all of its counters.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 7391, PAGES = 1000, COMMAND = 16, RESPONSE = 8 };
#ifdef FIXED
enum { AT_ONCE = 64 };
#else
enum { AT_ONCE = 1 };
#endif
#ifdef SCAN
enum { COUNTERS = 40000 };
#else
enum { COUNTERS = PAGES };
#endif

static unsigned counters[COUNTERS];

static struct sockaddr_in address(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return at;
}

static void send_at_once(int socket)
{
	int yes = 1;

	setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

// Receives whole messages of this size. Returns how many bytes, 0 at the end.
static ssize_t receive(int socket, char *buffer, size_t room, size_t size)
{
	ssize_t all = 0;

	do {
		ssize_t got = recv(socket, buffer + all, room - all, 0);

		if (got <= 0)
			return 0;
		all += got;
	} while (all % size);
	return all;
}

static unsigned increment(unsigned page)
{
	unsigned views = ++counters[page % COUNTERS];

#ifdef SCAN
	unsigned more = 0;

	for (unsigned i = 0; i < COUNTERS; i++)
		more += counters[i] > views;
	return more;
#endif
	return views;
}

static int store(void)
{
	struct sockaddr_in at = address();
	int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 16))
		return 1;
	for (;;) {
		static char commands[64 * COMMAND], responses[64 * RESPONSE];
		int client = accept(listener, NULL, NULL);
		ssize_t got;

		send_at_once(client);
		while ((got = receive(client, commands, sizeof(commands), COMMAND)) > 0) {
			int count = got / COMMAND;

			for (int i = 0; i < count; i++)
				snprintf(responses + i * RESPONSE, RESPONSE, "%6u", increment(atoi(commands + i * COMMAND + 5)) % 1000000);
			if (write(client, responses, count * RESPONSE) < 0)
				break;
		}
		close(client);
	}
}

static int connected(void)
{
	struct sockaddr_in at = address();

	for (int times = 0; times < 500; times++) {
		int connection = socket(AF_INET, SOCK_STREAM, 0);

		if (!connect(connection, (struct sockaddr *)&at, sizeof(at)))
			return connection;
		close(connection);
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	return -1;
}

int main(int argc, char **argv)
{
	static char commands[AT_ONCE * COMMAND], responses[AT_ONCE * RESPONSE];
	int connection, views;

	if (argc > 1 && !strcmp(argv[1], "store"))
		return store();
	views = argc > 1 ? atoi(argv[1]) : 40000;
	connection = connected();
	if (connection < 0)
		return 1;
	send_at_once(connection);
	for (int view = 0; view < views; view += AT_ONCE) {
		for (int i = 0; i < AT_ONCE; i++)
			snprintf(commands + i * COMMAND, COMMAND, "INCR %06d", (view + i) * 7 % PAGES);
		if (write(connection, commands, sizeof(commands)) < 0)
			return 1;
		for (size_t got = 0; got < sizeof(responses);) {
			ssize_t more = receive(connection, responses, sizeof(responses) - got, RESPONSE);

			if (more <= 0)
				return 1;
			got += more;
		}
	}
	printf("progress: %d commands\n", views);
	return 0;
}
