/* integral POINTS [COSTS]: the integral of exp(-alpha |x|^2) cos(beta (x1+...+x5)) over the unit cube of five dimensions, for one
 * alpha a process and four betas each. COSTS are the points of each alpha, in percent of POINTS, separated by commas and
 * repeated; an alpha that needs more points costs more. Processes that have ended wait without using their processor. */
#include "common.h"

enum { DIMENSIONS = 5, BETAS = 4 };

/* Steps of a Korobov lattice: an additive sequence with the powers of the root of x^6 = x + 1 is spread evenly in five dimensions. */
static double integrate(double alpha, double beta, long points) {
    const double root = 1.1347241384015194;
    double step[DIMENSIONS], x[DIMENSIONS], sum = 0;
    for (int d = 0; d < DIMENSIONS; d++) {
        step[d] = pow(root, -(d + 1));
        x[d] = 0.5;
    }
    for (long i = 0; i < points; i++) {
        double square = 0, phase = 0, weight = 1;
        for (int d = 0; d < DIMENSIONS; d++) {
            x[d] += step[d];
            x[d] -= x[d] >= 1;
            /* The substitution x = t^2 (3 - 2t) makes the integrand periodic, for which the sequence converges faster. */
            double t = x[d], y = t * t * (3 - 2 * t);
            weight *= 6 * t * (1 - t);
            square += y * y;
            phase += y;
        }
        sum += weight * exp(-alpha * square) * cos(beta * phase);
    }
    return sum / (double)points;
}

/* The same from one dimension: the integrand is the real part of a product, so that the integral is one of a fifth power. */
static double exact(double alpha, double beta) {
    enum { STEPS = 20000 };
    double re = 0, im = 0;
    for (int i = 0; i < STEPS; i++) {
        double x = (i + 0.5) / STEPS, e = exp(-alpha * x * x) / STEPS;
        re += e * cos(beta * x);
        im += e * sin(beta * x);
    }
    double a = 1, b = 0;
    for (int d = 0; d < DIMENSIONS; d++) {
        double c = a * re - b * im;
        b = a * im + b * re;
        a = c;
    }
    return a;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    long points = number(argc, argv, 1, 1000, 1L << 50, 1000000), own = points;
    if (argc > 2) {
        char *list = strdup(argv[2]), *words[4096];
        int n = 0;
        for (char *word = strtok(list, ","); word && n < 4096; word = strtok(0, ","))
            words[n++] = word;
        double percent = n ? strtod(words[rank % n], 0) : 0;
        if (!(percent >= 1 && percent <= 10000))
            fail("costs are percentages, not `%s`", argv[2]);
        own = (long)((double)points * percent / 100);
    }
    double alpha = 0.5 + 0.25 * rank, found[BETAS];
    quiet_barrier();
    double at = MPI_Wtime();
    for (int b = 0; b < BETAS; b++)
        found[b] = integrate(alpha, 1 + b, own);
    double busy = MPI_Wtime() - at;
    quiet_barrier();
    double passed = MPI_Wtime() - at;
    /* The sequence's error falls nearly as 1/n; 2000 points are right to three digits. */
    double off = 0, worst, allowed = fmax(50.0 / (double)own, 1e-6);
    for (int b = 0; b < BETAS; b++)
        off = fmax(off, fabs(found[b] - exact(alpha, 1 + b)));
    if (off > allowed)
        fail("the integral for alpha %g is off by %g", alpha, off);
    double *all = memory((size_t)np * BETAS * sizeof *all), *times = memory((size_t)np * sizeof *times);
    MPI_Gather(found, BETAS, MPI_DOUBLE, all, BETAS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Gather(&busy, 1, MPI_DOUBLE, times, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Reduce(&off, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        double sum = 0;
        for (int i = 0; i < np * BETAS; i++)
            sum += all[i];
        printf("{\"program\":\"integral\",\"np\":%d,\"points\":%ld,\"s\":%.6f,\"sum\":%.15g,\"error\":%.3e,\"busy_s\":[", np, points, passed, sum,
               worst);
        for (int i = 0; i < np; i++)
            printf("%s%.6f", i ? "," : "", times[i]);
        printf("]}\n");
    }
    MPI_Finalize();
    return 0;
}
