/*
 * A caching forward proxy for HTTP/1.1, an origin server behind it, and a load of a thousand persistent
 * connections. Each connection requests an object, reads the response, and requests the next object.
 *
 * Slow: for each request the proxy makes the canonical URL and the key with snprintf, and prints the head
 * again. It copies the object into the response piece by piece, then the response into the send buffer.
 * Fixed (-DFIXED): the key is a part of the request. An object is stored with its head in its final form, and
 * passed on.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 1000, OBJECTS = 1024, BODY = 30000, PIECE = 64, HEAD_MAX = 512, MESSAGE_MAX = 32768 };

struct object {
	char key[64], *sent;
	size_t head, length;
};

static struct sockaddr_in proxy_address, origin_address;
static struct object cache[OBJECTS];
static long wanted;

static void must(int holds)
{
	if (!holds) {
		perror("proxy");
		exit(1);
	}
}

static int listener(struct sockaddr_in *address)
{
	socklen_t length = sizeof *address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	must(!bind(fd, (struct sockaddr *)address, length) && !listen(fd, CONNECTIONS));
	must(!getsockname(fd, (struct sockaddr *)address, &length));
	return fd;
}

static int connection(struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	must(fd >= 0 && !connect(fd, (struct sockaddr *)to, sizeof *to));
	return fd;
}

static size_t print_head(char *to, size_t length, const char *url)
{
	return snprintf(to, 512, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %zu\r\nVia: %d.%d %s\r\n"
		"X-Cache: %s from %s for %s\r\n\r\n", "text/plain", length, 1, 1, "proxy", "HIT", "localhost", url);
}

/* One object per connection: the number in the path selects it. */
static void *be_origin(void *fd)
{
	char request[MESSAGE_MAX], body[BODY];

	for (;;) {
		int client = accept((intptr_t)fd, NULL, NULL);
		ssize_t length = read(client, request, sizeof request);

		must(length > 0);
		for (int i = 0; i < BODY; i++)
			body[i] = 'a' + (request[i % length] + i) % 26;
		must(write(client, body, BODY) == BODY);
		close(client);
	}
	return NULL;
}

static void fetch(struct object *object, const char *key, size_t length)
{
	int origin = connection(&origin_address);
	char url[128];

	snprintf(object->key, sizeof object->key, "%.*s", (int)length, key);
	snprintf(url, sizeof url, "http://%s/", object->key);
	object->sent = malloc(MESSAGE_MAX);
	object->head = print_head(object->sent, BODY, url);
	must(write(origin, key, length) == (ssize_t)length);
	object->length = object->head;
	for (ssize_t got; (got = read(origin, object->sent + object->length, BODY)) > 0;)
		object->length += got;
	close(origin);
	must(object->length == object->head + BODY);
}

/* The object of a key, which is its host and path. */
static struct object *look_up(const char *key, size_t length)
{
	uint32_t hash = 0;

	for (size_t i = 0; i < length; i++)
		hash = hash * 31 + key[i];
	for (struct object *object = &cache[hash % OBJECTS];; object = &cache[(object - cache + 1) % OBJECTS]) {
		if (!object->sent)
			fetch(object, key, length);
		if (!strncmp(object->key, key, length) && !object->key[length])
			return object;
	}
}

#ifdef FIXED
static void answer(int client, const char *request)
{
	const char *key = strchr(request, '/') + 2;
	struct object *object = look_up(key, strcspn(key, " "));

	must(write(client, object->sent, object->length) == (ssize_t)object->length);
}
#else
static size_t canonical_url(char *to, const char *request)
{
	char method[16], scheme[16], host[64], path[128];

	must(sscanf(request, "%15s %15[^:]://%63[^/]/%127s", method, scheme, host, path) == 4);
	return snprintf(to, 256, "%s://%s/%s", scheme, host, path);
}

/* Grows as it needs to. */
static char *append(char *message, size_t *length, const char *piece, size_t size)
{
	message = realloc(message, *length + size);
	memcpy(message + *length, piece, size);
	*length += size;
	return message;
}

static void answer(int client, const char *request)
{
	char url[256], key[256], head[512], *message = NULL, *copy;
	size_t length = 0, key_length;
	struct object *object;

	canonical_url(url, request);
	key_length = snprintf(key, sizeof key, "%s", strstr(url, "://") + 3);
	object = look_up(key, key_length);
	message = append(message, &length, head, print_head(head, BODY, url));
	for (size_t from = 0; from < BODY; from += PIECE) {
		size_t size = BODY - from < PIECE ? BODY - from : PIECE;

		message = append(message, &length, object->sent + object->head + from, size);
	}
	copy = malloc(length);
	memcpy(copy, message, length);
	free(message);
	must(write(client, copy, length) == (ssize_t)length);
	free(copy);
}
#endif

static void *be_proxy(void *listening)
{
	int epoll = epoll_create1(0), from = (intptr_t)listening;
	struct epoll_event events[64], event = { .events = EPOLLIN, .data.fd = from };
	char request[MESSAGE_MAX];

	epoll_ctl(epoll, EPOLL_CTL_ADD, from, &event);
	for (;;) {
		int ready = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < ready; i++) {
			int client = events[i].data.fd;

			if (client == from) {
				event.data.fd = accept(from, NULL, NULL);
				epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
				continue;
			}
			ssize_t length = read(client, request, sizeof request - 1);

			if (length <= 0) {
				close(client);
				continue;
			}
			request[length] = 0;
			answer(client, request);
		}
	}
	return NULL;
}

static void ask(int proxy, long number)
{
	char request[256];
	int length = snprintf(request, sizeof request, "GET http://host%ld.example/file/%ld HTTP/1.1\r\n\r\n", number % 5,
		number * 7919 % 128);

	must(write(proxy, request, length) == length);
}

/* Many connections, one request on each at a time. Returns how many bytes came. */
static uint64_t load(void)
{
	int epoll = epoll_create1(0);
	struct epoll_event events[64], event = { .events = EPOLLIN };
	static size_t due[4 * CONNECTIONS];
	static char message[MESSAGE_MAX + 1];
	long asked = 0, answered = 0;
	uint64_t bytes = 0;

	for (; asked < CONNECTIONS; asked++) {
		event.data.fd = connection(&proxy_address);
		epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
		ask(event.data.fd, asked);
	}
	while (answered < wanted) {
		int ready = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < ready; i++) {
			int proxy = events[i].data.fd;
			/* Data after the head is only counted. */
			ssize_t got = due[proxy] ? recv(proxy, message, due[proxy], MSG_TRUNC) : read(proxy, message, HEAD_MAX);

			must(got > 0);
			bytes += got;
			if (!due[proxy]) {
				message[got] = 0;
				due[proxy] = strstr(message, "\r\n\r\n") + 4 - message + BODY;
			}
			if (due[proxy] -= got)
				continue;
			answered++;
			ask(proxy, asked++);
		}
	}
	return bytes;
}

int main(int argc, char **argv)
{
	struct rlimit files;
	pthread_t thread;

	wanted = argc > 1 ? atol(argv[1]) : 200000;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max < 3000 ? files.rlim_max : 3000;
	setrlimit(RLIMIT_NOFILE, &files);
	pthread_create(&thread, NULL, be_origin, (void *)(intptr_t)listener(&origin_address));
	pthread_create(&thread, NULL, be_proxy, (void *)(intptr_t)listener(&proxy_address));
	fprintf(stderr, "%lu bytes\n", (unsigned long)load());
	printf("progress: %ld requests\n", wanted);
	return 0;
}
