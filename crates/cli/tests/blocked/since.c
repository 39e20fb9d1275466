/* Waits in epoll_wait for so many milliseconds, with so many MiB of memory, and prints how long the wait was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    int ms = atoi(argv[1]), fd = epoll_create1(0);
    size_t mib = atoi(argv[2]);
    char *memory = malloc(mib << 20);
    memset(memory, argc, mib << 20);
    double begun = now();
    struct epoll_event e;
    int n = epoll_wait(fd, &e, 1, ms);
    printf("%d %.0f\n", n, now() - begun);
    return memory[(mib << 20) - 1] != argc;
}
