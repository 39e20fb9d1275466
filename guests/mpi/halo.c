/* halo [CELLS [STEPS]]: a cube of CELLS^3 cells a process, in a grid of processes that is closed in all directions. Each step
 * exchanges the outermost layer with 26 neighbours (6 faces, 12 edges, 8 corners), checks every cell that came, and replaces each
 * cell by the mean of the 27 around it, which keeps the sum of all. */
#include "common.h"

static int grid[3], at[3], side;
static double *cells, *next;

#define WIDE (side + 2)
static double *cell(double *of, int x, int y, int z) { return &of[((long)z * WIDE + y) * WIDE + x]; }

static int process(const int d[3]) {
    int p[3];
    for (int i = 0; i < 3; i++)
        p[i] = (at[i] + d[i] + grid[i]) % grid[i];
    return (p[2] * grid[1] + p[1]) * grid[0] + p[0];
}

/* First and last cell, in one dimension, of what goes to the neighbour in direction d, or (outside) comes from it. */
static void range(int d, int outside, int *from, int *to) {
    *from = 1, *to = side;
    if (d < 0)
        *from = *to = 1 - outside;
    if (d > 0)
        *from = *to = side + outside;
}

static long copy(const int d[3], int outside, double *buffer, int into) {
    int f[3], t[3];
    for (int i = 0; i < 3; i++)
        range(d[i], outside, &f[i], &t[i]);
    long n = 0;
    for (int z = f[2]; z <= t[2]; z++)
        for (int y = f[1]; y <= t[1]; y++)
            for (int x = f[0]; x <= t[0]; x++, n++) {
                if (into)
                    buffer[n] = *cell(cells, x, y, z);
                else
                    *cell(cells, x, y, z) = buffer[n];
            }
    return n;
}

/* What a cell has in the first step, from its place in the whole. */
static double first(long x, long y, long z) {
    long n[3] = {(long)side * grid[0], (long)side * grid[1], (long)side * grid[2]};
    x = (x + n[0]) % n[0], y = (y + n[1]) % n[1], z = (z + n[2]) % n[2];
    return (double)((x * 73 + y * 179 + z * 283) % 1009);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    side = (int)number(argc, argv, 1, 1, 1024, 24);
    long steps = number(argc, argv, 2, 1, 1L << 30, 50);
    MPI_Dims_create(np, 3, grid);
    at[0] = rank % grid[0], at[1] = rank / grid[0] % grid[1], at[2] = rank / grid[0] / grid[1];
    size_t all = (size_t)WIDE * WIDE * WIDE * sizeof *cells;
    cells = memory(all), next = memory(all);
    double sum = 0, whole;
    for (int z = 1; z <= side; z++)
        for (int y = 1; y <= side; y++)
            for (int x = 1; x <= side; x++)
                sum += *cell(cells, x, y, z) = first((long)at[0] * side + x - 1, (long)at[1] * side + y - 1, (long)at[2] * side + z - 1);
    MPI_Allreduce(&sum, &whole, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int d[26][3], neighbours = 0;
    for (int i = 0; i < 27; i++)
        if (i != 13)
            d[neighbours][0] = i % 3 - 1, d[neighbours][1] = i / 3 % 3 - 1, d[neighbours++][2] = i / 9 - 1;
    double *in[26], *out[26];
    for (int i = 0; i < 26; i++)
        in[i] = memory((size_t)side * side * sizeof(double)), out[i] = memory((size_t)side * side * sizeof(double));
    long sent = 0, checked = 0;
    double exchanging = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (long k = 0; k < steps; k++) {
        MPI_Request open[52];
        double t = MPI_Wtime();
        for (int i = 0; i < 26; i++) {
            int back[3] = {-d[i][0], -d[i][1], -d[i][2]};
            long n = copy(d[i], 0, out[i], 1);
            /* What comes from `back` was sent in direction d: the tag is the direction of travel. */
            MPI_Irecv(in[i], (int)n, MPI_DOUBLE, process(back), i, MPI_COMM_WORLD, &open[i]);
            MPI_Isend(out[i], (int)n, MPI_DOUBLE, process(d[i]), i, MPI_COMM_WORLD, &open[26 + i]);
            sent += n * (long)sizeof(double);
        }
        MPI_Waitall(52, open, MPI_STATUSES_IGNORE);
        exchanging += MPI_Wtime() - t;
        for (int i = 0; i < 26; i++) {
            int back[3] = {-d[i][0], -d[i][1], -d[i][2]};
            copy(back, 1, in[i], 0);
        }
        if (k == 0)
            for (int z = 0; z < WIDE; z++)
                for (int y = 0; y < WIDE; y++)
                    for (int x = 0; x < WIDE; x++, checked++)
                        if (*cell(cells, x, y, z) != first((long)at[0] * side + x - 1, (long)at[1] * side + y - 1, (long)at[2] * side + z - 1))
                            fail("cell %d,%d,%d is wrong after the first exchange", x, y, z);
        for (int z = 1; z <= side; z++)
            for (int y = 1; y <= side; y++)
                for (int x = 1; x <= side; x++) {
                    double s = 0;
                    for (int c = -1; c <= 1; c++)
                        for (int b = -1; b <= 1; b++)
                            for (int a = -1; a <= 1; a++)
                                s += *cell(cells, x + a, y + b, z + c);
                    *cell(next, x, y, z) = s / 27;
                }
        double *old = cells;
        cells = next, next = old;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double passed = MPI_Wtime() - began;
    double now = 0, after, print = 0, prints;
    for (int z = 1; z <= side; z++)
        for (int y = 1; y <= side; y++)
            for (int x = 1; x <= side; x++)
                now += *cell(cells, x, y, z), print += *cell(cells, x, y, z) * (x + 3 * y + 7 * z);
    MPI_Reduce(&now, &after, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&print, &prints, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    long ours[2] = {sent, checked}, totals[2];
    MPI_Reduce(ours, totals, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        if (fabs(after - whole) > 1e-9 * whole)
            fail("the sum of all cells is %.12g instead of %.12g", after, whole);
        printf("{\"program\":\"halo\",\"np\":%d,\"grid\":[%d,%d,%d],\"side\":%d,\"steps\":%ld,\"s\":%.6f,\"exchange_s\":%.6f,\"sent_bytes\":%ld,"
               "\"checked\":%ld,\"sum\":%.15g,\"print\":%.10g}\n",
               np, grid[0], grid[1], grid[2], side, steps, passed, exchanging, totals[0], totals[1], after, prints);
    }
    MPI_Finalize();
    return 0;
}
