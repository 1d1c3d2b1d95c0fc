// Touches fresh pages, and nothing else: COUNT page faults.
//
// faults COUNT
#include <stdlib.h>
#include <sys/mman.h>

#define PAGES 1024
#define PAGE 4096

int main(int count, char **words)
{
	long faults = count > 1 ? atol(words[1]) : 1000000;
	char *block = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED || madvise(block, PAGES * PAGE, MADV_NOHUGEPAGE))
		return 1;
	for (long done = 0; done < faults; done += PAGES) {
		for (long page = 0; page < PAGES; page++)
			*(volatile char *)(block + page * PAGE) = 1;
		if (madvise(block, PAGES * PAGE, MADV_DONTNEED))
			return 1;
	}
	return 0;
}
