/* epoll with pipes, eventfd, timerfd, signalfd and nested epoll; edge and level, one-shot, errors. Proves that
 * descriptors that exist only in the kernel work from home. About 1 s. */
#include "show.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static int e;
static void add(int fd, uint32_t events, uint64_t data)
{
    struct epoll_event ev = {events, {.u64 = data}};
    if (epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev))
        say("add: %s", errno_name(errno));
}

/* Waits for exactly one event; prints it. */
static uint64_t next(int ms)
{
    struct epoll_event ev[8];
    int n = epoll_wait(e, ev, 8, ms);
    if (n <= 0)
        say("nothing %d %s", n, n < 0 ? errno_name(errno) : "");
    for (int i = 0; i < n; i++)
        say("event %x data %lu", ev[i].events, (unsigned long)ev[i].data.u64);
    return n > 0 ? ev[0].data.u64 : 0;
}

int main(void)
{
    struct epoll_event ev = {EPOLLIN, {.fd = 0}};
    int p[2];
    uint64_t n;
    pipe(p);
    e = epoll_create1(EPOLL_CLOEXEC);
    HOLDS(e >= 0);
    SHOW(epoll_create(0));
    SHOW(epoll_ctl(e, EPOLL_CTL_ADD, 999, &ev));
    SHOW(epoll_ctl(e, EPOLL_CTL_ADD, e, &ev));
    SHOW(epoll_ctl(e, EPOLL_CTL_DEL, p[0], &ev));
    int file = open("file", O_CREAT | O_RDWR, 0600);
    SHOW(epoll_ctl(e, EPOLL_CTL_ADD, file, &ev));
    SHOW(epoll_wait(e, &ev, 0, 0));
    SHOW(epoll_wait(e, (void *)8, 1, 0));
    add(p[0], EPOLLIN, 0x1122334455667788);
    SHOW(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &ev));
    next(60);
    write(p[1], "ab", 2);
    next(-1);
    next(-1);
    char c;
    read(p[0], &c, 1);
    next(0);
    ev = (struct epoll_event){EPOLLIN | EPOLLET, {.u64 = 2}};
    SHOW(epoll_ctl(e, EPOLL_CTL_MOD, p[0], &ev));
    next(0);
    next(60);
    write(p[1], "c", 1);
    next(-1);
    ev = (struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u64 = 3}};
    SHOW(epoll_ctl(e, EPOLL_CTL_MOD, p[0], &ev));
    next(0);
    next(60);
    SHOW(epoll_ctl(e, EPOLL_CTL_DEL, p[0], NULL));

    int event = eventfd(5, EFD_NONBLOCK);
    add(event, EPOLLIN, 4);
    next(-1);
    SHOW(read(event, &n, 8));
    say("eventfd %lu", (unsigned long)n);
    SHOW(read(event, &n, 8));
    SHOW(write(event, &n, 4));
    n = -1ull;
    SHOW(write(event, &n, 8));
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 5; i++) {
            rest(30);
            n = 10;
            write(event, &n, 8);
        }
        _exit(0);
    }
    unsigned long sum = 0;
    while (sum < 50) {
        epoll_wait(e, &ev, 1, -1);
        if (read(event, &n, 8) == 8)
            sum += n;
    }
    waitpid(child, NULL, 0);
    say("sum %lu", sum);
    close(event);

    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    add(timer, EPOLLIN, 5);
    struct itimerspec its = {{0, 0}, {0, 90000000}};
    timerfd_settime(timer, 0, &its, NULL);
    next(-1);
    SHOW(read(timer, &n, 8));
    close(timer);

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int sfd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    add(sfd, EPOLLIN, 6);
    struct signalfd_siginfo si;
    SHOW(read(sfd, &si, sizeof si));
    pid_t me = getpid();
    child = fork();
    if (!child) {
        rest(80);
        kill(me, SIGUSR1);
        rest(80);
        sigqueue(me, SIGRTMIN, (union sigval){.sival_int = 77});
        _exit(0);
    }
    for (int i = 0; i < 2; i++) {
        next(-1);
        SHOW(read(sfd, &si, sizeof si));
        say("signal %u value %d from child %d", si.ssi_signo, si.ssi_int, si.ssi_pid == child);
    }
    waitpid(child, NULL, 0);

    int inner = epoll_create1(0), q[2];
    pipe(q);
    struct epoll_event in = {EPOLLIN, {.u64 = 8}};
    epoll_ctl(inner, EPOLL_CTL_ADD, q[0], &in);
    add(inner, EPOLLIN, 9);
    next(0);
    write(q[1], "x", 1);
    next(-1);
    for (int i = 0; i < 20; i++) {
        chew(3 * CHEW_MS);
        if (epoll_wait(e, &ev, 1, 5) != 1 || ev.data.u64 != 9)
            say("lost at %d", i);
    }
    sigset_t empty;
    sigemptyset(&empty);
    kill(me, SIGUSR1);
    signal(SIGUSR1, SIG_IGN);
    SHOW(epoll_pwait(e, &ev, 1, 50, &empty));
    close(q[1]);
    SHOW(epoll_wait(inner, &ev, 1, -1));
    say("events %x", ev.events);
    return 0;
}
