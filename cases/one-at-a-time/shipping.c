/*
 * A shop requests the price of each parcel from the carriers. Their service takes 10 ms for a response, for
 * any number of parallel requests. A pool of threads sends the requests. It was meant to grow and has one
 * thread (-DFIXED: twelve).
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#ifdef FIXED
#define WORKERS 12
#else
#define WORKERS 1
#endif

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_length;
static long parcels, next_parcel, sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *carrier(void *argument)
{
    int socket = (intptr_t)argument;
    uint32_t weight;
    while (read(socket, &weight, sizeof(weight)) == sizeof(weight)) {
        const struct timespec far_away = {0, 10000000};
        uint32_t price = 490 + weight % 1000;
        nanosleep(&far_away, NULL);
        if (write(socket, &price, sizeof(price)) != sizeof(price))
            exit(1);
    }
    close(socket);
    return NULL;
}

// A process of its own, with a thread for each connection.
static void serve(int listening)
{
    for (;;) {
        pthread_t thread;
        intptr_t socket = accept(listening, NULL, NULL);
        if (socket < 0 || pthread_create(&thread, NULL, carrier, (void *)socket))
            exit(1);
        pthread_detach(thread);
    }
}

static int connect_to_carriers(void)
{
    int one = socket(AF_UNIX, SOCK_STREAM, 0);
    if (one < 0 || connect(one, (struct sockaddr *)&address, address_length))
        exit(1);
    return one;
}

__attribute__((noinline)) static uint32_t ask_price(int socket, uint32_t weight)
{
    uint32_t price;
    if (write(socket, &weight, sizeof(weight)) != sizeof(weight) || read(socket, &price, sizeof(price)) != sizeof(price))
        exit(1);
    return price;
}

static uint32_t weigh(long parcel)
{
    uint32_t weight = parcel;
    for (int round = 0; round < 100000; round++)
        weight = weight * 1664525u + 1013904223u;
    return weight >> 16;
}

static void *worker(void *argument)
{
    int socket = connect_to_carriers();
    (void)argument;
    for (;;) {
        pthread_mutex_lock(&lock);
        long parcel = next_parcel++;
        pthread_mutex_unlock(&lock);
        if (parcel >= parcels)
            break;
        uint32_t price = ask_price(socket, weigh(parcel));
        pthread_mutex_lock(&lock);
        sum += price;
        pthread_mutex_unlock(&lock);
    }
    close(socket);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[WORKERS];
    parcels = argc > 1 ? atol(argv[1]) : 150;
    // No file: a name that begins with 0.
    address_length = sizeof(sa_family_t) + 1 + sprintf(address.sun_path + 1, "carriers-%ld", (long)getpid());
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    if (listening < 0 || bind(listening, (struct sockaddr *)&address, address_length) || listen(listening, WORKERS))
        return 1;
    pid_t service = fork();
    if (service < 0)
        return 1;
    if (service == 0)
        serve(listening);
    for (int number = 0; number < WORKERS; number++)
        pthread_create(&threads[number], NULL, worker, NULL);
    for (int number = 0; number < WORKERS; number++)
        pthread_join(threads[number], NULL);
    kill(service, SIGTERM);
    printf("sum: %ld\nprogress: %ld parcels\n", sum, parcels);
    return 0;
}
