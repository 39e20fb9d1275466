/* flops [POINTS [REPEATS]]: pi by the midpoint rule on 4/(1+x*x), nine operations a point, points dealt in turns. */
#include "common.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    long points = number(argc, argv, 1, 1, 1L << 50, 200000000);
    long repeats = number(argc, argv, 2, 1, 1000, 4);
    double passed = 0, pi = 0;
    quiet_start();
    for (long k = 0; k < repeats; k++) {
        double at = MPI_Wtime();
        long all = rank == 0 ? points : 0;
        MPI_Bcast(&all, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        double width = 1.0 / (double)all, sum = 0, part;
        for (long i = rank + 1; i <= all; i += np) {
            double x = width * ((double)i - 0.5);
            sum += 4.0 / (1.0 + x * x);
        }
        part = sum * width;
        MPI_Reduce(&part, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        passed += MPI_Wtime() - at;
    }
    double mean = passed / (double)repeats;
    long own = points / np + (rank < points % np);
    double speed = 9.0 * (double)own / 1e6 / mean, *speeds = memory((size_t)np * sizeof *speeds);
    MPI_Gather(&speed, 1, MPI_DOUBLE, speeds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        /* The rule is off by 1/(12 n^2); the rest is rounding. */
        double off = fabs(pi - 3.14159265358979323846);
        if (off > 1.0 / ((double)points * (double)points) + 1e-9)
            fail("pi is %.15f", pi);
        printf("{\"program\":\"flops\",\"np\":%d,\"points\":%ld,\"repeats\":%ld,\"s\":%.9f,\"mflops\":%.6f,\"error\":%.3e,\"nodes\":[",
               np, points, repeats, mean, 9.0 * (double)points / 1e6 / mean, off);
        for (int i = 0; i < np; i++)
            printf("%s%.6f", i ? "," : "", speeds[i]);
        printf("]}\n");
    }
    MPI_Finalize();
    return 0;
}
