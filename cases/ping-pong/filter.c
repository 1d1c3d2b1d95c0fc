/*
 * A reader sends lines to a filter, which runs in a thread of its own. They communicate through two pipes.
 *
 * Slow: the reader sends one line and waits for the response before it sends the next.
 * Fixed (-DFIXED): it sends up to 64 lines, and reads their responses together.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef FIXED
enum { LINES_AT_ONCE = 64 };
#else
enum { LINES_AT_ONCE = 1 };
#endif

enum { LINE_BYTES = 48, WORDS = 5 };

struct line {
	char text[LINE_BYTES];
};

static const char *const unwanted[WORDS] = { "debug", "trace", "ping", "idle", "health" };
static int questions[2], answers[2];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static ssize_t fill(int from, void *into, size_t bytes_min, size_t bytes_max)
{
	size_t got = 0;

	while (got < bytes_min) {
		ssize_t more = read(from, (char *)into + got, bytes_max - got);
		if (more < 0)
			die("read");
		if (more == 0)
			return got;
		got += more;
	}
	return got;
}

static char is_wanted(const struct line *line)
{
	for (int i = 0; i < WORDS; i++)
		if (strstr(line->text, unwanted[i]))
			return 0;
	return 1;
}

static void *filter(void *unused)
{
	struct line lines[LINES_AT_ONCE];
	char verdicts[LINES_AT_ONCE];

	for (;;) {
		ssize_t bytes = fill(questions[0], lines, sizeof(lines[0]), sizeof(lines));
		size_t count = bytes / sizeof(lines[0]);
		size_t rest = bytes % sizeof(lines[0]);
		if (rest)
			count += fill(questions[0], (char *)lines + bytes, sizeof(lines[0]) - rest,
				      sizeof(lines[0]) - rest) > 0;
		if (count == 0)
			return unused;
		for (size_t i = 0; i < count; i++)
			verdicts[i] = is_wanted(&lines[i]);
		if (write(answers[1], verdicts, count) != (ssize_t)count)
			die("write");
	}
}

static void make_line(struct line *line, unsigned long number)
{
	unsigned long random = (number * 6364136223846793005UL + 1442695040888963407UL) >> 33;

	snprintf(line->text, sizeof(line->text), "%lu %s request %lx", number,
		 random % 7 < WORDS ? unwanted[random % 7] : "serves", random);
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000, kept = 0;
	struct line lines[LINES_AT_ONCE];
	char verdicts[LINES_AT_ONCE];
	pthread_t thread;

	if (pipe(questions) != 0 || pipe(answers) != 0)
		die("pipe");
	pthread_create(&thread, NULL, filter, NULL);
	for (unsigned long at = 0; at < count;) {
		unsigned long now = count - at < LINES_AT_ONCE ? count - at : LINES_AT_ONCE;
		for (unsigned long i = 0; i < now; i++)
			make_line(&lines[i], at + i);
		if (write(questions[1], lines, now * sizeof(lines[0])) != (ssize_t)(now * sizeof(lines[0])))
			die("write");
		fill(answers[0], verdicts, now, now);
		for (unsigned long i = 0; i < now; i++)
			kept += verdicts[i];
		at += now;
	}
	close(questions[1]);
	pthread_join(thread, NULL);
	fprintf(stderr, "%lu kept\n", kept);
	printf("progress: %lu lines\n", count);
	return 0;
}
