/* getrusage beyond CPU time: the largest resident size is at least what was touched, and stays after munmap and
 * through exec; page faults are at least as many as pages touched: by the process, a thread, children and
 * grandchildren that were waited for, as wait4 has it; sleeps count as switches. Relations only. About 1.3 s. */
#include "show.h"

#define MIB (1l << 20)
/* The kernel counts resident pages in batches for each CPU, so the reported size may be a little less. */
#define KB(mib) ((mib) * 1024 * 7 / 8)

static char *touch(long mib)
{
    char *m = mmap(NULL, mib * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(m, mib * MIB, MADV_NOHUGEPAGE); /* otherwise one fault would map many pages */
    for (long i = 0; i < mib * MIB; i += 4096)
        m[i] = 1;
    return m;
}

static struct rusage get(int who)
{
    struct rusage r;
    memset(&r, 0, sizeof r);
    if (getrusage(who, &r))
        say("getrusage: %s", errno_name(errno));
    return r;
}

static double cpu(struct rusage r)
{
    return r.ru_utime.tv_sec + r.ru_utime.tv_usec / 1e6 + r.ru_stime.tv_sec + r.ru_stime.tv_usec / 1e6;
}

static void *thread(void *arg)
{
    struct rusage before = get(RUSAGE_THREAD), all = get(RUSAGE_SELF), after, later;
    touch(16);
    for (int i = 0; i < 20; i++)
        rest(2);
    chew(60 * CHEW_MS);
    after = get(RUSAGE_THREAD);
    later = get(RUSAGE_SELF);
    HOLDS(after.ru_minflt - before.ru_minflt >= 16 * MIB / 4096);
    HOLDS(after.ru_nvcsw - before.ru_nvcsw >= 5);
    HOLDS(cpu(after) > cpu(before));
    HOLDS(after.ru_maxrss >= KB(64)); /* the process's */
    HOLDS(later.ru_minflt - all.ru_minflt >= after.ru_minflt - before.ru_minflt);
    HOLDS(cpu(later) >= cpu(after));
    return NULL;
}

int main(int argc, char **argv)
{
    struct rusage a, b, c, d;
    if (argc > 1) {
        a = get(RUSAGE_SELF);
        HOLDS(a.ru_maxrss >= KB(40)); /* the old program's */
        rest(30);
        b = get(RUSAGE_SELF);
        HOLDS(b.ru_maxrss >= a.ru_maxrss && b.ru_minflt >= a.ru_minflt);
        return 8;
    }
    char link[4096] = {0};
    int status;
    readlink("/proc/self/exe", link, sizeof link - 1);
    a = get(RUSAGE_SELF);
    HOLDS(a.ru_maxrss > 0 && a.ru_minflt > 0);
    rest(40);
    char *m = touch(64);
    b = get(RUSAGE_SELF);
    HOLDS(b.ru_maxrss >= KB(64));
    HOLDS(b.ru_minflt - a.ru_minflt >= 64 * MIB / 4096);
    chew(40 * CHEW_MS);
    munmap(m, 64 * MIB);
    rest(40);
    c = get(RUSAGE_SELF);
    HOLDS(c.ru_maxrss >= b.ru_maxrss); /* the largest so far */
    HOLDS(c.ru_minflt >= b.ru_minflt && c.ru_majflt >= b.ru_majflt);
    HOLDS(cpu(c) > cpu(a));
    for (int i = 0; i < 20; i++)
        rest(3);
    d = get(RUSAGE_SELF);
    HOLDS(d.ru_nvcsw - c.ru_nvcsw >= 5 && d.ru_nivcsw >= c.ru_nivcsw);
    m = touch(8);
    for (int i = 0; i < 5; i++) {
        struct rusage last = get(RUSAGE_SELF);
        madvise(m, 8 * MIB, MADV_DONTNEED);
        rest(10);
        chew(10 * CHEW_MS);
        for (long k = 0; k < 8 * MIB; k += 4096)
            m[k] = 2;
        struct rusage next = get(RUSAGE_SELF);
        HOLDS(next.ru_minflt - last.ru_minflt >= 8 * MIB / 4096);
        HOLDS(next.ru_maxrss >= last.ru_maxrss);
    }
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    HOLDS(get(RUSAGE_SELF).ru_minflt >= 64 * MIB / 4096 + 16 * MIB / 4096);

    /* Children count when they were waited for. */
    a = get(RUSAGE_CHILDREN);
    pid_t child = fork();
    if (!child) {
        rest(20);
        touch(96);
        chew(30 * CHEW_MS);
        _exit(3);
    }
    struct rusage own;
    memset(&own, 0, sizeof own);
    HOLDS(wait4(child, &status, 0, &own) == child);
    say_status("child", status);
    b = get(RUSAGE_CHILDREN);
    HOLDS(own.ru_maxrss >= KB(96));
    HOLDS(own.ru_minflt >= 96 * MIB / 4096);
    HOLDS(cpu(own) > 0);
    HOLDS(b.ru_maxrss >= own.ru_maxrss);
    HOLDS(b.ru_minflt - a.ru_minflt >= own.ru_minflt);
    HOLDS(cpu(b) - cpu(a) >= cpu(own) - 0.01);

    child = fork();
    if (!child) {
        pid_t grandchild = fork();
        if (!grandchild) {
            touch(128);
            rest(30);
            _exit(2);
        }
        waitpid(grandchild, &status, 0);
        struct rusage r = get(RUSAGE_CHILDREN);
        HOLDS(r.ru_maxrss >= KB(128));
        HOLDS(r.ru_minflt >= 128 * MIB / 4096);
        rest(20);
        _exit(WEXITSTATUS(status));
    }
    memset(&own, 0, sizeof own);
    HOLDS(wait4(child, &status, 0, &own) == child);
    say_status("middle", status);
    HOLDS(own.ru_maxrss >= KB(128)); /* with those that it waited for */
    HOLDS(own.ru_minflt >= 128 * MIB / 4096);
    HOLDS(get(RUSAGE_CHILDREN).ru_minflt - b.ru_minflt >= 128 * MIB / 4096);
    HOLDS(get(RUSAGE_CHILDREN).ru_maxrss >= KB(128));

    child = fork();
    if (!child) {
        m = touch(40);
        rest(20);
        execl(link, "usage", "again", NULL);
        _exit(1);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("new program", status);
    SHOW(getrusage(99, &a));
    SHOW(getrusage(RUSAGE_SELF, (struct rusage *)8));
    return 0;
}
