/* CPU time with timers: ITIMER_PROF and ITIMER_VIRTUAL tick while it works and not while it sleeps, a POSIX
 * timer on CLOCK_PROCESS_CPUTIME_ID, clock_nanosleep on CPU time of its own and of a child, getitimer counts
 * down; lower bounds only. A POSIX timer brings it home. About 1 s. */
#include "show.h"

static volatile int prof, virt, posix;
static void on(int s) { s == SIGPROF ? prof++ : s == SIGVTALRM ? virt++ : posix++; }

static double used(clockid_t id)
{
    struct timespec t = {0};
    clock_gettime(id, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* The clock of ITIMER_PROF. KERNEL: linux/posix-timers_types.h: the kind of a CPU clock is in its last two bits, 0 is
 * CPUCLOCK_PROF; kernel/sched/cputime.c: with CONFIG_TICK_CPU_ACCOUNTING a whole tick is charged to the process that
 * runs when it comes. On a shared processor five periods natively took 67 ms by the exact clock. */
static clockid_t sampled(void)
{
    clockid_t exact;
    clock_getcpuclockid(0, &exact);
    return exact & ~3;
}

static void *burner(void *arg)
{
    chew(60 * CHEW_MS);
    HOLDS(used(CLOCK_THREAD_CPUTIME_ID) > 0.005);
    HOLDS(used(CLOCK_THREAD_CPUTIME_ID) <= used(CLOCK_PROCESS_CPUTIME_ID));
    return NULL;
}

int main(void)
{
    struct itimerval it = {{0, 20000}, {0, 20000}}, cur, off = {{0, 0}, {0, 0}};
    chew(30 * CHEW_MS);
    rest(60);
    signal(SIGPROF, on), signal(SIGVTALRM, on), signal(SIGUSR1, on);
    SHOW(getitimer(ITIMER_PROF, &cur));
    say("left %ld %ld", (long)cur.it_value.tv_sec, (long)cur.it_value.tv_usec);
    SHOW(setitimer(ITIMER_PROF, &it, NULL));
    double begun = now(), counted = used(sampled());
    while (prof < 5)
        chew(CHEW_MS);
    HOLDS(used(sampled()) - counted >= 0.095);
    HOLDS(now() - begun >= 0.095);
    SHOW(setitimer(ITIMER_PROF, &off, &cur));
    HOLDS(cur.it_interval.tv_usec == 20000 && cur.it_value.tv_sec == 0);
    prof = 0;
    chew(50 * CHEW_MS);
    say("after it was stopped: %d", prof);

    SHOW(setitimer(ITIMER_VIRTUAL, &it, NULL));
    while (virt < 4)
        chew(CHEW_MS);
    it = (struct itimerval){{0, 0}, {5, 0}};
    SHOW(setitimer(ITIMER_VIRTUAL, &it, NULL));
    SHOW(getitimer(ITIMER_VIRTUAL, &cur));
    HOLDS(cur.it_value.tv_sec <= 5 && cur.it_value.tv_sec >= 4);
    virt = 0;
    rest(150);
    say("asleep: %d", virt);
    SHOW(setitimer(ITIMER_VIRTUAL, &off, NULL));
    it.it_value.tv_usec = 1000000;
    SHOW(setitimer(ITIMER_PROF, &it, NULL));
    SHOW(setitimer(9, &off, NULL));
    SHOW(getitimer(9, &cur));

    timer_t id;
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    SHOW(timer_create(CLOCK_PROCESS_CPUTIME_ID, &ev, &id));
    struct itimerspec its = {{0, 0}, {0, 40000000}}, left;
    double before = used(CLOCK_PROCESS_CPUTIME_ID);
    SHOW(timer_settime(id, 0, &its, NULL));
    SHOW(timer_gettime(id, &left));
    HOLDS(left.it_value.tv_nsec <= 40000000);
    while (!posix)
        chew(CHEW_MS);
    HOLDS(used(CLOCK_PROCESS_CPUTIME_ID) - before >= 0.039);
    SHOW(timer_gettime(id, &left));
    say("left %ld", left.it_value.tv_nsec);
    SHOW(timer_delete(id));

    clockid_t clock;
    pid_t child = fork();
    if (!child)
        for (;;)
            chew(CHEW_MS);
    SHOW(clock_getcpuclockid(child, &clock));
    struct timespec t = {0, 50000000};
    SHOW(clock_nanosleep(clock, 0, &t, NULL));
    HOLDS(used(clock) >= 0.049);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    SHOW(clock_gettime(clock, &t));
    SHOW(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL));
    SHOW(clock_getcpuclockid(99999999, &clock));
    pthread_t thread;
    pthread_create(&thread, NULL, burner, NULL);
    HOLDS(pthread_getcpuclockid(thread, &clock) == 0);
    SHOW(clock_getres(clock, &t));
    pthread_join(thread, NULL);
    /* Without timers it may leave. */
    chew(60 * CHEW_MS);
    rest(80);
    say("late signals %d %d", prof, virt);
    return 0;
}
