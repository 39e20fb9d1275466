/* Timers and sleeps: setitimer, alarm, timer_create with values, overruns of pending and of blocked signals, timers set
 * anew, timerfd, nanosleep cut by a signal with its remainder, clock_nanosleep relative and absolute. Only lower bounds
 * and generous upper bounds of time are checked. Proves that sleeps are neither cut nor stretched by moves, and that no
 * expiration of a timer is lost or reported twice. About 3.5 s. */
#include "show.h"
#include <sys/timerfd.h>

static volatile int ticks, value;
static void tick(int s) { ticks++; }
static void valued(int s, siginfo_t *i, void *u) { ticks++, value = i->si_value.sival_int; }

/* Between the requested time and far beyond it. */
#define TOOK(ms, ...)                                                                              \
    ({                                                                                             \
        double t0_ = now();                                                                        \
        __VA_ARGS__;                                                                               \
        double took_ = (now() - t0_) * 1000;                                                       \
        say("%s: %s", #__VA_ARGS__,                                                                \
            took_ < (ms) - 1 ? "too short" : took_ > (ms) + 20000 ? "too long" : "in time");       \
    })

static int reached(clockid_t id, const struct timespec *until)
{
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec > until->tv_sec || (t.tv_sec == until->tv_sec && t.tv_nsec >= until->tv_nsec);
}

static volatile int counted, otherwise;
static timer_t counting;
static void count(int s, siginfo_t *i, void *u)
{
    counted += 1 + i->si_overrun;
    if (timer_getoverrun(counting) != i->si_overrun)
        otherwise++;
}

/* Signals and overruns together are the expirations, however many of them are pending, and on whatever node. */
static void no_expiration_is_lost(timer_t id, const sigset_t *set)
{
    struct itimerspec its = {{0, 25000000}, {0, 25000000}};
    int sum = 0, differ = 0;
    double begun = now();
    SHOW(timer_settime(id, 0, &its, NULL));
    double set_at = now(), seen = 0;
    for (int i = 0; i < 24; i++) {
        siginfo_t si;
        if (i % 8 == 0)
            rest(120);
        if (i == 16)
            seen = now();
        sigwaitinfo(set, &si);
        sum += 1 + si.si_overrun;
        differ += timer_getoverrun(id) != si.si_overrun;
    }
    HOLDS(sum >= (seen - set_at) / 0.025 - 1);
    HOLDS(sum <= (now() - begun) / 0.025 + 1);
    HOLDS(differ == 0);

    /* … with a signal that is blocked for a while. */
    sigset_t old;
    struct sigaction a = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART}, was;
    sigaction(SIGRTMIN + 3, &a, &was);
    counting = id;
    begun = now();
    timer_settime(id, 0, &its, NULL);
    set_at = now();
    sigprocmask(SIG_UNBLOCK, set, &old);
    for (int i = 0; i < 4; i++) {
        sigprocmask(SIG_BLOCK, set, NULL);
        rest(90);
        seen = now();
        sigprocmask(SIG_UNBLOCK, set, NULL);
        for (int before = counted; counted < before + 5;)
            chew(CHEW_MS / 4);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    HOLDS(counted >= (seen - set_at) / 0.025 - 1);
    HOLDS(counted <= (now() - begun) / 0.025 + 1);
    HOLDS(otherwise == 0);
    sigaction(SIGRTMIN + 3, &was, NULL);
}

/* A signal that is pending when its timer is set again is discarded. */
static void set_anew(timer_t id, const sigset_t *set)
{
    struct itimerspec its = {{0, 20000000}, {0, 20000000}}, off = {{0, 0}, {0, 0}};
    struct timespec none = {0, 0};
    siginfo_t si;
    timer_settime(id, 0, &its, NULL);
    rest(70);
    SHOW(timer_settime(id, 0, &off, NULL));
    SHOW(timer_getoverrun(id));
    SHOW(sigtimedwait(set, &si, &none));
    timer_settime(id, 0, &its, NULL);
    rest(70);
    HOLDS(sigwaitinfo(set, NULL) == SIGRTMIN + 3);
    HOLDS(timer_getoverrun(id) >= 1);
}

int main(void)
{
    struct timespec t, rem;
    TOOK(150, rest(150));
    t = (struct timespec){0, 120000000};
    TOOK(120, SHOW(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL)));
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += 130000000;
    if (t.tv_nsec >= 1000000000)
        t.tv_sec++, t.tv_nsec -= 1000000000;
    SHOW(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL));
    HOLDS(reached(CLOCK_MONOTONIC, &t));
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 60000000;
    if (t.tv_nsec >= 1000000000)
        t.tv_sec++, t.tv_nsec -= 1000000000;
    SHOW(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL));
    HOLDS(reached(CLOCK_REALTIME, &t));
    t.tv_nsec = 1000000000;
    SHOW(nanosleep(&t, NULL));
    SHOW(nanosleep((void *)8, NULL));
    SHOW(clock_nanosleep(99, 0, &t, NULL));

    signal(SIGALRM, tick);
    struct itimerval it = {{0, 100000}, {0, 100000}}, was;
    SHOW(setitimer(ITIMER_REAL, &it, NULL));
    t = (struct timespec){5, 0};
    SHOW(nanosleep(&t, &rem));
    HOLDS(ticks >= 1);
    HOLDS(rem.tv_sec >= 2 && rem.tv_sec <= 4 && rem.tv_nsec < 1000000000);
    ticks = 0;
    it = (struct itimerval){{0, 20000}, {0, 20000}};
    setitimer(ITIMER_REAL, &it, NULL);
    while (ticks < 8)
        chew(CHEW_MS / 4);
    it = (struct itimerval){{0, 0}, {0, 0}};
    SHOW(setitimer(ITIMER_REAL, &it, &was));
    HOLDS(was.it_interval.tv_usec == 20000);
    SHOW(alarm(100));
    rest(60);
    HOLDS(alarm(0) <= 100);
    SHOW(alarm(0));
    SHOW(getitimer(ITIMER_REAL, &was));
    HOLDS(!was.it_value.tv_sec && !was.it_value.tv_usec);

    struct sigaction a = {.sa_sigaction = valued, .sa_flags = SA_SIGINFO};
    sigaction(SIGRTMIN + 3, &a, NULL);
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
    ev.sigev_value.sival_int = 99;
    timer_t id, other;
    SHOW(timer_create(CLOCK_MONOTONIC, &ev, &id));
    struct itimerspec its = {{0, 30000000}, {0, 30000000}}, cur;
    ticks = 0;
    SHOW(timer_settime(id, 0, &its, NULL));
    while (ticks < 5) {
        t = (struct timespec){0, 10000000};
        nanosleep(&t, NULL);
    }
    say("timer value %d", value);
    SHOW(timer_gettime(id, &cur));
    HOLDS(cur.it_interval.tv_nsec == 30000000 && cur.it_value.tv_nsec <= 30000000);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &set, NULL);
    rest(150);
    siginfo_t si;
    SHOW(sigwaitinfo(&set, &si) == SIGRTMIN + 3);
    HOLDS(si.si_overrun >= 2);
    HOLDS(timer_getoverrun(id) == si.si_overrun);
    no_expiration_is_lost(id, &set);
    set_anew(id, &set);
    SHOW(timer_delete(id));
    SHOW(timer_delete(id));
    SHOW(timer_create(12345, &ev, &other));

    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    HOLDS(fd >= 0);
    its = (struct itimerspec){{0, 25000000}, {0, 50000000}};
    double t0 = now();
    SHOW(timerfd_settime(fd, 0, &its, NULL));
    uint64_t n, sum = 0;
    int reads = 0;
    while (sum < 8 && read(fd, &n, 8) == 8)
        sum += n, reads++;
    HOLDS(now() - t0 > 0.215);
    HOLDS(reads >= 1 && sum >= 8);
    SHOW(fcntl(fd, F_SETFL, O_NONBLOCK));
    its = (struct itimerspec){{0, 0}, {10, 0}};
    timerfd_settime(fd, 0, &its, NULL);
    SHOW(read(fd, &n, 8));
    SHOW(read(fd, &n, 4));
    struct timeval tv = {0, 90000};
    TOOK(90, SHOW(select(0, NULL, NULL, NULL, &tv)));
    TOOK(60, SHOW(poll(NULL, 0, 60)));
    return 0;
}
