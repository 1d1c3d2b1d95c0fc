/*
 * A pool of workers asks a server that needs five milliseconds for an answer, and works on what it says. The server is a
 * child process that answers on sockets, any number of questions side by side.
 *
 * Slow: as many workers as the machine has CPUs: two.
 * Fixed (-DFIXED): sixteen.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef FIXED
enum { WORKERS = 16 };
#else
enum { WORKERS = 2 };
#endif

enum { ANSWER_NS = 5000000, ROUNDS = 300000, QUEUE_MAX = 4096 };

static int sockets[WORKERS][2];
static long queue[QUEUE_MAX], queued;
static int is_closed;
static unsigned long total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Answers each question when its time has come. */
static void serve(void)
{
	struct pollfd asked[WORKERS];
	long due[WORKERS] = { 0 }, question[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		asked[i] = (struct pollfd){ .fd = sockets[i][1], .events = POLLIN };
	for (;;) {
		long next = -1, now = now_ns();
		struct timespec left;
		for (int i = 0; i < WORKERS; i++)
			if (due[i] && (next < 0 || due[i] < next))
				next = due[i];
		left.tv_sec = 0;
		left.tv_nsec = next > now ? next - now : 0;
		ppoll(asked, WORKERS, next < 0 ? NULL : &left, NULL);
		for (int i = 0; i < WORKERS; i++) {
			if (due[i] && due[i] <= now_ns()) {
				due[i] = 0;
				if (write(sockets[i][1], &question[i], sizeof(long)) < 0)
					_exit(1);
			}
			if (asked[i].revents & POLLIN) {
				if (read(sockets[i][1], &question[i], sizeof(long)) <= 0)
					_exit(0);
				due[i] = now_ns() + ANSWER_NS;
			}
		}
	}
}

static unsigned long digest(unsigned long number)
{
	for (int i = 0; i < ROUNDS; i++)
		number = (number ^ (number >> 29)) * 0xbf58476d1ce4e5b9UL + i;
	return number;
}

static void *work(void *argument)
{
	int number = (int)(long)argument;

	for (;;) {
		long question, answer;
		pthread_mutex_lock(&lock);
		while (queued == 0 && !is_closed)
			pthread_cond_wait(&not_empty, &lock);
		question = queued > 0 ? queue[--queued] : -1;
		pthread_mutex_unlock(&lock);
		if (question < 0)
			return NULL;
		if (write(sockets[number][0], &question, sizeof(question)) < 0 ||
		    read(sockets[number][0], &answer, sizeof(answer)) < 0)
			exit(1);
		answer = digest(answer);
		pthread_mutex_lock(&lock);
		total ^= answer;
		pthread_mutex_unlock(&lock);
	}
}

int main(int argc, char **argv)
{
	long questions = argc > 1 ? atol(argv[1]) : 600;
	pthread_t workers[WORKERS];
	pid_t server;

	if (questions > QUEUE_MAX)
		return 2;
	for (int i = 0; i < WORKERS; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]) != 0)
			return 1;
	server = fork();
	if (server == 0) {
		for (int i = 0; i < WORKERS; i++)
			close(sockets[i][0]);
		serve();
	}
	for (long i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, work, (void *)i);
	for (long i = 0; i < questions; i++) {
		pthread_mutex_lock(&lock);
		queue[queued++] = i;
		pthread_cond_signal(&not_empty);
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	is_closed = 1;
	pthread_cond_broadcast(&not_empty);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	for (int i = 0; i < WORKERS; i++)
		close(sockets[i][0]);
	waitpid(server, NULL, 0);
	fprintf(stderr, "%016lx\n", total);
	printf("progress: %ld questions\n", questions);
	return 0;
}
