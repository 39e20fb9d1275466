/* Scheduling: policies and their parameters, sched_setattr, affinity with masks of several sizes, nice of threads and
 * children, getpriority by process and group, I/O priority, sched_yield, errors for ordinary users. Proves that
 * settings are read back as set, on whatever node. About 0.6 s. */
#include "show.h"

/* As in the kernel's first version; newer C libraries have it. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static int set_attr(pid_t pid, void *attr, unsigned flags) { return syscall(SYS_sched_setattr, pid, attr, flags); }
static int get_attr(pid_t pid, void *attr, unsigned size) { return syscall(SYS_sched_getattr, pid, attr, size, 0); }

static void state(const char *when)
{
    struct attributes a = {0};
    struct sched_param p = {-1};
    sched_getparam(0, &p);
    get_attr(0, &a, sizeof a);
    say("%s: policy %d priority %d nice %d attr %u %d flags %lx slice %lu", when, sched_getscheduler(0), p.sched_priority,
        getpriority(PRIO_PROCESS, 0), a.policy, a.nice, (long)a.flags, (unsigned long)a.runtime);
}

static void *nicer(void *arg)
{
    errno = 0;
    setpriority(PRIO_PROCESS, gettid(), 7);
    rest(110);
    say("thread: nice %d", getpriority(PRIO_PROCESS, 0));
    return NULL;
}

int main(void)
{
    struct sched_param zero = {0}, one = {1};
    state("start");
    SHOW(sched_setscheduler(0, SCHED_BATCH, &zero));
    state("batch");
    rest(110);
    SHOW(sched_setscheduler(0, SCHED_BATCH, &one));
    SHOW(sched_setscheduler(0, 77, &zero));
    SHOW(sched_setscheduler(99999999, SCHED_OTHER, &zero));
    SHOW(sched_setscheduler(0, SCHED_OTHER, NULL));
    SHOW(sched_setparam(0, &one));
    SHOW(sched_setscheduler(0, SCHED_OTHER, &zero));
    for (int policy = 0; policy < 4; policy++)
        say("policy %d: %d to %d", policy, sched_get_priority_min(policy), sched_get_priority_max(policy));
    SHOW(sched_get_priority_max(99));
    struct timespec t;
    SHOW(sched_rr_get_interval(0, &t));

    struct attributes a = {.size = sizeof a, .policy = SCHED_BATCH, .nice = 2};
    SHOW(set_attr(0, &a, 0));
    state("by attributes");
    rest(110);
    a.size = 4;
    SHOW(set_attr(0, &a, 0));
    a.size = sizeof a;
    SHOW(set_attr(0, &a, 1));
    SHOW(get_attr(0, &a, 10));
    a = (struct attributes){.size = sizeof a, .policy = SCHED_OTHER, .nice = 2};
    SHOW(set_attr(0, &a, 0));

    cpu_set_t first, only, got;
    CPU_ZERO(&first);
    CPU_ZERO(&only);
    int n = sched_getaffinity(0, sizeof first, &first);
    HOLDS(n == 0 && CPU_COUNT(&first) >= 1);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &first))
        cpu++;
    CPU_SET(cpu, &only);
    SHOW(sched_setaffinity(0, sizeof only, &only));
    rest(110);
    chew(20 * CHEW_MS);
    SHOW(sched_getaffinity(0, sizeof got, &got));
    HOLDS(CPU_EQUAL(&got, &only));
    CPU_ZERO(&only);
    SHOW(sched_setaffinity(0, sizeof only, &only));
    SHOW(sched_setaffinity(0, sizeof only, (void *)8));
    SHOW(sched_setaffinity(99999999, sizeof first, &first));
    SHOW(syscall(SYS_sched_getaffinity, 0, 3, &got));
    SHOW(syscall(SYS_sched_getaffinity, 0, 0, &got));
    HOLDS(syscall(SYS_sched_getaffinity, 0, sizeof got, &got) > 0);
    SHOW(sched_setaffinity(0, sizeof first, &first));
    SHOW(sched_getaffinity(0, sizeof got, &got));
    HOLDS(CPU_EQUAL(&got, &first));

    pthread_t thread;
    pthread_create(&thread, NULL, nicer, NULL);
    pthread_join(thread, NULL);
    say("main: nice %d", getpriority(PRIO_PROCESS, 0));
    int p[2];
    pipe(p);
    pid_t child = fork();
    if (!child) {
        nice(5);
        write(p[1], "n", 1);
        for (;;)
            rest(1000);
    }
    char b;
    read(p[0], &b, 1);
    SHOW(getpriority(PRIO_PROCESS, child));
    SHOW(setpriority(PRIO_PROCESS, child, 11));
    rest(110);
    SHOW(getpriority(PRIO_PROCESS, child));
    SHOW(setpriority(PRIO_PROCESS, child, 3));
    SHOW(sched_setscheduler(child, SCHED_BATCH, &zero));
    SHOW(sched_getscheduler(child));
    SHOW(getpriority(PRIO_PGRP, 0));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    SHOW(getpriority(PRIO_PROCESS, child));
    SHOW(getpriority(9, 0));
    SHOW(getpriority(PRIO_PROCESS, 99999999));
    SHOW(setpriority(PRIO_PROCESS, 1, 3));
    SHOW(syscall(SYS_ioprio_get, 1, 0) >= 0);
    SHOW(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6));
    rest(110);
    SHOW(syscall(SYS_ioprio_get, 1, 0));
    SHOW(syscall(SYS_ioprio_set, 1, 0, 9 << 13));
    SHOW(sched_yield());
    SHOW(sched_setscheduler(0, SCHED_IDLE, &zero));
    state("idle");
    return 0;
}
