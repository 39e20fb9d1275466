/* timerfd: one-shot and periodic, relative and absolute, on three clocks; blocking read, poll and epoll, results of
 * gettime while it runs and after, setting it anew, errors, a timer inherited by a child. Only lower bounds of time are
 * checked. About 1 s. */
#include "show.h"
#include <sys/epoll.h>
#include <sys/timerfd.h>

static const struct { clockid_t id; const char *name; } clocks[] = {
    {CLOCK_MONOTONIC, "monotonic"}, {CLOCK_REALTIME, "realtime"}, {CLOCK_BOOTTIME, "boottime"},
};

static double read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static struct timespec after(clockid_t id, long ms)
{
    struct timespec t;
    clock_gettime(id, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void on_clock(clockid_t id, const char *name)
{
    int fd = timerfd_create(id, TFD_CLOEXEC);
    uint64_t n = 0;
    struct itimerspec its = {{0, 0}, {0, 70000000}}, left;
    say("clock %s", name);
    double begun = now();
    SHOW(timerfd_settime(fd, 0, &its, NULL));
    SHOW(timerfd_gettime(fd, &left));
    HOLDS(left.it_value.tv_sec == 0 && left.it_value.tv_nsec <= 70000000 && !left.it_interval.tv_nsec);
    SHOW(read(fd, &n, 8));
    say("expired %lu", (unsigned long)n);
    HOLDS(now() - begun > 0.0695);
    SHOW(timerfd_gettime(fd, &left));
    say("left %ld %ld", (long)left.it_value.tv_sec, left.it_value.tv_nsec);

    its.it_value = after(id, 60);
    double until = its.it_value.tv_sec + its.it_value.tv_nsec / 1e9;
    SHOW(timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL));
    SHOW(read(fd, &n, 8));
    HOLDS(read_clock(id) >= until);
    its.it_value = (struct timespec){1, 0}; /* long past */
    SHOW(timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL));
    SHOW(read(fd, &n, 8));
    say("expired %lu", (unsigned long)n);
    close(fd);
}

static void periodic(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), e = epoll_create1(0);
    struct epoll_event ev = {EPOLLIN, {.u64 = 42}};
    epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev);
    struct itimerspec its = {{0, 20000000}, {0, 20000000}}, was;
    uint64_t n, sum = 0;
    double begun = now();
    SHOW(timerfd_settime(fd, 0, &its, NULL));
    double set_at = now();
    while (sum < 12) {
        if (epoll_wait(e, &ev, 1, -1) == 1 && ev.data.u64 == 42 && read(fd, &n, 8) == 8)
            sum += n;
        chew(3 * CHEW_MS);
    }
    HOLDS(now() - begun >= sum * 0.020 - 0.001);
    rest(130);
    double seen = now();
    SHOW(read(fd, &n, 8));
    sum += n;
    HOLDS(sum >= (seen - set_at) / 0.020 - 1);
    HOLDS(sum <= (now() - begun) / 0.020 + 1);
    its = (struct itimerspec){{0, 0}, {100, 0}};
    SHOW(timerfd_settime(fd, 0, &its, &was));
    HOLDS(was.it_interval.tv_nsec == 20000000 && was.it_value.tv_nsec <= 20000000);
    SHOW(read(fd, &n, 8));
    its.it_value.tv_sec = 0;
    SHOW(timerfd_settime(fd, 0, &its, &was));
    HOLDS(was.it_value.tv_sec >= 50 && was.it_value.tv_sec <= 100);
    SHOW(epoll_wait(e, &ev, 1, 60));
    close(fd), close(e);
}

int main(void)
{
    struct itimerspec its = {{0, 0}, {0, 1000000000}};
    int p[2];
    SHOW(timerfd_create(CLOCK_THREAD_CPUTIME_ID, 0));
    SHOW(timerfd_create(CLOCK_MONOTONIC, 0x40));
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    SHOW(timerfd_settime(fd, 0, &its, NULL));
    SHOW(timerfd_settime(fd, 0x40, &its, NULL));
    pipe(p);
    SHOW(timerfd_gettime(p[0], &its));
    SHOW(timerfd_gettime(99, &its));
    for (int i = 0; i < 3; i++)
        on_clock(clocks[i].id, clocks[i].name);
    periodic();
    /* The child reads the parent's expiration, the parent reads none. */
    its = (struct itimerspec){{0, 0}, {0, 90000000}};
    timerfd_settime(fd, 0, &its, NULL);
    pid_t child = fork();
    if (!child) {
        uint64_t n = 0;
        _exit(read(fd, &n, 8) == 8 ? n : 99);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("reader", status);
    SHOW(fcntl(fd, F_SETFL, O_NONBLOCK));
    uint64_t n;
    SHOW(read(fd, &n, 8));
    return 0;
}
