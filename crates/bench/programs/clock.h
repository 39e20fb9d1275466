/* Shared by all workloads: a clock that costs no system call, and an exit with an error. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static inline void check(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

/* One number of the command line; the harness always gives all of them. */
static inline uint64_t number(int argc, char **argv, int i)
{
	check(i < argc, "arguments");
	return strtoull(argv[i], NULL, 10);
}
