/* prctl(PR_SET_TSC): while PR_TSC_SIGSEGV is set, rdtsc raises SIGSEGV each time, wherever the thread runs; after
 * PR_TSC_ENABLE it works. Each thread by itself; threads and children inherit the setting. The clocks of the vDSO use
 * rdtsc, so none is read while it is forbidden, except by system call. About 1 s. */
#include "show.h"
#include <ucontext.h>

static __thread volatile int faults, strange;

/* Steps over the rdtsc. */
static void hit(int s, siginfo_t *i, void *u)
{
    greg_t *r = ((ucontext_t *)u)->uc_mcontext.gregs;
    if (memcmp((void *)r[REG_RIP], "\x0f\x31", 2)) {
        say("another fault");
        _exit(98);
    }
    strange += i->si_code != SI_KERNEL;
    faults++;
    r[REG_RIP] += 2;
}

static void rdtsc(void) { asm volatile("rdtsc" ::: "rax", "rdx", "memory"); }

static int setting(void)
{
    int v = -1;
    return prctl(PR_GET_TSC, &v) ? -errno : v;
}

/* Half the time blocked, half computing. */
static void rounds(const char *who, int times)
{
    faults = 0;
    int other = 0, before = setting();
    for (int i = 0; i < times; i++) {
        rdtsc();
        i % 2 ? rest(6) : (void)chew(5 * CHEW_MS);
        other += setting() != before;
    }
    say("%s: setting %d, faults %d of %d, settings that differ %d, strange %d", who, before, faults, times, other, strange);
}

static int gate[2][2];

static void wake(int which) { write(gate[which][1], "", 1); }
static void await(int which) { char c; while (read(gate[which][0], &c, 1) != 1) ; }

static void *thread(void *arg)
{
    rounds("thread, as born", 10);
    SHOW(prctl(PR_SET_TSC, PR_TSC_ENABLE));
    rounds("thread, allowed", 10);
    wake(0); /* the first thread is to see that it has its own */
    await(1);
    rounds("thread, at its end", 4);
    return NULL;
}

static void *allowed(void *arg)
{
    rounds("thread of an allowed one", 6);
    SHOW(prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
    rounds("forbidden by itself", 10);
    return NULL;
}

static double asked(void)
{
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(void)
{
    struct sigaction a = {.sa_sigaction = hit, .sa_flags = SA_SIGINFO};
    int status;
    pthread_t t;
    sigaction(SIGSEGV, &a, NULL);
    pipe(gate[0]);
    pipe(gate[1]);
    rounds("start", 6);
    SHOW(prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
    rounds("forbidden", 40);
    double last = asked();
    int back = 0;
    for (int i = 0; i < 10; i++) {
        rest(4);
        double t = asked();
        back += t < last;
        last = t;
    }
    say("the clock by system call went back %d times", back);
    SHOW(prctl(PR_SET_TSC, 99));
    SHOW(prctl(PR_GET_TSC, (int *)8));
    SHOW(setting());
    pthread_create(&t, NULL, thread, NULL);
    await(0);
    rounds("first thread", 10);
    wake(1);
    pthread_join(t, NULL);
    pid_t child = fork();
    if (!child) {
        rounds("child", 10);
        SHOW(prctl(PR_SET_TSC, PR_TSC_ENABLE));
        rounds("child, allowed", 6);
        _exit(0);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child", status);
    child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        rest(40);
        rdtsc();
        _exit(0);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child without a handler", status);
    SHOW(prctl(PR_SET_TSC, PR_TSC_ENABLE));
    rounds("allowed again", 10);
    pthread_create(&t, NULL, allowed, NULL);
    pthread_join(t, NULL);
    rounds("end", 6);
    double begun = now();
    rest(20);
    HOLDS(now() - begun >= 0.02);
    return 0;
}
