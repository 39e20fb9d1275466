/* A job of a scenario: holds so many MiB and uses so many seconds of processor time, by its own clock. It may copy a file
   meanwhile, and wait for the storage for so many seconds in all.
   usage: job SECONDS MIB [WAIT FROM TO] */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Rounds between two readings of the clock: a reading is a call, which costs a program that is away more than one at
   home. Some ten milliseconds of a processor of 3 GHz. */
#define ROUNDS 10000000
/* The same in a copy, whose parts are short. */
#define SHORT_ROUNDS 500000
/* A copy is made in so many parts, each computed, then read and written; `armento sim` divides it alike. */
#define PARTS 30
#define BLOCK (64 << 10)

static volatile unsigned long sum = 1;

static void compute(double seconds, long rounds)
{
    struct timespec used;
    do {
        for (long i = 0; i < rounds; i++)
            sum = sum * 1103515245 + 12345;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (used.tv_sec + used.tv_nsec / 1e9 < seconds);
}

static int copy(double seconds, double wait, const char *from, const char *to)
{
    static char block[BLOCK];
    struct timespec part = {.tv_sec = (long)(wait / PARTS)};
    struct stat st;
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (in < 0 || out < 0 || fstat(in, &st))
        return 1;
    part.tv_nsec = (wait / PARTS - part.tv_sec) * 1e9;
    for (int i = 1; i <= PARTS; i++) {
        compute(seconds * i / PARTS, SHORT_ROUNDS);
        off_t end = i == PARTS ? st.st_size : st.st_size / PARTS * i;
        for (off_t at = st.st_size / PARTS * (i - 1); at < end;) {
            ssize_t n = read(in, block, end - at < BLOCK ? end - at : BLOCK);
            if (n <= 0 || write(out, block, n) != n)
                return 1;
            at += n;
        }
        nanosleep(&part, NULL);
    }
    return close(out);
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 6)
        return 2;
    double seconds = atof(argv[1]);
    size_t bytes = strtoul(argv[2], NULL, 10) << 20;
    char *held = malloc(bytes);
    if (bytes && !held)
        return 1;
    /* All pages differ, so that none is left out of the transfer. */
    for (size_t i = 0; i < bytes; i++)
        held[i] = i ^ i >> 12 ^ i >> 20;
    if (argc == 6)
        return copy(seconds, atof(argv[3]), argv[4], argv[5]);
    compute(seconds, ROUNDS);
    return 0;
}
