/* A parallel loop whose rows grow: the thread with the last rows is waited for. Says for how long one waited for the other. */
#include <math.h>
#include <omp.h>
#include <stdio.h>

int main(void) {
    double sum = 0, waited = 0;
    for (int round = 0; round < 30; round++) {
        double ended[2];
        #pragma omp parallel num_threads(2) reduction(+ : sum)
        {
            #pragma omp for schedule(static) nowait
            for (int i = 0; i < 3000; i++)
                for (int j = 0; j < i * 4; j++)
                    sum += 1.0 / (j + 1.0);
            ended[omp_get_thread_num()] = omp_get_wtime();
        }
        waited += fabs(ended[0] - ended[1]);
    }
    printf("%.0f\n", waited * 1e9);
    return sum < 0;
}
