/*
 * Orders are paid and stored: for each one, a thread sends a request to the bank over a socket. Then it
 * writes the order through a connection to a database, of which there are two for eight threads. `orders bank
 * PATH` is the bank: it takes some milliseconds per response, for any number of parallel requests.
 *
 * Slow: a thread takes a connection first, and holds it while it waits for the bank.
 * Fixed (-DFIXED): the bank's response comes before a connection is taken.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { THREADS = 8, CONNECTIONS = 2 };

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static int free_connections = CONNECTIONS;
static uint64_t written[CONNECTIONS];
static long orders;

static void *answer_slowly(void *connection)
{
	uint32_t order;

	while (read((intptr_t)connection, &order, sizeof order) == sizeof order) {
		usleep(6000 + order * 7919 % 4000);
		if (write((intptr_t)connection, &order, sizeof order) != sizeof order)
			break;
	}
	close((intptr_t)connection);
	return NULL;
}

static int be_bank(void)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	pthread_t thread;

	unlink(address.sun_path);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
		return 1;
	for (;;) {
		intptr_t connection = accept(listener, NULL, NULL);

		pthread_create(&thread, NULL, answer_slowly, (void *)connection);
		pthread_detach(thread);
	}
}

static int connected(void)
{
	int bank = socket(AF_UNIX, SOCK_STREAM, 0);

	/* It may not be there yet. */
	for (int tries = 0; connect(bank, (struct sockaddr *)&address, sizeof address); tries++)
		if (usleep(10000), tries > 500)
			exit(1);
	return bank;
}

static __attribute__((noinline)) void ask_bank(int bank, uint32_t order)
{
	uint32_t answer;

	if (write(bank, &order, sizeof order) != sizeof order || read(bank, &answer, sizeof answer) != sizeof answer)
		exit(1);
}

static __attribute__((noinline)) int take_connection(void)
{
	int connection;

	pthread_mutex_lock(&lock);
	while (!free_connections)
		pthread_cond_wait(&given, &lock);
	connection = --free_connections;
	pthread_mutex_unlock(&lock);
	return connection;
}

static __attribute__((noinline)) void give_back(void)
{
	pthread_mutex_lock(&lock);
	free_connections++;
	pthread_cond_signal(&given);
	pthread_mutex_unlock(&lock);
}

/* What the database does for an order. */
static void write_down(int connection, uint32_t order)
{
	uint64_t sum = order + 1;

	for (int i = 0; i < 50000; i++)
		sum = sum * 6364136223846793005u + 1442695040888963407u;
	__atomic_fetch_add(&written[connection], sum, __ATOMIC_RELAXED);
}

static void *serve(void *unused)
{
	int bank = connected(), connection;

	for (;;) {
		long order = __atomic_sub_fetch(&orders, 1, __ATOMIC_RELAXED);

		if (order < 0)
			return unused;
#ifdef FIXED
		ask_bank(bank, order);
		connection = take_connection();
#else
		connection = take_connection();
		ask_bank(bank, order);
#endif
		write_down(connection, order);
		give_back();
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	long all = argc > 2 ? atol(argv[1]) : 300;

	if (argc < 3 || strlen(argv[argc - 1]) >= sizeof address.sun_path)
		return 2;
	strcpy(address.sun_path, argv[argc - 1]);
	if (!strcmp(argv[1], "bank"))
		return be_bank();
	orders = all;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, serve, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("progress: %ld orders\n", all);
	return 0;
}
