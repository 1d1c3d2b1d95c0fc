/* A parallel loop with growing rows: the others wait for the thread with the last rows. Prints for how long
 * (ns) threads waited at the barrier, without run-queue time, by the clock and by the kernel's run-queue
 * statistics of each thread. */
#include <omp.h>
#include <stdio.h>

/* How long the thread has waited for a CPU (ns). */
static double queued(void) {
    unsigned long long ran, waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (file && fscanf(file, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    if (file)
        fclose(file);
    return waited;
}

int main(void) {
    double sum = 0, waited = 0;
    #pragma omp parallel num_threads(2) reduction(+ : sum, waited)
    for (int round = 0; round < 30; round++) {
        #pragma omp for schedule(static) nowait
        for (int i = 0; i < 3000; i++)
            for (int j = 0; j < i * 4; j++)
                sum += 1.0 / (j + 1.0);
        double came = omp_get_wtime(), before = queued();
        #pragma omp barrier
        waited += (omp_get_wtime() - came) * 1e9 - (queued() - before);
    }
    printf("%.0f\n", waited);
    return sum < 0;
}
