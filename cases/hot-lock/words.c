/*
 * Counts the words of a generated text, over and over, with several threads.
 *
 * Slow: all threads share one table and take its lock for every word.
 * Fixed (-DFIXED): each thread fills a table of its own, and they are added up at the end.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 500000, SLOTS = 1 << 14, VOCABULARY = 5000, LETTERS_MAX = 12, THREADS_MAX = 64 };

struct slot {
	char word[LETTERS_MAX];
	size_t letters;
	long count;
};

struct table {
	struct slot slots[SLOTS];
};

struct share {
	pthread_t thread;
	const char *from, *to;
	struct table *table;
	long rounds, words;
};

#ifndef FIXED
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
#endif

static unsigned long next_random(unsigned long *state)
{
	*state = *state * 6364136223846793005UL + 1442695040888963407UL;
	return *state >> 33;
}

/* Small numbers are frequent, as in a language. */
static unsigned long word_number(unsigned long *state)
{
	unsigned long bound = 1 + next_random(state) % VOCABULARY;

	return next_random(state) % bound;
}

static char *generate(size_t *bytes)
{
	char *text = malloc((size_t)WORDS * (LETTERS_MAX + 1)), *end = text;
	unsigned long state = 42;

	for (long i = 0; i < WORDS; i++) {
		unsigned long number = 7919 * (1 + word_number(&state));
		for (int letters = 0; number && letters < LETTERS_MAX - 1; letters++, number /= 7)
			*end++ = 'a' + number % 23;
		*end++ = ' ';
	}
	*bytes = end - text;
	return text;
}

static void count_word(struct table *table, const char *word, size_t letters, long times)
{
	unsigned hash = 2166136261u;

	for (size_t i = 0; i < letters; i++)
		hash = (hash ^ (unsigned char)word[i]) * 16777619u;
	for (unsigned at = hash;; at++) {
		struct slot *slot = &table->slots[at % SLOTS];
		if (slot->count == 0) {
			memcpy(slot->word, word, letters);
			slot->letters = letters;
		} else if (slot->letters != letters || memcmp(slot->word, word, letters) != 0) {
			continue;
		}
		slot->count += times;
		return;
	}
}

static void count_once(struct share *share)
{
	const char *at = share->from;

	while (at < share->to) {
		const char *blank = memchr(at, ' ', share->to - at);
#ifdef FIXED
		count_word(share->table, at, blank - at, 1);
#else
		pthread_mutex_lock(&table_lock);
		count_word(share->table, at, blank - at, 1);
		pthread_mutex_unlock(&table_lock);
#endif
		share->words++;
		at = blank + 1;
	}
}

static void *count_share(void *argument)
{
	struct share *share = argument;

	for (long round = 0; round < share->rounds; round++)
		count_once(share);
	return NULL;
}

#ifdef FIXED
static void add_up(struct table *to, const struct table *from)
{
	for (int i = 0; i < SLOTS; i++) {
		const struct slot *slot = &from->slots[i];
		if (slot->count)
			count_word(to, slot->word, slot->letters, slot->count);
	}
}
#endif

/* A cut never splits a word: it moves on to the next blank. */
static void cut(struct share *shares, int threads, const char *text, size_t bytes)
{
	const char *from = text, *end = text + bytes;

	for (int i = 0; i < threads; i++) {
		const char *to = i + 1 == threads ? end : text + bytes * (i + 1) / threads;
		while (to < end && to[-1] != ' ')
			to++;
		shares[i].from = from;
		shares[i].to = to;
		from = to;
	}
}

int main(int argc, char **argv)
{
	static struct share shares[THREADS_MAX];
	int threads = argc > 1 ? atoi(argv[1]) : 4;
	long rounds = argc > 2 ? atol(argv[2]) : 40, counted = 0;
	struct table *shared = calloc(1, sizeof(*shared));
	size_t bytes;
	char *text = generate(&bytes);

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	cut(shares, threads, text, bytes);
	for (int i = 0; i < threads; i++) {
		shares[i].rounds = rounds;
#ifdef FIXED
		shares[i].table = calloc(1, sizeof(*shared));
#else
		shares[i].table = shared;
#endif
		pthread_create(&shares[i].thread, NULL, count_share, &shares[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(shares[i].thread, NULL);
		counted += shares[i].words;
#ifdef FIXED
		add_up(shared, shares[i].table);
#endif
	}
	printf("progress: %ld words\n", counted);
	return counted == rounds * WORDS ? 0 : 1;
}
