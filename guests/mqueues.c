/* POSIX message queues: priorities and their order, a full queue that blocks its sender, timeouts on both
 * sides, mq_notify by a signal with a value, taken by one process and refused to another, attributes,
 * O_NONBLOCK, poll, errors. About 0.8 s. */
#include "show.h"
#include <mqueue.h>

static volatile int told;
static void on(int s, siginfo_t *i, void *u) { told = i->si_code == SI_MESGQ ? i->si_value.sival_int : -1; }

static struct timespec in(int ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += ms * 1000000l;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

int main(void)
{
    char name[64], b[128];
    unsigned prio;
    sprintf(name, "/armento-mq-%d", getpid());
    struct mq_attr attr = {.mq_maxmsg = 5, .mq_msgsize = 32}, got;
    SHOW(mq_open("no-slash", O_RDWR));
    SHOW(mq_open("/a/b", O_CREAT | O_RDWR, 0600, NULL));
    HOLDS(mq_open(name, O_RDWR) == -1 && errno == ENOENT);
    attr.mq_maxmsg = 0;
    HOLDS(mq_open(name, O_CREAT | O_RDWR, 0600, &attr) == -1 && errno == EINVAL);
    attr.mq_maxmsg = 5;
    mqd_t q = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
    HOLDS(q >= 0);
    HOLDS(mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr) == -1 && errno == EEXIST);
    mqd_t reader = mq_open(name, O_RDONLY | O_NONBLOCK);
    SHOW(mq_getattr(reader, &got));
    say("flags %lx max %ld size %ld waiting %ld", got.mq_flags, got.mq_maxmsg, got.mq_msgsize, got.mq_curmsgs);
    SHOW(mq_receive(reader, b, 32, &prio));
    SHOW(mq_send(reader, "x", 1, 0));
    for (int i = 0; i < 5; i++) {
        int n = sprintf(b, "message %d", i);
        SHOW(mq_send(q, b, n + 1, i * 7 % 5));
    }
    struct timespec t = in(70), past = {1, 0}, wrong = {1, 1000000000};
    SHOW(mq_timedsend(q, "full", 5, 0, &t));
    SHOW(mq_timedsend(q, "full", 5, 0, &past));
    SHOW(mq_timedsend(q, "full", 5, 0, &wrong));
    SHOW(mq_send(q, b, 33, 0));
    SHOW(mq_send(q, b, 1, 99999));
    struct pollfd f = {q, POLLIN | POLLOUT};
    SHOW(poll(&f, 1, 0));
    say("revents %x", f.revents);
    for (int i = 0; i < 5; i++) {
        long n = mq_receive(q, b, 32, &prio);
        say("received %ld '%s' priority %u", n, b, prio);
    }
    SHOW(mq_receive(q, b, 31, &prio));
    t = in(80);
    SHOW(mq_timedreceive(q, b, 32, &prio, &t));

    /* A child fills it faster than it is emptied, and waits for room. */
    pid_t child = fork();
    if (!child) {
        int bad = 0;
        for (int i = 0; i < 30; i++) {
            int n = sprintf(b, "item %d", i);
            bad += mq_send(q, b, n + 1, 3) != 0;
        }
        _exit(bad);
    }
    int disordered = 0, status;
    for (int i = 0; i < 30; i++) {
        int number = -1;
        mq_receive(q, b, 32, &prio);
        sscanf(b, "item %d", &number);
        disordered += number != i || prio != 3;
        if (i % 5 == 0)
            rest(35);
        chew(CHEW_MS);
    }
    waitpid(child, &status, 0);
    say_status("sender", status);
    say("out of order %d", disordered);

    sigset_t usr, old;
    sigemptyset(&usr), sigaddset(&usr, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr, &old);
    struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR2, &a, NULL);
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    for (int i = 0; i < 4; i++) {
        ev.sigev_value.sival_int = 70 + i;
        SHOW(mq_notify(q, &ev));
        child = fork();
        if (!child) {
            struct sigevent none = {.sigev_notify = SIGEV_NONE};
            int busy = mq_notify(q, &none) && errno == EBUSY;
            rest(55);
            mq_send(q, "wake", 5, i);
            _exit(busy);
        }
        SHOW(sigsuspend(&old));
        say("told %d", told);
        waitpid(child, &status, 0);
        say_status("child, refused", status);
        SHOW(mq_receive(q, b, 32, &prio));
    }
    SHOW(mq_notify(q, &ev));
    SHOW(mq_notify(q, NULL));
    ev.sigev_signo = 999;
    SHOW(mq_notify(q, &ev));
    got.mq_flags = O_NONBLOCK;
    SHOW(mq_setattr(q, &got, NULL));
    SHOW(mq_receive(q, b, 32, &prio));
    HOLDS(mq_unlink(name) == 0);
    SHOW(mq_send(q, "nameless", 9, 1));
    SHOW(mq_receive(q, b, 32, &prio));
    HOLDS(mq_unlink(name) == -1 && errno == ENOENT);
    SHOW(mq_close(q));
    SHOW(mq_close(q));
    return 0;
}
