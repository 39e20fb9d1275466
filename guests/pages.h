/* Contents of a file mapping page by page: letters, and signals. */
#ifndef PAGES_H
#define PAGES_H
#include "show.h"

static sigjmp_buf back;
static volatile int signo, code;
static void fault(int s, siginfo_t *i, void *u)
{
    signo = s, code = i->si_code;
    siglongjmp(back, 1);
}

/* One letter a page: its first byte, ! for SIGBUS. */
static void look(const char *when, volatile char *p, int pages)
{
    static char line[65];
    memset(line, 0, sizeof line);
    for (volatile int i = 0; i < pages; i++)
        if (!sigsetjmp(back, 1))
            line[i] = p[i * 4096] ?: '.';
        else
            line[i] = signo == SIGBUS ? '!' : '?';
    say("%s: %s", when, line);
}

static void fill(int fd, int from, int to, char base)
{
    char page[4096];
    for (int i = from; i < to; i++) {
        memset(page, base + i, sizeof page);
        pwrite(fd, page, sizeof page, i * 4096l);
    }
}

/* From now on faults come back to look(). */
__attribute__((unused)) static void catch_faults(void)
{
    struct sigaction a = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &a, NULL), sigaction(SIGSEGV, &a, NULL);
}
#endif
