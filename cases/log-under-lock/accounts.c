/*
 * Several threads move money between accounts. Now and then one of them saves a checkpoint of all accounts to
 * the disk.
 *
 * Slow: the checkpoint is written and forced to the disk under the lock of the accounts.
 * Fixed (-DFIXED): the accounts are copied under the lock, and the copy is written after its release.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ACCOUNTS = 4096, THREADS_MAX = 64, MOVES_PER_CHECKPOINT = 8, CHECK_ROUNDS = 12000 };

struct worker {
	pthread_t thread;
	const char *path;
	int number;
	long moves;
	unsigned long random, checked;
};

static long accounts[ACCOUNTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static unsigned long next_random(unsigned long *state)
{
	*state = *state * 6364136223846793005UL + 1442695040888963407UL;
	return *state >> 33;
}

/* What a move costs besides the move: it is signed. */
static unsigned long sign(unsigned long seed)
{
	for (int i = 0; i < CHECK_ROUNDS; i++)
		seed = (seed ^ (seed >> 29)) * 0xbf58476d1ce4e5b9UL + i;
	return seed;
}

static void save(int file, const long *balances)
{
	size_t bytes = sizeof(accounts);

	if (pwrite(file, balances, bytes, 0) != (ssize_t)bytes || fdatasync(file) != 0)
		die("save");
}

static void move(struct worker *worker, int file, long number)
{
	int is_checkpoint = number % MOVES_PER_CHECKPOINT == 0;
	long amount = (long)(next_random(&worker->random) % 100);
#ifdef FIXED
	long copy[ACCOUNTS];
#endif

	pthread_mutex_lock(&lock);
	accounts[next_random(&worker->random) % ACCOUNTS] -= amount;
	accounts[next_random(&worker->random) % ACCOUNTS] += amount;
#ifdef FIXED
	if (is_checkpoint)
		memcpy(copy, accounts, sizeof(accounts));
	pthread_mutex_unlock(&lock);
	if (is_checkpoint)
		save(file, copy);
#else
	if (is_checkpoint)
		save(file, accounts);
	pthread_mutex_unlock(&lock);
#endif
}

static void *run(void *argument)
{
	struct worker *worker = argument;
	char path[4096];
	int file;

	snprintf(path, sizeof(path), "%s.%d", worker->path, worker->number);
	file = open(path, O_WRONLY | O_CREAT, 0644);
	if (file < 0)
		die(path);
	for (long i = 0; i < worker->moves; i++) {
		worker->checked ^= sign(i);
		move(worker, file, i);
	}
	close(file);
	unlink(path);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	const char *path = argc > 1 ? argv[1] : "journal";
	int threads = argc > 2 ? atoi(argv[2]) : 4;
	long moves = argc > 3 ? atol(argv[3]) : 1000, sum = 0;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .path = path, .number = i, .moves = moves, .random = i };
		pthread_create(&workers[i].thread, NULL, run, &workers[i]);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < ACCOUNTS; i++)
		sum += accounts[i];
	printf("progress: %ld moves\n", moves * threads);
	return sum == 0 ? 0 : 1;
}
