/* The order in which threads end: the leader first while others go on, exit_group from a thread, exec from a thread
 * while others block, the last thread's exit code, detached threads, destructors of thread-specific data and their
 * rounds, atexit from a thread, robust and cleared tids. About 0.8 s. */
#include "show.h"

static char self[4096];

static pid_t group;
static void *outlives(void *arg)
{
    pid_t me = gettid();
    for (int i = 0; i < 5; i++) {
        rest(40);
        chew(3 * CHEW_MS);
    }
    say("outlived: pid %d is mine %d tid differs %d leader is there %d", getpid() == group, me != group, gettid() == me,
        kill(getpid(), 0) == 0);
    exit(21);
}

static void leader_first(void)
{
    pthread_t t;
    group = getpid();
    pthread_create(&t, NULL, outlives, NULL);
    pthread_exit(NULL);
}

static void *ends_all(void *arg)
{
    rest(90);
    syscall(SYS_exit_group, 22);
    return NULL;
}
static void *blocks(void *arg)
{
    char b;
    read(*(int *)arg, &b, 1);
    return NULL;
}
static void group_by_thread(void)
{
    pthread_t t;
    int p[2];
    pipe(p);
    for (int i = 0; i < 3; i++)
        pthread_create(&t, NULL, blocks, &p[0]);
    pthread_create(&t, NULL, ends_all, NULL);
    for (;;)
        chew(CHEW_MS);
}

static void *execs(void *arg)
{
    rest(75);
    execl(self, "exitorders", "exec", NULL);
    return NULL;
}
static void exec_by_thread(void)
{
    pthread_t t;
    int p[2];
    char pid[32];
    sprintf(pid, "%d", getpid());
    setenv("PID", pid, 1);
    pipe(p);
    for (int i = 0; i < 3; i++)
        pthread_create(&t, NULL, blocks, &p[0]);
    pthread_create(&t, NULL, execs, NULL);
    pthread_exit(NULL); /* the leader is a zombie when the exec comes */
}

static void *last(void *arg)
{
    rest(135);
    syscall(SYS_exit, 33);
    return NULL;
}
/* exit(2) of every thread: the leader's code counts. */
static void by_ones(void)
{
    pthread_t t;
    pthread_create(&t, NULL, last, NULL);
    rest(30);
    syscall(SYS_exit, 23);
}

static void at_exit(void) { say("at exit"); }
static void *exits(void *arg)
{
    atexit(at_exit);
    rest(60);
    exit(24);
}
static void exit_by_thread(void)
{
    pthread_t t;
    pthread_create(&t, NULL, exits, NULL);
    pthread_join(t, NULL);
}

static void *faults(void *arg)
{
    rest(60);
    *(volatile int *)16 = 1;
    return NULL;
}
static void killed_by_thread(void)
{
    pthread_t t;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    pthread_create(&t, NULL, faults, NULL);
    pthread_exit(NULL);
}

static pthread_key_t key[3];
static volatile int rounds[3];
static void destroy(void *value)
{
    long k = (long)value / 100, left = (long)value % 100;
    rounds[k]++;
    if (left)
        pthread_setspecific(key[k], (void *)(long)(k * 100 + left - 1));
}
static void *specific(void *arg)
{
    for (long i = 0; i < 3; i++)
        pthread_setspecific(key[i], (void *)(i * 100 + 2 + (i == 2 ? 20 : 0)));
    rest(60);
    return NULL;
}

static volatile int detached;
static void *alone(void *arg)
{
    pthread_detach(pthread_self());
    rest(15);
    __sync_fetch_and_add(&detached, 1);
    return NULL;
}

static void run(const char *what, void (*f)(void))
{
    int status;
    pid_t child = fork();
    if (!child) {
        f();
        _exit(99);
    }
    siginfo_t si = {0};
    waitid(P_PID, child, &si, WEXITED | WNOWAIT);
    HOLDS(waitpid(child, &status, 0) == child);
    say_status(what, status);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        say("after the exec: same pid %d, leader %d", getpid() == atoi(getenv("PID")), getpid() == gettid());
        return 25;
    }
    readlink("/proc/self/exe", self, sizeof self - 1);
    run("leader first", leader_first);
    run("exit_group in a thread", group_by_thread);
    run("exec in a thread", exec_by_thread);
    run("one by one", by_ones);
    run("exit in a thread", exit_by_thread);
    run("fault in a thread", killed_by_thread);
    pthread_t t;
    for (int i = 0; i < 3; i++)
        pthread_key_create(&key[i], destroy);
    pthread_create(&t, NULL, specific, NULL);
    pthread_join(t, NULL);
    say("destructors ran %d %d %d times", rounds[0], rounds[1], rounds[2]);
    for (int i = 0; i < 10; i++)
        pthread_create(&t, NULL, alone, NULL);
    while (detached < 10)
        rest(5);
    say("detached %d", detached);
    for (int i = 0; i < 20; i++) {
        void *got;
        pthread_create(&t, NULL, (void *(*)(void *))chew, (void *)(CHEW_MS * (1 + i % 3)));
        pthread_join(t, &got);
        if ((uint64_t)got != chew(CHEW_MS * (1 + i % 3)))
            say("thread %d computed otherwise", i);
    }
    return 0;
}
