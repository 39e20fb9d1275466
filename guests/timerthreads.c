/* timer_create to threads and by threads: SIGEV_THREAD_ID to one of several, SIGEV_THREAD, SIGEV_NONE with
 * timer_gettime, absolute and past times, several timers at once, timers that fork and exec remove, deletion while it
 * is due, sleeps that handlers cut again and again yet last in all. About 1.1 s. */
#include "show.h"

static volatile int by_signal, by_thread, strange, slot[3];
static __thread int me = -1;
static pthread_barrier_t gate;
static volatile int quit;
static pid_t tids[3];

static void on(int s, siginfo_t *i, void *u)
{
    by_signal++;
    if (me < 0 || i->si_value.sival_int != me || i->si_code != SI_TIMER)
        strange++;
    else
        slot[me]++;
}

static void called(union sigval v)
{
    __sync_fetch_and_add(&by_thread, 1);
    if (v.sival_int != 55)
        strange++;
}

static void *target(void *arg)
{
    me = (long)arg;
    tids[me] = gettid();
    pthread_barrier_wait(&gate);
    while (slot[me] < 5)
        me == 1 ? (void)chew(CHEW_MS / 2) : rest(7);
    pthread_barrier_wait(&gate);
    return NULL;
}

static timer_t make(int how, int sig, int value, pid_t tid)
{
    timer_t id;
    struct sigevent ev = {.sigev_notify = how, .sigev_signo = sig, .sigev_value.sival_int = value};
    if (how == SIGEV_THREAD)
        ev.sigev_notify_function = called;
    if (how == SIGEV_THREAD_ID)
        ev._sigev_un._tid = tid;
    if (timer_create(CLOCK_MONOTONIC, &ev, &id))
        say("timer_create %s", errno_name(errno));
    return id;
}

static void every(timer_t id, int ms)
{
    struct itimerspec its = {{0, ms * 1000000l}, {0, ms * 1000000l}};
    if (timer_settime(id, 0, &its, NULL))
        say("timer_settime %s", errno_name(errno));
}

int main(void)
{
    struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN + 2, &a, NULL);
    pthread_t t[3];
    timer_t id[3];
    alarm(8); /* otherwise a lost expiration would block for ever */
    pthread_barrier_init(&gate, NULL, 4);
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, target, (void *)i);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 3; i++)
        id[i] = make(SIGEV_THREAD_ID, SIGRTMIN + 2, i, tids[i]), every(id[i], 15 + 5 * i);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 3; i++) {
        SHOW(timer_delete(id[i]));
        pthread_join(t[i], NULL);
    }
    HOLDS(slot[0] >= 5 && slot[1] >= 5 && slot[2] >= 5);

    timer_t thread = make(SIGEV_THREAD, 0, 55, 0);
    every(thread, 20);
    while (by_thread < 4)
        rest(10);
    SHOW(timer_delete(thread));
    timer_t none = make(SIGEV_NONE, 0, 0, 0);
    struct itimerspec its = {{0, 0}, {20, 0}}, left;
    SHOW(timer_settime(none, 0, &its, NULL));
    rest(80);
    SHOW(timer_gettime(none, &left));
    HOLDS(left.it_value.tv_sec < 20 && left.it_value.tv_sec >= 5);
    its.it_value = (struct timespec){0, 30000000};
    SHOW(timer_settime(none, 0, &its, &left));
    rest(80);
    SHOW(timer_gettime(none, &left));
    say("left %ld %ld", (long)left.it_value.tv_sec, left.it_value.tv_nsec);
    SHOW(timer_settime(none, 0, &(struct itimerspec){{0, 0}, {0, -1}}, NULL));
    SHOW(timer_delete(none));
    SHOW(timer_gettime(none, &left));

    me = 0;
    timer_t mine = make(SIGEV_SIGNAL, SIGRTMIN + 2, 0, 0);
    int before = by_signal;
    its.it_value = (struct timespec){1, 0}; /* long past */
    SHOW(timer_settime(mine, TIMER_ABSTIME, &its, NULL));
    while (by_signal == before)
        rest(3);
    say("at once %d", by_signal - before);
    every(mine, 12);
    int status;
    pid_t child = fork();
    if (!child) {
        by_signal = 0;
        rest(90);
        SHOW(timer_gettime(mine, &left));
        _exit(by_signal); /* timers are not inherited */
    }
    waitpid(child, &status, 0);
    say_status("child", status);
    /* Cut by every tick, it lasts as long as it should. */
    struct timespec t1 = {0, 150000000};
    double begun = now();
    int cuts = 0;
    while (nanosleep(&t1, &t1) < 0 && errno == EINTR)
        cuts++;
    HOLDS(now() - begun >= 0.149);
    HOLDS(cuts >= 1);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    t1.tv_nsec += 100000000;
    if (t1.tv_nsec >= 1000000000)
        t1.tv_sec++, t1.tv_nsec -= 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t1, NULL) == EINTR)
        cuts++;
    HOLDS(now() >= t1.tv_sec + t1.tv_nsec / 1e9);
    SHOW(timer_delete(mine));
    rest(30);
    before = by_signal;
    rest(60);
    say("after the end %d, strange %d", by_signal - before, strange);
    child = fork();
    if (!child) {
        signal(SIGALRM, SIG_DFL);
        alarm(1);
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 120000}}, NULL);
        execl("/bin/sh", "sh", "-c", "while :; do :; done", NULL); /* an exec keeps it */
        _exit(1);
    }
    waitpid(child, &status, 0);
    say_status("alarm over exec", status);
    for (int which = ITIMER_VIRTUAL; which <= ITIMER_PROF; which++) {
        child = fork();
        if (!child) {
            setitimer(which, &(struct itimerval){{0, 0}, {0, 60000}}, NULL);
            execl("/bin/sh", "sh", "-c", "while :; do :; done", NULL); /* … and these */
            _exit(1);
        }
        waitpid(child, &status, 0);
        say_status("timer of CPU time over exec", status);
    }
    return 0;
}
