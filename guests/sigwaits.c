/* The thread that receives a process's signal: threads in sigwaitinfo, in pause, in sigsuspend and computing, with
 * masks that let only one of them have it; a signal for a thread that ended, pthread_sigmask that lets a waiting one
 * in, sigwait by turns, a signal that wakes a mutex waiter without ending its wait. About 0.8 s. */
#include "show.h"

static volatile int by[8], count;
static __thread int me;
static void on(int s) { by[me]++, count++; }

static pthread_barrier_t gate;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop, taken;

static void mask(int how, int s)
{
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, s);
    pthread_sigmask(how, &set, NULL);
}

/* Sends one and waits until the handler has run. */
static void until_handled(int s)
{
    int before = count;
    kill(getpid(), s);
    while (count == before)
        rest(3);
}

static void *pauses(void *arg)
{
    me = (long)arg;
    mask(SIG_UNBLOCK, SIGUSR1);
    pthread_barrier_wait(&gate);
    while (by[me] < 3)
        poll(NULL, 0, 20);
    mask(SIG_BLOCK, SIGUSR1);
    pthread_barrier_wait(&gate);
    return NULL;
}

static void *suspends(void *arg)
{
    sigset_t none;
    me = (long)arg;
    sigfillset(&none), sigdelset(&none, SIGUSR2);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 3; i++)
        if (sigsuspend(&none) != -1 || errno != EINTR)
            say("sigsuspend");
    pthread_barrier_wait(&gate);
    return NULL;
}

static void *computes(void *arg)
{
    me = (long)arg;
    mask(SIG_UNBLOCK, SIGHUP);
    pthread_barrier_wait(&gate);
    while (by[me] < 3)
        chew(CHEW_MS);
    mask(SIG_BLOCK, SIGHUP);
    pthread_barrier_wait(&gate);
    return NULL;
}

static void *waits(void *arg)
{
    sigset_t set;
    me = (long)arg;
    sigemptyset(&set), sigaddset(&set, SIGRTMIN);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 3; i++) {
        siginfo_t si;
        sigwaitinfo(&set, &si);
        by[me] += si.si_value.sival_int;
        taken++;
    }
    pthread_barrier_wait(&gate);
    return NULL;
}

static void *wants_lock(void *arg)
{
    me = 6;
    mask(SIG_UNBLOCK, SIGUSR1);
    pthread_barrier_wait(&gate);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return (void *)(long)by[6];
}

static void *ends(void *arg) { return NULL; }

int main(void)
{
    int all[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGRTMIN, SIGTERM};
    for (int i = 0; i < 5; i++) {
        mask(SIG_BLOCK, all[i]);
        signal(all[i], on);
    }
    pthread_t t[4];
    pthread_barrier_init(&gate, NULL, 5);
    pthread_create(&t[0], NULL, pauses, (void *)1);
    pthread_create(&t[1], NULL, suspends, (void *)2);
    pthread_create(&t[2], NULL, computes, (void *)3);
    pthread_create(&t[3], NULL, waits, (void *)4);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 3; i++) {
        rest(55);
        until_handled(SIGUSR1);
        until_handled(SIGUSR2);
        rest(35);
        until_handled(SIGHUP);
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 100 + i});
        while (taken <= i)
            rest(3);
    }
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    say("main %d, paused %d, suspended %d, computing %d, waiting %d", by[0], by[1], by[2], by[3], by[4]);

    kill(getpid(), SIGTERM);
    pthread_kill(pthread_self(), SIGHUP);
    sigset_t pending;
    rest(90);
    sigpending(&pending);
    say("pending TERM %d HUP %d USR1 %d", sigismember(&pending, SIGTERM), sigismember(&pending, SIGHUP),
        sigismember(&pending, SIGUSR1));
    count = 0;
    mask(SIG_UNBLOCK, SIGTERM);
    say("handled at once %d", count);
    mask(SIG_UNBLOCK, SIGHUP);
    say("handled at once %d", count);

    pthread_barrier_destroy(&gate);
    pthread_barrier_init(&gate, NULL, 2);
    pthread_mutex_lock(&lock);
    pthread_create(&t[0], NULL, wants_lock, NULL);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 4; i++) {
        int before = by[6];
        rest(35);
        pthread_kill(t[0], SIGUSR1);
        while (by[6] == before)
            rest(3);
    }
    pthread_mutex_unlock(&lock);
    void *result;
    pthread_join(t[0], &result);
    say("the lock's waiter handled %ld", (long)result);
    pthread_create(&t[0], NULL, ends, NULL);
    rest(55);
    int r = pthread_kill(t[0], 0);
    HOLDS(r == 0 || r == ESRCH);
    pthread_join(t[0], NULL);
    SHOW(pthread_kill(pthread_self(), 999));
    sigset_t set;
    int got;
    sigemptyset(&set), sigaddset(&set, SIGUSR2);
    pid_t parent = getpid(), child = fork();
    if (!child) {
        for (int i = 0; i < 3; i++) {
            kill(parent, SIGUSR2);
            sigwait(&set, &got);
            rest(35);
        }
        _exit(0);
    }
    for (int i = 0; i < 3; i++) {
        sigwait(&set, &got);
        chew(4 * CHEW_MS);
        kill(child, SIGUSR2);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("by turns", status);
    return 0;
}
