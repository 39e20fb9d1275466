/* transfer [LARGEST [SECONDS]]: latency and bandwidth between process 0 and each other, measured by process 0.
 * Latency S = T/(2N) of empty messages; bandwidth R = 2NL/T: one way by blocking calls, an answer to each message; both ways
 * at once by calls that do not block. N grows until a measurement takes SECONDS. */
#include "common.h"

static unsigned char *out, *in;

/* One round between this process and `other`. */
static void round_trip(int other, long bytes, int both) {
    if (both) {
        MPI_Request two[2];
        MPI_Irecv(in, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &two[0]);
        MPI_Isend(out, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &two[1]);
        MPI_Waitall(2, two, MPI_STATUSES_IGNORE);
    } else if (rank == 0) {
        MPI_Send(out, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        MPI_Recv(in, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
    }
}

/* Both sides come here together. Seconds of so many rounds, at process 0. */
static double rounds(int other, long bytes, int both, long n) {
    memset(in, 0, (size_t)bytes);
    fill(out, bytes, (unsigned)rank * 7 + (unsigned)n);
    MPI_Sendrecv(&n, 0, MPI_BYTE, other, 2, &n, 0, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double at = MPI_Wtime();
    for (long i = 0; i < n; i++)
        round_trip(other, bytes, both);
    double passed = MPI_Wtime() - at;
    check_bytes(in, bytes, (unsigned)other * 7 + (unsigned)n, "transfer");
    return passed;
}

struct found {
    long n;
    double s;
};

/* The median of three, of N rounds that take long enough. */
static struct found measure(int other, long bytes, int both, double least_s) {
    rounds(other, bytes, both, 1);
    /* A hundred steps of the clock are exact to a percent. */
    double enough = fmax(least_s, 100 * MPI_Wtick());
    for (long n = 1;;) {
        double s = rounds(other, bytes, both, n);
        long next = 0;
        if (rank == 0 && s < enough) {
            double factor = s > 0 ? 1.1 * enough / s : 16;
            next = (long)((double)n * fmin(fmax(factor, 1.5), 16)) + 1;
        }
        if (rank == 0)
            MPI_Send(&next, 1, MPI_LONG, other, 3, MPI_COMM_WORLD);
        else
            MPI_Recv(&next, 1, MPI_LONG, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!next) {
            double again = rounds(other, bytes, both, n), third = rounds(other, bytes, both, n);
            return (struct found){n, fmax(fmin(s, again), fmin(fmax(s, again), third))};
        }
        n = next;
    }
}

static void all_sizes(int other, long largest, int both, double least_s) {
    for (long bytes = 1; bytes <= largest; bytes *= 2) {
        struct found f = measure(other, bytes, both, least_s);
        if (rank == 0)
            printf("%s{\"bytes\":%ld,\"n\":%ld,\"s\":%.9f,\"mb_s\":%.6f}", bytes > 1 ? "," : "", bytes, f.n, f.s,
                   2.0 * (double)f.n * (double)bytes / f.s / 1e6);
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    long largest = number(argc, argv, 1, 1, 1L << 28, 1L << 20);
    double least_s = real(argc, argv, 2, 1e-4, 60, 0.05);
    if (np < 2)
        fail("transfer needs two processes or more");
    out = memory((size_t)largest);
    in = memory((size_t)largest);
    if (rank == 0)
        printf("{\"program\":\"transfer\",\"np\":%d,\"tick_s\":%.3e,\"partners\":[", np, MPI_Wtick());
    for (int other = 1; other < np; other++) {
        quiet_barrier();
        if (rank != 0 && rank != other)
            continue;
        int with = rank == 0 ? other : 0;
        struct found empty = measure(with, 0, 0, least_s);
        if (rank == 0)
            printf("%s{\"rank\":%d,\"n\":%ld,\"latency_s\":%.9f,\"one\":[", other > 1 ? "," : "", other, empty.n,
                   empty.s / (2.0 * (double)empty.n));
        all_sizes(with, largest, 0, least_s);
        if (rank == 0)
            printf("],\"both\":[");
        all_sizes(with, largest, 1, least_s);
        if (rank == 0)
            printf("]}");
    }
    quiet_barrier();
    if (rank == 0)
        printf("]}\n");
    MPI_Finalize();
    return 0;
}
