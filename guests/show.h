/* Shared by all guests: one line a call, written at once, without a buffer that a fork could copy. */
#ifndef SHOW_H
#define SHOW_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* One write(2), so lines of several processes and threads never mix. Keeps errno. */
__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...)
{
    char line[1024];
    int kept = errno;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n > (int)sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    for (int at = 0; at < n;) {
        ssize_t w = write(1, line + at, n - at);
        if (w > 0)
            at += w;
        else if (errno != EINTR)
            _exit(99);
    }
    errno = kept;
}

__attribute__((unused)) static const char *errno_name(int number)
{
    const char *name = number ? strerrorname_np(number) : "";
    return name ? name : "(unknown errno)";
}

/* Prints a call as written, its value, and its errno when the value is -1. */
#define SHOW(call)                                                                                 \
    ({                                                                                             \
        errno = 0;                                                                                 \
        long value_ = (long)(call);                                                                \
        int errno_ = errno;                                                                        \
        say("%s = %ld %s", #call, value_, value_ == -1 ? errno_name(errno_) : "");                 \
        errno = errno_;                                                                            \
        value_;                                                                                    \
    })

/* Prints whether something holds; for values that differ from run to run. */
#define HOLDS(condition) say("%s: %s", (condition) ? "holds" : "DOES NOT HOLD", #condition)

__attribute__((unused)) static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Runs in user mode only, so that a move hits between calls too. Same result for the same rounds. */
__attribute__((unused, noinline)) static uint64_t chew(uint64_t rounds)
{
    uint64_t x = 88172645463325252ull;
    for (uint64_t i = 0; i < rounds; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        asm volatile("" : "+r"(x)); /* otherwise calls with an unused result would be removed */
    }
    return x;
}

/* About 1 ms of CPU on a machine of 2025. */
#define CHEW_MS 400000ull

__attribute__((unused)) static void rest(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

__attribute__((unused)) static uint64_t hash(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = 1469598103934665603ull;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 1099511628211ull;
    return h;
}

/* Prints how a child ended. */
__attribute__((unused)) static void say_status(const char *who, int status)
{
    if (WIFEXITED(status))
        say("%s: exited %d", who, WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        say("%s: killed by %d", who, WTERMSIG(status));
    else if (WIFSTOPPED(status))
        say("%s: stopped by %d", who, WSTOPSIG(status));
    else if (WIFCONTINUED(status))
        say("%s: continued", who);
    else
        say("%s: status %x", who, status);
}

/* So many milliseconds from now. */
__attribute__((unused)) static struct timespec soon(clockid_t id, int ms)
{
    struct timespec t;
    clock_gettime(id, &t);
    t.tv_nsec += ms * 1000000l;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}
#endif
