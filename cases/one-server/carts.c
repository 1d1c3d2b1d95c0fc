/*
 * A store with one thread, like key-value stores, and its clients. Every client looks for the items in a
 * customer's cart. With -DFIXED the store has a list per customer, instead of going through all keys.
 */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS 6
#define CUSTOMERS 4000
#define PER_CUSTOMER 25
#define KEYS (CUSTOMERS * PER_CUSTOMER)

struct key {
    char name[24];
    uint32_t price;
};

struct answer {
    uint32_t count, price;
};

static struct key *keys;
static int sockets[CLIENTS][2], requests;

static void fill(void)
{
    keys = malloc(KEYS * sizeof(*keys));
    for (uint32_t key = 0; key < KEYS; key++) {
        uint32_t customer = key / PER_CUSTOMER;
        snprintf(keys[key].name, sizeof(keys[key].name), "cart:%u:%u", customer, key % PER_CUSTOMER);
        keys[key].price = key * 2654435761u >> 20;
    }
}

static void add(struct answer *answer, const struct key *key)
{
    answer->count++;
    answer->price += key->price;
}

#ifdef FIXED
static struct answer find_cart(uint32_t customer)
{
    struct answer answer = {0, 0};
    for (uint32_t item = 0; item < PER_CUSTOMER; item++)
        add(&answer, &keys[customer * PER_CUSTOMER + item]);
    return answer;
}
#else
__attribute__((noinline)) static int begins_with(const char *name, const char *prefix)
{
    while (*prefix)
        if (*name++ != *prefix++)
            return 0;
    return 1;
}

static struct answer find_cart(uint32_t customer)
{
    struct answer answer = {0, 0};
    char prefix[24];
    snprintf(prefix, sizeof(prefix), "cart:%u:", customer);
    for (uint32_t key = 0; key < KEYS; key++)
        if (begins_with(keys[key].name, prefix))
            add(&answer, &keys[key]);
    return answer;
}
#endif

static void serve(void)
{
    struct pollfd polled[CLIENTS];
    int open = CLIENTS;
    for (int client = 0; client < CLIENTS; client++)
        polled[client] = (struct pollfd){.fd = sockets[client][1], .events = POLLIN};
    while (open > 0) {
        if (poll(polled, CLIENTS, -1) < 0)
            exit(1);
        for (int client = 0; client < CLIENTS; client++) {
            uint32_t customer;
            if (polled[client].fd < 0 || !polled[client].revents)
                continue;
            if (read(polled[client].fd, &customer, sizeof(customer)) != sizeof(customer)) {
                polled[client].fd = -1;
                open--;
                continue;
            }
            struct answer answer = find_cart(customer);
            if (write(polled[client].fd, &answer, sizeof(answer)) != sizeof(answer))
                exit(1);
        }
    }
}

// What a client does with an answer.
static uint32_t print_bill(struct answer answer)
{
    uint32_t bill = answer.price;
    for (int line = 0; line < 60000; line++)
        bill = bill * 1664525u + answer.count;
    return bill;
}

static void *shop(void *argument)
{
    intptr_t client = (intptr_t)argument;
    uint64_t sum = 0;
    for (int request = 0; request < requests; request++) {
        uint32_t customer = (uint32_t)(client * 977 + request * 131) % CUSTOMERS;
        struct answer answer;
        if (write(sockets[client][0], &customer, sizeof(customer)) != sizeof(customer) ||
            read(sockets[client][0], &answer, sizeof(answer)) != sizeof(answer))
            exit(1);
        sum += print_bill(answer);
    }
    close(sockets[client][0]);
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    pthread_t threads[CLIENTS];
    uint64_t sum = 0;
    requests = argc > 1 ? atoi(argv[1]) : 200;
    fill();
    for (int client = 0; client < CLIENTS; client++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[client]))
            return 1;
    pid_t store = fork();
    if (store < 0)
        return 1;
    if (store == 0) {
        for (int client = 0; client < CLIENTS; client++)
            close(sockets[client][0]);
        serve();
        _exit(0);
    }
    for (int client = 0; client < CLIENTS; client++)
        close(sockets[client][1]);
    for (intptr_t client = 0; client < CLIENTS; client++)
        pthread_create(&threads[client], NULL, shop, (void *)client);
    for (int client = 0; client < CLIENTS; client++) {
        void *part;
        pthread_join(threads[client], &part);
        sum += (uintptr_t)part;
    }
    waitpid(store, NULL, 0);
    printf("bills: %lu\nprogress: %d answers\n", (unsigned long)sum, CLIENTS * requests);
    return 0;
}
