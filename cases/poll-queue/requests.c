/*
 * A client makes requests, and a worker answers them. Each request needs the last response.
 *
 * Slow: the worker polls once per millisecond for a request.
 * Fixed (-DFIXED): it waits for one with a condition variable.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 60000, LOOK_EVERY_US = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static unsigned long request, answer;
static int has_request, has_answer, is_closed;

static unsigned long mix(unsigned long number)
{
	for (int i = 0; i < ROUNDS; i++)
		number = (number ^ (number >> 29)) * 0xbf58476d1ce4e5b9UL + i;
	return number;
}

/* Takes the next request. 0 if there are no more. */
static int next(unsigned long *number)
{
	int is_there;

	pthread_mutex_lock(&lock);
	while (!has_request && !is_closed) {
#ifdef FIXED
		pthread_cond_wait(&asked, &lock);
#else
		pthread_mutex_unlock(&lock);
		usleep(LOOK_EVERY_US);
		pthread_mutex_lock(&lock);
#endif
	}
	is_there = has_request;
	has_request = 0;
	*number = request;
	pthread_mutex_unlock(&lock);
	return is_there;
}

static void *work(void *unused)
{
	unsigned long number;

	while (next(&number)) {
		number = mix(number);
		pthread_mutex_lock(&lock);
		answer = number;
		has_answer = 1;
		pthread_cond_signal(&answered);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

static unsigned long ask(unsigned long number)
{
	pthread_mutex_lock(&lock);
	request = number;
	has_request = 1;
	pthread_cond_signal(&asked);
	while (!has_answer)
		pthread_cond_wait(&answered, &lock);
	has_answer = 0;
	number = answer;
	pthread_mutex_unlock(&lock);
	return number;
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1000;
	unsigned long number = 1;
	pthread_t worker;

	pthread_create(&worker, NULL, work, NULL);
	for (long i = 0; i < count; i++)
		number = mix(ask(number));
	pthread_mutex_lock(&lock);
	is_closed = 1;
	pthread_cond_signal(&asked);
	pthread_mutex_unlock(&lock);
	pthread_join(worker, NULL);
	fprintf(stderr, "%016lx\n", number);
	printf("progress: %ld requests\n", count);
	return 0;
}
