/* Clocks: 100,000 readings of several clocks never go back, wall and monotonic time agree over
 * sleeps, CPU time grows only with work, times and getrusage, clock_getres. About 1 s. */
#include "show.h"
#include <sys/times.h>

static const struct { clockid_t id; const char *name; int steady; } list[] = {
    {CLOCK_MONOTONIC, "monotonic", 1}, {CLOCK_MONOTONIC_RAW, "raw", 1},
    {CLOCK_MONOTONIC_COARSE, "coarse", 1}, {CLOCK_BOOTTIME, "boottime", 1},
    {CLOCK_REALTIME, "realtime", 1}, {CLOCK_PROCESS_CPUTIME_ID, "process cpu", 1},
    {CLOCK_THREAD_CPUTIME_ID, "thread cpu", 1},
};
#define N 7

static double read_clock(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t))
        return -1;
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(void)
{
    double last[N] = {0}, first[N];
    int back[N] = {0};
    for (int i = 0; i < N; i++)
        first[i] = last[i] = read_clock(list[i].id);
    for (int n = 0; n < 100000; n++) {
        int i = n % N;
        double t = read_clock(list[i].id);
        back[i] += t < last[i];
        last[i] = t;
        if (n % 5000 == 0)
            rest(15);
        if (n % 2000 == 1000)
            chew(10 * CHEW_MS);
    }
    for (int i = 0; i < N; i++)
        say("%s went back %d times", list[i].name, back[i]);
    HOLDS(last[0] - first[0] >= 0.3);
    HOLDS(last[4] - first[4] >= 0.3);
    double drift = (last[4] - first[4]) - (last[0] - first[0]);
    HOLDS(drift > -1 && drift < 1);
    struct timespec t;
    SHOW(clock_gettime(99, &t));
    SHOW(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, (void *)8));
    SHOW(clock_settime(CLOCK_REALTIME, &(struct timespec){0, 0}));
    SHOW(clock_getres(CLOCK_MONOTONIC, &t));
    say("resolution %ld", t.tv_nsec);
    SHOW(clock_getres(CLOCK_PROCESS_CPUTIME_ID, NULL));
    SHOW(syscall(SYS_getrusage, RUSAGE_SELF, NULL));
    HOLDS(times(NULL) != -1);
    double cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    rest(150);
    HOLDS(read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu < 0.1);
    cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    double wall = now();
    chew(150 * CHEW_MS);
    double used = read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    HOLDS(used > 0.01 && used <= now() - wall + 0.02);
    struct rusage ru;
    SHOW(getrusage(RUSAGE_SELF, &ru));
    HOLDS(ru.ru_utime.tv_sec + ru.ru_utime.tv_usec / 1e6 >= used * 0.5);
    SHOW(getrusage(77, &ru));
    struct tms tm;
    HOLDS(times(&tm) != -1 && tm.tms_utime > 0);
    HOLDS(clock() > 0);
    struct timeval tv;
    SHOW(gettimeofday(&tv, NULL));
    HOLDS(tv.tv_sec >= time(NULL) - 30 && tv.tv_sec <= time(NULL) + 1);
    struct itimerval prof = {{0, 20000}, {0, 20000}};
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGPROF), sigaddset(&set, SIGVTALRM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    SHOW(setitimer(ITIMER_PROF, &prof, NULL));
    SHOW(setitimer(ITIMER_VIRTUAL, &prof, NULL));
    int got = 0, signo;
    for (int i = 0; i < 400 && got != 3; i++) {
        chew(10 * CHEW_MS);
        sigset_t pending;
        sigpending(&pending);
        got = sigismember(&pending, SIGPROF) + 2 * sigismember(&pending, SIGVTALRM);
    }
    say("profiling signals %d", got);
    return 0;
}
