/* Copies files with MPI-IO, one after the other: each process has a view of its own part of both files, and moves it by a
   buffer. The last view may be shorter. For each MiB it uses processor time and waits, as if the storage were busy.
   usage: copy BUFFER_BYTES CPU_SECONDS WAIT_SECONDS FROM TO [FROM TO]… */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* As job.c of the lab has in its copies. */
#define ROUNDS 500000

static volatile unsigned long sum = 1;

static void must(int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (error == MPI_SUCCESS)
        return;
    MPI_Error_string(error, text, &length);
    fprintf(stderr, "copy: %s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double used(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* A barrier that polls would use up the processor of its node. */
static void wait_for_all(void)
{
    MPI_Request all;
    int done = 0;
    must(MPI_Ibarrier(MPI_COMM_WORLD, &all), "barrier");
    while (!done) {
        must(MPI_Test(&all, &done, MPI_STATUS_IGNORE), "barrier");
        if (!done)
            usleep(2000);
    }
}

static void copy(const char *source, const char *target, char *block, long buffer, double cpu, double wait)
{
    int rank, size;
    MPI_File from, to;
    MPI_Offset bytes;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    must(MPI_File_open(MPI_COMM_WORLD, source, MPI_MODE_RDONLY, MPI_INFO_NULL, &from), source);
    must(MPI_File_open(MPI_COMM_WORLD, target, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &to), target);
    must(MPI_File_get_size(from, &bytes), "size");
    must(MPI_File_set_size(to, bytes), "set size");
    MPI_Offset part = (bytes + size - 1) / size, begin = part * rank < bytes ? part * rank : bytes;
    MPI_Offset end = begin + part < bytes ? begin + part : bytes;
    must(MPI_File_set_view(from, begin, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "view");
    must(MPI_File_set_view(to, begin, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "view");
    for (MPI_Offset at = 0; at < end - begin;) {
        int n = end - begin - at < buffer ? end - begin - at : buffer, got;
        double mib = n / 1048576.0, until = used() + cpu * mib;
        MPI_Status status;
        while (used() < until)
            for (long i = 0; i < ROUNDS; i++)
                sum = sum * 1103515245 + 12345;
        must(MPI_File_read(from, block, n, MPI_BYTE, &status), "read");
        MPI_Get_count(&status, MPI_BYTE, &got);
        if (got != n) {
            fprintf(stderr, "copy: %d of %d bytes were read\n", got, n);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        must(MPI_File_write(to, block, n, MPI_BYTE, &status), "write");
        if (wait > 0)
            usleep(wait * mib * 1e6);
        at += n;
    }
    wait_for_all();
    must(MPI_File_close(&from), "close");
    must(MPI_File_close(&to), "close");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long buffer = argc > 1 ? atol(argv[1]) : 0;
    char *block = buffer > 0 ? malloc(buffer) : NULL;
    if (!block || argc < 6 || argc % 2) {
        fprintf(stderr, "usage: copy BUFFER_BYTES CPU_SECONDS WAIT_SECONDS FROM TO [FROM TO]...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 4; i < argc; i += 2)
        copy(argv[i], argv[i + 1], block, buffer, atof(argv[2]), atof(argv[3]));
    MPI_Finalize();
    return 0;
}
