/* /proc/self/stat, statm and status against getpid and friends, thread counts, signal masks, memory that grows,
 * limits, name changes, capabilities, CPU lists; the same by /proc/PID, /proc/thread-self and for each task.
 * About 0.8 s. */
#include "slurp.h"
#include <dirent.h>

/* The nth field of stat, counted as proc(5) does; those behind the name. */
static long stat_field(const char *path, int n)
{
    char *at = strrchr(slurp(path), ')');
    at = at ? at + 2 : text;
    for (int i = 3; i < n && at; i++)
        at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
    return at ? n == 3 ? *at : atol(at) : -1;
}

static char *status_line(const char *path, const char *name)
{
    static char lines[4][256];
    static int next;
    char *line = lines[next++ % 4];
    char *at = strstr(slurp(path), name);
    line[0] = 0;
    if (at)
        sscanf(at + strlen(name), " %255[^\n]", line);
    return line;
}

static void identity(void)
{
    const char *p = "/proc/self/stat", *s = "/proc/self/status";
    HOLDS(atol(slurp(p)) == getpid());
    HOLDS(stat_field(p, 3) == 'R');
    HOLDS(stat_field(p, 4) == getppid());
    HOLDS(stat_field(p, 5) == getpgrp());
    HOLDS(stat_field(p, 6) == getsid(0));
    HOLDS(stat_field(p, 18) == 20 + getpriority(PRIO_PROCESS, 0));
    HOLDS(stat_field(p, 19) == getpriority(PRIO_PROCESS, 0));
    say("threads %ld", stat_field(p, 20));
    HOLDS(atoi(status_line(s, "\nTgid:")) == getpid());
    HOLDS(atoi(status_line(s, "\nPPid:")) == getppid());
    HOLDS(atoi(status_line(s, "\nUid:")) == (int)getuid());
    HOLDS(atoi(status_line(s, "\nGid:")) == (int)getgid());
    say("threads %s", status_line(s, "\nThreads:"));
    say("name %s umask %s", status_line(s, "Name:"), status_line(s, "\nUmask:"));
    say("state %c traced by %s", *status_line(s, "\nState:"), status_line(s, "\nTracerPid:"));
    say("capabilities %s", status_line(s, "\nCapEff:"));
    say("no new rights %s seccomp %s", status_line(s, "\nNoNewPrivs:"), status_line(s, "\nSeccomp:"));
}

static void on(int sig) {}

static void signals(void)
{
    const char *s = "/proc/self/status";
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1), sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, &old);
    signal(SIGUSR2, on), signal(SIGHUP, SIG_IGN);
    raise(SIGUSR1);
    kill(getpid(), SIGRTMIN + 1);
    for (int i = 0; i < 2; i++) {
        say("blocked %s", status_line(s, "\nSigBlk:"));
        say("ignored %s", status_line(s, "\nSigIgn:"));
        say("caught %s", status_line(s, "\nSigCgt:"));
        say("pending %s", status_line(s, "\nSigPnd:"));
        say("shared pending %s", status_line(s, "\nShdPnd:"));
        rest(85);
    }
    signal(SIGUSR1, on), signal(SIGRTMIN + 1, on);
    sigprocmask(SIG_SETMASK, &old, NULL);
    say("pending %s %s", status_line(s, "\nSigPnd:"), status_line(s, "\nShdPnd:") + 8);
}

static pthread_barrier_t gate;
static void *sleeper(void *arg)
{
    char path[64];
    sprintf(path, "thread-%ld", (long)arg);
    prctl(PR_SET_NAME, path);
    pthread_barrier_wait(&gate);
    HOLDS(arg != (void *)1 || atoi(status_line("/proc/thread-self/status", "\nPid:")) == gettid());
    pthread_barrier_wait(&gate);
    return NULL;
}

int main(void)
{
    const char *p = "/proc/self/stat";
    identity();
    rest(85);
    signals();
    long before = stat_field(p, 23);
    char *more = mmap(NULL, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(stat_field(p, 23) - before == 32 << 20);
    long resident = stat_field(p, 24), size, pages;
    memset(more, 1, 8 << 20);
    HOLDS(stat_field(p, 24) - resident >= 1500); /* file pages may be dropped at any time */
    rest(85);
    HOLDS(stat_field(p, 24) - resident >= 1500);
    sscanf(slurp("/proc/self/statm"), "%ld %ld", &size, &pages);
    HOLDS(size == stat_field(p, 23) / 4096);
    long kb = atol(status_line("/proc/self/status", "\nVmSize:"));
    HOLDS(kb == size * 4);
    HOLDS(atol(status_line("/proc/self/status", "\nVmRSS:")) >= 8192);
    munmap(more, 32 << 20);
    rest(85);
    HOLDS(atol(status_line("/proc/self/status", "\nVmSize:")) == kb - 32768);
    HOLDS(atol(status_line("/proc/self/status", "\nVmPeak:")) >= kb);

    pthread_t t[3];
    pthread_barrier_init(&gate, NULL, 4);
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, sleeper, (void *)i);
    pthread_barrier_wait(&gate);
    rest(110);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    DIR *d = opendir("/proc/self/task");
    int tasks = 0;
    for (struct dirent *e; (e = readdir(d));)
        tasks += e->d_name[0] != '.';
    closedir(d);
    say("tasks %d", tasks);
    char path[64];
    sprintf(path, "/proc/%d/stat", getpid());
    HOLDS(atol(slurp(path)) == getpid());
    sprintf(path, "/proc/self/task/%d/stat", getpid());
    HOLDS(atol(slurp(path)) == getpid());
    say("%ld", (long)access("/proc/self/task/1", F_OK));
    prctl(PR_SET_NAME, "(odd) name");
    HOLDS(stat_field(p, 4) == getppid());
    slurp("/proc/self/stat");
    say("%.12s", strchr(text, '('));
    nice(4);
    rest(85);
    HOLDS(stat_field(p, 19) == 4);
    HOLDS(stat_field(p, 22) > 0);
    long cpu = stat_field(p, 14) + stat_field(p, 15);
    chew(60 * CHEW_MS);
    HOLDS(stat_field(p, 14) + stat_field(p, 15) >= cpu + 2);
    return 0;
}
