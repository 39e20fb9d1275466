/* A task of PVM: holds so many MiB, uses so many seconds of processor time by its own clock, and tells the one that
   started it.
   usage, by pvm_spawn: pvm-task SECONDS MIB */
#include <pvm3.h>
#include <stdlib.h>
#include <time.h>

/* As deal.c reads it. */
#define DONE 1

/* Between two readings of the clock: as in job.c of the lab. */
#define ROUNDS 10000000

static volatile unsigned long sum = 1;

int main(int argc, char **argv)
{
    struct timespec used;
    int parent = pvm_parent();
    if (argc != 3 || parent < 0)
        return 2;
    double seconds = atof(argv[1]);
    size_t bytes = strtoul(argv[2], NULL, 10) << 20;
    char *held = malloc(bytes);
    if (bytes && !held)
        return 1;
    for (size_t i = 0; i < bytes; i++)
        held[i] = i ^ i >> 12 ^ i >> 20;
    do {
        for (long i = 0; i < ROUNDS; i++)
            sum = sum * 1103515245 + 12345;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (used.tv_sec + used.tv_nsec / 1e9 < seconds);
    pvm_initsend(PvmDataDefault);
    pvm_send(parent, DONE);
    pvm_exit();
    return 0;
}
