/* What the MPI programs share: ends with a reason, waiting without a processor, numbers for JSON. */
#include <mpi.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, np;

static void fail(const char *form, ...) {
    va_list args;
    va_start(args, form);
    fprintf(stderr, "rank %d: ", rank);
    vfprintf(stderr, form, args);
    fputc('\n', stderr);
    va_end(args);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
}

static inline long number(int argc, char **argv, int i, long least, long most, long otherwise) {
    if (i >= argc)
        return otherwise;
    char *end;
    long n = strtol(argv[i], &end, 10);
    if (*end || end == argv[i] || n < least || n > most)
        fail("argument %d is `%s`, not a number from %ld to %ld", i, argv[i], least, most);
    return n;
}

static inline double real(int argc, char **argv, int i, double least, double most, double otherwise) {
    if (i >= argc)
        return otherwise;
    char *end;
    double x = strtod(argv[i], &end);
    if (*end || end == argv[i] || !(x >= least && x <= most))
        fail("argument %d is `%s`, not a number from %g to %g", i, argv[i], least, most);
    return x;
}

static inline void *memory(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        fail("no memory for %zu bytes", bytes);
    return p;
}

/* Implementations poll while they wait; a rank that has nothing to do leaves its processor to others. */
static inline void pause_between_tests(long *ns) {
    struct timespec pause = {0, *ns};
    nanosleep(&pause, 0);
    if (*ns < 2000000)
        *ns += *ns / 4;
}

static inline void quiet_wait(MPI_Request *request) {
    int done;
    for (long ns = 20000;; pause_between_tests(&ns)) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
    }
}

/* Which of n requests has ended; MPI_UNDEFINED where none is open. */
static inline int quiet_any(int n, MPI_Request *requests) {
    int done, which;
    for (long ns = 20000;; pause_between_tests(&ns)) {
        MPI_Testany(n, requests, &which, &done, MPI_STATUS_IGNORE);
        if (done)
            return which;
    }
}

static inline void quiet_barrier(void) {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    quiet_wait(&request);
}

/* All go on together, with whatever a quota of processor time gave back meanwhile. */
static inline void quiet_start(void) {
    struct timespec pause = {0, 30000000};
    quiet_barrier();
    nanosleep(&pause, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Bytes that differ from message to message and from rank to rank. */
static inline void fill(unsigned char *at, long bytes, unsigned salt) {
    for (long i = 0; i < bytes; i++)
        at[i] = (unsigned char)(i * 31 + (i >> 8) + salt);
}

static inline void check_bytes(const unsigned char *at, long bytes, unsigned salt, const char *what) {
    for (long i = 0; i < bytes; i++)
        if (at[i] != (unsigned char)(i * 31 + (i >> 8) + salt))
            fail("%s: byte %ld of %ld is wrong", what, i, bytes);
}
