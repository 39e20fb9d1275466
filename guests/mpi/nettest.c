/* nettest [BYTES [SECONDS]]: throughput of all channels of a topology at once. A channel is a pair of processes A < B; one way:
 * BYTES go from A to B, and B answers with as many after it has received; both: they go at the same time.
 * Throughput is 2 * BYTES * channels * repeats / time. */
#include "common.h"

static unsigned char **out, **in;

static int star(int a, int b) { return a == 0 || b == 0; }
static int ring(int a, int b) { return (a + 1) % np == b || (b + 1) % np == a; }
static int chaos(int a, int b) { return a != b; }

static const struct {
    const char *label;
    int (*joined)(int, int);
    int both;
} kinds[] = {{"Star", star, 0}, {"Star2", star, 1}, {"Ring", ring, 0}, {"Ring2", ring, 1}, {"Chaos", chaos, 0}, {"Chaos2", chaos, 1}};

static double repeat(int kind, long bytes, long n) {
    MPI_Request *get = memory((size_t)np * sizeof *get), *put = memory((size_t)np * sizeof *put);
    quiet_barrier();
    double at = MPI_Wtime();
    for (long k = 0; k < n; k++) {
        int open = 0;
        for (int i = 0; i < np; i++) {
            get[i] = put[i] = MPI_REQUEST_NULL;
            if (i == rank || !kinds[kind].joined(rank, i))
                continue;
            MPI_Irecv(in[i], (int)bytes, MPI_BYTE, i, kind, MPI_COMM_WORLD, &get[i]);
            if (kinds[kind].both || rank < i)
                MPI_Isend(out[i], (int)bytes, MPI_BYTE, i, kind, MPI_COMM_WORLD, &put[i]);
            open++;
        }
        while (open--) {
            int i = quiet_any(np, get);
            if (i == MPI_UNDEFINED)
                fail("%s: a message is missing", kinds[kind].label);
            if (!kinds[kind].both && i < rank)
                MPI_Isend(out[i], (int)bytes, MPI_BYTE, i, kind, MPI_COMM_WORLD, &put[i]);
        }
        for (int i = 0; i < np; i++)
            quiet_wait(&put[i]);
    }
    quiet_barrier();
    double passed = MPI_Wtime() - at;
    for (int i = 0; i < np; i++)
        if (i != rank && kinds[kind].joined(rank, i)) {
            check_bytes(in[i], bytes, (unsigned)(i * 16 + kind), kinds[kind].label);
            memset(in[i], 0, (size_t)bytes);
        }
    free(get);
    free(put);
    return passed;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    long bytes = number(argc, argv, 1, 1, 1L << 24, 32768);
    double least_s = real(argc, argv, 2, 1e-3, 600, 1);
    if (np < 2)
        fail("nettest needs two processes or more");
    out = memory((size_t)np * sizeof *out);
    in = memory((size_t)np * sizeof *in);
    for (int i = 0; i < np; i++) {
        out[i] = memory((size_t)bytes);
        in[i] = memory((size_t)bytes);
    }
    if (rank == 0)
        printf("{\"program\":\"nettest\",\"np\":%d,\"bytes\":%ld,\"topologies\":[", np, bytes);
    for (int kind = 0; kind < 6; kind++) {
        long channels = 0;
        for (int a = 0; a < np; a++) {
            for (int b = a + 1; b < np; b++)
                channels += kinds[kind].joined(a, b);
            fill(out[a], bytes, (unsigned)(rank * 16 + kind));
        }
        double once = repeat(kind, bytes, 1);
        once = fmin(once, repeat(kind, bytes, 1));
        long n = (long)(least_s / fmax(once, 1e-6)) + 1;
        MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        double s = repeat(kind, bytes, n);
        if (rank == 0)
            printf("%s{\"label\":\"%s\",\"channels\":%ld,\"repeats\":%ld,\"all_repeats\":%ld,\"s\":%.9f,\"mb_s\":%.6f}",
                   kind ? "," : "", kinds[kind].label, channels, n, n + 2, s,
                   2.0 * (double)bytes * (double)channels * (double)n / s / 1e6);
    }
    if (rank == 0)
        printf("]}\n");
    MPI_Finalize();
    return 0;
}
