/*
 * Three sensors send a value each 5 ms, and wait for the receipt. The receiver has a thread for each, which
 * waits for the next value.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SENSORS 3

static int sockets[SENSORS][2];
static long values;

static void sense(int socket)
{
    const struct timespec pause = {0, 5000000};
    uint32_t receipt;
    for (uint32_t value = 1; value <= values; value++) {
        if (write(socket, &value, sizeof(value)) != sizeof(value) || read(socket, &receipt, sizeof(receipt)) != sizeof(receipt))
            exit(1);
        nanosleep(&pause, NULL);
    }
    _exit(0);
}

static void *receive(void *argument)
{
    int socket = sockets[(intptr_t)argument][0];
    uint64_t sum = 0;
    uint32_t value;
    while (read(socket, &value, sizeof(value)) == sizeof(value)) {
        uint32_t receipt = value;
        for (int round = 0; round < 20000; round++)
            receipt = receipt * 1664525u + 1013904223u;
        sum += receipt;
        if (write(socket, &receipt, sizeof(receipt)) != sizeof(receipt))
            break;
    }
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    pthread_t threads[SENSORS];
    values = argc > 1 ? atol(argv[1]) : 200;
    for (int sensor = 0; sensor < SENSORS; sensor++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[sensor]))
            return 1;
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (child == 0) {
            close(sockets[sensor][0]);
            sense(sockets[sensor][1]);
        }
        close(sockets[sensor][1]);
    }
    for (intptr_t sensor = 0; sensor < SENSORS; sensor++)
        pthread_create(&threads[sensor], NULL, receive, (void *)sensor);
    for (int sensor = 0; sensor < SENSORS; sensor++)
        pthread_join(threads[sensor], NULL);
    while (wait(NULL) > 0)
        ;
    printf("progress: %ld values\n", SENSORS * values);
    return 0;
}
