/*
 * Two stages hand blocks to each other by two pipes, with room for some: both always have something to do.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK 4096

static int full[2], blocks;

static uint64_t work(uint64_t seed)
{
    for (int round = 0; round < 150000; round++)
        seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed;
}

static void *read_stage(void *unused)
{
    (void)unused;
    uint64_t block[BLOCK / 8] = {1};
    for (int number = 0; number < blocks; number++) {
        block[0] = work(block[0]);
        if (write(full[1], block, sizeof(block)) != sizeof(block))
            exit(1);
    }
    close(full[1]);
    return NULL;
}

static void *write_stage(void *sum)
{
    uint64_t block[BLOCK / 8], *all = sum;
    while (read(full[0], block, sizeof(block)) == sizeof(block))
        *all += work(block[0]);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t stages[2];
    uint64_t sum = 0;
    blocks = argc > 1 ? atoi(argv[1]) : 4000;
    if (pipe(full))
        return 1;
    pthread_create(&stages[0], NULL, read_stage, NULL);
    pthread_create(&stages[1], NULL, write_stage, &sum);
    pthread_join(stages[0], NULL);
    pthread_join(stages[1], NULL);
    printf("sum: %lu\nprogress: %d blocks\n", (unsigned long)sum, blocks);
    return 0;
}
