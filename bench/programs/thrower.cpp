// Four threads that recurse, throw, catch, lock and sleep.
#include <unistd.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::mutex mutex;
static long sum;

static int descend(int depth, unsigned *seed)
{
	if (depth)
		return descend(depth - 1, seed) + 1;
	if (rand_r(seed) % 3 == 0)
		throw std::runtime_error("thrown");
	std::lock_guard<std::mutex> guard(mutex);
	usleep(50);
	return ++sum & 1;
}

int main()
{
	std::vector<std::thread> threads;

	for (unsigned number = 0; number < 4; number++)
		threads.emplace_back([number] {
			unsigned seed = number;
			for (int turn = 0; turn < 4000; turn++) {
				try {
					descend(turn % 20, &seed);
				} catch (const std::exception &error) {
					std::lock_guard<std::mutex> guard(mutex);
					sum += std::string(error.what()).size();
				}
			}
		});
	for (auto &thread : threads)
		thread.join();
}
