// blocked N: N threads that block for ever at random places and depths. Says "ready" when all of them do.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/select.h>
#include <unistd.h>

#include <alloca.h>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#define FRAME __attribute__((noinline))
#define KEEP asm volatile("" ::: "memory")

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static std::mutex mutex;
static std::condition_variable condition;
static sem_t semaphore;
static int ends[2];

FRAME static int block(int kind)
{
	char byte;
	pollfd poller = {ends[0], POLLIN, 0};

	switch (kind) {
	case 0: return pthread_mutex_lock(&held);
	case 1: {
		std::unique_lock<std::mutex> lock(mutex);
		condition.wait(lock, [] { return false; });
		return 1;
	}
	case 2: return sem_wait(&semaphore);
	case 3: return read(ends[0], &byte, 1);
	case 4: return poll(&poller, 1, -1);
	case 5: return sleep(100000);
	case 6: return select(0, nullptr, nullptr, nullptr, nullptr);
	default: std::this_thread::sleep_for(std::chrono::hours(24)); return 1;
	}
}

FRAME static int wide(int depth, int kind);

FRAME static int variable(int depth, int kind)
{
	char *room = (char *)alloca(16 + depth * 24);

	memset(room, depth, 16);
	return (depth ? wide(depth - 1, kind) : block(kind)) + room[3];
}

FRAME static int wide(int depth, int kind)
{
	volatile char room[900];

	room[depth] = 1;
	int inner = depth == 0 ? block(kind) : depth % 3 == 0 ? variable(depth - 1, kind) : wide(depth - 1, kind);
	return inner + room[depth];
}

FRAME static int through_function(int depth, int kind)
{
	std::function<int()> call = [=] { return depth ? variable(depth - 1, kind) : block(kind); };

	return call() + 1;
}

FRAME static int realigned(int depth, int kind)
{
	alignas(64) volatile char room[64] = {1};

	return (depth ? through_function(depth - 1, kind) : block(kind)) + room[depth];
}

static void *start(void *number)
{
	static int (*const shapes[])(int, int) = {variable, wide, through_function, realigned};
	unsigned long choice = (unsigned long)number;

	shapes[choice % 4](choice / 4 % 22, choice / 128 % 8);
	KEEP;
	return nullptr;
}

int main(int, char **words)
{
	pthread_attr_t attributes;

	pthread_mutex_lock(&held);
	sem_init(&semaphore, 0, 0);
	if (pipe(ends))
		return 1;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 128 << 10);
	srand(7);
	for (int i = 0; i < atoi(words[1]); i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attributes, start, (void *)(unsigned long)rand())) {
			perror("pthread_create");
			return 1;
		}
	}
	sleep(1);
	puts("ready");
	fflush(stdout);
	pause();
}
