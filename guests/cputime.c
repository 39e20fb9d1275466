/* CPU time of threads, children and the whole process: no reading by any clock, getrusage or times is ever
 * smaller than the one before, a child and a new thread begin with nothing, what children used is theirs until
 * they are waited for. About 1 s. */
#include "show.h"
#include <spawn.h>
#include <sys/times.h>

extern char **environ;

enum { PROCESS, THREAD, PROCESS_BY_ID, THREAD_BY_ID, OTHER, SELF_USER, SELF_SYSTEM, THREAD_USER,
       THREAD_SYSTEM, TIMES_USER, TIMES_SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM, TIMES_CHILDREN, KINDS };

static const char *const names[KINDS] = {
    "process clock", "thread clock", "process clock by id", "thread clock by id", "clock of another thread",
    "user time", "system time", "user time of the thread", "system time of the thread", "times: user",
    "times: system", "children's user time", "children's system time", "times: children",
};

struct readings {
    double last[KINDS];
    int back[KINDS];
};

static pthread_t first;
static int total[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile sig_atomic_t signals;

static void saw(struct readings *r, int kind, double value)
{
    r->back[kind] += value < r->last[kind];
    r->last[kind] = value;
}

static double clock_of(clockid_t id)
{
    struct timespec t;
    return clock_gettime(id, &t) ? -1 : t.tv_sec + t.tv_nsec / 1e9;
}

static double seconds(struct timeval t)
{
    return t.tv_sec + t.tv_usec / 1e6;
}

static void look(struct readings *r)
{
    clockid_t id;
    saw(r, PROCESS, clock_of(CLOCK_PROCESS_CPUTIME_ID));
    saw(r, THREAD, clock_of(CLOCK_THREAD_CPUTIME_ID));
    clock_getcpuclockid(getpid(), &id);
    saw(r, PROCESS_BY_ID, clock_of(id));
    pthread_getcpuclockid(pthread_self(), &id);
    saw(r, THREAD_BY_ID, clock_of(id));
    pthread_getcpuclockid(first, &id);
    saw(r, OTHER, clock_of(id));
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    saw(r, SELF_USER, seconds(ru.ru_utime)), saw(r, SELF_SYSTEM, seconds(ru.ru_stime));
    getrusage(RUSAGE_THREAD, &ru);
    saw(r, THREAD_USER, seconds(ru.ru_utime)), saw(r, THREAD_SYSTEM, seconds(ru.ru_stime));
    getrusage(RUSAGE_CHILDREN, &ru);
    saw(r, CHILDREN_USER, seconds(ru.ru_utime)), saw(r, CHILDREN_SYSTEM, seconds(ru.ru_stime));
    struct tms tm;
    times(&tm);
    saw(r, TIMES_USER, tm.tms_utime), saw(r, TIMES_SYSTEM, tm.tms_stime);
    saw(r, TIMES_CHILDREN, tm.tms_cutime + tm.tms_cstime);
}

/* Computes and reads its CPU time, in turn. */
static void *work(void *rounds)
{
    struct readings r = {0};
    for (long i = 0; i < (long)rounds; i++) {
        look(&r);
        chew(3 * CHEW_MS);
        if (i % 5 == 0)
            rest(5);
    }
    pthread_mutex_lock(&lock);
    for (int k = 0; k < KINDS; k++)
        total[k] += r.back[k];
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void on_signal(int sig)
{
    (void)sig;
    signals++;
}

/* A child that begins with nothing, works, and has children of its own. */
static void child(void)
{
    HOLDS(clock_of(CLOCK_PROCESS_CPUTIME_ID) < 0.1);
    HOLDS(clock_of(CLOCK_THREAD_CPUTIME_ID) < 0.1);
    struct rusage ru;
    getrusage(RUSAGE_CHILDREN, &ru);
    HOLDS(seconds(ru.ru_utime) + seconds(ru.ru_stime) == 0);
    double before = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    chew(30 * CHEW_MS);
    HOLDS(clock_of(CLOCK_PROCESS_CPUTIME_ID) > before);
    _exit(3);
}

static void with_child(struct readings *r)
{
    pid_t pid = fork();
    if (pid == 0)
        child();
    int status;
    struct rusage ru;
    look(r);
    HOLDS(wait4(pid, &status, 0, &ru) == pid);
    say_status("child", status);
    HOLDS(seconds(ru.ru_utime) + seconds(ru.ru_stime) < 10);
    look(r);
    char *argv[] = {"true", NULL};
    HOLDS(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ) == 0);
    siginfo_t info;
    HOLDS(waitid(P_PID, pid, &info, WEXITED) == 0 && info.si_pid == pid);
    look(r);
}

int main(void)
{
    struct readings r = {0};
    first = pthread_self();
    signal(SIGUSR1, on_signal);
    for (int round = 0; round < 4; round++) {
        pthread_t t[3];
        for (int i = 0; i < 3; i++)
            pthread_create(&t[i], NULL, work, (void *)(long)(10 + 5 * i));
        for (int i = 0; i < 10; i++) {
            look(&r);
            chew(CHEW_MS);
            raise(SIGUSR1);
        }
        for (int i = 0; i < 3; i++)
            pthread_join(t[i], NULL);
        with_child(&r);
    }
    say("signals %d", (int)signals);
    for (int k = 0; k < KINDS; k++)
        say("%s went back %d times", names[k], total[k] + r.back[k]);
    return 0;
}
