/* Mutexes of every kind: priority inheritance under contention, robust ones with an owner that ends as a thread and as
 * a process, PI and robust at once, recursive, error checking, timed locks on two clocks, ENOTRECOVERABLE, trylock.
 * About 0.8 s. */
#include "show.h"

static pthread_mutex_t pi, robust, both, recursive;
static long counter;
static pthread_barrier_t gate;

static void make(pthread_mutex_t *m, int type, int protocol, int robustness)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, type);
    if (pthread_mutexattr_setprotocol(&a, protocol) || pthread_mutexattr_setrobust(&a, robustness))
        say("attribute");
    int e = pthread_mutex_init(m, &a);
    if (e)
        say("init %s", errno_name(e));
}

static void *contend(void *arg)
{
    pthread_mutex_t *m = arg;
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 1500; i++) {
        pthread_mutex_lock(m);
        long c = counter;
        if (i % 50 == 0)
            chew(CHEW_MS / 20);
        counter = c + 1;
        pthread_mutex_unlock(m);
        chew(200);
        if (i % 300 == 0)
            rest(5);
    }
    return NULL;
}

static void contended(const char *what, pthread_mutex_t *m)
{
    pthread_t t[4];
    counter = 0;
    pthread_barrier_init(&gate, NULL, 4);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, contend, m);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    say("%s: %ld", what, counter);
}

static pthread_barrier_t holding;
static void *dies(void *arg)
{
    pthread_mutex_lock(arg);
    pthread_barrier_wait(&holding);
    rest(60);
    return NULL;
}

static void *waits(void *arg)
{
    int e = pthread_mutex_lock(arg);
    return (void *)(long)e;
}

static void owner_death(const char *what, pthread_mutex_t *m)
{
    pthread_t owner, waiter;
    void *got;
    pthread_barrier_init(&holding, NULL, 2);
    pthread_create(&owner, NULL, dies, m);
    pthread_barrier_wait(&holding);
    pthread_create(&waiter, NULL, waits, m);
    pthread_join(owner, NULL);
    pthread_join(waiter, &got);
    say("%s: the waiter got %s", what, errno_name((long)got));
    /* The waiter has ended as well. */
    rest(40);
    int e = pthread_mutex_lock(m);
    say("%s: then %s", what, errno_name(e));
    int consistent = pthread_mutex_consistent(m), unlock = pthread_mutex_unlock(m);
    int again = pthread_mutex_lock(m), twice = pthread_mutex_unlock(m);
    say("%s: consistent %d, unlock %d, lock %d, unlock %d", what, consistent, unlock, again, twice);
    pthread_create(&owner, NULL, dies, m);
    pthread_barrier_wait(&holding);
    pthread_join(owner, NULL);
    say("%s: %s", what, errno_name(pthread_mutex_lock(m)));
    pthread_mutex_unlock(m); /* without making it consistent */
    say("%s: not recovered %s", what, errno_name(pthread_mutex_lock(m)));
}

static void *timed(void *arg)
{
    pthread_mutex_t *m = arg;
    struct timespec t = soon(CLOCK_REALTIME, 60), past = {1, 0};
    int a = pthread_mutex_timedlock(m, &t), b = pthread_mutex_timedlock(m, &past), c = pthread_mutex_trylock(m), d = pthread_mutex_unlock(m);
    t = soon(CLOCK_MONOTONIC, 60);
    int e = m == &pi ? 0 : pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t);
    say("%s %s %s %s %s", errno_name(a), errno_name(b), errno_name(c), errno_name(d), errno_name(e));
    return NULL;
}

int main(void)
{
    make(&pi, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
    make(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
    make(&both, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST);
    make(&recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
    contended("inheriting", &pi);
    contended("robust", &robust);
    contended("both", &both);
    owner_death("robust", &robust);
    owner_death("both", &both);
    pthread_t t;
    SHOW(pthread_mutex_lock(&pi));
    SHOW(pthread_mutex_lock(&pi));
    pthread_create(&t, NULL, timed, &pi);
    pthread_join(t, NULL);
    SHOW(pthread_mutex_unlock(&pi));
    SHOW(pthread_mutex_unlock(&pi));
    for (int i = 0; i < 5; i++)
        pthread_mutex_lock(&recursive);
    pthread_create(&t, NULL, timed, &recursive);
    pthread_join(t, NULL);
    for (int i = 0; i < 5; i++)
        SHOW(pthread_mutex_unlock(&recursive));
    SHOW(pthread_mutex_unlock(&recursive));
    pid_t child = fork();
    if (!child) {
        rest(30);
        contended("in a child", &pi);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("child", status);
    return 0;
}
