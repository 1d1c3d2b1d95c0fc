/*
 * A server with one event loop. It answers short requests at once. From time to time a client requests a report, which takes the
 * server some 40 ms: no other client is served until it is done. With FIXED the server makes one piece of the report at a time, and
 * polls for requests between the pieces. The clients are a program of their own: `desk SOCKET client`.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifdef FIXED
enum { PIECE = 100 };
#else
enum { PIECE = 1 << 30 };
#endif

enum { CLIENTS = 4, ROWS = 100000, ROUNDS = 160, BETWEEN_NS = 500000, BETWEEN_REPORTS_NS = 40000000 };

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static struct pollfd ends[CLIENTS + 1];
static long responses, wanted;
/* The current report: its client, the next row, the sum so far. */
static int reader = -1, row;
static unsigned sum;

static void report_rows(int count)
{
	for (; count > 0 && row < ROWS; count--, row++)
		for (int round = 0; round < ROUNDS; round++)
			sum = (sum ^ (unsigned)row) * 16777619u + (unsigned)round;
}

static void make_report(void)
{
	report_rows(PIECE);
	if (row < ROWS)
		return;
	if (write(reader, &sum, 1) != 1)
		perror("report");
	reader = -1;
	row = 0;
}

static void respond(int end)
{
	char request;

	if (read(end, &request, 1) != 1)
		exit(1);
	if (request == 'r') {
		reader = end;
	} else {
		responses++;
		if (write(end, "a", 1) != 1)
			perror("response");
	}
}

static int serve(void)
{
	int listening = socket(AF_UNIX, SOCK_STREAM, 0);

	unlink(address.sun_path);
	if (bind(listening, (struct sockaddr *)&address, sizeof(address)) || listen(listening, CLIENTS)) {
		perror(address.sun_path);
		return 1;
	}
	for (int i = 0; i < CLIENTS; i++)
		ends[i] = (struct pollfd){ .fd = accept(listening, NULL, NULL), .events = POLLIN };
	while (responses < wanted) {
		if (poll(ends, CLIENTS, reader < 0 ? -1 : 0) < 0)
			return 1;
		for (int i = 0; i < CLIENTS; i++)
			if (ends[i].revents)
				respond(ends[i].fd);
		if (reader >= 0)
			make_report();
	}
	printf("progress: %ld responses\n", responses);
	return 0;
}

/* Sends requests until it is killed. The server may be restarted. */
static int send_requests(char request, long between_ns)
{
	struct timespec between = { 0, between_ns };

	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		int server = socket(AF_UNIX, SOCK_STREAM, 0);
		char response;

		if (connect(server, (struct sockaddr *)&address, sizeof(address)) == 0)
			while (write(server, &request, 1) == 1 && read(server, &response, 1) == 1)
				nanosleep(&between, NULL);
		close(server);
		nanosleep(&between, NULL);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	strncpy(address.sun_path, argv[1], sizeof(address.sun_path) - 1);
	wanted = atol(argv[2]);
	if (wanted > 0)
		return serve();
	for (int i = 1; i < CLIENTS; i++)
		if (fork() == 0)
			return send_requests('q', BETWEEN_NS);
	return send_requests('r', BETWEEN_REPORTS_NS);
}
