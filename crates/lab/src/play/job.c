/* A job of a scenario: holds so many MiB and uses so many seconds of processor time, by its own clock.
   usage: job SECONDS MIB */
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Rounds between two readings of the clock: a reading is a call, which costs a program that is away more than one at
   home. Some ten milliseconds of a processor of 3 GHz. */
#define ROUNDS 10000000

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    double seconds = atof(argv[1]);
    size_t bytes = strtoul(argv[2], NULL, 10) << 20;
    volatile unsigned long sum = 1;
    struct timespec used;
    char *held = malloc(bytes);
    if (bytes && !held)
        return 1;
    /* All pages differ, so that none is left out of the transfer. */
    for (size_t i = 0; i < bytes; i++)
        held[i] = i ^ i >> 12 ^ i >> 20;
    do {
        for (long i = 0; i < ROUNDS; i++)
            sum = sum * 1103515245 + 12345;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (used.tv_sec + used.tv_nsec / 1e9 < seconds);
    return 0;
}
