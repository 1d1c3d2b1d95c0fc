/*
 * Computes pictures of the Mandelbrot set with several threads, picture after picture; threads take rows from a counter
 * and meet at the picture's end.
 *
 * Slow: a third of the picture's rows at a time: three pieces for two threads.
 * Fixed (-DFIXED): four rows at a time.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 240, HEIGHT = 240, DEPTH = 120, THREADS_MAX = 64 };

#ifdef FIXED
enum { ROWS_AT_ONCE = 4 };
#else
enum { ROWS_AT_ONCE = HEIGHT / 3 };
#endif

static unsigned char picture[HEIGHT][WIDTH];
static atomic_int next_row;
static pthread_barrier_t begin, end;
static int pictures;

static unsigned char depth(double real, double imaginary)
{
	double x = 0, y = 0;
	int steps = 0;

	for (; steps < DEPTH && x * x + y * y < 4; steps++) {
		double next = x * x - y * y + real;
		y = 2 * x * y + imaginary;
		x = next;
	}
	return steps;
}

static void draw(int row, double zoom)
{
	for (int column = 0; column < WIDTH; column++)
		picture[row][column] =
			depth(-0.2 + (column - WIDTH / 2) * zoom / WIDTH, (row - HEIGHT / 2) * zoom / HEIGHT);
}

static void *work(void *unused)
{
	for (int number = 0; number < pictures; number++) {
		pthread_barrier_wait(&begin);
		for (;;) {
			int first = atomic_fetch_add(&next_row, ROWS_AT_ONCE);
			if (first >= HEIGHT)
				break;
			for (int row = first; row < first + ROWS_AT_ONCE && row < HEIGHT; row++)
				draw(row, 0.9 / (1 + number % 4));
		}
		pthread_barrier_wait(&end);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t workers[THREADS_MAX];
	int threads = argc > 1 ? atoi(argv[1]) : 2;
	long sum = 0;

	pictures = argc > 2 ? atoi(argv[2]) : 30;
	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	pthread_barrier_init(&begin, NULL, threads + 1);
	pthread_barrier_init(&end, NULL, threads + 1);
	for (int i = 0; i < threads; i++)
		pthread_create(&workers[i], NULL, work, NULL);
	for (int number = 0; number < pictures; number++) {
		atomic_store(&next_row, 0);
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
		for (int row = 0; row < HEIGHT; row++)
			sum += picture[row][WIDTH / 2];
	}
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i], NULL);
	fprintf(stderr, "%ld\n", sum);
	printf("progress: %d pictures\n", pictures);
	return 0;
}
