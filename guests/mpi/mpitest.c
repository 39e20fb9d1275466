/* mpitest [FAST [SLOW]]: time of MPI operations and of the synchronisation after each, every result checked.
 * Short operations are repeated FAST times, long ones SLOW times with arrays of 1, 10 and 100 integers. */
#include "common.h"

enum { LONGEST = 100 };
static int *mine, *theirs, length;

/* The number that process `r` sends to process `to` at place `i` in repeat `k`. */
static int value(long k, int r, int to, int i) { return (int)(k % 1000) * 7 + r * 131 + to * 17 + i; }

static void expect(int got, int want, const char *what) {
    if (got != want)
        fail("%s of %d integers: got %d instead of %d", what, length, got, want);
}

static int right(void) { return (rank + 1) % np; }
static int left(void) { return (rank + np - 1) % np; }

/* For operations that take values for all processes, and for those that take one array. */
static void give(long k, int many) {
    for (int to = 0; to < (many ? np : 1); to++)
        for (int i = 0; i < length; i++)
            mine[to * length + i] = value(k, rank, many ? to : 0, i);
}

static void barrier(long k) { (void)k, MPI_Barrier(MPI_COMM_WORLD); }

static void empty_ping_pong(long k) {
    (void)k;
    int other = rank ^ 1;
    if (other >= np)
        return;
    if (rank & 1) {
        MPI_Recv(0, 0, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(0, 0, MPI_INT, other, 1, MPI_COMM_WORLD);
    } else {
        MPI_Send(0, 0, MPI_INT, other, 1, MPI_COMM_WORLD);
        MPI_Recv(0, 0, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void clock_read(long k) {
    static double last;
    double now = MPI_Wtime();
    if (k && now < last)
        fail("MPI_Wtime went back from %.9f to %.9f", last, now);
    last = now;
}

static void send_recv(long k) {
    (void)k;
    int other = rank ^ 1;
    if (other >= np)
        return;
    if (rank & 1) {
        MPI_Recv(theirs, length, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(mine, length, MPI_INT, other, 1, MPI_COMM_WORLD);
    } else {
        MPI_Send(mine, length, MPI_INT, other, 1, MPI_COMM_WORLD);
        MPI_Recv(theirs, length, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}
static void sendrecv(long k) {
    (void)k;
    MPI_Sendrecv(mine, length, MPI_INT, right(), 1, theirs, length, MPI_INT, left(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void isend_irecv(long k) {
    (void)k;
    MPI_Request get, put;
    MPI_Irecv(theirs, length, MPI_INT, left(), 1, MPI_COMM_WORLD, &get);
    MPI_Isend(mine, length, MPI_INT, right(), 1, MPI_COMM_WORLD, &put);
    MPI_Wait(&get, MPI_STATUS_IGNORE);
    MPI_Wait(&put, MPI_STATUS_IGNORE);
}
static int root(long k) { return (int)(k % np); }
static void bcast(long k) {
    if (rank == root(k))
        memcpy(theirs, mine, (size_t)length * sizeof *mine);
    MPI_Bcast(theirs, length, MPI_INT, root(k), MPI_COMM_WORLD);
}
static void scatter(long k) { MPI_Scatter(mine, length, MPI_INT, theirs, length, MPI_INT, root(k), MPI_COMM_WORLD); }
static void gather(long k) { MPI_Gather(mine, length, MPI_INT, theirs, length, MPI_INT, root(k), MPI_COMM_WORLD); }
static void allgather(long k) { (void)k, MPI_Allgather(mine, length, MPI_INT, theirs, length, MPI_INT, MPI_COMM_WORLD); }
static void alltoall(long k) { (void)k, MPI_Alltoall(mine, length, MPI_INT, theirs, length, MPI_INT, MPI_COMM_WORLD); }
static void reduce(long k) { MPI_Reduce(mine, theirs, length, MPI_INT, MPI_SUM, root(k), MPI_COMM_WORLD); }
static void allreduce(long k) { (void)k, MPI_Allreduce(mine, theirs, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD); }
static void reduce_scatter(long k) {
    (void)k;
    static int counts[4096];
    for (int i = 0; i < np; i++)
        counts[i] = length;
    MPI_Reduce_scatter(mine, theirs, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
static void scan(long k) { (void)k, MPI_Scan(mine, theirs, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD); }

static void array_from(long k, int from, const char *what) {
    for (int i = 0; i < length; i++)
        expect(theirs[i], value(k, from, 0, i), what);
}
static void of_pair(long k) {
    if ((rank ^ 1) < np)
        array_from(k, rank ^ 1, "MPI_Send/MPI_Recv");
}
static void of_left(long k) { array_from(k, left(), "an exchange in a ring"); }
static void of_root(long k) { array_from(k, root(k), "MPI_Bcast"); }
static void of_scatter(long k) {
    for (int i = 0; i < length; i++)
        expect(theirs[i], value(k, root(k), rank, i), "MPI_Scatter");
}
static void of_all(long k) {
    for (int r = 0; r < np; r++)
        for (int i = 0; i < length; i++)
            expect(theirs[r * length + i], value(k, r, 0, i), "a gathering");
}
static void of_gather(long k) {
    if (rank == root(k))
        of_all(k);
}
static void of_alltoall(long k) {
    for (int r = 0; r < np; r++)
        for (int i = 0; i < length; i++)
            expect(theirs[r * length + i], value(k, r, rank, i), "MPI_Alltoall");
}
static void sums(long k, int upto, int to) {
    for (int i = 0; i < length; i++) {
        int want = 0;
        for (int r = 0; r <= upto; r++)
            want += value(k, r, to, i);
        expect(theirs[i], want, "a sum");
    }
}
static void of_reduce(long k) {
    if (rank == root(k))
        sums(k, np - 1, 0);
}
static void of_allreduce(long k) { sums(k, np - 1, 0); }
static void of_reduce_scatter(long k) { sums(k, np - 1, rank); }
static void of_scan(long k) { sums(k, rank, 0); }

static const struct {
    const char *name;
    void (*run)(long), (*check)(long);
    int many;
} fast[] = {{"MPI_Barrier", barrier, 0, 0}, {"empty ping-pong", empty_ping_pong, 0, 0}, {"MPI_Wtime", clock_read, 0, 0}},
  slow[] = {{"MPI_Send/MPI_Recv", send_recv, of_pair, 0},
            {"MPI_Sendrecv", sendrecv, of_left, 0},
            {"MPI_Isend/MPI_Irecv/MPI_Wait", isend_irecv, of_left, 0},
            {"MPI_Bcast", bcast, of_root, 0},
            {"MPI_Scatter", scatter, of_scatter, 1},
            {"MPI_Gather", gather, of_gather, 0},
            {"MPI_Allgather", allgather, of_all, 0},
            {"MPI_Alltoall", alltoall, of_alltoall, 1},
            {"MPI_Reduce", reduce, of_reduce, 0},
            {"MPI_Allreduce", allreduce, of_allreduce, 0},
            {"MPI_Reduce_scatter", reduce_scatter, of_reduce_scatter, 1},
            {"MPI_Scan", scan, of_scan, 0}};

static int shown;

static void tell(const char *name, int integers, long n, double op, double sync) {
    if (rank == 0)
        printf("%s{\"name\":\"%s\",\"integers\":%d,\"repeats\":%ld,\"operation_s\":%.9f,\"synchronisation_s\":%.9f,\"s\":%.9f}",
               shown++ ? "," : "", name, integers, n, op / (double)n, sync / (double)n, (op + sync) / (double)n);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    long many = number(argc, argv, 1, 1, 1L << 30, 100000), few = number(argc, argv, 2, 1, 1L << 30, 100), checked = 0;
    if (np < 2 || np > 4096)
        fail("mpitest needs 2 to 4096 processes");
    mine = memory((size_t)np * LONGEST * sizeof *mine);
    theirs = memory((size_t)np * LONGEST * sizeof *theirs);
    if (rank == 0)
        printf("{\"program\":\"mpitest\",\"np\":%d,\"operations\":[", np);
    /* One synchronisation after all repeats: a barrier after each would be all that is measured. */
    for (size_t o = 0; o < sizeof fast / sizeof *fast; o++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double at = MPI_Wtime();
        for (long k = 0; k < many; k++)
            fast[o].run(k);
        double between = MPI_Wtime();
        MPI_Barrier(MPI_COMM_WORLD);
        tell(fast[o].name, 0, many, between - at, MPI_Wtime() - between);
    }
    static const int lengths[] = {1, 10, LONGEST};
    for (size_t o = 0; o < sizeof slow / sizeof *slow; o++)
        for (int l = 0; l < 3; l++) {
            length = lengths[l];
            double op = 0, sync = 0;
            for (long k = 0; k < few; k++) {
                give(k, slow[o].many);
                memset(theirs, 0xff, (size_t)np * LONGEST * sizeof *theirs);
                MPI_Barrier(MPI_COMM_WORLD);
                double at = MPI_Wtime();
                slow[o].run(k);
                double between = MPI_Wtime();
                MPI_Barrier(MPI_COMM_WORLD);
                sync += MPI_Wtime() - between;
                op += between - at;
                slow[o].check(k);
                checked++;
            }
            tell(slow[o].name, length, few, op, sync);
        }
    long all;
    MPI_Reduce(&checked, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("],\"checked\":%ld}\n", all);
    MPI_Finalize();
    return 0;
}
