/*
 * A server with one event loop. It answers short questions at once, and now and then it is asked for a report, which takes it some
 * 40 ms. While it makes the report nobody else is answered. With FIXED it makes a piece of the report at a time and looks for
 * questions in between. The clients are `desk SOCKET client`, a program of its own.
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
static long questions, wanted;
/* The report that is being made: for whom, the next row, the sum so far. */
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

static void answer(int end)
{
	char question;

	if (read(end, &question, 1) != 1)
		exit(1);
	if (question == 'r') {
		reader = end;
	} else {
		questions++;
		if (write(end, "a", 1) != 1)
			perror("answer");
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
	while (questions < wanted) {
		if (poll(ends, CLIENTS, reader < 0 ? -1 : 0) < 0)
			return 1;
		for (int i = 0; i < CLIENTS; i++)
			if (ends[i].revents)
				answer(ends[i].fd);
		if (reader >= 0)
			make_report();
	}
	printf("progress: %ld answers\n", questions);
	return 0;
}

/* Asks until it is killed; a server that ended may come back. */
static int ask(char question, long between_ns)
{
	struct timespec between = { 0, between_ns };

	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		int server = socket(AF_UNIX, SOCK_STREAM, 0);
		char answer;

		if (connect(server, (struct sockaddr *)&address, sizeof(address)) == 0)
			while (write(server, &question, 1) == 1 && read(server, &answer, 1) == 1)
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
			return ask('q', BETWEEN_NS);
	return ask('r', BETWEEN_REPORTS_NS);
}
